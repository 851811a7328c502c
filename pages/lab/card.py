"""The honest card of a lab: scores of the fit that stands, or those of the earlier one, dimmed and named."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from html import escape
from typing import Any

import numpy as np
import streamlit as st

from gdm_studio.plot.figures import names_of
from gdm_studio.seeds import more_seeds
from pages.lab import live, sentences
from pages.lab.sentences import LastChange, Settled, finding
from pages.lab.view import View, question_key
from pages.ui import card, navigation, shell
from pages.ui.card import Score
from pages.ui.model_controls import SEED_RANGE
from pages.ui.plot import Part, Text, by_key

OPEN_ON = "What is open on: {}"  # how the Compare page calls the data of another one, in its address, too
FIT = "-fit"  # ends the name of the question for the fit of another seed
DEADLINE_S = 300.0  # a second of work, on a machine that may have much else to do
Rows = Callable[[Mapping[str, Any]], list[Score]]

SHIPPED = (
    "This fit ships with the app. Fitted anew on another kind of machine it may differ in places; the exported script "
    "loads this one."
)


def measured(view: View) -> live.Answer:
    """Everything measured of the fit that stands, beside its baselines; else the last that was measured."""
    answers, wanted, measure = view.fit.answers, view.shown.wanted, view.setting.measure
    if not view.settled or wanted is None:
        return answers.latest("scores")
    about = replace(wanted, where=view.setting)
    if view.shipped_scores is not None:
        answers.learn("scores", view.shipped_scores["scores"], about)
        return live.Answer(view.shipped_scores["scores"], fresh=True, about=about)
    question = (wanted.train, wanted.test, *measure.options, int(wanted.config.get("seed", 0)))
    return view.ask("scores", measure.scores, *question, deadline_s=DEADLINE_S, about=about, kept=True)


@dataclass(frozen=True)
class Told:
    """The card at one moment: its HTML, and the rows in it once they belong to what stands."""

    html: str
    rows: list[Score]
    message: str = ""


def honest_card(view: View, rows_of: Rows, *, says: bool = False) -> list[Score]:
    """Show the card and the progress of the fit; the rows, once they belong to what stands.

    Scores appear as they are measured, and those of further seeds widen what they say, while no script runs.

    says  a line on top says what was found; else the top says what the last change did alone
    """
    answers = view.fit.answers
    told = _told(view, rows_of, says)
    latest = answers.news, told

    def scores(_: live.Shown) -> dict[str, Part]:
        nonlocal latest
        answers.collect()
        if latest[0] != answers.news:  # another look at the same answers says the same
            latest = answers.news, _told(view, rows_of, says)
        return by_key(Text(latest[1].html, "honest-card"))

    with view.frame.card:
        with st.container(key="gdm-progress"):
            live.cancel_button(view.fit, view.page)
            live.region(view.fit, live.progress)
        live.region(view.fit, scores)
        if told.message:
            again = partial(answers.again, "scores")
            shell.error("The scores could not be worked out", told.message, retry=f"{view.page}-rescore", again=again)
        if view.data.missing:
            shell.quiet(view.data.missing)
        if view.came and view.current:
            shell.quiet(SHIPPED)
        st.page_link(
            navigation.page("compare"),
            label="Compare with other models",
            icon=":material/compare_arrows:",
            query_params={"data": OPEN_ON.format(view.frame.title)},
        )
    return told.rows


def _told(view: View, rows_of: Rows, says: bool) -> Told:
    """The card as things stand; asks for what is not measured yet."""
    answer, shown = measured(view), view.shown
    rows = rows_of(answer.value) if answer.value is not None else []
    seeds = other_seeds(view) if answer.fresh else _without_seeds(view)
    rows = with_spread(rows, [rows_of(found) for found in seeds])
    scored: live.Wanted | None = answer.about
    if answer.fresh:
        said = {"change": _last_change(view, rows)}
        if says:
            of = f"the {view.data.tested if view.is_new else 'fitted trial'}"
            said = {"finding": finding(view.read(), of, rows)} | said
        lines = "".join(f'<p class="gdm-{kind}">{escape(words)}</p>' for kind, words in said.items() if words)
        return Told(shell.marked(lines + card.scores_html(rows, status=shown.status), view.made_for), rows)
    if answer.so_far is not None:
        known = rows_of(answer.so_far)
        there = {row.name for row in known}
        html = card.scores_html(known, to_come=[row for row in rows if row.name not in there])
        if comes := answer.so_far.get("under_way"):
            what, done, of_all = comes
            html += shell.running_html(f"scores, {done} of {of_all} parts: now {what}", done / of_all)
    elif rows and scored is not None and scored.train.fingerprint == view.data.train.fingerprint:
        html = card.scores_html(
            rows, earlier=sentences.earlier(view.setting, scored.where), meanwhile=_waiting(view, answer)
        )
    else:  # numbers of other data would mislead, and so would verdicts beside a fit that is watched from its start
        html = card.scores_html([], to_come=rows, status=_waiting(view, answer))
    return Told(html, [], answer.message)


def _last_change(view: View, rows: Sequence[Score]) -> str:
    """What the last change of settings did to the fit that stands; "" where nothing can be said."""
    choice, shown = view.choice, view.shown
    if shown.wanted is None or not shown.train:
        return ""
    now = Settled(
        shown.wanted.key,
        (view.data.train.fingerprint, view.data.test.fingerprint),
        {"model": choice.label} | {name: sentences.said(name, value) for name, value in choice.config.items()},
        np.concatenate([states.argmax(axis=1) for states in shown.train]),
        tuple(names_of(shown.n_states)),
        rows[0] if rows else None,
    )
    last = view.fit.records.last(LastChange)
    return view.fit.records.keep(LastChange(now) if last is None else last.then(now)).sentence


def other_seeds(view: View, ask: bool = True) -> list[Mapping[str, Any]]:
    """Scores of more fits of what stands, from other seeds, as far as they are known.

    With `ask`, the next one is worked out when nobody waits for anything: what is looked at comes first.
    """
    wanted, answers, measure = view.shown.wanted, view.fit.answers, view.setting.measure
    if not view.settled or wanted is None or "seed" not in wanted.config:
        return _without_seeds(view)
    if view.shipped_scores is not None:
        return list(view.shipped_scores.get("seeds", []))
    found: list[Mapping[str, Any]] = []
    for more in range(1, more_seeds() + 1):
        seed = (int(wanted.config["seed"]) + more) % (SEED_RANGE[1] + 1)
        other = replace(wanted, config={**wanted.config, "seed": seed})
        question, name = (wanted.train, wanted.test, *measure.options, seed), f"seed-{more}"
        key = question_key(other.key, measure.scores, question)
        known = answers.find(name, key)
        if known is not None:
            found.append(known)
            continue
        if not ask or answers.pending_besides(name):
            break
        # Fitted apart from being scored: looked at through other trials, it is the same fit.
        fit = answers.ask_fit(f"{name}{FIT}", other.spec)
        if fit.fresh:
            model, kept = fit.value.model_bytes, view.data.keep
            fit = answers.ask(name, key, measure.scores, model, *question, deadline_s=DEADLINE_S, kept=kept, idle=True)
            if fit.fresh:
                found.append(fit.value)
        if fit.pending:
            break
    return found


def _without_seeds(view: View) -> list[Mapping[str, Any]]:
    """No other seeds: what is looked at comes first, and needs the workers."""
    for more in range(1, more_seeds() + 1):
        view.fit.answers.give_up(f"seed-{more}{FIT}")
        view.fit.answers.give_up(f"seed-{more}")
    return []


def with_spread(rows: list[Score], others: list[list[Score]]) -> list[Score]:
    """Rows that know how they vary over seeds, and by how much they are ahead of their lines on average.

    A row that varies over pieces of the new trials as well varies as both together; one with too few of them stays as it is.
    """
    if not others:
        return rows
    made = []
    for row in rows:
        same = [row, *(other for found in others for other in found if other.name == row.name)]
        values = np.array([one.value for one in same])
        gains = [one.value - one.line for one in same if one.line is not None]
        if row.line is None or row.short or len(gains) < 3 or not np.isfinite(values).all():
            made.append(row)
        else:
            spread = float(np.hypot(np.std(gains, ddof=1), row.spread or 0.0))
            over = " and ".join([*([row.over] if row.over else []), f"{len(gains)} seeds"])
            made.append(replace(row, spread=spread, ahead=float(np.mean(gains)), over=over))
    return made


def rows_now(view: View, rows_of: Rows) -> list[Score]:
    """The rows of what stands, if they are known already: asks nothing."""
    found, wanted = view.fit.answers.latest("scores"), view.shown.wanted
    mine = view.settled and found.about is not None and wanted is not None and found.about.number == wanted.number
    if not mine or found.about.where.measure != view.setting.measure:
        return []
    return with_spread(rows_of(found.value), [rows_of(one) for one in other_seeds(view, ask=False)])


def _waiting(view: View, answer: live.Answer) -> str:
    """What has to happen before there are scores of what stands."""
    if answer.message:
        return ""
    if answer.so_far is not None:
        return ""
    if answer.queued:
        return "The scores wait for a worker."
    if answer.pending:
        return "The fit is being scored against its baselines."
    if view.shown.fitting:
        return "Scores appear when the fit is done."
    return "There is no finished fit of these settings to score."
