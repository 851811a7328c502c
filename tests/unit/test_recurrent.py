"""Recurrent parts of the GDM: transitions with memory, and posteriors over whole trials."""

from dataclasses import replace

import pytest
import torch

from datasets import nascar
from gdm_core.maths.gru import RUN_UP, WINDOW, Gru, find_starts
from gdm_core.maths.rows import Rows, make_rows
from gdm_core.models.gdm.ascent import batches
from gdm_core.models.gdm.config import GDMConfig
from gdm_core.models.gdm.model import GDM
from gdm_core.models.gdm.module import GdmModule
from gdm_core.models.gdm.posteriors import BAND
from gdm_core.models.gdm.start import start
from tests.support.gdm import CPU, generator, random_module, random_rows

POSTERIORS = ("bigru", "transformer")


MEMORY = GDMConfig(n_states=3, transition="gru", posterior="bigru", n_latent=2)


def changed(rows: Rows, at: int, by: float) -> Rows:
    """Return the rows with one row changed."""
    past = rows.past.clone()
    past[at] += by
    return replace(rows, past=past)


def _gru(n_inputs: int = 2, n_hidden: int = 5, both_ways: bool = False) -> Gru:
    unit = Gru(n_inputs, n_hidden, both_ways).double()
    with torch.no_grad():
        unit.start(generator())
        unit.hidden_bias.normal_(generator=generator(1))
        unit.input_bias.normal_(generator=generator(2))
    return unit


pytestmark = pytest.mark.usefixtures("one_torch_thread")


# ---- gated recurrent unit -----------------------------------------------------------------------------------------
def test_gru_equals_torch():
    unit = _gru(both_ways=True)
    reference = torch.nn.GRU(2, 5, bidirectional=True).double()
    with torch.no_grad():
        for index, suffix in enumerate(("", "_reverse")):
            getattr(reference, f"weight_ih_l0{suffix}").copy_(unit.input_weight[index].T)
            getattr(reference, f"weight_hh_l0{suffix}").copy_(unit.hidden_weight[index].T)
            getattr(reference, f"bias_ih_l0{suffix}").copy_(unit.input_bias[index, 0])
            getattr(reference, f"bias_hh_l0{suffix}").copy_(unit.hidden_bias[index, 0])
    rows = random_rows(30)
    x = torch.randn(30, 2, dtype=torch.float64, generator=generator(3))
    expected = reference(x[:, None])[0][:, 0]
    torch.testing.assert_close(unit(x, rows), expected)  # windows in training
    with torch.no_grad():
        torch.testing.assert_close(unit(x, rows), expected)  # whole trials otherwise


def test_windows_equal_whole_trials_for_short_memory():
    unit = _gru(both_ways=True)
    with torch.no_grad():
        unit.hidden_weight.mul_(0.1)
        unit.input_bias[..., 5:10] = -3.0  # short memory
    rows = random_rows(3 * WINDOW + RUN_UP + 5, 40, 7)
    x = torch.randn(len(rows), 2, dtype=torch.float64, generator=generator(3))
    windowed = unit(x, rows).detach()
    with torch.no_grad():
        torch.testing.assert_close(windowed, unit(x, rows), atol=1e-9, rtol=0)


def test_rows_mark_starts_of_sequences():
    rows = replace(random_rows(4, 3), age=torch.tensor([2, 3, 0, 1, 5, 6, -1]))
    assert find_starts(rows).tolist() == [True, False, True, False, True, False, True]


def test_window_across_trials_separates_them():
    """Mini-batches may contain the end of one trial and the start of the next."""
    unit, rows = _gru(both_ways=True), random_rows(9, 8)
    x = torch.randn(17, 2, dtype=torch.float64, generator=generator(3))
    one_window = replace(rows, lengths=(17,))
    torch.testing.assert_close(unit(x, one_window), unit(x, rows))


# ---- transitions --------------------------------------------------------------------------------------------------
def test_rollouts_continue_the_hidden_state_of_the_trial():
    module = random_module(MEMORY).eval()
    rows = random_rows(30, 20)
    with torch.no_grad():
        x = rows.past @ module.projection.T
        context, memory = module.transition.context(rows, x), module.transition.memory(rows, x)
        ahead, newer = module.transition.next_context(x, memory)
    inside = torch.arange(50) != 29  # the last row of the first trial leads nowhere
    torch.testing.assert_close(ahead[:-1][inside[:-1]], context[1:][inside[:-1]])
    torch.testing.assert_close(newer[:-1][inside[:-1]], memory[1:][inside[:-1]])
    assert torch.equal(memory[[0, 30]], module.transition.memory_at_start().expand(2, -1))


