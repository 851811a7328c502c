"""Figures as plain data, plots for notebooks, and the colours of states."""

import json
import re
from itertools import pairwise

import numpy as np
import plotly.graph_objects as go
import pytest

from gdm_core import GDM
from gdm_core.errors import ConfigError, DataError
from gdm_core.trials import Trial
from gdm_studio import plot
from gdm_studio.plot import figures, palette
from gdm_studio.plot.figures.base import typed, untyped
from gdm_studio.plot.figures.track import bucket_lines
from gdm_studio.plot.palette import TOKENS
from pages.playground import gumbel, pictures
from pages.ui import theme


def _scene(n: int = 300, k: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    turn = np.linspace(0, 20, n)
    return np.column_stack([np.cos(turn), np.sin(turn)]), rng.dirichlet(np.ones(k), n).astype(np.float32)


@pytest.fixture(scope="module")
def all_figures() -> dict[str, figures.Figure]:
    """Return a figure of every kind."""
    where, states = _scene()
    time = np.arange(20.0)
    bands = {name: (time - k, time + k) for k, name in enumerate(("band50", "band90", "three_sigma"), start=1)}
    grid = np.linspace(-1, 1, 12)
    plane = np.random.default_rng(0).dirichlet(np.ones(4), (12, 12))
    kl = gumbel.sampled_kl(np.array([1.0, 0, 0]), np.zeros(3), np.array([0.5, 1.0]), 500, 0)
    return {
        "track": figures.track(where, states),
        "channels": figures.channels(where, states, names=["x", "y"]),
        "strips": figures.state_strips({"a": states, "b": figures.one_hot([-1, 0, 1], 3)}),
        "proportions": figures.proportions(states),
        "entropy": figures.entropy_strip(states),
        "usage": figures.usage(states, reference=np.full(4, 0.25)),
        "usage_by_segment": figures.usage_by_segment(states, np.arange(300) // 100),
        "dwell": figures.dwell(states.argmax(1), 4),
        "matrix": figures.transition_matrix(np.eye(3)),
        "plane": figures.transition_map(grid, grid, plane, path=where),
        "envelope": figures.envelope(time, time, **bands, observed=(time, time), persistence=(time, time * 0), now=3),
        "sweep": figures.sweep([2, 3], {"GDM": [[0.9, 0.8], [0.7, 0.9]]}, lines={"chance": 0.3}),
        "heat": figures.heat([[0.1, 0.2]], [1, 2], [3]),
        "simplex": figures.simplex(states[:, :3] / states[:, :3].sum(1, keepdims=True)),
        "divergence": pictures.divergence(np.array([0.5, 1.0]), *kl, 0.5),
    }


def test_every_figure_is_valid_with_caption_and_alt_text(all_figures):
    for name, figure in all_figures.items():
        json.dumps(figure, allow_nan=False)
        assert figure["caption"].endswith("."), name
        assert figure["alt"], name
        assert figure["height"] > 0
        for scheme in theme.TOKENS:
            resolved = theme.resolve(figure, scheme)
            assert '"$' not in json.dumps(resolved), name
        go.Figure(data=resolved["data"], layout=resolved["layout"])  # validates every attribute


def test_typed_arrays_round_trip():
    array = np.arange(6, dtype=np.uint8).reshape(2, 3)
    np.testing.assert_array_equal(untyped(typed(array, "u1")), array)
    np.testing.assert_array_equal(untyped(typed([1.5, np.nan])), np.array([1.5, np.nan], np.float32))


def test_bucket_lines_draw_every_segment_once():
    rng = np.random.default_rng(0)
    n = 200
    x, y, bucket = rng.normal(size=n), rng.normal(size=n), rng.integers(0, 5, n - 1)
    x[50] = np.nan
    seen = {}
    for b, visit in enumerate(bucket_lines(x, y, bucket)):
        for i, j in pairwise(visit):
            if i >= 0 and j >= 0:
                assert j == i + 1
                seen[int(i)] = b
    assert seen == {i: int(bucket[i]) for i in range(n - 1) if i not in (49, 50)}


def test_track_draws_every_sample_once():
    where, states = _scene()
    figure = figures.track(where, states)
    strokes = figure["layout"]["shapes"]
    assert len(strokes) <= 40
    drawn = [re.findall(r"([ML])(-?[\d.]+),(-?[\d.]+)", stroke["path"]) for stroke in strokes]
    points = np.array([(float(x), float(y)) for stroke in drawn for _, x, y in stroke])
    far = np.abs(points[:, None] - where[None]).max(axis=2)
    assert far.min(axis=0).max() < 1e-3 * np.ptp(where)
    assert far.min(axis=1).max() < 1e-3 * np.ptp(where)
    assert sum(pen == "L" for stroke in drawn for pen, *_ in stroke) == len(where) - 1
    for_mouse = next(t for t in figure["data"] if "customdata" in t)
    assert for_mouse["line"]["color"] == "$clear"
    assert len(untyped(for_mouse["customdata"])) == len(where)


def test_pieces_of_a_long_track_are_not_too_short():
    flicker = figures.one_hot(np.arange(6_000) % 2, 2)
    strokes = figures.track(_scene(6_000)[0], flicker)["layout"]["shapes"]
    assert sum(stroke["path"].count("M") for stroke in strokes) < 3_000
    assert sum(stroke["path"].count("L") for stroke in strokes) == 5_999


def test_channels_are_separate_lines_of_one_colour_a_state():
    states = figures.one_hot([0, 0, 0, 1, 1], 2)
    strokes = figures.channels(np.zeros((5, 3)), states, names=["a", "b", "c"])["layout"]["shapes"]
    assert [stroke["path"].count("M") for stroke in strokes] == [3, 3]
    assert [stroke["path"].count("L") for stroke in strokes] == [9, 3]


def test_strips_average_states_and_leave_unknown_blank():
    states = np.tile([[1.0, 0.0], [0.0, 1.0]], (6_000, 1))
    figure = figures.state_strips({"fast": states, "unknown": figures.one_hot(np.full(12_000, -1), 2)})
    trace = figure["data"][0]
    index = untyped(trace["z"])
    blank = len(trace["colorscale"]) // 2 - 1
    assert index.shape[1] <= 4_000
    assert (index[1] == blank).all()
    assert trace["colorscale"][2 * blank][1] == "$clear"
    assert not (index[0] == blank).any()


def test_named_ticks_without_room_are_left_out():
    ticks, soft = [(0.0, "T1"), (30.0, "T2"), (60.0, "T3"), (500.0, "T4")], np.eye(2)[np.zeros(800, int)]
    for made in (figures.state_strips({"a": soft}, ticks=ticks), figures.proportions(soft, ticks=ticks)):
        narrow, wide = (figures.base.fit_to_width(made, width)["layout"]["xaxis"]["ticktext"] for width in (300, 700))
        assert (narrow, wide) == (["T1", "T4"], ["T1", "T3", "T4"])


def test_labels_of_areas_do_not_overlap():
    phase = 2 * np.pi * (np.arange(800)[:, None] / 100 - np.arange(8) / 8)
    shares = np.exp(6 * np.cos(phase))
    marks = figures.proportions(shares / shares.sum(axis=1, keepdims=True))["layout"]["annotations"]
    places = np.array([(mark["x"] / 800, mark["y"]) for mark in marks])
    assert len(places) == 8
    for i, here in enumerate(places):
        apart = np.abs(np.delete(places, i, axis=0) - here)
        assert ((apart[:, 0] > 0.03) | (apart[:, 1] > 0.14)).all()


def test_brief_peak_of_a_state_has_no_label():
    shares = np.repeat([[0.0, 1.0]], 800, axis=0)
    shares[400:403] = [1.0, 0.0]
    marks = figures.proportions(shares)["layout"]["annotations"]
    assert [mark["text"] for mark in marks] == ["S2"]


def test_usage_shows_shares():
    figure = figures.usage(np.array([[0.25, 0.75], [0.25, 0.75]]))
    assert [words["text"] for words in figure["layout"]["annotations"]] == ["25%", "75%"]
    assert figure["data"][0]["marker"]["color"] == palette.colours(2)


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: figures.track(np.zeros((4, 3)), np.zeros((4, 2))), r"positions \[T, 2\]"),
        (lambda: figures.channels(np.zeros((4, 2)), np.zeros((4, 2)), names=["a"]), "1 names"),
        (lambda: figures.state_strips({}), "at least one row"),
        (lambda: figures.one_hot([3], 2), "does not fit 2 states"),
        (lambda: figures.transition_matrix(np.zeros((2, 3))), "square"),
        (lambda: figures.simplex(np.zeros((3, 4))), "three states"),
        (lambda: figures.simplex(np.eye(3), log_density=([0, 1], [0, 1], np.zeros((2, 2)))), "two levels"),
        (lambda: figures.sweep([1, 2], {"a": [[1.0]]}), "scores for 1 settings"),
        (lambda: figures.envelope([0.0, 1], [0.0, 1], band90=([0.0], [1.0])), "A band has edges"),
    ],
)
def test_wrong_shapes_raise_data_error(draw, message):
    with pytest.raises(DataError, match=message):
        draw()


