"""The documentation as a site: `make docs` writes it to build/site (open index.html). Nothing of it needs a network.

Every page of docs/, the changelog and the like, every docstring and every example, which is run for its figures, are laid out in
build/site-source; Sphinx makes pages of them, and any warning (a link that leads nowhere, say) ends the build.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import plotly

from docs.site import gallery
from docs.site.modules import MODULES

ROOT = Path(__file__).resolve().parents[2]
SOURCE, SITE = ROOT / "build" / "site-source", ROOT / "build" / "site"
# Files of the repository that are pages of the site, too.
ROOT_PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changes.md",
    "SECURITY.md": "security.md",
    "CODE_OF_CONDUCT.md": "conduct.md",
}
_LINK = re.compile(r"(\]\()([^)#\s]+)((?:#[^)\s]*)?\))")
_LANGUAGES = {".py": "python", ".pyi": "python", ".js": "javascript", ".css": "css", ".json": "json", ".toml": "toml"}


def placed(path: Path, listed: set[Path]) -> Path:
    """Where the site has what the repository has at `path`, a file or a folder; sources are `listed`, to be shown as pages."""
    inside = path.resolve().relative_to(ROOT)
    if str(inside) in ROOT_PAGES:
        return SOURCE / ROOT_PAGES[str(inside)]
    if inside.parts[0] == "docs" and path.suffix in (".md", ".png", ".svg", ".webp", ".gif"):
        return SOURCE / inside.relative_to("docs")
    if inside == Path("docs/decisions"):
        return SOURCE / "decisions/README.md"
    if inside.parts[0] == "examples":
        return SOURCE / "gallery" / (f"{path.stem}.md" if path.suffix == ".py" else "index.md")
    if path.is_dir():
        raise ValueError(f"{inside} is a folder: the site shows files. Link to one of them.")
    listed.add(path.resolve())
    return SOURCE / "source" / f"{'-'.join(inside.with_suffix('').parts)}.md"


def laid_out(page: Path, text: str, listed: set[Path]) -> str:
    """Return the text of a page with its links rewritten for the site."""
    here = placed(page, listed).parent

    def link(match: re.Match[str]) -> str:
        target = page.parent / match[2]
        if "://" in match[2] or match[2].startswith("mailto:") or not target.exists():
            return match[0]
        return f"{match[1]}{os.path.relpath(placed(target, listed), here)}{match[3]}"

    return _LINK.sub(link, text)


def write_pages() -> None:
    """Every page of docs/, what stands beside it at the root, and the sources that they link to."""
    listed: set[Path] = set()
    pages = [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs/decisions").glob("*.md")]
    pages += [ROOT / name for name in ROOT_PAGES if name != "README.md" and (ROOT / name).exists()]
    for page in pages:
        to = placed(page, listed)
        to.parent.mkdir(parents=True, exist_ok=True)
        text = laid_out(page, page.read_text(encoding="utf-8"), listed)
        if page.name == "api.md":
            text = re.sub(r"`((?:gdm_core|datasets|gdm_studio)[\w.]*)`(?=[^|]*\|)", _linked_module, text)
            text += _below(f"api/{name}" for name in MODULES)
        if page == ROOT / "docs/decisions/README.md":
            text += _below(other.stem for other in sorted(page.parent.glob("*.md")) if other != page)
        to.write_text(text, encoding="utf-8")
    shutil.copytree(ROOT / "docs/pictures", SOURCE / "pictures", dirs_exist_ok=True)
    (SOURCE / "source").mkdir(exist_ok=True)
    for path in sorted(listed):
        inside = path.relative_to(ROOT)
        code = path.read_text(encoding="utf-8")
        language = _LANGUAGES.get(path.suffix, "text")
        shown = f"---\norphan: true\n---\n# {inside}\n\n````{language}\n{code}````\n"
        placed(path, listed).write_text(shown, encoding="utf-8")


def _below(pages: Iterable[str]) -> str:
    """Pages that the menu shows below this one."""
    return "\n```{toctree}\n:hidden:\n\n" + "\n".join(pages) + "\n```\n"


def _linked_module(match: re.Match[str]) -> str:
    return f"[`{match[1]}`](api/{match[1]}.md)" if match[1] in MODULES else match[0]


def write_api() -> None:
    """A page for each public module, which autodoc fills from the docstrings."""
    folder = SOURCE / "api"
    folder.mkdir(parents=True, exist_ok=True)
    for name in MODULES:
        shared = ""
        if name == "gdm_core":  # the verbs of all models stand once, before the models
            shared = ".. autoclass:: gdm_core.models.base.StateModel\n\n.. autoclass:: gdm_core.models.gdm.model.SoftModel\n\n"
        if name == "gdm_core.study":  # what the package is as a verb
            shared = "``gdm_core.study(...)`` is this call:\n\n.. automethod:: gdm_core.study.StudyVerb.__call__\n\n"
        again = "\n   :exclude-members: Study" if name == "gdm_core.study" else ""  # it stands with the models
        said = name.replace("datasets", "gdm_studio.datasets", 1) if name.startswith("datasets") else name
        text = f"# {said}\n\n```{{eval-rst}}\n{shared}.. automodule:: {name}{again}\n```\n"
        (folder / f"{name}.md").write_text(text, encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", metavar="EXAMPLE", help="examples to run; others are shown without output")
    options = parser.parse_args()
    shutil.rmtree(SOURCE, ignore_errors=True)
    SOURCE.mkdir(parents=True)
    write_pages()
    write_api()
    gallery.write(SOURCE / "gallery", options.only)
    command = ["sphinx-build", "-b", "html", "-W", "--keep-going", "-q", "-c", str(ROOT / "docs/site")]
    command += ["-d", str(ROOT / "build" / "site-doctrees"), str(SOURCE), str(SITE)]
    done = subprocess.run([str(Path(sys.executable).parent / command[0]), *command[1:]], cwd=ROOT)
    if done.returncode == 0:
        shutil.copy(Path(plotly.__file__).parent / "package_data" / "plotly.min.js", SITE / "_static" / "plotly.min.js")
        print(SITE / "index.html")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
