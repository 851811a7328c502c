"""The scorecard of a lab page: scores of the displayed fit next to baselines, or those of an earlier fit, dimmed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import streamlit as st

from gdm_core.models.registry import NAMED_MODELS, TITLES
from gdm_studio.seeds import more_seeds
from pages.lab import live
from pages.lab.curves import ask_scores, draw_scores, is_quick
from pages.lab.live.state import PageSpec
from pages.lab.scores import BOUND
from pages.lab.view import View
from pages.ui import card, navigation, shell
from pages.ui.card import Score
from pages.ui.model_controls import SEED_RANGE
from pages.ui.plot import Text, by_key

OPEN_ON = "Current {} session"  # name of another page's data on the Compare page, also in its address
RIVAL = "arhmm-sticky"
Rows = Callable[[Mapping[str, Any]], list[Score]]


def query_scores(view: View) -> live.Query:
    """Return the scores of the displayed fit and its baselines, or the last scores."""
    queries, spec, measure = view.fit.queries, view.state.spec, view.spec.measure
    if not view.settled or spec is None:
        return queries.latest("scores")
    if not measure.in_tabs:
        queries.drawn.add("scores")
    question = (spec.trials, spec.dataset.test, *measure.options, int(spec.config["seed"]))
    return view.query(
        "scores", measure.scores, *question, about=view.spec, kept=True, known=view.known_scores.get("scores")
    )


def show_scorecard(view: View, rows_of: Rows) -> None:
    """Show scores and the progress of the fit.

    Scores are refined as they are computed and as further seeds arrive, without a script run.
    """
    query = query_scores(view)
    with view.frame.card:
        draw_scores(view, lambda: by_key(Text(_make_card(view, rows_of), "scorecard")))
        live.show_failure(view.fit, query, "Scoring failed")
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


def _make_card(view: View, rows_of: Rows) -> str:
    """Return the card as HTML, with the scores that are known; ask for missing ones."""
    query = query_scores(view)
    rows = [] if query.value is None else rows_of(query.value)
    if query.fresh:
        rows = with_spread(rows, [rows_of(found) for found in other_seeds(view)])
        rows = with_rival(rows, ask_rival(view))
        return shell.marked(card.scores_html(rows, status=view.state.summary), view.made_for)
    if query.partial is not None:
        known = {row.name: row for row in rows_of(query.partial)}
        awaited = [row.name for row in rows if row.name not in known]
        every = {row.name: row for row in rows} | known  # in the order of the last scores
        part, done, total = query.partial.get("under_way", ("", 1, 1))
        status = f"Scoring {done}/{total}: {part}" if part else ""
        return card.scores_html([*every.values()], awaited=awaited, status=status)
    scored: PageSpec | None = query.about
    waits = _describe_wait(view, query)
    if rows and scored is not None and scored.trials.fingerprint == view.dataset.train.fingerprint:
        other_measure = scored.measure.words if scored.measure != view.spec.measure else ""
        earlier = scored.describe_changes(view.spec) or other_measure or "other settings"
        return card.scores_html(rows, earlier=earlier, meanwhile="" if view.state.fitting else waits)
    # Numbers of other data would mislead.
    return card.scores_html(rows, awaited=[row.name for row in rows], status=waits)


def ask_rival(view: View) -> float | None:
    """Return the held-out score of the other model of Suggest settings with as many states; None while unknown."""
    spec = view.state.spec
    if spec is None or not is_quick(view) or spec.choice.name == RIVAL:
        return None
    family, fixed = NAMED_MODELS[RIVAL]
    size = {name: spec.config[name] for name in ("n_states", "n_latent", "seed")}
    query = ask_scores(view, "rival", replace(spec, family=family, config={**size, **fixed}))
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
    spec, measure = view.state.spec, view.spec.measure
    if seeds := view.known_scores.get("seeds"):
        return list(seeds)
    found: list[Mapping[str, Any]] = []
    if spec is None:
        return found
    for more in range(1, more_seeds() + 1):
        seed = (int(spec.config["seed"]) + more) % (SEED_RANGE[1] + 1)
        other = replace(spec, config={**spec.config, "seed": seed})
        query = ask_scores(view, f"seed-{more}", other, measure.scores, *measure.options, seed)
        if query.fresh:
            found.append(query.value)
        if query.pending:
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
    if query.message:
        return ""
    if query.pending:
        return "Waiting for a free processor." if query.queued else "Scoring the fit and its baselines."
    return "Scores appear when fitting finishes." if view.state.fitting else "No finished fit to score."
