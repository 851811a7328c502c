"""Compare: models and settings on the same data, with the differences that can be told from chance."""

from __future__ import annotations

from gdm_core.engine.compare import Comparison
from gdm_core.errors import GdmError
from pages.compare import results, settings
from pages.ui import shell
from pages.ui.controls import number

SEEDS = (1, 5)

frame = shell.frame("compare", card_share=0.34)
with frame.controls:
    source = settings.choose_data()
    if source is None:
        frame.header("nothing to compare on yet")
        with frame.picture:
            shell.empty("Nothing is open there", "Open the page that the menu at the left names, then come back.")
        shell.end_page()
    said = "Each setting is fitted once from every seed: what changes from seed to seed is luck."
    n_seeds = number("Seeds", *SEEDS, 3, key="seeds", help=said)
    chosen, repeated = settings.once(settings.choose(source))
comparison = Comparison(
    {label: (one.family, one.config) for label, one in zip(settings.labels(chosen), chosen, strict=True)},
    tuple(range(n_seeds)),
    source.train,
    source.test,
    keep=source.keep,
)
frame.header(source.about, [("settings", str(len(chosen))), ("seeds", str(n_seeds)), ("fits", str(comparison.n_fits))])
with frame.picture:
    if repeated:
        shell.quiet(repeated)
try:
    asked = results.current(frame, comparison)
except GdmError as error:
    asked = None
    with frame.picture:
        shell.error(results.REFUSED, str(error))
if asked is not None:
    results.show_results(frame, source, chosen, asked)
shell.footer(["What is fitted here is measured on trials that no model has seen."])
