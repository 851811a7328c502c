"""What Behaviour and Your data say in files besides: names, the rule of bouts, what was taught, and how a script does it."""

from __future__ import annotations

from pages import lab
from pages.lab.bout_rule import rule_words
from pages.lab.card import Rows
from pages.lab.naming import Naming
from pages.recording.teach import lessons
from pages.recording.teach.taught_fit import SWITCH, WithWords, ready
from pages.ui import shell


def panel(view: lab.View, here: lab.Reading, rows_of: Rows, fit: WithWords | None) -> None:
    """Everything that the page shows, as files; of the `fit` that was taught words, where the page shows that."""
    facts = [
        ("data", view.data.about),
        ("names", ", ".join(here.names[k] for k in here.used)),
        ("bouts", rule_words(view.rule, view.data.unit)),
    ]
    taught: list[str] = []
    if fit is not None:
        facts.append(("taught", f"{len(fit.marks.words)} words: {', '.join(fit.marks.words)}"))
        taught = [*lessons.marks_code(fit.marks), lessons.teaching_code("model")]
    elif lessons.marks_of(view.data).marks:
        shell.quiet(
            f"These files are of the fit without your words; {SWITCH}, above, takes those of the one that was taught."
        )
    if here.expert is not None:
        facts.append(("expert's labels", ", ".join(view.data.every_label)))
    words = ["", *lessons.words_code("model")] if fit is not None else _words_code(view)
    lab.offer(view, here, rows_of, facts=facts, after=[*after_fit(view, here.naming), *words], taught=taught)


def _words_code(view: lab.View) -> list[str]:
    """How the script names moments by a fit that it teaches besides."""
    return lessons.code(view.data, len(view.shown.order)) if ready(view) else []


SCORES = ("macro_f1", "balanced_accuracy", "paper_accuracy")


def after_fit(view: lab.View, naming: Naming) -> list[str]:
    """How the script names, merges and cuts states into bouts as the page does, and scores them against the labels."""
    rule, data = view.rule, view.data
    return [
        "from pathlib import Path",
        "",
        "import pandas as pd",
        "",
        "from gdm_core.analysis import bout_scores",
        "from gdm_core.analysis.bouts import BoutRule",
        "from gdm_core.analysis.tables import bouts_table, csv",
        "",
        *naming.code(),
        f"rule = BoutRule(smooth_s={rule.smooth_s!r}, shortest_s={rule.shortest_s!r})  # how the page reads bouts",
        f"titles = {[data.observation(trial) for trial in data.trials]!r}",
        "rows = [",
        f"    bouts_table(soft, trial, names, bouts=rule.labels(soft, trial.rate_hz), observation=title, "
        f"subject={data.subject!r}, unit={data.unit!r})",
        "    for title, soft, trial in zip(titles, [*named, *new_named], [*train, *test])",
        "]",
        'Path("bouts.csv").write_bytes(csv(pd.concat(rows, ignore_index=True)))',
        "scores = bout_scores.scores(model.to_bytes(), train, test, rule.smooth_s, rule.shortest_s, model.config.seed)",
        f"for name in {SCORES!r}:",
        "    if name in scores:  # the trials have labels; states stand for what they mostly were in the fitted ones",
        '        print(f"{name}: {scores[name]:.3f}")',
    ]
