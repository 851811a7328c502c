"""Labels learned from a few clips, on top of a fitted model or without one."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load

from gdm_core import ARHMM, GDM, LabelModel, Trial, Trials, load_model
from gdm_core.errors import ConfigError, DataError, FitError, GdmError, ModelFileError
from gdm_core.labels import Clip, calibration_error, expert_agreement, propose, requests, unfamiliar_message
from gdm_core.labels.features import window_features
from gdm_core.models.base import StateModel
from gdm_core.trials import Stretch, paint_labels
from tests.support.labelled import NAMES, draw_clips, simulate

pytestmark = pytest.mark.usefixtures("one_torch_thread")

DATA, NEW = simulate(2, 900), simulate(2, 600, seed=5)
CLIPS = draw_clips(DATA, n_clips=18)
STRETCHES: tuple[Stretch, ...] = ((0, 0, 20, 0), (0, 60, 90, 1), (1, 30, 60, 0), (1, 200, 230, 1))
# A matrix product is rounded by where its arrays lie in memory: one float32 step in about one of 400 calls.
ROUNDED: Any = {"rtol": 1e-6, "atol": 1e-7}
MODELS: dict[str, StateModel] = {
    "gdm": GDM(n_states=4, n_latent=2, n_steps=30),
    "arhmm": ARHMM(n_states=3, n_latent=2, n_iter=5, n_restarts=1),
}


@cache
def base(name: str) -> StateModel | None:
    return MODELS[name].fit(DATA) if name in MODELS else None


@cache
def fitted(name: str = "none") -> LabelModel:
    return LabelModel(base(name)).fit(DATA, CLIPS)


@pytest.mark.parametrize("name", ["none", *MODELS])
def test_labels_of_new_recordings_are_found_and_calibrated(name: str) -> None:
    model = fitted(name)
    assert model.class_names_ == NAMES
    assert model.calibrated_on_ == "recordings"
    assert model.held_out_ is not None
    assert model.held_out_.macro_f1 > 0.8 > model.held_out_.majority
    for trial, proba, predicted in zip(NEW, model.predict_proba(NEW), model.predict(NEW), strict=True):
        assert proba.shape == (trial.n_samples, 3)
        np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-5)
        np.testing.assert_array_equal(predicted, proba.argmax(axis=1))
        assert np.mean(predicted == np.asarray(trial.labels)) > 0.85
        assert calibration_error(proba, np.asarray(trial.labels)) < 0.1


@pytest.mark.parametrize("name", ["none", *MODELS])
def test_saved_label_model_keeps_bits_and_predictions(name: str, tmp_path: Any) -> None:
    model = fitted(name)
    model.save(tmp_path / "labels.gdm")
    loaded = LabelModel.load(tmp_path / "labels.gdm")
    kept, read = load(model.to_bytes()), load(loaded.to_bytes())
    assert kept.keys() == read.keys()
    own = kept.keys() - {"model"}  # the file of the base model, whose header has no fixed order
    assert all(kept[key].tobytes() == read[key].tobytes() for key in own)
    for one, other in zip(model.predict_proba(NEW), loaded.predict_proba(NEW), strict=True):
        np.testing.assert_allclose(one, other, **ROUNDED)
    assert loaded.unfamiliar_share(NEW[0]) == model.unfamiliar_share(NEW[0])
    assert (loaded.held_out_, loaded.calibrated_on_) == (model.held_out_, model.calibrated_on_)
    np.testing.assert_array_equal(LabelModel.from_bytes(loaded.to_bytes()).predict(NEW[0]), model.predict(NEW[0]))


def test_same_seed_gives_the_same_labels() -> None:
    expected = fitted().predict_proba(NEW[0])
    np.testing.assert_array_equal(LabelModel().fit(DATA, CLIPS).predict_proba(NEW[0]), expected)
    assert (LabelModel(seed=1).fit(DATA, CLIPS).predict_proba(NEW[0]) != expected).any()


class RandomStates:
    """Base model whose states say nothing about labels."""

    def raise_if_failed(self) -> None:
        pass

    def _each(self, trial: Trial, verb: Any) -> npt.NDArray[np.float64]:
        return np.random.default_rng(trial.n_samples).dirichlet(np.ones(5), trial.n_samples)

    def _rough_states(self) -> None:
        raise AssertionError("each trial has states of its own")


def test_uninformative_states_are_ignored() -> None:
    model: Any = RandomStates()
    proba = LabelModel(model).fit(DATA, CLIPS).predict_proba(NEW[0])
    np.testing.assert_array_equal(proba, fitted().predict_proba(NEW[0]))


def test_single_recording_gives_one_array() -> None:
    model = LabelModel().fit(DATA[0], np.asarray(DATA[0].labels), NAMES)
    assert model.calibrated_on_ == "parts"
    assert model.predict_proba(NEW[0]).shape == (600, 3)
    assert [part.shape for part in model.predict([NEW[0].y, NEW[1].y])] == [(600,), (600,)]


def test_class_without_labels_has_probability_zero() -> None:
    known = np.where(np.isin(np.asarray(DATA[0].labels), [0, 2]), np.asarray(DATA[0].labels), -1)
    proba = LabelModel().fit(DATA[0], known, ("rest", "walk", "turn", "jump")).predict_proba(NEW[0])
    assert proba.shape == (600, 4)
    assert not proba[:, [1, 3]].any()
    np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-5)


def test_renaming_classes_permutes_probabilities() -> None:
    order = np.array([2, 0, 1])
    renamed = LabelModel().fit(DATA, [np.where(part < 0, -1, order[part]) for part in CLIPS])
    expected = fitted().predict_proba(NEW[0])
    np.testing.assert_allclose(renamed.predict_proba(NEW[0])[:, order], expected, atol=0.15)


def test_too_few_labels_are_not_calibrated() -> None:
    labels = np.full(900, -1)
    labels[:20], labels[60:80] = 0, 1
    model = LabelModel().fit(DATA[0], labels)
    assert (model.calibrated_on_, model.held_out_) == ("nothing", None)
    assert np.isfinite(model.predict_proba(NEW[0])).all()


def test_gaps_are_interpolated_up_to_thirty_seconds() -> None:
    y = np.arange(400.0)[:, None].repeat(2, axis=1) / 100
    gap = y.copy()
    gap[50:350, 0] = np.nan
    np.testing.assert_allclose(window_features(gap, 10.0), window_features(y, 10.0), atol=1e-4)
    gap[40:360, 0] = np.nan
    assert not window_features(gap, 10.0)[200, 0]
    rows = np.array([3, 200, 399])
    np.testing.assert_array_equal(window_features(gap, 10.0, rows), window_features(gap, 10.0)[rows])


def test_recording_without_any_value_gets_labels() -> None:
    proba = fitted().predict_proba(np.full((100, 4), np.nan, np.float32))
    assert np.isfinite(proba).all()


def one_frame(labels: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    labels[0], labels[50:90] = 1, 0
    return labels


@pytest.mark.parametrize(
    ("labels", "names", "error", "message"),
    [
        (np.full(900, -1), NAMES, DataError, "No sample has a label"),
        (np.zeros(900, int), NAMES, DataError, "Every label is 'rest'"),
        (one_frame(np.full(900, -1)), NAMES, DataError, r"'walk' labels a single frame \(frame 0"),
        (np.zeros(899, int), NAMES, DataError, "900 samples but 899 labels"),
        (np.zeros(900), NAMES, DataError, "one integer per sample"),
        (np.arange(900) - 5, NAMES, DataError, "sample 0 has the label -5"),
        (np.arange(900), NAMES, DataError, "labels must be between 0 and 2"),
        (np.arange(900) % 2, ("a", "a"), ConfigError, "'a' twice"),
        ([np.zeros(900, int)] * 2, NAMES, DataError, "labels for 2 recordings"),
    ],
)
def test_unusable_labels_are_refused(labels: Any, names: Any, error: type[Exception], message: str) -> None:
    trials = DATA[0] if isinstance(labels, np.ndarray) else [DATA[0]]
    with pytest.raises(error, match=message):
        LabelModel().fit(trials, labels, names)


def test_unfitted_model_and_other_channels_are_refused(tmp_path: Any) -> None:
    for ask in (lambda: LabelModel().predict(NEW), lambda: LabelModel().to_bytes()):
        with pytest.raises(FitError, match="not fitted"):
            ask()
    with pytest.raises(DataError, match="4 channels; this data has 2"):
        fitted().predict(NEW[0].y[:, :2])
    fitted().save(tmp_path / "labels.gdm")
    with pytest.raises(ModelFileError, match="unknown model family"):
        load_model(tmp_path / "labels.gdm")
    with pytest.raises(ModelFileError, match="cannot be read"):
        LabelModel.load(tmp_path / "missing.gdm")


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_damaged_files_are_refused_or_read(data: st.DataObject) -> None:
    content = bytearray(fitted().to_bytes())
    header = int.from_bytes(content[:8], "little")
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(8, header + 8) | st.integers(8, len(content) - 1))
        content[at] = data.draw(st.integers(0, 255))
    with np.errstate(all="ignore"):
        try:
            loaded = LabelModel.from_bytes(bytes(content[: data.draw(st.integers(0, len(content))) or None]))
            loaded.predict_proba(NEW[0].slice(0, 60))
        except GdmError:
            pass


# ---- clips to label next, unfamiliar recordings, agreement ------------------------------------------------------------
def test_least_certain_clips_are_proposed_first() -> None:
    found = propose(fitted(), DATA, n=1000)
    assert [clip.value for clip in found] == sorted((clip.value for clip in found), reverse=True)
    assert len(found) == 2 * 15
    confidence = fitted().predict_proba(DATA)[found[0].trial].max(axis=1)
    assert found[0].value == pytest.approx(1 - confidence[found[0].start : found[0].stop].mean(), abs=1e-6)
    assert propose(fitted(), DATA, n=5, exclude=found) == ()


@pytest.mark.parametrize("name", ["none", "gdm"])
def test_labelled_and_asked_clips_are_not_proposed(name: str) -> None:
    model = fitted() if name == "none" else base(name)
    assert model is not None
    asked: list[Clip] = []
    for _ in range(2):
        found = propose(model, DATA, CLIPS, n=3, exclude=asked)
        assert not any((CLIPS[clip.trial][clip.start : clip.stop] >= 0).any() for clip in found)
        assert not {(c.trial, c.start) for c in found} & {(c.trial, c.start) for c in asked}
        asked += found
    assert len(asked) == 6


def test_state_model_proposes_different_clips() -> None:
    model = base("gdm")
    assert model is not None
    classes = {int(np.asarray(DATA[clip.trial].labels)[clip.start + 30]) for clip in propose(model, DATA, n=6)}
    assert len(classes) == 3


def test_wrong_requests_for_clips_are_refused() -> None:
    with pytest.raises(ConfigError, match="n is 0"):
        propose(fitted(), DATA, n=0)
    with pytest.raises(DataError, match="differ in number or length"):
        propose(fitted(), DATA, [np.zeros(3)])


def test_unfamiliar_recording_is_reported() -> None:
    other = Trial(np.asarray(NEW[0].y) * 3 + 5, 30.0, name="another lens")
    messages = unfamiliar_message(fitted(), Trials((NEW[0], other)))
    assert messages[0] is None
    assert messages[1] is not None
    assert messages[1].startswith("another lens differs from the labelled recordings")


def test_calibration_error_measures_overconfidence() -> None:
    labels = np.array([0] * 80 + [1] * 20)
    sure = np.tile([0.8, 0.2], (100, 1))
    assert calibration_error(sure, labels) == pytest.approx(0, abs=1e-9)
    assert calibration_error(np.tile([1.0, 0.0], (100, 1)), labels) == pytest.approx(0.2)
    assert calibration_error(sure, np.where(labels == 1, -1, 0)) == pytest.approx(0.2)
    with pytest.raises(DataError, match="No sample has a label"):
        calibration_error(sure, np.full(100, -1))


def test_expert_agreement_ignores_unlabelled_samples() -> None:
    known = np.asarray(NEW[0].labels).copy()
    known[:100] = -1
    found = expert_agreement(fitted(), Trials((replace(NEW[0], labels=known),)), (0, 1, 2))
    assert found is not None
    assert found.macro_f1 > 0.8 > found.majority
    assert found.n_classes == 3
    assert expert_agreement(fitted(), NEW, (-1, -1, -1)) is None
    assert expert_agreement(fitted(), Trials((replace(NEW[0], labels=None),)), (0, 1, 2)) is None


# ---- requests of pages ------------------------------------------------------------------------------------------------
def test_requests_answer_from_bytes() -> None:
    model = base("gdm")
    assert model is not None
    question = (model.to_bytes(), DATA, STRETCHES, ("rest", "walk"))
    answers = requests.label_answers(*question, NEW[0])
    loaded = LabelModel(model).fit(DATA, paint_labels(DATA, STRETCHES), ("rest", "walk"))
    np.testing.assert_allclose(answers.proba, loaded.predict_proba(NEW[0]), **ROUNDED)
    np.testing.assert_array_equal(answers.confidence, answers.proba.max(axis=1))
    assert answers.held_out == loaded.held_out_
    found = requests.trust(model.to_bytes(), DATA, NEW, STRETCHES, ("rest", "walk"), (0, 1))
    assert found.seconds == pytest.approx(110 / 30)
    assert found.held_out == loaded.held_out_
    assert found.expert is not None


def test_next_clips_before_two_classes_have_labels() -> None:
    model = base("gdm")
    assert model is not None
    found = requests.next_clips(model.to_bytes(), DATA, STRETCHES[:1], ("rest",), ((1, 0, 60, 0),), 3, 2.0)
    assert len(found) == 3
    assert not any((clip.trial, clip.start) in {(0, 0), (1, 0)} for clip in found)