@pytest.mark.parametrize("lengths", [[1], [2, 90_000]])
def test_dwell_ticks_are_few_and_ordered(lengths):
    labels = np.concatenate([np.full(n, i % 2) for i, n in enumerate(lengths)])
    axis = figures.dwell(labels, 2)["layout"]["xaxis"]
    ticks = axis["tickvals"]
    assert 2 <= len(ticks) <= 9
    assert all(b > a for a, b in pairwise(ticks))
    assert all(axis["range"][0] <= np.log10(tick) <= axis["range"][1] for tick in ticks)
    assert [float(text.replace(",", "")) for text in axis["ticktext"]] == pytest.approx(ticks)


def test_usage_ignores_unknown_samples():
    figure = figures.usage(figures.one_hot([0, -1, 1, 1, -1], 2))
    assert figure["data"][0]["x"] == pytest.approx([1 / 3, 2 / 3])
    assert figures.usage(figures.one_hot([-1, -1], 2))["data"][0]["x"] == [0, 0]


def test_state_names_are_escaped():
    labels = np.repeat([0, 1, 0], 5)
    names = ["<b>run</b>", "a & b"]
    made = [
        figures.dwell(labels, 2, names=names),
        figures.usage(figures.one_hot(labels, 2), names=names),
        figures.usage_by_segment(figures.one_hot(labels, 2), np.zeros(15), names=names),
        figures.transition_matrix(np.eye(2), names=names),
    ]
    for figure in made:
        drawn = json.dumps([figure["data"], figure["layout"]])
        assert "<b>" not in drawn
        assert "&lt;b&gt;run&lt;/b&gt;" in drawn


