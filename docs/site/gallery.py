"""Gallery of examples: run each script cell by cell and write it as a page and a notebook.

`# %% Title` starts a cell, the comment lines below it are its text (Markdown), and the docstring is title and introduction.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
# Order of the gallery.
ORDER = (
    "first_fit",
    "choose_k",
    "compare_models",
    "forecast",
    "mouse_bouts",
    "teach",
    "study",
    "qualifying_lap",
    "own_model",
    "own_reader",
    "on_a_cluster",
)


@dataclass
class Cell:
    """Cell of an example: title, text, code, printed output and figures (Plotly JSON)."""

    title: str
    text: str
    code: str
    said: str = ""
    figures: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Example:
    """Parsed script of examples/."""

    name: str
    title: str
    lead: str
    cells: list[Cell]
    seconds: float = 0.0


def parse(path: Path) -> Example:
    """Split an example into its cells."""
    source = path.read_text(encoding="utf-8")
    docstring = ast.get_docstring(ast.parse(source)) or ""
    title, _, lead = docstring.partition("\n")
    if not title.endswith(".") or not source.startswith('"""'):
        raise ValueError(
            f"{path.name} does not begin with a docstring whose first line is its title, with a full stop."
        )
    _, *rest = re.split(r"^# %%", source, flags=re.M)
    if not rest:
        raise ValueError(f"{path.name} has no cell: begin each with a line `# %% Title`.")
    cells = []
    for part in rest:
        heading, _, body = part.partition("\n")
        words = re.match(r"(?:#(?: .*)?\n)*", body)
        said = words[0] if words else ""
        text = "\n".join(line[2:] if line.startswith("# ") else "" for line in said.splitlines())
        cells.append(Cell(heading.strip(), text.strip(), body[len(said) :].strip("\n")))
    return Example(path.stem, title.rstrip("."), lead.strip(), cells)


def run(path: Path) -> Example:
    """Run an example in the current folder and keep what its cells print and draw."""
    import plotly.io
    from plotly.io.base_renderers import ExternalRenderer

    drawn: list[dict[str, Any]] = []

    class Kept(ExternalRenderer):
        """Renderer that keeps figures instead of opening a browser."""

        def render(self, fig_dict: dict[str, Any]) -> None:
            drawn.append(json.loads(plotly.io.to_json(fig_dict, validate=False)))

    plotly.io.renderers["kept"] = Kept()
    plotly.io.renderers.default = "kept"
    example, start = parse(path), time.process_time()
    space: dict[str, Any] = {"__name__": "__main__", "__file__": str(path)}
    for i, cell in enumerate(example.cells):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(cell.code, f"{path.name}, cell {i + 1}", "exec"), space)
        cell.said = "\n".join(line.rsplit("\r", 1)[-1] for line in out.getvalue().splitlines())
        cell.figures, drawn[:] = list(drawn), []
    example.seconds = time.process_time() - start
    return example


