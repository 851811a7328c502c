"""Fits over a grid of K, tau, gamma and seeds, judged by the ELBO of samples that were held out."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from gdm_core.errors import ConfigError
from gdm_core.models.registry import build
from gdm_core.parallel import run_all
from gdm_core.trials import Trials


@dataclass(frozen=True)
class Point:
    """One fit of the grid; None leaves a parameter at the model's default."""

    n_states: int
    temperature: float | None = None
    stickiness: float | str | None = None
    seed: int = 0


@dataclass(frozen=True)
class Outcome:
    """What a fit came to. ELBOs are nats per time step in the data's units."""

    n_states: int
    temperature: float | None
    stickiness: float | str | None
    seed: int
    status: str
    elbo: float
    held_out_elbo: float | None
    seconds: float


def grid(
    n_states: Sequence[int],
    temperatures: Sequence[float | None] = (None,),
    stickinesses: Sequence[float | str | None] = (None,),
    n_seeds: int = 1,
) -> list[Point]:
    """Every combination."""
    if n_seeds < 1:
        raise ConfigError(f"seeds is {n_seeds}; at least 1 is needed.")
    return [Point(*choice) for choice in itertools.product(n_states, temperatures, stickinesses, range(n_seeds))]


def hold_out(trials: Trials, share: float) -> tuple[Trials, Trials | None]:
    """The head of each trial to learn from and the last `share` of it to judge by."""
    if not 0 <= share < 1:
        raise ConfigError(f"holdout is {share}; the share of each trial that is held out must be in [0, 1).")
    if share == 0:
        return trials, None
    cuts = [max(1, round(trial.n_samples * (1 - share))) for trial in trials]
    head = tuple(trial.slice(0, cut) for trial, cut in zip(trials, cuts, strict=True))
    # Too short a tail says nothing and no model takes it.
    tail = tuple(t.slice(c, t.n_samples) for t, c in zip(trials, cuts, strict=True) if t.n_samples - c >= 10)
    return Trials(head, trials.name, trials.label_names), Trials(tail, f"{trials.name}, held out") if tail else None


def sweep(
    trials: Trials,
    points: Sequence[Point],
    model: str = "gdm",
    n_latent: int = 2,
    holdout: float = 0.2,
    jobs: int = 1,
) -> Iterator[Outcome]:
    """Fit every point, yielding each outcome as it is done."""
    head, tail = hold_out(trials, holdout)
    work = partial(_fit_one, head=head, tail=tail, model=model, n_latent=n_latent)
    for _, outcome in run_all(work, points, jobs):
        yield outcome


def _fit_one(point: Point, *, head: Trials, tail: Trials | None, model: str, n_latent: int) -> Outcome:
    changes: dict[str, Any] = {
        name: value for name in ("temperature", "stickiness") if (value := getattr(point, name)) is not None
    }
    fitted = build(model, point.n_states, n_latent, point.seed, **changes).fit(head)
    diverged = str(fitted.status_) == "diverged"
    held_out = None if tail is None or diverged else fitted.score(tail)
    elbo = float("nan") if diverged else fitted.elbo_
    return Outcome(
        **asdict(point), status=str(fitted.status_), elbo=elbo, held_out_elbo=held_out, seconds=fitted.seconds_
    )


def best(outcomes: Sequence[Outcome]) -> Outcome | None:
    """The outcome of highest held-out ELBO, or of highest ELBO where nothing was held out; never a diverged fit."""
    sound = [o for o in outcomes if o.status != "diverged"]
    if not sound:
        return None
    return max(sound, key=lambda o: o.elbo if o.held_out_elbo is None else o.held_out_elbo)