def test_logits_depend_on_earlier_steps():
    module = random_module(MEMORY).eval()
    rows = random_rows(30)
    even = torch.full((1, 30, 3), 1 / 3, dtype=torch.float64)
    with torch.no_grad():
        before, after = (
            module.prior_logits(module.view(r).context, even, r)[0] for r in (rows, changed(rows, 10, 1.0))
        )
    moved = (before - after).abs().max(1).values
    assert (moved[:11] == 0).all()  # present and future have no effect
    assert (moved[11:15] > 1e-6).all()  # and memory is longer than one sample


def test_stickiness_pulls_towards_the_previous_state():
    for gamma in (0.0, 0.9):
        module = random_module(
            GDMConfig(n_states=3, transition="gru", posterior="bigru", stickiness=gamma, n_latent=2)
        ).eval()
        with torch.no_grad():
            module.transition.state_weight.zero_()  # the network's own use of z_{t-1}
            context = torch.randn(4, module.transition.weight.shape[1] + module.transition.out.shape[0]).double()
            z = torch.eye(3, dtype=torch.float64)[:2]
            logits = [module.transition.logits(context[:1], state[None]) for state in z]
        torch.testing.assert_close(logits[0] - logits[1], gamma * (z[:1] - z[1:]))


# ---- posteriors ---------------------------------------------------------------------------------------------------
def test_paper_preset_is_bidirectional():
    model = GDM(4, 2, transition="gru", preset="paper", n_steps=1, n_samples=2)
    assert model.fit(nascar.simulate("soft", T=100, seed=2)).posterior_ == "bigru"


def _moved(module: GdmModule, rows: Rows, at: int) -> torch.Tensor:
    """Return the change [R] of the logits of q if one row changes."""
    with torch.no_grad():
        return (module.view(rows).posterior - module.view(changed(rows, at, 0.5)).posterior).abs().max(1).values


@pytest.mark.parametrize("name", POSTERIORS)
def test_posteriors_are_bidirectional_within_trials(name):
    module = random_module(GDMConfig(n_states=3, posterior=name, transition="gru", n_latent=2)).eval()
    moved = _moved(module, random_rows(40, 40), 20)
    assert (moved[16:19] > 1e-7).all()  # its future
    assert (moved[22:25] > 1e-7).all()  # its past
    assert (moved[40:] == 0).all()  # another trial


def test_attention_is_limited_to_its_band():
    module = random_module(GDMConfig(n_states=3, posterior="transformer", transition="gru", n_latent=2)).eval()
    seen = torch.nonzero(_moved(module, random_rows(120), 60)).flatten()  # the features of rows 60 and 61 have moved
    assert int(seen[0]) == 60 - BAND
    assert int(seen[-1]) == 61 + BAND


@pytest.mark.parametrize(("transition", "name"), [("network", "window"), ("gru", "bigru"), ("gru", "transformer")])
def test_fit_starts_at_the_linear_discriminant(transition, name):
    """Networks start with zero output, so a fit starts like the linear window posterior."""
    y = nascar.simulate("soft", T=500, seed=2).y
    rows = make_rows([(y - y.mean(0)) / y.std(0)], CPU)
    config = GDMConfig(transition=transition, posterior=name, n_latent=2)
    plain = GDMConfig(posterior="window", stickiness_scale=1.0, n_latent=2)
    module, linear = GdmModule(10, config), GdmModule(10, plain)
    start(module, rows, 0)
    start(linear, rows, 0)
    with torch.no_grad():
        ours, theirs = module.view(rows), linear.view(rows)
        even = torch.full((1, len(rows), 4), 0.25)
        torch.testing.assert_close(ours.posterior, theirs.posterior)
        torch.testing.assert_close(
            module.prior_logits(ours.context, even, rows), linear.prior_logits(theirs.context, even, rows)
        )


# ---- mini-batches ---------------------------------------------------------------------------------------------------
def test_mini_batches_have_enough_context():
    rows = random_rows(4000, dtype=torch.float32)
    config = GDMConfig(transition="gru", posterior="bigru", batch_size=1024, n_latent=2)
    batch = batches(rows, config, 1024, generator())()
    scored = batch.scored.reshape(len(batch.lengths), -1)
    assert (scored[:, :RUN_UP] == 0).all()
    assert (scored[:, -RUN_UP:] == 0).all()
    assert scored.sum() > 0.3 * len(batch)
