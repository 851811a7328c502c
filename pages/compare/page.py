"""Compare: up to six models on the same data, with intervals of their differences."""

from __future__ import annotations

from gdm_core.engine.compare import Comparison
from gdm_core.errors import GdmError
from pages.compare import results, settings
from pages.ui import shell
from pages.ui.controls import number

SEEDS = (1, 5)

frame = shell.frame("compare")
with frame.controls:
    source = settings.choose_data(frame.advanced)
    if source is None:
        frame.header("no data")
        with frame.picture:
            shell.empty("No data", "Open the page named under Data, then come back.")
        shell.end_page()
    n_seeds = number(
        "Seeds", *SEEDS, 3, key="seeds", help="Each model is fitted from every seed.", place=frame.advanced
    )
    chosen, duplicates = settings.drop_duplicates(settings.choose(source, frame.advanced))
comparison = Comparison(
    {label: (one.family, one.config) for label, one in zip(settings.labels(chosen), chosen, strict=True)},
    tuple(range(n_seeds)),
    source.train,
    source.test,
    keep=source.keep,
)
frame.header(source.about, [("seeds", str(n_seeds))])
with frame.picture:
    if duplicates:
        shell.quiet(duplicates)
try:
    fits = results.current(frame, comparison)
except GdmError as error:
    fits = None
    with frame.picture:
        shell.error(results.REFUSED, str(error))
if fits is not None:
    results.show_results(frame, source, chosen, fits)
shell.footer()
