"""Rules of the house, read from the sources themselves."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("gdm_core", "gdm_studio", "datasets", "pages")
SCREEN = {"streamlit", "plotly", "altair", "matplotlib"}


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imported(path: Path) -> set[str]:
    """Top-level packages that a file imports anywhere in it, under `if TYPE_CHECKING` and inside functions too."""
    names: set[str] = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module.split(".")[0])
        elif isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "import_module":
            names |= {str(part.value).split(".")[0] for part in node.args if isinstance(part, ast.Constant)}
    return names


def sources(package: str) -> list[Path]:
    found = sorted((ROOT / package).rglob("*.py"))
    assert found, package
    return found


def loads(module: str, *unwanted: str) -> set[str]:
    """Which of `unwanted` a fresh interpreter holds after importing a module."""
    program = f"import sys, {module}; print([name for name in {unwanted!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(ast.literal_eval(done.stdout))


def test_the_reader_of_imports_sees_them_all(tmp_path):
    path = tmp_path / "module.py"
    path.write_text(
        "import a.b\nfrom c.d import e\nfrom . import f\ndef g():\n    import h\nx = import_module('i.j')\n"
    )
    assert imported(path) == {"a", "c", "h", "i"}


@pytest.mark.parametrize("package", ["gdm_core", "gdm_studio", "datasets"])
def test_only_pages_draw(package):
    """And gdm_studio.plot, which serves notebooks, too."""
    plots = ROOT / "gdm_studio/plot"
    drawing = {
        str(path.relative_to(ROOT)): imported(path) & (SCREEN - {"plotly"} if plots in path.parents else SCREEN)
        for path in sources(package)
    }
    assert not {path: names for path, names in drawing.items() if names}


def test_the_library_knows_no_data_and_no_pages():
    knowing = {str(path.relative_to(ROOT)): imported(path) & {"datasets", "pages"} for path in sources("gdm_core")}
    assert not {path: names for path, names in knowing.items() if names}


def asked_of_workers(path: Path) -> list[tuple[str, str]]:
    """(module, name) of every function that a file of pages hands to `ask`, `call` or `map` of the engine."""
    parsed = tree(path)
    here = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    home: dict[str, str] = {node.name: here for node in parsed.body if isinstance(node, ast.FunctionDef)}
    for node in ast.walk(parsed):
        if isinstance(node, ast.ImportFrom) and node.module:
            home |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    found = []
    for node in ast.walk(parsed):
        if not (isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("ask", "call", "map")):
            continue
        for part in node.args:
            if isinstance(part, ast.Name) and part.id in home and home[part.id] == here:
                found.append((here, part.id))
            elif isinstance(part, ast.Name) and part.id in home and part.id.islower():
                found.append((home[part.id].rpartition(".")[0], part.id))
            elif isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id in home:
                found.append((home[part.value.id], part.attr))
    return found


def test_workers_run_the_library_and_the_loaders_alone():
    asked = [pair for path in sources("pages") for pair in asked_of_workers(path)]
    assert ("gdm_core.analysis.envelopes", "envelope") in asked, "the reader of calls sees them"
    assert not [pair for pair in asked if pair[0].split(".")[0] not in ("gdm_core", "datasets")]


def test_exported_scripts_import_no_pages():
    """What a page writes into a script has to run where only the library is installed."""
    written = re.compile(r"^\s*(?:from|import) pages\b", re.MULTILINE)
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sources("pages")
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and written.search(node.value)
    ]
    assert not found


@cache
def import_graph() -> dict[str, set[str]]:
    """Which modules each module of ours imports, inside functions and under TYPE_CHECKING too."""
    paths = [path for package in (*PACKAGES, "benchmarks", "tests/support") for path in sources(package)]
    modules = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in paths}
    graph: dict[str, set[str]] = {}
    for module, path in modules.items():
        found: set[str] = set()
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                home = node.module or ""
                if node.level:  # relative: dots count from the package that the module lies in
                    package = module.split(".") + ["itself"] * (path.name == "__init__.py")
                    home = ".".join([*package[: -node.level], *filter(None, [node.module])])
                found |= {name if (name := f"{home}.{alias.name}") in modules else home for alias in node.names}
        graph[module] = (found & modules.keys()) - {module}
    return graph


def on_circles(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """What is left of a graph when modules that import nothing left, and those that nothing left imports, are taken away."""
    left = {module: set(imported) for module, imported in graph.items()}
    while True:
        wanted = set().union(*left.values()) if left else set()
        ends = {module for module, imported in left.items() if not imported or module not in wanted}
        if not ends:
            return left
        left = {module: imported - ends for module, imported in left.items() if module not in ends}


def test_the_finder_of_circles_finds_them():
    assert on_circles({"a": {"b"}, "b": {"c"}, "c": set()}) == {}
    assert on_circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == {"b": {"c"}, "c": {"b"}}


def test_no_modules_import_each_other_in_circles():
    graph = import_graph()
    assert "gdm_core.models.base" in graph["gdm_core.models.loading"], "the reader of imports sees them"
    assert on_circles(graph) == {}


def test_families_of_models_do_not_import_each_other():
    """The 3-level mixture alone may use the GDM: it starts as the equivalent 2-level model."""
    families = {path.name for path in (ROOT / "gdm_core/models").iterdir() if (path / "__init__.py").is_file()}
    assert {"gdm", "switching"} <= families

    def family(module: str) -> str:
        parts = module.split(".")
        return parts[2] if parts[:2] == ["gdm_core", "models"] and len(parts) > 2 and parts[2] in families else ""

    crossing = {
        (family(module), family(other))
        for module, others in import_graph().items()
        for other in others
        if family(module) and family(other) and family(module) != family(other)
    }
    assert crossing == {("mixture", "gdm")}


def private_names(path: Path) -> tuple[set[str], list[tuple[int, str]]]:
    """(names with one underscore that a file defines, those that it reads of anything but self and cls, with their lines)."""
    defined: set[str] = set()
    read: list[tuple[int, str]] = []
    for node in ast.walk(tree(path)):
        own = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            defined.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            defined.add(node.id)
        elif isinstance(node, ast.Attribute) and own and isinstance(node.ctx, ast.Store):
            defined.add(node.attr)
        elif isinstance(node, ast.Attribute) and not own and not ast.unparse(node.value).startswith("super("):
            read.append((node.lineno, node.attr))
        elif isinstance(node, ast.ImportFrom):
            read += [(node.lineno, alias.name) for alias in node.names]
    private = re.compile(r"_[^_]\w*")
    return {n for n in defined if private.fullmatch(n)}, [(at, n) for at, n in read if private.fullmatch(n)]


def test_private_names_stay_in_their_package():
    """Nobody reads what another folder calls private: models have verbs for what others want of them."""
    paths = [path for package in PACKAGES for path in sources(package)]
    found = {path: private_names(path) for path in paths}
    homes: dict[str, set[Path]] = {}
    for path, (defined, _) in found.items():
        for name in defined:
            homes.setdefault(name, set()).add(path.parent)
    assert ROOT / "gdm_core/models" in homes["_scaler"], "the reader of names sees them"
    # What Streamlit itself keeps private, with no other way to end a session (streamlit_internals.py).
    elsewhere = {"_session_mgr", "_session_storage", "_cache", "_data", "_storage_lock"}
    assert not [
        f"{path.relative_to(ROOT)}:{at} {name}"
        for path, (_, read) in found.items()
        for at, name in read
        if name in homes
        and path.parent not in homes[name]
        and not (path.name == "streamlit_internals.py" and name in elsewhere)
    ]


def test_nobody_swaps_the_configuration_of_a_model():
    swapping = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for package in ("gdm_core", "gdm_studio", "datasets", "pages")
        for path in sources(package)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Attribute) and node.attr == "config" and isinstance(node.ctx, ast.Store)
        if path != ROOT / "gdm_core/models/base.py"
        and not (isinstance(node.value, ast.Name) and node.value.id == "self")
    ]
    assert not swapping


def test_editors_and_type_checkers_see_the_names_of_the_library():
    import gdm_core

    stub = ast.parse((ROOT / "gdm_core/__init__.pyi").read_text(encoding="utf-8"))
    homes = {
        alias.asname: node.module for node in ast.walk(stub) if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert homes.pop(None) == "gdm_core.study"  # of the type of the package that is a verb
    verbs = {"__version__", "study"}
    assert homes == {name: getattr(gdm_core, name).__module__ for name in gdm_core.__all__ if name not in verbs}


def test_what_is_installed_imports_neither_tests_nor_benchmarks_and_tests_no_benchmarks():
    """What tests and benchmarks need lies in tests/support."""
    within = [(path, {"tests", "benchmarks"}) for package in PACKAGES for path in sources(package)]
    within += [(path, {"benchmarks"}) for path in sources("tests")]
    assert not [str(path.relative_to(ROOT)) for path, unwanted in within if unwanted & imported(path)]


def test_loaders_know_neither_models_nor_pages():
    knowing = {str(path.relative_to(ROOT)): imported(path) & {"torch", "pages"} for path in sources("datasets")}
    assert not {path: names for path, names in knowing.items() if names}


def test_loaders_import_each_other_by_relative_names():
    """`from .readers.source import ...`: installed, they are gdm_studio.datasets, and `datasets` is somebody else's."""
    absolute = [str(path.relative_to(ROOT)) for path in sources("datasets") if "datasets" in imported(path)]
    assert not absolute


