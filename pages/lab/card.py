"""The card of a lab page: scores of the displayed fit next to baselines, or those of the earlier one, dimmed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from html import escape
from typing import Any

import numpy as np
import streamlit as st

from gdm_core.engine import Priority
from gdm_studio.plot.figures import names_of
from gdm_studio.seeds import more_seeds
from pages.lab import live, sentences
from pages.lab.sentences import LastChange, Settled, finding
from pages.lab.spec import PageSpec
from pages.lab.view import View, query_key
from pages.ui import card, navigation, shell
from pages.ui.card import Score
from pages.ui.model_controls import SEED_RANGE
from pages.ui.plot import Panel, Text, by_key

OPEN_ON = "What is open on: {}"  # how the Compare page calls the data of another one, in its address, too
FIT = "-fit"  # ends the name of the question for the fit of another seed
LAST_CHANGE = "last change"
Rows = Callable[[Mapping[str, Any]], list[Score]]

SHIPPED = (
    "This fit ships with the app. Fitted anew on another kind of machine it may differ in places; the exported script "
    "loads this one."
)


def measured(view: View) -> live.Query:
    """Return the scores of the displayed fit next to its baselines, or the last scores."""
    queries, spec, measure = view.fit.queries, view.state.spec, view.spec.measure
    if not view.settled or spec is None:
        return queries.latest("scores")
    if view.shipped_scores is not None:
        queries.set_latest("scores", view.shipped_scores["scores"], view.spec)
        return live.Query(view.shipped_scores["scores"], fresh=True, about=view.spec)
    question = (spec.trials, spec.dataset.test, *measure.options, int(spec.config.get("seed", 0)))
    return view.query("scores", measure.scores, *question, about=view.spec, kept=True)


@dataclass(frozen=True)
class CardContent:
    """The card at one moment: its HTML, and its rows if they belong to the displayed fit."""

    html: str
    rows: list[Score]
    message: str = ""


def honest_card(view: View, rows_of: Rows, *, says: bool = False) -> list[Score]:
    """Show the card and the progress of the fit; return the rows once they belong to the displayed fit.

    Scores appear as they are computed, and those of further seeds refine them, while no script runs.

    says  begin with a line on what was found; otherwise only with what the last change did
    """
    queries = view.fit.queries
    content = _make_content(view, rows_of, says)
    latest = queries.n_news, content

    def make_card(_: live.FitState) -> dict[str, Panel]:
        nonlocal latest
        queries.collect()
        if latest[0] != queries.n_news:
            latest = queries.n_news, _make_content(view, rows_of, says)
        return by_key(Text(latest[1].html, "honest-card"))

    with view.frame.card:
        with st.container(key="gdm-progress"):
            live.show_cancel(view.fit, view.page)
            live.draw_panels(view.fit, live.make_progress)
        live.draw_panels(view.fit, make_card)
        if content.message:
            again = partial(queries.retry, "scores")
            shell.error(
                "The scores could not be worked out", content.message, retry=f"{view.page}-rescore", again=again
            )
        if view.dataset.missing:
            shell.quiet(view.dataset.missing)
        if view.came and view.current:
            shell.quiet(SHIPPED)
        st.page_link(
            navigation.page("compare"),
            label="Compare with other models",
            icon=":material/compare_arrows:",
            query_params={"data": OPEN_ON.format(view.frame.title)},
        )
    return content.rows


def _make_content(view: View, rows_of: Rows, says: bool) -> CardContent:
    """Return the card as it is now; ask for scores that are missing."""
    query, state = measured(view), view.state
    rows = rows_of(query.value) if query.value is not None else []
    seeds = other_seeds(view) if query.fresh else _cancel_seeds(view)
    rows = with_spread(rows, [rows_of(found) for found in seeds])
    scored: PageSpec | None = query.about
    if query.fresh:
        lines = {"change": _last_change(view, rows)}
        if says:
            of = f"the {view.dataset.tested if view.is_new else 'fitted trial'}"
            lines = {"finding": finding(view.read(), of, rows)} | lines
        html = "".join(f'<p class="gdm-{kind}">{escape(words)}</p>' for kind, words in lines.items() if words)
        return CardContent(shell.marked(html + card.scores_html(rows, status=state.summary), view.made_for), rows)
    if query.partial is not None:
        known = rows_of(query.partial)
        there = {row.name for row in known}
        html = card.scores_html(known, to_come=[row for row in rows if row.name not in there])
        if comes := query.partial.get("under_way"):
            what, done, of_all = comes
            html += shell.running_html(f"scores, {done} of {of_all} parts: now {what}", done / of_all)
    elif rows and scored is not None and scored.trials.fingerprint == view.dataset.train.fingerprint:
        html = card.scores_html(
            rows, earlier=sentences.describe_earlier(view.spec, scored), meanwhile=_waiting(view, query)
        )
    else:  # numbers of other data would mislead
        html = card.scores_html([], to_come=rows, status=_waiting(view, query))
    return CardContent(html, [], query.message)


def _last_change(view: View, rows: Sequence[Score]) -> str:
    """Return what the last change of settings did to the displayed fit; "" if nothing can be said."""
    choice, state = view.choice, view.state
    if state.spec is None or not state.states:
        return ""
    now = Settled(
        state.spec.key,
        (view.dataset.train.fingerprint, view.dataset.test.fingerprint),
        {"model": choice.label}
        | {name: sentences.describe_setting(name, value) for name, value in choice.config.items()},
        np.concatenate([states.argmax(axis=1) for states in state.states]),
        tuple(names_of(state.n_states)),
        rows[0] if rows else None,
    )
    last: LastChange | None = view.fit.memory.get(LAST_CHANGE)
    change = view.fit.memory[LAST_CHANGE] = LastChange(now) if last is None else last.then(now)
    return change.sentence


def other_seeds(view: View, ask: bool = True) -> list[Mapping[str, Any]]:
    """Return the scores of fits from other seeds, as far as they are known.

    With `ask`, the next one is computed at low priority.
    """
    spec, queries, measure = view.state.spec, view.fit.queries, view.spec.measure
    if not view.settled or spec is None or "seed" not in spec.config:
        return _cancel_seeds(view)
    if view.shipped_scores is not None:
        return list(view.shipped_scores.get("seeds", []))
    found: list[Mapping[str, Any]] = []
    for more in range(1, more_seeds() + 1):
        seed = (int(spec.config["seed"]) + more) % (SEED_RANGE[1] + 1)
        other = replace(spec, config={**spec.config, "seed": seed})
        question, name = (spec.trials, spec.dataset.test, *measure.options, seed), f"seed-{more}"
        key = query_key(other.key, measure.scores, question)
        known = queries.find(name, key)
        if known is not None:
            found.append(known)
            continue
        if not ask or queries.awaited:
            break
        # Fitted and scored as two jobs: the same fit may be scored on other held-out trials.
        fit = queries.ask_fit(f"{name}{FIT}", other)
        if fit.fresh:
            model, kept = fit.value.model_bytes, view.dataset.keep
            fit = queries.ask(name, key, measure.scores, model, *question, kept=kept, priority=Priority.LOW)
            if fit.fresh:
                found.append(fit.value)
        if fit.pending:
            break
    return found


def _cancel_seeds(view: View) -> list[Mapping[str, Any]]:
    """Cancel fits of other seeds: what the user looks at needs the workers."""
    for more in range(1, more_seeds() + 1):
        view.fit.queries.cancel(f"seed-{more}{FIT}")
        view.fit.queries.cancel(f"seed-{more}")
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
    """Return the rows of the displayed fit if they are known; ask nothing."""
    query, spec = view.fit.queries.latest("scores"), view.state.spec
    scored: PageSpec | None = query.about
    if not view.settled or scored is None or spec is None or scored.number != spec.number:
        return []
    if scored.measure != view.spec.measure:
        return []
    return with_spread(rows_of(query.value), [rows_of(one) for one in other_seeds(view, ask=False)])


def _waiting(view: View, query: live.Query) -> str:
    """Return what has to happen before the displayed fit has scores."""
    if query.message or query.partial is not None:
        return ""
    if query.queued:
        return "The scores wait for a worker."
    if query.pending:
        return "The fit is being scored against its baselines."
    if view.state.fitting:
        return "Scores appear when the fit is done."
    return "There is no finished fit of these settings to score."
