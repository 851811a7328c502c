"""Behaviour features against hand-computed values and invariances."""

from dataclasses import replace

import numpy as np
import pytest

from datasets import mice, regimes
from datasets.features import body_axis
from datasets.readers.pose import KeypointTable
from gdm_core import GDM
from gdm_core.analysis.first_guess import suggest
from gdm_core.errors import DataError
from gdm_core.models.latent import principal_components
from gdm_core.trials import Trial, Trials, as_trials

PARTS = ("nose", "neck", "left hip", "right hip", "tail base")
BODY = np.array([[60.0, 40.0, 10.0, 10.0, 0.0], [0.0, 0.0, 12.0, -12.0, 0.0]])  # ahead, to the left


def pose(centre: np.ndarray, heading: np.ndarray) -> np.ndarray:
    """Return a rigid body [T, 2, P] at `centre` [T, 2] facing `heading` [T]."""
    c, s = np.cos(heading)[:, None], np.sin(heading)[:, None]
    x, y = BODY - BODY.mean(axis=1, keepdims=True)
    return np.stack([c * x - s * y, s * x + c * y], axis=1) + centre[..., None]


def table(*bodies: np.ndarray, rate: float = 30.0) -> KeypointTable:
    xy = np.stack(bodies, axis=1).astype(np.float32)  # [T, A, 2, P]
    return KeypointTable(xy, tuple(f"m{a + 1}" for a in range(len(bodies))), PARTS, rate)


def column(made: tuple[np.ndarray, tuple[str, ...]], name: str) -> np.ndarray:
    return made[0][:, made[1].index(name)]


def make_features(recording: KeypointTable) -> tuple[np.ndarray, tuple[str, ...]]:
    trial = recording.to_trials("egocentric")[0]
    return trial.y, trial.channels


@pytest.fixture
def pair() -> KeypointTable:
    """Return two bodies: one runs along x towards the other, which turns slowly."""
    t = np.arange(50.0)
    runner = pose(np.stack([100 + 3 * t, np.full(50, 200.0)], axis=1), np.zeros(50))
    stander = pose(np.tile([400.0, 200.0], (50, 1)), np.pi - 0.02 * t)
    return table(runner, stander)


def test_features_equal_hand_computed_values(pair: KeypointTable):
    made = make_features(pair)
    t = np.arange(50.0)
    assert made[0].dtype == np.float32
    assert len(set(made[1])) == made[0].shape[1]
    np.testing.assert_allclose(column(made, "m1 length"), 60, rtol=1e-5)
    np.testing.assert_allclose(column(made, "m1 forward speed")[1:], 90, rtol=1e-4)
    np.testing.assert_allclose(column(made, "m1 lateral speed")[1:], 0, atol=1e-3)
    np.testing.assert_allclose(column(made, "m1 turning speed")[1:], 0, atol=1e-4)
    np.testing.assert_allclose(column(made, "m2 turning speed")[1:], -0.6, rtol=1e-3)
    np.testing.assert_allclose(column(made, "m1 to m2 distance"), 300 - 3 * t, rtol=1e-4)
    np.testing.assert_allclose(column(made, "m1 to m2 approach speed")[1:], 90, rtol=1e-3)
    np.testing.assert_allclose(column(made, "m1 facing m2 cos"), 1, atol=1e-5)
    np.testing.assert_allclose(column(made, "m2 facing m1 cos"), np.cos(0.02 * t), atol=1e-5)
    np.testing.assert_allclose(column(made, "m2 facing m1 sin"), np.sin(0.02 * t), atol=1e-4)
    nose = np.asarray(pair.xy)[..., 0]
    np.testing.assert_allclose(
        column(made, "m1 to m2 nose-nose"), np.linalg.norm(nose[:, 0] - nose[:, 1], axis=1), rtol=1e-5
    )
    assert np.isnan(column(made, "m1 forward speed")[0])
    assert np.isfinite(made[0][1:]).all()


def test_features_ignore_position_and_rotation():
    recording = mice.simulate_recordings(1, 600, seed=2)[0]
    c, s = np.cos(0.7), np.sin(0.7)
    xy = np.asarray(recording.xy, dtype=np.float64)
    turned = np.stack([c * xy[:, :, 0] - s * xy[:, :, 1] + 50, s * xy[:, :, 0] + c * xy[:, :, 1] - 80], axis=2)
    moved = replace(recording, xy=turned.astype(np.float32))
    before, after = (one.to_trials("egocentric")[0].y for one in (recording, moved))
    scale = np.nanstd(before, axis=0)
    assert np.nanmax(np.abs(before - after) / scale) < 0.02


def test_features_are_causal():
    recording = mice.simulate_recordings(1, 400, seed=5)[0]
    xy = np.array(recording.xy)
    xy[250:] += 100 * np.random.default_rng(0).normal(size=xy[250:].shape).astype(np.float32)
    before, after = (one.to_trials("egocentric")[0].y[:250] for one in (recording, replace(recording, xy=xy)))
    np.testing.assert_array_equal(before, after)