def test_equal_state_names_keep_separate_rows():
    figure = figures.transition_matrix([[0.1, 0.9], [0.4, 0.6]], names=["walk", "walk"])
    trace = figure["data"][0]
    assert len(set(trace["y"])) == len(set(trace["x"])) == 2
    assert trace["hovertext"][0][1] == "walk to walk: 90.0%"


STATES = np.random.default_rng(0).dirichlet(np.ones(3), size=60).astype(np.float32)
PATH = np.cumsum(np.random.default_rng(1).normal(size=(60, 2)), axis=0).astype(np.float32)
LAP = Trial(PATH, position=PATH)


@pytest.fixture(scope="module")
def forecast():
    model = GDM(n_states=2, n_latent=2, n_steps=5, seed=0).fit(LAP)
    return model.forecast(LAP, horizon=4, n_paths=20, origins=[20, 40])


@pytest.mark.parametrize("theme", TOKENS)
def test_plots_use_the_theme_colours(theme, forecast):
    made = (
        plot.track(LAP, STATES, theme=theme),
        plot.strip(STATES, rate_hz=10, theme=theme),
        plot.usage(STATES, reference=[0.2, 0.3, 0.5], theme=theme),
        plot.ethogram({"expert": STATES.argmax(axis=1), "model": STATES}, rate_hz=10, theme=theme),
        plot.envelope(forecast, LAP.y, origin=40, theme=theme),
    )
    for figure in made:
        text = figure.to_json()
        assert '"$' not in text
        assert TOKENS[theme]["ink"] in text
        assert figure.layout.meta["alt"]
        assert figure.layout.height > 50