def _run_apart(name: str) -> Example:
    """Run an example in a separate process and an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / "kept.json"
        environment = os.environ | {"PYTHONPATH": str(ROOT), "GDM_DATA_DIR": str(Path(folder) / "data")}
        environment |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "docs.site.gallery", str(EXAMPLES / f"{name}.py"), str(kept)]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"The example {name} failed:\n{done.stderr}")
        made = json.loads(kept.read_text(encoding="utf-8"))
    return Example(**(made | {"cells": [Cell(**cell) for cell in made["cells"]]}))


def page(example: Example) -> str:
    """Return the example as a Markdown page."""
    parts = [f"# {example.title}", example.lead]
    parts.append(
        f"{{bdg-secondary}}`{example.seconds:.0f} s of a core` {{download}}`Notebook <{example.name}.ipynb>` · "
        f"{{download}}`Script <{example.name}.py>`"
    )
    for cell in example.cells:
        parts += [f"## {cell.title}" if cell.title else "", cell.text]
        parts.append(f"```python\n{cell.code}\n```" if cell.code else "")
        if cell.said:
            parts.append(f"```{{code-block}} text\n:class: gdm-said\n\n{cell.said}\n```")
        for figure in cell.figures:
            inside = json.dumps(figure).replace("</", "<\\/")
            height = int(figure["layout"].get("height") or 360)
            alt = figure["layout"].get("meta", {}).get("alt", "Figure")
            parts.append(
                f'```{{raw}} html\n<div class="gdm-figure" style="min-height:{height}px" role="img" aria-label="{alt}">'
                f'<script type="application/json">{inside}</script></div>\n```'
            )
    return "\n\n".join(part for part in parts if part) + "\n"


def notebook(example: Example) -> dict[str, Any]:
    """Return the example as a Jupyter notebook with its outputs."""

    def lines(text: str) -> list[str]:
        return text.splitlines(keepends=True)

    cells: list[dict[str, Any]] = [_markdown(f"# {example.title}\n\n{example.lead}")]
    for cell in example.cells:
        if cell.title or cell.text:
            cells.append(_markdown((f"## {cell.title}\n\n" if cell.title else "") + cell.text))
        outputs: list[dict[str, Any]] = []
        if cell.said:
            outputs.append({"output_type": "stream", "name": "stdout", "text": lines(cell.said + "\n")})
        for figure in cell.figures:
            kept = {"application/vnd.plotly.v1+json": figure}
            outputs.append({"output_type": "display_data", "data": kept, "metadata": {}})
        if cell.code:
            one = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": outputs}
            cells.append(one | {"source": lines(cell.code)})
    for i, cell_made in enumerate(cells):
        cell_made["id"] = f"cell-{i}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def _markdown(text: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": text.strip().splitlines(keepends=True)}


def _card(example: Example) -> str:
    thumbnail = ROOT / "docs" / "pictures" / "gallery" / f"{example.name}.webp"
    picture = f":img-top: ../pictures/gallery/{example.name}.webp\n" if thumbnail.exists() else ""
    first = re.split(r"(?<=\.)\s", example.lead.replace("\n", " "), maxsplit=1)[0]
    return f":::{{grid-item-card}} {example.title}\n:link: {example.name}\n:link-type: doc\n{picture}\n{first}\n:::"


def write(folder: Path, only: list[str] | None = None) -> None:
    """Write pages, notebooks and scripts of all examples to `folder`; run only those named in `only`, if given."""
    folder.mkdir(parents=True, exist_ok=True)
    present = [name for name in ORDER if (EXAMPLES / f"{name}.py").exists()]
    with ThreadPoolExecutor(2) as pool:
        examples = list(
            pool.map(lambda n: _run_apart(n) if only is None or n in only else parse(EXAMPLES / f"{n}.py"), present)
        )
    for example in examples:
        (folder / f"{example.name}.md").write_text(page(example), encoding="utf-8")
        (folder / f"{example.name}.ipynb").write_text(json.dumps(notebook(example), indent=1), encoding="utf-8")
        (folder / f"{example.name}.py").write_text((EXAMPLES / f"{example.name}.py").read_text("utf-8"), "utf-8")
    cards = "\n\n".join(_card(example) for example in examples)
    listed = "\n".join(example.name for example in examples)
    (folder / "index.md").write_text(
        "# Gallery\n\nPrograms with their output, each as a page, a script and a notebook. All of them run in the tests.\n\n"
        f"::::{{grid}} 1 2 3 3\n:gutter: 3\n\n{cards}\n::::\n\n```{{toctree}}\n:hidden:\n\n{listed}\n```\n",
        encoding="utf-8",
    )


def main() -> int:
    """Run one example and store its cells: `python -m docs.site.gallery EXAMPLE FILE`."""
    from dataclasses import asdict

    Path(sys.argv[2]).write_text(json.dumps(asdict(run(Path(sys.argv[1])))), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
