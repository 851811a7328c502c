"""Build the documentation site: `make docs` writes build/site (open index.html). The site needs no network.

Pages of docs/, the changelog, docstrings and examples are copied to build/site-source for Sphinx. Any warning, such as a
broken link, fails the build.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from docs.site.modules import MODULES

ROOT = Path(__file__).resolve().parents[2]
SOURCE, SITE = ROOT / "build" / "site-source", ROOT / "build" / "site"
# Files of the repository root that become pages of the site.
ROOT_PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changes.md",
    "SECURITY.md": "security.md",
    "CODE_OF_CONDUCT.md": "conduct.md",
}
_LINK = re.compile(r"(\]\()([^)#\s]+)((?:#[^)\s]*)?\))")
_LANGUAGES = {".py": "python", ".pyi": "python", ".js": "javascript", ".css": "css", ".json": "json", ".toml": "toml"}


def site_path(path: Path, listed: set[Path]) -> Path:
    """Return where the site keeps the file or folder at `path`; add source files to `listed`."""
    inside = path.resolve().relative_to(ROOT)
    if str(inside) in ROOT_PAGES:
        return SOURCE / ROOT_PAGES[str(inside)]
    if inside.parts[0] == "docs" and path.suffix in (".md", ".png", ".svg", ".webp", ".gif"):
        return SOURCE / inside.relative_to("docs")
    if inside == Path("docs/decisions"):
        return SOURCE / "decisions/README.md"
    if inside.parts[0] == "examples":
        return SOURCE / "examples" / (f"{path.stem}.md" if path.suffix == ".py" else "index.md")
    if path.is_dir():
        raise ValueError(f"{inside} is a folder: the site shows files. Link to one of them.")
    listed.add(path.resolve())
    return SOURCE / "source" / f"{'-'.join(inside.with_suffix('').parts)}.md"


def rewrite_links(page: Path, text: str, listed: set[Path]) -> str:
    """Return the text of a page with its links rewritten for the site."""
    here = site_path(page, listed).parent

    def link(match: re.Match[str]) -> str:
        target = page.parent / match[2]
        if "://" in match[2] or match[2].startswith("mailto:") or not target.exists():
            return match[0]
        return f"{match[1]}{os.path.relpath(site_path(target, listed), here)}{match[3]}"

    return _LINK.sub(link, text)


def write_pages() -> None:
    """Write the pages of docs/ and of the repository root, and the source files they link to."""
    listed: set[Path] = set()
    pages = [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs/decisions").glob("*.md")]
    pages += [ROOT / name for name in ROOT_PAGES if name != "README.md" and (ROOT / name).exists()]
    for page in pages:
        to = site_path(page, listed)
        to.parent.mkdir(parents=True, exist_ok=True)
        text = rewrite_links(page, page.read_text(encoding="utf-8"), listed)
        if page.name == "api.md":
            text = re.sub(r"`((?:gdm_core|datasets|gdm_studio)[\w.]*)`(?=[^|]*\|)", _link_module, text)
            text += _toctree(f"api/{name}" for name in MODULES)
        if page == ROOT / "docs/decisions/README.md":
            text += _toctree(other.stem for other in sorted(page.parent.glob("*.md")) if other != page)
        to.write_text(text, encoding="utf-8")
    shutil.copytree(ROOT / "docs/pictures", SOURCE / "pictures", dirs_exist_ok=True)
    (SOURCE / "source").mkdir(exist_ok=True)
    for path in sorted(listed):
        inside = path.relative_to(ROOT)
        code = path.read_text(encoding="utf-8")
        language = _LANGUAGES.get(path.suffix, "text")
        shown = f"---\norphan: true\n---\n# {inside}\n\n````{language}\n{code}````\n"
        site_path(path, listed).write_text(shown, encoding="utf-8")


def _toctree(pages: Iterable[str]) -> str:
    """Return a hidden table of contents for pages below this one."""
    return "\n```{toctree}\n:hidden:\n\n" + "\n".join(pages) + "\n```\n"


def _link_module(match: re.Match[str]) -> str:
    return f"[`{match[1]}`](api/{match[1]}.md)" if match[1] in MODULES else match[0]


def write_api() -> None:
    """Write a page for each public module, which autodoc fills from docstrings."""
    folder = SOURCE / "api"
    folder.mkdir(parents=True, exist_ok=True)
    for name in MODULES:
        shared = ""
        if name == "gdm_core":  # methods of all models, once
            shared = ".. autoclass:: gdm_core.models.estimator.Estimator\n\n"
            shared += ".. autoclass:: gdm_core.models.base.StateModel\n\n.. autoclass:: gdm_core.models.gdm.model.SoftModel\n\n"
        own = {"gdm_core.study": "Study", "gdm_core.labels": "LabelModel"}.get(name)  # documented with the models
        again = f"\n   :exclude-members: {own}" if own else ""
        said = name.replace("datasets", "gdm_studio.datasets", 1) if name.startswith("datasets") else name
        text = f"# {said}\n\n```{{eval-rst}}\n{shared}.. automodule:: {name}{again}\n```\n"
        (folder / f"{name}.md").write_text(text, encoding="utf-8")


def write_examples() -> None:
    """Write each example as a page, and a list of them."""
    folder = SOURCE / "examples"
    folder.mkdir(parents=True, exist_ok=True)
    lines, names = [], []
    for path in sorted((ROOT / "examples").glob("*.py")):
        code = path.read_text(encoding="utf-8")
        title, _, lead = (ast.get_docstring(ast.parse(code)) or path.stem).partition("\n")
        (folder / f"{path.stem}.md").write_text(f"# {title.rstrip('.')}\n\n````python\n{code}````\n", encoding="utf-8")
        lines.append(f"- [{title.rstrip('.')}]({path.stem}.md): {' '.join(lead.split())}")
        names.append(path.stem)
    text = "# Examples\n\nScripts that run as they are.\n\n" + "\n".join(lines) + "\n" + _toctree(names)
    (folder / "index.md").write_text(text, encoding="utf-8")


def main() -> int:
    shutil.rmtree(SOURCE, ignore_errors=True)
    SOURCE.mkdir(parents=True)
    write_pages()
    write_api()
    write_examples()
    command = ["sphinx-build", "-b", "html", "-W", "--keep-going", "-q", "-c", str(ROOT / "docs/site")]
    command += ["-d", str(ROOT / "build" / "site-doctrees"), str(SOURCE), str(SITE)]
    done = subprocess.run([str(Path(sys.executable).parent / command[0]), *command[1:]], cwd=ROOT)
    if done.returncode == 0:
        print(SITE / "index.html")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