def test_notebook_and_page_draw_equal_data():
    page = figures.proportions(STATES, step=0.1, unit="s", height=190)
    notebook = json.loads(plot.strip(STATES, rate_hz=10).to_json())
    assert [trace["y"]["bdata"] for trace in notebook["data"]] == [trace["y"]["bdata"] for trace in page["data"]]


def test_envelope_starts_at_its_origin(forecast):
    figure = plot.envelope(forecast, LAP.y, origin=40, before=5, rate_hz=10)
    words = {note.text for note in figure.layout.annotations}
    assert {"now", "predicted"} <= words
    assert figure.layout.shapes[0].x0 == pytest.approx(4.0)


def test_invalid_plot_arguments_are_refused(forecast):
    with pytest.raises(DataError, match="has no position"):
        plot.track(Trial(PATH), STATES)
    with pytest.raises(ConfigError, match="choose one of light, dark"):
        plot.strip(STATES, theme="sepia")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="rate_hz is 0"):
        plot.strip(STATES, rate_hz=0)
    with pytest.raises(DataError, match="is not an origin of this forecast"):
        plot.envelope(forecast, LAP.y, origin=21)


def _soft(n: int, k: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.full(k, 0.4), n).astype(np.float32)


# Full-strength colour-vision deficiencies on linear sRGB (Machado, Oliveira and Fernandes 2009).
VISION = {
    "normal": np.eye(3),
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


@pytest.mark.parametrize("vision", VISION)
def test_state_colours_differ_for_every_vision(vision, monkeypatch):
    """They also differ from the backgrounds."""
    seen, plain = np.array(VISION[vision]), palette.to_linear
    monkeypatch.setattr(palette, "to_linear", lambda values: np.clip(plain(values) @ seen.T, 0, 1))
    colours = palette.rgb(palette.PALETTE)
    pairs = palette.difference(colours, colours)[np.triu_indices(len(colours), 1)]
    assert pairs.min() >= 10, f"{pairs.min():.2f}"
    grounds = [theme.TOKENS[scheme][ground] for scheme in ("light", "dark") for ground in ("ground", "surface")]
    assert palette.difference(colours, palette.rgb(grounds)).min() >= 10


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_accent_differs_from_state_colours(scheme):
    accent = palette.rgb([theme.TOKENS[scheme]["accent"]])
    assert palette.difference(palette.rgb(palette.PALETTE), accent).min() >= 10


def test_oklab_equals_published_values():
    # White and the primaries of the definition of OKLab (Ottosson 2020).
    lab = palette.to_oklab(palette.rgb(["#ffffff", "#ff0000", "#00ff00", "#0000ff"]))
    expected = [[1, 0, 0], [0.628, 0.225, 0.126], [0.866, -0.234, 0.179], [0.452, -0.032, -0.312]]
    np.testing.assert_allclose(lab, expected, atol=1e-3)


def test_pure_state_keeps_its_colour():
    mixed, opacity = palette.mix(np.eye(12))
    assert palette.hex_colours(mixed) == palette.colours(12)
    np.testing.assert_allclose(opacity, 1)


def test_mixed_state_is_between_and_fainter():
    mixed, opacity = palette.mix([[0.5, 0.5]])
    expected = palette.to_oklab(palette.rgb(palette.PALETTE[:2])).mean(axis=0)
    np.testing.assert_allclose(palette.to_oklab(mixed)[0], expected, atol=0.01)
    assert opacity[0] == pytest.approx(0.5)


@pytest.mark.parametrize("scheme", TOKENS)
@pytest.mark.parametrize("n_states", [3, 6, 12])
def test_undecided_looks_like_no_state(scheme, n_states):
    (css,) = palette.quantise(np.full((1, n_states), 1 / n_states)).css
    drawn = theme.resolve(css, scheme)
    shown = palette.rgb([drawn[:7]])
    if len(drawn) == 9:  # over the surface
        opacity = int(drawn[7:], 16) / 255
        shown = np.rint(opacity * shown + (1 - opacity) * palette.rgb([TOKENS[scheme]["surface"]])).astype(np.uint8)
    assert palette.difference(shown, palette.rgb(palette.PALETTE[:n_states])).min() > 10


def test_faint_colours_keep_their_lightness_in_the_dark():
    fading = np.array([[1 - t, t] for t in np.linspace(0, 0.5, 6)])  # from the second colour of the palette to both
    drawn = [theme.resolve(palette.quantise(row[None, ::-1]).css[0], "dark") for row in fading]
    lightness = palette.to_oklab(palette.rgb(drawn))[:, 0]
    assert lightness.min() > 0.55, "yellow would turn brown"


def test_missing_state_is_transparent():
    _, opacity = palette.mix([[np.nan, np.nan], [1, 0]])
    assert opacity.tolist() == [0, 1]


@pytest.mark.parametrize("n_states", [1, 2, 4, 8, 12])
def test_quantised_colours_stay_close(n_states):
    states = _soft(20_000, n_states)
    buckets = palette.quantise(states)
    assert len(buckets.rgb) <= 40
    assert buckets.index.max() < len(buckets.css) == len(buckets.opacity)
    true, _ = palette.mix(states)
    error = np.linalg.norm(palette.to_oklab(true) - palette.to_oklab(buckets.rgb)[buckets.index], axis=1)
    assert 100 * error.mean() < 5  # half of the smallest difference between two states


def test_quantising_keeps_pure_states():
    states = np.repeat(np.eye(5), 30, axis=0)
    first, second = palette.quantise(states), palette.quantise(states)
    assert [first.css[i] for i in first.index[::30]] == [f"{colour}ff" for colour in palette.PALETTE[:5]]
    assert first.css == second.css
    np.testing.assert_array_equal(first.index, second.index)


@pytest.mark.parametrize("n_states", [0, 13])
def test_too_many_states_raise_config_error(n_states):
    with pytest.raises(ConfigError, match="12 colours"):
        palette.colours(n_states)


def test_ink_contrasts_with_the_colour():
    assert palette.text_colour("#ffc300") == "#14151c"
    assert palette.text_colour("#1e3ca5") == "#ffffff"


def test_axis_without_range_leaves_it_to_plotly():
    """A range of null makes Plotly fail on the second drawing of a figure."""
    layout = figures.sweep([2, 3], {"GDM": [[0.9], [0.7]]})["layout"]
    assert "range" not in layout["yaxis"]


def test_family_keeps_its_colour_beside_any_other_model():
    def colours(*names: str) -> dict[str, str]:
        traces = figures.sweep([2, 3], {name: [[0.9], [0.7]] for name in names})["data"]
        return {name: trace["marker"]["color"] for name, trace in zip(names, traces, strict=True)}

    alone, together = colours("Sticky AR-HMM"), colours("Gumbel Dynamical Model", "rSLDS (RO)", "Sticky AR-HMM")
    assert alone["Sticky AR-HMM"] == together["Sticky AR-HMM"]
    assert len(set(together.values())) == 3
