"""Processor time and memory of GDM fits: `python -m benchmarks.speed [PART ...] [--json FILE]`.

Times are processor seconds on one thread, so that other programs change them little.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.distributions import Normal, RelaxedOneHotCategorical

from benchmarks import report
from benchmarks.report import Part
from datasets import mice as mice_simulator
from datasets import nascar
from gdm_core import GDM


def fit() -> Part:
    """Measure one fit at T = 1,000 against the paper's recipe and a plain implementation of it."""
    train, _ = nascar.train_test("soft", 0)
    GDM(n_steps=20).fit(train)  # imports libraries before the clock starts
    models = [GDM(seed=seed) for seed in range(5)]
    fast = float(np.median([cpu_seconds(lambda model=model: model.fit(train)) for model in models]))
    papers = [GDM(preset="paper", seed=seed) for seed in range(3)]
    paper = float(np.mean([cpu_seconds(lambda model=model: model.fit(train)) for model in papers]))
    lengths = [model.history_[-1].step for model in papers]
    steps = round(float(np.mean(lengths)))
    ours, plain = steps / paper, plain_steps_per_second(train.y, 300)
    return (
        "One fit, NASCAR soft, T=1000, N=10, K=4 (processor seconds)",
        ["what", "seconds", "steps/s", "ratio"],
        [
            ["fast preset, median of 5", fast, models[0].history_[-1].step / fast, 1.0],
            [f"paper preset, until convergence ({min(lengths)}-{max(lengths)} steps)", paper, ours, paper / fast],
            ["paper preset, all 4000 steps", 4000 / ours, ours, 4000 / ours / fast],
            ["plain loop of the paper's recipe", steps / plain, plain, ours / plain],
        ],
    )


def length() -> Part:
    """Measure the cost of one trial against its length."""
    base, _ = nascar.train_test("soft", 0, T=20_000)
    rows: list[list[Any]] = []
    for t in (1_000, 10_000, 100_000, 1_000_000):
        y = np.concatenate([base.y] * -(-t // len(base.y)))[:t]
        model = GDM(seed=0)
        seconds = cpu_seconds(lambda model=model, y=y: model.fit(y))
        read = cpu_seconds(lambda model=model, y=y: model.predict_proba(y))
        rows.append([t, seconds, read, 1e6 * (seconds + read) / t, peak_mb()])
    return "Cost against T (N=10, K=4)", ["T", "fit s", "inference s", "us per sample", "peak MB"], rows


def mice() -> Part:
    """Measure a fit of the size of the CalMS21 training set."""
    trials = mice_simulator.simulate_training_set(0)
    model = GDM(n_states=5, n_latent=3, seed=0)
    seconds = cpu_seconds(lambda: model.fit(trials))
    half = list(trials)[: len(trials) // 2]
    read = cpu_seconds(lambda: [model.predict_proba(trial) for trial in half])
    samples = sum(trial.n_samples for trial in half)
    return (
        f"{trials.n_samples:,} x {trials.n_channels} in {len(trials)} trials, K=5, D=3",
        ["fit s", f"states of {samples:,} new samples s", "peak MB"],
        [[seconds, read, peak_mb()]],
    )


def plain_steps_per_second(y: npt.ArrayLike, n_steps: int, k: int = 4, d: int = 2, n_samples: int = 10) -> float:
    """Return optimiser steps per second of the paper's recipe, written directly with torch.distributions."""
    generator = torch.Generator().manual_seed(0)
    data = torch.tensor(np.asarray(y))
    n = data.shape[1]

    def parameter(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator).requires_grad_()

    projection = torch.randn((d, n), generator=generator) * 0.1
    dynamics, offset, first = parameter(k, n, d), parameter(k, n), parameter(k, n)
    weight, bias, gamma, start = parameter(k, d), parameter(k), parameter(1), parameter(k)
    log_variance, q_weight, q_bias = parameter(1, n), parameter(k, n), parameter(k)
    parameters = [dynamics, offset, first, weight, bias, gamma, start, log_variance, q_weight, q_bias]
    optimiser = torch.optim.AdamW(parameters, lr=1e-2, weight_decay=1e-4)
    tau = torch.tensor(0.99)
    started = time.process_time()
    for _ in range(n_steps):
        q = RelaxedOneHotCategorical(tau, logits=(data @ q_weight.T + q_bias).expand(n_samples, -1, -1))
        z = q.rsample()
        x = data @ projection.T
        means = torch.cat([first[:, None], torch.einsum("knd,td->ktn", dynamics, x[:-1]) + offset[:, None]], 1)
        likelihood = Normal(torch.einsum("stk,ktn->stn", z, means), (0.5 * log_variance).exp()).log_prob(data)
        logits = (1 - gamma) * (x[:-1] @ weight.T + bias) + gamma * z[:, :-1]
        prior = RelaxedOneHotCategorical(tau, logits=logits).log_prob(z[:, 1:]).sum(1)
        prior = prior + RelaxedOneHotCategorical(tau, logits=start).log_prob(z[:, 0])
        usage = z.mean((0, 1))
        entropy = -(usage * (usage + 1e-8).log()).sum()
        objective = (likelihood.sum((1, 2)) + prior - q.log_prob(z).sum(1)).mean() + entropy
        optimiser.zero_grad()
        (-objective).backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()
    return n_steps / (time.process_time() - started)


def cpu_seconds(work: Callable[[], object]) -> float:
    """Return the processor time of a call."""
    started = time.process_time()
    work()
    return time.process_time() - started


def peak_mb() -> int:
    """Return the largest memory of this process so far."""
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


PARTS: dict[str, Callable[[], Part]] = {"speed": fit, "scale": length, "mice": mice}


if __name__ == "__main__":
    report.run(__doc__, PARTS)
