"""The Gumbel Dynamical Model behind the verbs of `StateModel`, and what it has in common with its mixture: parameters that are a
torch module's, and states that are soft."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Generic, Self, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from gdm_core.errors import ConfigError, FitError
from gdm_core.maths.factor import FactorModel
from gdm_core.maths.rows import Rows, as_numpy, make_rows
from gdm_core.maths.threads import on_one_thread
from gdm_core.models.base import Array, Progress, StateModel, Status
from gdm_core.models.gdm import fit as svi
from gdm_core.models.gdm.config import GDMConfig
from gdm_core.models.gdm.fit import REPORT_EVERY, Step
from gdm_core.models.gdm.missing import Completion, complete, missing_data_bound
from gdm_core.models.gdm.module import GdmModule, elbo
from gdm_core.models.gdm.online import GdmReader
from gdm_core.models.gdm.readout import bound, generate, log_bound, posterior_mean, sample_paths, soft_states
from gdm_core.models.gdm.start import resize_states, start, start_random, start_words
from gdm_core.models.gdm.word_model import Labels, WordModel, check_labels, learn
from gdm_core.models.parameters import parameters_of
from gdm_core.models.registry import ADJUSTABLE, WARM_CHANGES
from gdm_core.models.scaling import Scaler
from gdm_core.trials import Trials, TrialsLike, as_trials, is_single

Module = TypeVar("Module", bound=torch.nn.Module)

# A fit has converged if its last quarter gained no more than this, in nats per sample and channel.
_TOLERANCE = 0.01
_JUDGED_FROM = 0.75
_EXCERPT_ROWS, _EXCERPT_DRAWS = 500, 16


class SoftModel(StateModel, Generic[Module]):
    """A model that keeps the parameters of a module."""

    def _forget(self) -> None:
        super()._forget()
        self._module: Module | None = None

    @property
    def stickiness_(self) -> float:
        """Learned (or fixed) stickiness (gamma)."""
        return float(self._net.transition.gamma)  # type: ignore[union-attr, arg-type]

    @abstractmethod
    def _blank(self) -> Module:
        """A module that `params_` fits into."""

    @property
    def _net(self) -> Module:
        """The module that holds `params_`, made when first needed after a load."""
        self._require_fitted()
        if self._module is None:
            module = self._blank()
            module.load_state_dict({name: torch.as_tensor(value) for name, value in self.params_.items()})
            self._module = module.requires_grad_(False).eval()
        return self._module

    @abstractmethod
    def _random(self, ys: list[Array], seed: int) -> Module:
        """A module of random parameters for these standardised trials."""

    def _control(self) -> Self:
        """The unfitted model that `untrained` gives random parameters."""
        return self.from_config(self.config)

    def untrained(self, trials: Trials, seed: int = 0) -> Self:
        """A control: the same configuration with random parameters, never fitted, on this data's scale.

        trials   whose scale the control has
        seed     of its random parameters
        """
        control = self._control()
        control.scaler_ = scaler = Scaler.from_trials(trials)
        control.factors_ = FactorModel.fit([scaler.apply(trial.y) for trial in trials], control.config.n_latent)
        control._keep(control._random([scaler.apply(trial.y) for trial in trials], seed))
        control.status_ = Status.CANCELLED
        return control

    def _climbed(
        self, module: Module, steps: Iterator[Step], rows: Rows, total: int, done: int = 0
    ) -> Iterator[Progress]:
        """Follow the steps of a recipe on `rows`, keep finite parameters, and set the status; `done` of `total` steps are over."""
        if not done:
            yield Progress(0, total, float("nan"), float("nan"))
        earlier, last = self.params_, None
        for step in steps:
            last = step
            if not step.finite:
                self._fail(f"its objective is not finite at step {done + step.index}")
                return
            if step.index % REPORT_EVERY == 0 or step.index == step.total:
                if not all(bool(torch.isfinite(p).all()) for p in module.parameters()):
                    self._fail(f"a parameter is not finite at step {done + step.index}")
                    return
                self._keep(module)
                if step.index <= _JUDGED_FROM * step.total:
                    earlier = self.params_
                yield Progress(done + step.index, total, step.elbo, step.objective)
        self._keep(module)
        if last is not None and done + last.index < total:
            self.status_ = Status.CONVERGED  # stopped by the recipe's own rule
        else:
            self.status_ = Status.MAX_STEPS if self._still_improves(earlier, rows) else Status.CONVERGED

    def _still_improves(self, earlier: dict[str, Array], rows: Rows) -> bool:
        """Whether the bound of an excerpt, with common random numbers, is clearly above that of `earlier` parameters."""
        excerpt, now = rows.piece(0, min(len(rows), _EXCERPT_ROWS)), self.params_
        after = self._excerpt_bound(excerpt)
        self.params_, self._module = earlier, None
        gain = after - self._excerpt_bound(excerpt)
        self.params_, self._module = now, None
        return gain / len(excerpt) > _TOLERANCE * rows.y.shape[1]

    @abstractmethod
    def _excerpt_bound(self, rows: Rows) -> float:
        """Return a quick bound on the log-density of `rows`, in nats, always with the same random numbers."""

    def _keep(self, module: Module) -> None:
        self.params_ = {name: value.numpy(force=True).copy() for name, value in module.state_dict().items()}
        self._module = None


WARM_STEPS_FOR_MARKS = 50  # where the words changed and nothing else
QUICK_DRAWS = 16  # half of what a read-out takes


class GDM(SoftModel[GdmModule]):
    """Gumbel Dynamical Model: soft states that mix linear dynamics, inferred by a posterior that is fitted along."""

    family = "gdm"
    config_class = GDMConfig
    warm_changes = WARM_CHANGES[family]
    adjustable = ADJUSTABLE[family]
    config: GDMConfig

    @parameters_of(GDMConfig)
    def __init__(self, config: GDMConfig) -> None:
        super().__init__(config)

    def _forget(self) -> None:
        super()._forget()
        self._forget_words()

    def _forget_words(self) -> None:
        self._labels: Labels | None = None
        self.word_model_: WordModel | None = None

    # ---- what was learned ---------------------------------------------------------------------------------------
    @property
    def posterior_(self) -> str:
        """The posterior in use, also where none was named."""
        self._require_fitted()
        return self.config.reads

    @property
    def _device(self) -> torch.device:
        wanted = self.config.device
        if wanted == "auto":
            wanted = "cuda" if torch.cuda.is_available() else "cpu"
        try:
            device = torch.device(wanted)
        except RuntimeError as error:
            raise ConfigError(f"device is {wanted!r}; expected 'auto', 'cpu' or 'cuda'.") from error
        if device.type == "cuda" and not torch.cuda.is_available():
            raise ConfigError("device is 'cuda' but no GPU can be used here; choose 'cpu' or 'auto'.")
        return device

    def _blank(self) -> GdmModule:
        words = self.params_.get("word_logits")
        return GdmModule(self.n_channels, self.config, 0 if words is None else words.shape[1]).to(self._device)

    # ---- fitting ------------------------------------------------------------------------------------------------
    def fit(
        self, trials: TrialsLike, y: Any = None, labels: Any = None, class_names: Sequence[str] | None = None
    ) -> Self:
        """Fit to `trials` (a Trial, an array [T, N], several, or Trials). `y` is ignored: scikit-learn hands it on.

        labels       words for a few moments: [T] whole numbers, -1 elsewhere; a list of such arrays for several trials.
                     States are then tied to words, and `predict_labels` names every moment
        class_names  the words that the numbers stand for; if None the trials' own label names
        """
        for _ in self.fit_iter(trials, labels, class_names):
            pass
        return self

    def fit_iter(
        self,
        trials: TrialsLike,
        labels: Any = None,
        class_names: Sequence[str] | None = None,
        *,
        finish: bool = True,
        start: bool = False,
    ) -> Iterator[Progress]:
        """Fit to `trials` step by step, with `labels` and `class_names` as in `fit`; with `start` from before the first step.

        Closing the iterator early leaves a usable model with status CANCELLED. Without `finish`
        there is no score and no calibration in the end.
        """
        self._forget_words()
        data = as_trials(trials)
        if labels is not None:
            one = is_single(trials) or (len(data) == 1 and np.ndim(labels) == 1)
            self._labels = check_labels(labels, data, one, class_names, self.config.n_states)
        return super().fit_iter(data, finish=finish, start=start)

    def _fit(self, ys: list[Array]) -> Iterator[Progress]:
        return on_one_thread(self._all_fits(ys))  # a step is small: threads would only wait for each other

    def _all_fits(self, ys: list[Array]) -> Iterator[Progress]:
        config, rows = self.config, self._rows_to_fit(ys)
        found: list[tuple[float, dict[str, Array], Status | None]] = []
        for restart in range(config.n_restarts):
            yield from self._fit_once(rows, config, restart)
            if config.n_restarts == 1:
                return
            reached = bound(self._net, rows, self.config) if self.status_ is not Status.FAILED else -np.inf
            found.append((reached, self.params_, self.status_))
        _, self.params_, self.status_ = max(found, key=lambda fit: fit[0])
        self._module = None

    def _fit_once(self, rows: Rows, config: GDMConfig, restart: int) -> Iterator[Progress]:
        """Start from `rows` and climb on them."""
        seed = config.seed + 1_000_003 * restart
        self.status_ = None
        n_words = 0 if rows.words is None else rows.words.shape[1]
        module = GdmModule(rows.y.shape[1], config, n_words).to(rows.y.device)
        if self._warm_from is not None:
            previous = self._warm_from._net  # type: ignore[attr-defined]
            resize_states(previous, module, rows, self.config, seed)
            if "word_logits" not in self._warm_from.params_:
                start_words(module, module.view(rows).posterior.softmax(-1), rows)
        elif config.preset == "paper":
            start_random(module, seed)
            start_words(module, module.view(rows).posterior.softmax(-1), rows)
        else:
            start(module, rows, config, seed)
        self._keep(module)
        generator = torch.Generator(device=rows.y.device).manual_seed(seed)
        total = self._n_steps(config, svi.plan(config, module))
        if config.preset == "paper":
            steps = svi.paper_steps(module, rows, config, total, generator)
        else:
            steps = svi.fast_steps(module, rows, config, total, generator)
        yield from self._climbed(module, steps, rows, total)

    def _excerpt_bound(self, rows: Rows) -> float:
        config = self.config
        if config.corrects and not self._net.posterior.sequential:
            return float(log_bound(self._net, rows, config.temperature, _EXCERPT_DRAWS).sum())
        return elbo(self._net, rows, config.temperature)

    def _n_steps(self, config: GDMConfig, plan: svi.FitPlan) -> int:
        if config.n_steps is not None or self._warm_from is None:
            return plan.steps
        marks_alone = self._labels is not None and self.config == self._warm_from.config
        return WARM_STEPS_FOR_MARKS if marks_alone else plan.warm

    def _control(self) -> GDM:
        return self.from_config(dataclasses.replace(self.config, readout="amortised"))

    def _random(self, ys: list[Array], seed: int) -> GdmModule:
        module = GdmModule(ys[0].shape[1], self.config)
        start_random(module, seed)
        return module

    @torch.no_grad()
    def next_states(self, y: npt.NDArray[Any], shares: npt.NDArray[Any]) -> npt.NDArray[np.float64] | None:
        transition = self._net.transition
        if not transition.affine_in_state:
            return None
        seen = torch.as_tensor(self._scaler.apply(y), device=self._device)
        context, _ = transition.next_context(seen @ self._net.projection.T, None)  # [G, K]
        before = torch.eye(context.shape[1], device=seen.device)
        logits = torch.stack([transition.logits(context, row.expand_as(context)) for row in before])  # [K, G, K]
        weight = torch.as_tensor(shares, dtype=logits.dtype, device=seen.device)
        mixed: npt.NDArray[np.float64] = (
            torch.einsum("i,igk->gk", weight, logits.softmax(-1)).double().numpy(force=True)
        )
        return mixed

    # ---- words ---------------------------------------------------------------------------------------------------
    @property
    def class_names_(self) -> tuple[str, ...]:
        """The words that this model was taught, () for none."""
        return () if self.word_model_ is None else self.word_model_.names

    def predict_label_proba(self, data: TrialsLike) -> Any:
        """Calibrated probability of each word [T, C] at each time of `data`, in the order of `class_names_`.

        It is 0 for words that were never marked.
        """
        return self._each(data, self._word_probabilities)

    def predict_labels(self, data: TrialsLike) -> Any:
        """The likeliest word [T] at each time of `data`, a number into `class_names_`."""
        return self._each(data, lambda y: self._word_probabilities(y).argmax(axis=1))

    @property
    def label_doubt_(self) -> str | None:
        """Why the probabilities of words may promise too much in other recordings; None where that was measured."""
        if self._taught.held_out == "recordings":
            return None
        why = {
            "parts": "Marks lie in one recording alone",
            "nothing": "Marks are too few to leave some out",
        }[self._taught.held_out]
        return (
            f"{why}, so nothing says how sure words may be in other recordings: their probabilities are not calibrated "
            "there. Mark each word in two recordings or more."
        )

    def unfamiliar_share(self, data: TrialsLike) -> Any:
        """Share of the features of `data` that lie outside of what the recordings that were taught hold (98 % of theirs)."""
        return self._each(data, self._taught.unfamiliar_share)

    @property
    def word_map_(self) -> npt.NDArray[np.float32]:
        """[K, C] probability of each word in each state."""
        return self._taught.of_all_words(self._marked_words_of_states)

    @property
    def state_words_(self) -> tuple[str | None, ...]:
        """The word that each state stands for; None for a free state, in which no word has more than half."""
        return tuple(self.class_names_[int(row.argmax())] if row.max() > 0.5 else None for row in self.word_map_)

    @property
    def _taught(self) -> WordModel:
        self._require_fitted()
        if self.word_model_ is None:
            raise FitError("This GDM was taught no words. Give fit() labels of at least two words to predict them.")
        return self.word_model_

    @property
    def _marked_words_of_states(self) -> npt.NDArray[np.float64]:
        """[K, W] probability of each marked word in each state."""
        return torch.softmax(torch.as_tensor(self.params_["word_logits"]).double(), -1).numpy()

    def _word_probabilities(self, y: Array) -> Array:
        taught = self._taught
        states = as_numpy(posterior_mean(self._net, self._rows(y), self.config.temperature))
        return taught.probabilities(y, states.astype(np.float64) @ self._marked_words_of_states)

    def _rows_to_fit(self, ys: list[Array]) -> Rows:
        """The rows of `ys`; where words were given, with how much each counts as each of them."""
        rows = make_rows(ys, self._device, fill=self._fill)
        if self._labels is None:
            return rows
        self.word_model_, weights = learn(ys, self._labels, self.config.seed)
        return dataclasses.replace(rows, words=torch.as_tensor(weights, device=rows.y.device))

    def _beside_parameters(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        if self.word_model_ is None:
            return {}, {}
        arrays = {f"evidence.{name}": value for name, value in self.word_model_.arrays().items()}
        return arrays, {"class_names": list(self.class_names_)}

    @classmethod
    def from_file(cls, tensors: dict[str, Array], header: dict[str, Any]) -> Self:
        model = super().from_file(tensors, header)
        kept = {k.removeprefix("evidence."): value for k, value in tensors.items() if k.startswith("evidence.")}
        if kept:
            model.word_model_ = WordModel.from_arrays(kept, tuple(header["class_names"]))
        return model

    # ---- hooks --------------------------------------------------------------------------------------------------
    def _rows(self, y: Array, filled: npt.NDArray[Any] | None = None) -> Rows:
        """Rows of one trial, with `filled` in place of missing entries; of the factor model by default."""
        return make_rows([y], self._device, fill=self._fill if filled is None else lambda _: filled)

    def _complete(self, y: Array) -> Completion:
        return complete(self._net, y, self._fill(y), self.config.temperature)

    def _soft_states(self, y: Array) -> Array:
        if not np.isnan(y).any():
            return as_numpy(soft_states(self._net, self._rows(y), self.config))
        found = self._complete(y)
        states = as_numpy(soft_states(self._net, self._rows(y, found.y), self.config))
        unseen = np.isnan(y).all(axis=1)
        states[unseen] = found.states[unseen]
        return states

    def _rough_states(self, y: Array) -> Array:
        return as_numpy(soft_states(self._net, self._rows(y), self.config, QUICK_DRAWS))

    @torch.no_grad()
    def _reconstruct(self, y: Array) -> Array:
        complete_y = self._complete(y).y if np.isnan(y).any() else y
        rows = self._rows(y, complete_y)
        z = torch.as_tensor(self._soft_states(y), device=rows.y.device)
        mean = as_numpy(self._net.mean(z[None], self._net.view(rows).design)[0])
        return np.where(np.isnan(y), complete_y, mean).astype(np.float32)

    def _impute(self, y: Array) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        found = self._complete(y)
        return found.y, found.std(np.random.default_rng(0))

    @torch.no_grad()
    def _latent(self, y: Array) -> Array:
        filled = self._complete(y).y if np.isnan(y).any() else None
        return as_numpy(self._rows(y, filled).past @ self._net.projection.T)

    def _bound(self, y: Array) -> float:
        if np.isnan(y).any():
            return missing_data_bound(self._net, y, self._fill(y), self.config)
        return bound(self._net, self._rows(y), self.config)

    def _paths(self, y: Array, origins: npt.NDArray[np.int64], horizon: int, n_paths: int, seed: int) -> Array:
        rows = self._rows(y, self._fill_causally(y))
        return as_numpy(sample_paths(self._net, rows, origins, horizon, n_paths, self.config.temperature, seed))

    def _sample_reader(self, lag: int) -> GdmReader:
        words = None if self.word_model_ is None else self._marked_words_of_states
        return GdmReader(self._net, self.config, self._factors, self.word_model_, words, lag)

    def _generate(self, n_samples: int, seed: int) -> tuple[Array, Array, Array]:
        y, z, x = generate(self._net, n_samples, self.config.temperature, seed)
        return as_numpy(y), as_numpy(z), as_numpy(x)


def first_fit(config: GDMConfig, ys: list[Array]) -> Iterator[tuple[Progress, GdmModule]]:
    """A 2-level fit of standardised trials step by step, with its module, for a model that starts from one.

    Raises FitError where it diverges.
    """
    model, n_channels = GDM.from_config(config), ys[0].shape[1]
    model.scaler_ = Scaler(np.zeros(n_channels, np.float32), np.ones(n_channels, np.float32))
    model.factors_ = FactorModel.fit(ys, config.n_latent)
    for progress in model._fit(ys):
        yield progress, model._net
    if model.status_ is Status.FAILED:
        raise FitError(f"The 2-level model to start from: {model.failure_message}")
