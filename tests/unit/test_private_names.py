"""What is used of other people's packages beyond what they document, and which of their versions may be installed."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import plotly
import pytest
import streamlit
from distributed import Status
from distributed.nanny import Nanny, WorkerProcess
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from streamlit.components.v2.component_manager import BidiComponentManager
from streamlit.elements.widgets import file_uploader
from streamlit.elements.widgets.number_input import NumberInputSerde
from streamlit.runtime.scriptrunner_utils.script_run_context import ScriptRunContext
from streamlit.runtime.state.query_params import QueryParams
from streamlit.runtime.state.safe_session_state import SafeSessionState
from streamlit.runtime.uploaded_file_manager import UploadedFile, UploadedFileRec

from gdm_core.engine.dask_internals import pid_of_starting_worker
from gdm_studio import check

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# Of these nothing is used by a name that begins with an underscore.
UNTOUCHED = {"multiprocessing", "dask", "distributed"}
# Where more is used than is documented: the version that this was seen to work with, and none after it.
BOUNDED = ("streamlit", "plotly", "dask", "distributed")


def private_names(source: str, packages: set[str]) -> list[str]:
    """What a file takes of `packages` by a name that begins with one underscore, by attribute, import or getattr."""
    tree, known, found = ast.parse(source), set(), []

    def private(name: object) -> bool:
        return isinstance(name, str) and name.startswith("_") and not name.endswith("__")

    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            of_them = [name for name in node.names if name.name.split(".")[0] in packages]
            known |= {name.asname or name.name.split(".")[0] for name in of_them}
            found += [name.name for name in of_them if any(map(private, name.name.split(".")))]
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in packages:
            known |= {name.asname or name.name for name in node.names}
            taken = [*node.module.split("."), *(name.name for name in node.names)]
            found += [name for name in taken if private(name)]

    def root(node: ast.expr) -> str:
        while isinstance(node, ast.Attribute | ast.Call):
            node = node.value if isinstance(node, ast.Attribute) else node.func
        return node.id if isinstance(node, ast.Name) else ""

    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and private(node.attr) and root(node) in known:
            found.append(node.attr)
        elif isinstance(node, ast.Call) and root(node.func) in ("getattr", "setattr", "hasattr") and len(node.args) > 1:
            name = node.args[1]
            if isinstance(name, ast.Constant) and private(name.value) and root(node.args[0]) in known:
                found.append(str(name.value))
    return found


@pytest.mark.parametrize(
    "source",
    [
        "from multiprocessing import forkserver\nserver = forkserver._forkserver",
        "import multiprocessing.forkserver as f\nf._forkserver._forkserver_pid = 3",
        "from multiprocessing.forkserver import _forkserver",
        "import multiprocessing\ngetattr(multiprocessing, '_x')",
        "import multiprocessing\nmultiprocessing.get_context('fork')._x",
        "def later():\n    from multiprocessing import context\n    context._default_context",
    ],
)
def test_the_reader_of_private_names_sees_them(source):
    assert private_names(source, {"multiprocessing"})
    assert not private_names(
        source.replace("_forkserver", "q").replace("._", ".q").replace("'_x", "'x"), {"multiprocessing"}
    )


def test_no_private_name_is_used():
    """Python 3.14 closed one that the workers were started by; Dask changes its own from month to month."""
    found = {}
    for path in [ROOT / "app.py", *ROOT.glob("[!.]*/**/*.py")]:
        text = path.read_text(encoding="utf-8")
        if any(package in text for package in UNTOUCHED) and (names := private_names(text, UNTOUCHED)):
            found[str(path.relative_to(ROOT))] = names
    assert not {path: names for path, names in found.items() if not path.startswith("build/")}


def test_a_nanny_still_says_that_its_worker_is_starting():
    try:
        started: Any = WorkerProcess({}, None, None, None, {}, {}, {})
        nanny: Any = object.__new__(Nanny)
        nanny.process = started
        assert pid_of_starting_worker(nanny) is None
        started.process = SimpleNamespace(pid=7, is_alive=lambda: True)
        told = {}
        for started.status in (Status.starting, Status.running):
            told[started.status.name] = pid_of_starting_worker(nanny)
        assert told == {"starting": 7, "running": None}
    except (AttributeError, TypeError) as error:
        pytest.fail(
            f"Dask {version('distributed')} no longer says of a nanny's process that it is starting ({error}). Without it a "
            "worker that stops while it starts is waited for in vain: find another way in gdm_core/engine/dask_internals.py."
        )


PLOTLY = [
    "_fullLayout",
    "_offset",
    "_length",
    "l2p",
    "p2l",
    "c2p",
    "calcdata",
    "_context",
    "_hasZeroWidth",
    "_hasZeroHeight",
]
PLOTLY += ["_input", "findArrayAttributes"]


@pytest.mark.parametrize("name", PLOTLY)
def test_plotly_still_has_what_is_used_of_it(name):
    program = (Path(plotly.__file__).parent / "package_data" / "plotly.min.js").read_text(encoding="utf-8")
    assert re.search(rf"\b{name}\b", program), (
        f"The program of Plotly {version('plotly')} has no {name} any more: "
        "find another way in pages/ui/components/plotly_internals.js."
    )


def test_one_place_knows_what_plotly_does_not_document():
    names = re.compile(rf"\b({'|'.join(PLOTLY)})\b")
    components = (ROOT / "pages").glob("**/*.js")
    assert [path.name for path in components if names.search(path.read_text(encoding="utf-8"))] == [
        "plotly_internals.js"
    ]


def test_one_place_knows_what_streamlit_does_not_document():
    deep = re.compile(r"^\s*(?:from|import) streamlit\.(?!components\.v2 import component$|testing)", re.MULTILINE)
    folders = ("pages", "gdm_core", "gdm_studio", "datasets")
    files = [ROOT / "app.py", *(path for folder in folders for path in (ROOT / folder).glob("**/*.py"))]
    found = [path.name for path in files if deep.search(path.read_text(encoding="utf-8"))]
    assert found == ["streamlit_internals.py"]
    # And what objects of Streamlit keep private, wherever they come from.
    private = re.compile(r"\._(?:session_mgr|session_storage|storage_lock|file_urls)\b|__streamlit\b")
    assert [path.name for path in files if private.search(path.read_text(encoding="utf-8"))] == found


def test_streamlits_page_still_asks_where_its_server_is():
    """What is used to end a session is held by tests/app/test_session_cleanup.py."""
    scripts = Path(streamlit.__file__).parent.glob("static/static/js/index*.js")
    assert any("BACKEND_BASE_URL" in path.read_text(encoding="utf-8") for path in scripts), (
        f"The page of Streamlit {version('streamlit')} no longer asks for BACKEND_BASE_URL: pages/ui/streamlit_internals.py "
        "(page_source) needs another way."
    )


def test_streamlit_still_has_what_is_used_of_it():
    gone = f"Streamlit {version('streamlit')} has changed: find another way in pages/ui/streamlit_internals.py for "
    context = {field.name for field in dataclasses.fields(ScriptRunContext)}
    assert {"session_id", "query_string", "session_state"} <= context, gone + "this_run"
    assert {"page_script_hash", "is_history_navigation"} <= context | set(dir(ScriptRunContext)), gone + "this_run"
    assert {"get_binding_for_param", "unbind_widget"} <= set(dir(QueryParams)), gone + "release_address"
    assert "_yield_callback" in inspect.getsource(SafeSessionState.__init__), gone + "take_every_event"
    boxes = inspect.signature(NumberInputSerde.deserialize).parameters
    assert list(boxes) == ["self", "ui_value"], gone + "take_finite_numbers"
    checked = inspect.signature(file_uploader.enforce_filename_restriction).parameters
    assert list(checked) == ["filename", "allowed_types"], gone + "take_any_upload"
    assert UploadedFileRec._fields == ("file_id", "name", "type", "data"), gone + "share_uploads"
    assert "_file_urls" in inspect.getsource(UploadedFile), gone + "share_uploads"
    manager = set(dir(BidiComponentManager))
    assert {"register_from_manifest", "get_component_asset_root"} <= manager, gone + "renderer"


@pytest.mark.parametrize("package", BOUNDED)
def test_a_version_that_nobody_has_seen_is_not_installed(package):
    (needed,) = [one for text in PROJECT["dependencies"] if (one := Requirement(text)).name == package]
    pinned = re.search(rf"^{package}==(\S+)$", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    assert pinned
    year, month, *_ = map(int, pinned[1].split("."))
    assert needed.specifier.contains(pinned[1])
    assert not needed.specifier.contains(f"{year}.{month + 1}.0"), (
        f"{package} needs an upper bound: private names are used"
    )


def test_what_was_tried_on_which_python_is_said_alike_everywhere():
    said = ", ".join(f"{major}.{minor} ({tried})" for (major, minor), tried in check.PYTHONS.items())
    assert f"Python: {said}." in (ROOT / "README.md").read_text()
    allowed = SpecifierSet(PROJECT["requires-python"])
    assert [(3, minor) for minor in range(8, 30) if allowed.contains(f"3.{minor}.0")] == list(check.PYTHONS)
    first, last = min(check.PYTHONS), max(check.PYTHONS)
    makefile = (ROOT / "Makefile").read_text()
    assert f"not {first} <= sys.version_info < {(last[0], last[1] + 1)}" in makefile
    assert f"Python {first[0]}.{first[1]} to {last[0]}.{last[1]} is needed" in makefile


@pytest.mark.parametrize(
    ("found", "level", "words"),
    [
        ((3, 11, 7), "fine", "3.11.7; all tests were run on 3.11"),
        ((3, 13, 0), "poor", "3.13.0 is not tested in full (all examples were run); Python 3.11 is"),
        ((3, 14, 2), "poor", "3.14.2 is not tested in full (only resolved); Python 3.11 is"),
        ((3, 15, 0), "poor", "3.15.0 is not tested; Python 3.11 is"),
    ],
)
def test_the_check_says_what_was_tried(monkeypatch, found, level, words):
    monkeypatch.setattr(sys, "version_info", found)
    assert check.python() == check.Finding(level, "Python", words)