def test_missing_parts_affect_only_their_features():
    recording = mice.simulate_recordings(1, 300, seed=6)[0]
    xy = np.array(recording.xy)
    xy[100, 0, :, 0] = np.nan  # the resident's nose
    xy[200:210, 1] = np.nan  # the whole intruder
    xy[:20] = np.nan
    made = make_features(replace(recording, xy=xy))
    assert np.isnan(column(made, "resident length")[100])
    assert np.isnan(column(made, "resident to intruder nose-nose")[100])
    assert np.isfinite(column(made, "resident to intruder distance")[100])
    assert np.isfinite(column(made, "resident forward speed")[100])
    assert np.isfinite(column(made, "resident forward speed")[200:210]).all()
    assert np.isnan(column(made, "intruder elongation")[200:210]).all()
    assert np.isnan(made[0][:20]).all()
    assert np.isfinite(made[0][220:]).all()


def test_number_of_relations_follows_animals():
    body = pose(np.cumsum(np.ones((20, 2)), axis=0), np.zeros(20))
    assert table(body).to_trials("egocentric")[0].n_channels == 5
    assert table(body, body + 50, body + 90).to_trials("egocentric")[0].n_channels == 3 * 5 + 3 * 9


@pytest.mark.parametrize(
    ("parts", "tip", "front", "rear"),
    [
        (("nose", "left ear", "right ear", "neck", "left hip", "right hip", "tail base"), 0, 3, 6),
        (("top", "body", "tail", "tail-m", "tail-e"), 0, 0, 2),
        (("Nose", "Head", "Neck", "Tail_1", "Tail_0", "TTI", "TailTip"), 0, 2, 4),
        (("Tail_base", "Snout"), 1, 1, 0),
        (("a", "b", "c"), 0, 0, 2),
    ],
)
def test_body_axis_is_found_by_part_names(parts: tuple[str, ...], tip: int, front: int, rear: int):
    axis = body_axis(parts)
    assert (axis.tip, axis.front, axis.rear) == (tip, front, rear)
    with pytest.raises(DataError, match="at least two body parts"):
        body_axis(parts[:1])


def test_components_equal_eigendecomposition():
    rng = np.random.default_rng(0)
    y = rng.normal(size=(500, 3)) @ rng.normal(size=(3, 6)) + 0.1 * rng.normal(size=(500, 6)) + 50
    trials = Trials((Trial(y[:200]), Trial(y[200:])))
    preview = principal_components(trials)
    values = np.linalg.eigvalsh(np.corrcoef(y.T))[::-1]
    np.testing.assert_allclose(preview.variance_explained, values.cumsum() / values.sum(), atol=1e-4)
    assert preview.variance_explained[2] > 0.98
    np.testing.assert_allclose(preview.components @ preview.components.T, np.eye(6), atol=1e-6)
    holes = y.copy()
    holes[rng.random(y.shape) < 0.1] = np.nan
    np.testing.assert_allclose(
        principal_components(Trials((Trial(holes),))).variance_explained, preview.variance_explained, atol=0.05
    )
    with pytest.raises(DataError, match="is constant"):
        principal_components(Trials((Trial(np.ones((9, 2))),)))


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        (np.random.default_rng(0).normal(size=(200, 1)), 1),
        (regimes.simulate("autoregressive", 500, seed=3)[0].y, 4),  # three components explain more than 95%
        (regimes.simulate("rotations", 500)[0].y, 2),
        (np.random.default_rng(0).normal(size=(500, 20)), 8),
    ],
    ids=["one channel", "few channels", "six channels of a plane", "noise in 20 channels"],
)
def test_latent_dimensions_follow_the_data(y, expected):
    model = GDM(n_states=2, n_steps=1).fit(y, calibrate=False)
    assert model.config.n_latent == expected
    assert model.get_params()["n_latent"] == "auto"
    pca = principal_components(as_trials(y))
    assert not pca.describe_left_out(expected)
    assert expected == 1 or "of the variance" in pca.describe_left_out(expected - 1)


def test_suggestions_follow_labels_and_clusters():
    labelled = suggest(mice.simulate(2, 4000, seed=1))
    assert labelled.n_states == 5  # four behaviours and one spare
    assert 3 <= labelled.n_latent <= 6
    rng = np.random.default_rng(0)
    which = np.repeat(np.arange(300) % 3, 10)
    y = np.array([[0, 0, 0], [9, 0, 9], [0, 9, -9]])[which] + rng.normal(size=(3000, 3))
    found = suggest(Trials((Trial(y),)))
    assert found.n_states == 3
    assert "90%" in found.why_states
    cloud = suggest(Trials((Trial(rng.normal(size=(3000, 3))),)))
    assert cloud.n_states == 2
    assert suggest(Trials((Trial(y[:20]),))).n_states == 2
    assert suggest(Trials((Trial(y[:, :1]),))).n_latent == 1
