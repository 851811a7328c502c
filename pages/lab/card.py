"""The scorecard of a lab page: scores of the displayed fit next to baselines, or those of an earlier fit, dimmed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import streamlit as st

from gdm_core.engine import Priority
from gdm_core.models.registry import NAMED_MODELS, TITLES
from gdm_studio.seeds import more_seeds
from pages.lab import live
from pages.lab.curves import ask_scores, is_quick
from pages.lab.live.queries import query_key
from pages.lab.live.state import PageSpec
from pages.lab.scores import BOUND
from pages.lab.view import View
from pages.ui import card, navigation, shell
from pages.ui.card import Score
from pages.ui.model_controls import SEED_RANGE
from pages.ui.plot import Panel, Text, by_key

OPEN_ON = "Current {} session"  # name of another page's data on the Compare page, also in its address
RIVAL = "arhmm-sticky"
FIT = "-fit"  # suffix of the query for the fit of another seed
Rows = Callable[[Mapping[str, Any]], list[Score]]


def query_scores(view: View) -> live.Query:
    """Return the scores of the displayed fit and its baselines, or the last scores."""
    queries, spec, measure = view.fit.queries, view.state.spec, view.spec.measure
    if not view.settled or spec is None:
        return queries.latest("scores")
    if not measure.in_tabs:
        queries.drawn.add("scores")
    question = (spec.trials, spec.dataset.test, *measure.options, int(spec.config.get("seed", 0)))
    return view.query(
        "scores", measure.scores, *question, about=view.spec, kept=True, known=view.known_scores.get("scores")
    )


@dataclass(frozen=True)
class CardContent:
    """The HTML of the card, its rows if they belong to the displayed fit, and why scoring failed."""

    html: str
    rows: list[Score]
    message: str = ""


def show_scorecard(view: View, rows_of: Rows) -> list[Score]:
    """Show scores and the progress of the fit; return the rows once they belong to the displayed fit.

    Scores are refined as they are computed and as further seeds arrive, without a script run.
    """
    queries = view.fit.queries
    content = _make_content(view, rows_of)
    latest = queries.n_news, content

    def make_card(_: live.FitState) -> dict[str, Panel]:
        nonlocal latest
        queries.collect()
        if latest[0] != queries.n_news:
            latest = queries.n_news, _make_content(view, rows_of)
        return by_key(Text(latest[1].html, "scorecard"))

    with view.frame.card:
        live.draw_panels(view.fit, make_card)
        if content.message:
            again = partial(queries.retry, "scores")
            shell.error("Scoring failed", content.message, retry=f"{view.page}-rescore", again=again)
        if view.dataset.quality:
            shell.quiet(f"{view.dataset.quality[:1].upper()}{view.dataset.quality[1:]}")
        # States by position follow all channels, whatever D is.
        lost = view.dataset.describe_left_out(view.spec.config["n_latent"])
        if lost and view.spec.config.get("posterior") != "linear":
            shell.quiet(lost)
        with st.container(key="gdm-progress"):
            live.show_cancel(view.fit, view.page)
            live.draw_panels(view.fit, live.make_progress)
        st.page_link(
            navigation.page("compare"),
            label="Compare with other models",
            icon=":material/compare_arrows:",
            query_params={"data": OPEN_ON.format(view.frame.title)},
        )
    return content.rows


def _make_content(view: View, rows_of: Rows) -> CardContent:
    """Return the current card; request missing scores."""
    query, state = query_scores(view), view.state
    rows = rows_of(query.value) if query.value is not None else []
    seeds = other_seeds(view) if query.fresh else []
    rows = with_spread(rows, [rows_of(found) for found in seeds])
    scored: PageSpec | None = query.about
    if query.fresh:
        rows = with_rival(rows, ask_rival(view))
        return CardContent(shell.marked(card.scores_html(rows, status=state.summary), view.made_for), rows)
    if query.partial is not None:
        known = {row.name: row for row in rows_of(query.partial)}
        awaited = [row.name for row in rows if row.name not in known]
        every = {row.name: row for row in rows} | known  # in the order of the last scores
        part, done, total = query.partial.get("under_way", ("", 1, 1))
        status = f"Scoring {done}/{total}: {part}" if part else ""
        html = card.scores_html(list(every.values()), awaited=awaited, status=status)
    elif rows and scored is not None and scored.trials.fingerprint == view.dataset.train.fingerprint:
        other_measure = scored.measure.words if scored.measure != view.spec.measure else ""
        earlier = scored.describe_changes(view.spec) or other_measure or "other settings"
        meanwhile = "" if view.state.fitting else _describe_wait(view, query)
        html = card.scores_html(rows, earlier=earlier, meanwhile=meanwhile)
    else:  # numbers of other data would mislead
        html = card.scores_html(rows, awaited=[row.name for row in rows], status=_describe_wait(view, query))
    return CardContent(html, [], query.message)


def ask_rival(view: View) -> float | None:
    """Return the held-out score of the other model of Suggest settings with as many states; None while unknown."""
    spec = view.state.spec
    if not (is_quick(view) and view.settled) or spec is None or spec.choice.name == RIVAL:
        return None
    family, fixed = NAMED_MODELS[RIVAL]
    size = {name: spec.config[name] for name in ("n_states", "n_latent", "seed") if name in spec.config}
    query = ask_scores(view, "rival", replace(spec, family=family, config={**size, **fixed}, test=None))
    return float(query.value["elbo_test"]) if query.fresh else None


def with_rival(rows: list[Score], bound: float | None) -> list[Score]:
    """Return rows in which the ELBO is also compared with the rival, as in Suggest settings."""
    if bound is None:
        return rows
    return [
        replace(row, line=bound, line_name=TITLES[RIVAL], others=row.references, ahead=None)
        if row.name == BOUND and (row.line is None or bound > row.line)
        else row
        for row in rows
    ]


def other_seeds(view: View) -> list[Mapping[str, Any]]:
    """Return the known scores of fits from other seeds; the next one is computed at low priority."""
    spec, queries, measure = view.state.spec, view.fit.queries, view.spec.measure
    if not view.settled or spec is None or "seed" not in spec.config:
        return []
    if seeds := view.known_scores.get("seeds"):
        return list(seeds)
    found: list[Mapping[str, Any]] = []
    for more in range(1, more_seeds() + 1):
        seed = (int(spec.config["seed"]) + more) % (SEED_RANGE[1] + 1)
        other = replace(spec, config={**spec.config, "seed": seed}, test=None)
        question, name = (spec.trials, spec.dataset.test, *measure.options, seed), f"seed-{more}"
        key = query_key(other.key, measure.scores, question)
        known = queries.find(name, key)
        if known is not None:
            found.append(known)
            continue
        if queries.awaited:
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


def with_spread(rows: list[Score], others: list[list[Score]]) -> list[Score]:
    """Return rows with their spread over seeds, and their mean difference from the baseline.

    A spread over blocks of the held-out trials is combined with it; rows with too few blocks stay unchanged.
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


def _describe_wait(view: View, query: live.Query) -> str:
    """Return what the scores wait for."""
    if query.message or query.partial is not None:
        return ""
    if query.queued or query.pending:
        return "Waiting for a free processor." if query.queued else "Scoring the fit and its baselines."
    return "Scores appear when fitting finishes." if view.state.fitting else "No finished fit to score."
