"""State colours: told apart by everyone, mixed as the eye expects, quick enough for every update."""

from __future__ import annotations

import numpy as np
import pytest

from gdm_core.errors import ConfigError, DataError
from gdm_studio.plot import palette
from pages.ui import theme


def _soft(n: int, k: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.full(k, 0.4), n).astype(np.float32)


@pytest.mark.parametrize("vision", palette.VISION)
def test_every_pair_of_states_differs_for_every_vision(vision):
    colours = palette.rgb(palette.PALETTE)
    distance = palette.difference(colours, colours, vision)
    pairs = distance[np.triu_indices(len(colours), 1)]
    assert pairs.min() >= 10, f"{vision}: {pairs.min():.2f}"


@pytest.mark.parametrize("vision", palette.VISION)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("ground", ["ground", "surface"])
def test_every_state_stands_out_from_both_themes(vision, scheme, ground):
    background = palette.rgb([theme.TOKENS[scheme][ground]])
    assert palette.difference(palette.rgb(palette.PALETTE), background, vision).min() >= 10


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_accent_is_no_state_colour(scheme):
    accent = palette.rgb([theme.TOKENS[scheme]["accent"]])
    assert palette.difference(palette.rgb(palette.PALETTE), accent).min() >= 10


def test_oklab_agrees_with_published_values():
    # White, and the primaries as given with the definition of OKLab (Ottosson 2020).
    lab = palette.to_oklab(palette.rgb(["#ffffff", "#ff0000", "#00ff00", "#0000ff"]))
    expected = [[1, 0, 0], [0.628, 0.225, 0.126], [0.866, -0.234, 0.179], [0.452, -0.032, -0.312]]
    np.testing.assert_allclose(lab, expected, atol=1e-3)


def test_bytes_survive_the_way_through_oklab():
    colours = np.random.default_rng(0).integers(0, 256, (500, 3)).astype(np.uint8)
    back = palette.from_oklab(palette.to_oklab(colours)).astype(int)
    assert np.abs(back - colours).max() <= 1


def test_a_pure_state_has_its_own_colour_at_full_strength():
    mixed, opacity = palette.mix(np.eye(12))
    assert palette.hex_colours(mixed) == palette.colours(12)
    np.testing.assert_allclose(opacity, 1)


def test_a_mixture_lies_between_its_colours_and_is_fainter():
    mixed, opacity = palette.mix([[0.5, 0.5]])
    expected = palette.to_oklab(palette.rgb(palette.PALETTE[:2])).mean(axis=0)
    np.testing.assert_allclose(palette.to_oklab(mixed)[0], expected, atol=0.01)
    assert opacity[0] == pytest.approx(0.5)


def test_a_missing_state_is_transparent():
    _, opacity = palette.mix([[np.nan, np.nan], [1, 0]])
    assert opacity.tolist() == [0, 1]


@pytest.mark.parametrize("n_states", [1, 2, 4, 8, 12])
def test_forty_colours_stand_for_twenty_thousand(n_states):
    states = _soft(20_000, n_states)
    buckets = palette.quantise(states)
    assert len(buckets.rgb) <= 40
    assert buckets.index.max() < len(buckets.css) == len(buckets.opacity)
    true, _ = palette.mix(states)
    error = np.linalg.norm(palette.to_oklab(true) - palette.to_oklab(buckets.rgb)[buckets.index], axis=1)
    assert 100 * error.mean() < 5  # half of the smallest difference between two states


def test_quantising_keeps_pure_states_and_repeats_itself():
    states = np.repeat(np.eye(5), 30, axis=0)
    first, second = palette.quantise(states), palette.quantise(states)
    assert [first.css[i] for i in first.index[::30]] == [f"{colour}ff" for colour in palette.PALETTE[:5]]
    assert first.css == second.css
    np.testing.assert_array_equal(first.index, second.index)


def test_quantising_nothing_gives_nothing():
    assert palette.quantise(np.zeros((0, 3))).css == []


@pytest.mark.parametrize("n_states", [0, 13])
def test_too_many_states_are_refused(n_states):
    with pytest.raises(ConfigError, match="1 to 12"):
        palette.colours(n_states)


def test_states_need_two_dimensions():
    with pytest.raises(DataError, match=r"\[time, states\]"):
        palette.mix(np.zeros(5))


def test_labels_on_a_colour_can_be_read():
    assert palette.ink_on("#ffc300") == "#14151c"
    assert palette.ink_on("#1e3ca5") == "#ffffff"
