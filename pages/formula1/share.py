"""A picture of the comparison to share: gap, places, reasons, tyre degradation and link."""

from __future__ import annotations

from textwrap import wrap

from datasets.f1.laps import is_qualifying
from gdm_studio.plot.figures.base import SMALL, Dict, Figure, figure, headline, note, plain
from pages.formula1 import corners, laps, teams, time_gained
from pages.formula1.comparison import Between, describe
from pages.formula1.data import Race
from pages.ui.exports import link, save_picture
from pages.ui.plot import plot

LINES = ((0, 44), (440, 66))  # least width in pixels, letters in a line; files are 480 pixels wide
LINE_PX, BAR_PX, MAP_PX, LEFT_PX = 16, 19, 300, 110


def show(race: Race, found: Between) -> None:
    """Show the picture and its files."""
    plot(draw(race, found), key="share", still=True, filename=f"{race.stem}-share")
    save_picture("share", f"{race.stem}-share")


def draw(race: Race, found: Between) -> Figure:
    """Draw words, the map by faster driver, and where the time goes, from top to bottom."""
    styles, kind = teams.line_styles(race.session, race.codes), "phase" if "phase" in found.gains else "minisector"
    track = time_gained.gain_map(race.circuit, found.names, found.gains["minisector"], styles)
    bars = time_gained.bars(found.names, found.gains[kind], kind, styles)
    reason = corners.reason(found, corners.measure_joint(race, found))
    above, below = [time_gained.sentence(found, reason), describe(found)], words_below(race)
    title = f"{' vs '.join(found.names)} · {race.session.title}"
    sizes: list[Dict] = [
        {"least": least} | _layout(track["layout"], bars["layout"], [title, *above], below, letters)
        for least, letters in LINES
    ]
    traces = [*track["data"], *(trace | {"xaxis": "x2", "yaxis": "y2"} for trace in bars["data"])]
    caption, alt = "Map: who is faster where. Bars: where the time goes.", " ".join([title, *above, *below])
    return figure(traces, caption, alt, sizes[-1]["height"], **sizes[-1]["layout"]) | {"widths": sizes}


def _layout(track: Dict, bars: Dict, above: list[str], below: list[str], letters: int) -> Dict:
    """Return height and layout: a headline and lines above, the map, the bars, and lines below."""
    head, *lines = [line for text in above for line in wrap(text, letters)]
    after = [line for text in below for line in wrap(text, letters)]
    parts = [
        LINE_PX * (len(lines) + 2),
        MAP_PX,
        40 + BAR_PX * len(bars["yaxis"]["tickvals"]),
        LINE_PX * (len(after) + 4),
    ]
    total = sum(parts)
    middle, bottom = 1 - sum(parts[:2]) / total, parts[3] / total
    title = headline(plain(head)) | {"xshift": 8 - LEFT_PX}
    marks = [
        title,
        _paragraph(lines, 1, -1.4 * LINE_PX),
        *track["annotations"],
        _paragraph(after, bottom, -3 * LINE_PX),
    ]
    marks += [mark | {"y": middle - 34 / total} for mark in bars["annotations"]]
    layout = {
        "annotations": marks,
        "margin": {"l": LEFT_PX, "r": 8, "t": 8, "b": 8},
        # A range that Plotly widens once stays wide: let it narrow the domain.
        "xaxis": track["xaxis"] | {"anchor": "y", "constrain": "domain"},
        "yaxis": track["yaxis"] | {"domain": [middle, 1 - parts[0] / total], "constrain": "domain"},
        "xaxis2": bars["xaxis"] | {"anchor": "y2"},
        "yaxis2": bars["yaxis"] | {"anchor": "x2", "domain": [bottom, middle - 36 / total], "automargin": False},
    }
    return {"height": total, "layout": layout}


def words_below(race: Race) -> list[str]:
    """Return tyre degradation, and the link."""
    runs = [] if is_qualifying(race.session) else laps.long_runs(race, *laps.kept_choices(race))
    slopes = [f"{run.code} {run.compound.lower()} {laps.describe_slope(run)}" for run in runs]
    tyres = [f"Tyre degradation (ms/lap, 95% interval): {'; '.join(slopes)}."] if slopes else []
    return [*tyres, link().replace("view=Export", "view=Compare")]


def _paragraph(lines: list[str], y: float, shift: float) -> Dict:
    corner = {"xref": "paper", "yref": "paper", "xanchor": "left", "yanchor": "top", "align": "left"}
    return note("<br>".join(map(plain, lines)), 0, y, font=SMALL, xshift=8 - LEFT_PX, yshift=shift, **corner)