def test_pages_live_in_folders():
    """The server runs every .py that lies directly in pages/ by itself, past app.py."""
    assert not sorted(path.name for path in (ROOT / "pages").glob("*.py") if path.name != "__init__.py")


def test_importing_is_cheap():
    modules = ["datasets", *(f"datasets.{path.stem}" for path in (ROOT / "datasets").glob("[!_]*.py"))]
    assert loads(", ".join(modules), "torch", "streamlit", "plotly", "altair") == set()
    assert (
        loads("gdm_core, gdm_core.trials, gdm_core.errors, gdm_core.models.gdm.config", "torch", "scipy", "distributed")
        == set()
    )


def test_files_stay_short():
    long = {
        str(path.relative_to(ROOT)): length
        for package in ("gdm_core", "gdm_studio", "datasets")
        for path in sources(package)
        if (length := len(path.read_text(encoding="utf-8").splitlines())) > 600
    }
    assert not long


def test_no_file_names_a_place_on_one_machine():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    # Written in two parts, so that this file is no example of it.
    local = re.compile(
        r"(?<![\w.~/-])/(?:" + "|".join(("ho" + "me", "Us" + "ers", "ro" + "ot", "wo" + "rk")) + r")/[\w.-]+"
    )
    found = []
    for name in filter(None, listed.stdout.split("\0")):
        path = ROOT / name
        if not path.is_file() or path.stat().st_size > 2_000_000:
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # not text
        found += [f"{name}: {match.group()}" for match in local.finditer(text)]
    assert not found


def test_pages_have_one_slider():
    """That of pages/ui/slider.py: Streamlit's own says nothing while it is held."""
    native = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sources("pages")
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("slider", "select_slider")
    ]  # fmt: skip
    assert not native


def test_the_name_of_a_class_says_whose_it_is():
    """No two share one: whoever meets a name in a call or an error finds one definition."""
    places: dict[str, list[str]] = {}
    for folder in ("gdm_core", "gdm_studio", "datasets", "pages"):
        for path in sources(folder):
            for node in tree(path).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert [(name, where) for name, where in places.items() if len(where) > 1] == []
