"""Limits on fits, tables, uploads, exported text and addresses."""

from __future__ import annotations

import ast
import asyncio
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from starlette.applications import Starlette
from streamlit import config
from streamlit.web.server.starlette.starlette_routes import create_upload_routes

from datasets import tables
from datasets.readers import annotations
from gdm_core import Trial, Trials
from gdm_core.engine import compare, sweep
from gdm_core.engine.compare import Comparison
from gdm_core.errors import ConfigError, DataError
from pages.nascar import simulator
from pages.ui import limits as address

ROOT = Path(__file__).resolve().parents[2]
SHORT = Trials((Trial(np.zeros((30, 2), np.float32)),))


def test_more_fits_than_may_be_are_refused_before_any_is_begun():
    few = {"family": "gdm", "base": {}, "grid": {}, "train": SHORT, "test": SHORT, "scorer": ""}
    assert len(sweep.Sweep(**few, seeds=range(sweep.MAX_CELLS)).cells()) == sweep.MAX_CELLS
    with pytest.raises(ConfigError, match=f"{sweep.MAX_CELLS} may be run at once"):
        sweep.Sweep(**few, seeds=range(sweep.MAX_CELLS + 1))
    with pytest.raises(ConfigError, match=f"{compare.MOST_FITS} may be compared at once"):
        Comparison({"A": ("gdm", {})}, range(compare.MOST_FITS + 1), SHORT, SHORT)


def test_a_table_of_more_trials_or_frames_than_may_be_is_refused():
    text = "trial,y\n" + "".join(f"t{i},{i % 7}.5\n" for i in range(tables.MOST_TRIALS + 1))
    table = tables.read(text.encode(), "a.csv")
    with pytest.raises(DataError, match=r"into 10,001 trials; the limit is 10,000"):
        table.to_trials({"trial": "group", "y": "channel"})
    with pytest.raises(DataError, match="impossible"):
        annotations.read_annotation(b"start,stop,behaviour\n0,1e6,rest\n", 30.0, "a.csv")


@pytest.mark.parametrize(("more", "status"), [(0, 400), (1, 413)])
def test_a_larger_upload_is_refused_by_the_server(more, status, monkeypatch):
    """400: one of that size is read, and here holds no file."""
    size = config.get_option("server.maxUploadSize") * 2**20 + more
    runtime = SimpleNamespace(is_active_session=lambda session: True)
    monkeypatch.setattr(
        config, "get_option", lambda name, plain=config.get_option: "xsrf" not in name.lower() and plain(name)
    )
    manager = SimpleNamespace(add_file=None)
    app = Starlette(routes=create_upload_routes(runtime, manager, ""))
    sent = []

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        sent.append(message)

    headers = [(b"content-length", str(size).encode()), (b"content-type", b"multipart/form-data; boundary=x")]
    scope = {"type": "http", "method": "PUT", "path": "/_stcore/upload_file/session/file", "query_string": b"", "headers": headers,
             "root_path": ""}  # fmt: skip
    asyncio.run(app(scope, receive, send))
    assert sent[0]["status"] == status


def test_every_table_that_leaves_as_text_is_written_where_formulas_are_made_harmless():
    """`harmless` is called by gdm_core.analysis.tables.csv; the others call it themselves, or write numbers of their own."""
    own = {"datasets/tables.py", "pages/your_data/example.py"}
    harmless = {"gdm_core/analysis/tables.py", "datasets/marks.py", "gdm_studio/cli/sweep.py"}
    found = {
        str(path.relative_to(ROOT))
        for folder in ("gdm_core", "gdm_studio", "datasets", "pages")
        for path in (ROOT / folder).rglob("*.py")
        if ".to_csv(" in path.read_text(encoding="utf-8")
    }
    assert found == own | harmless
    assert all("harmless" in (ROOT / name).read_text(encoding="utf-8") for name in harmless)


# ---- addresses ----------------------------------------------------------------------------------------------------
def named_by(call: ast.Call) -> str | None:
    """The name in the address of the control that a call shows, as far as the source spells it."""
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    at = {"choose_one": 1, "choose_several": 1, "choose_range": 2}.get(ast.unparse(call.func).split(".")[-1])
    bound = "bind" in given or ast.unparse(call.func) in ("slide", "number", "one_of", "switch", "text", "several")
    name = call.args[at] if at is not None else given.get("key") if bound else None
    if isinstance(name, ast.Call) and ast.unparse(name.func) == "settings.key":
        name = name.args[0]
    if isinstance(name, ast.JoinedStr):
        name = name.values[0]
    return name.value if isinstance(name, ast.Constant) else None


def test_every_name_that_a_control_has_in_the_address_is_known_as_one():
    sources = [ast.parse(path.read_text(encoding="utf-8")) for path in (ROOT / "pages").rglob("*.py")]
    calls = [node for source in sources for node in ast.walk(source) if isinstance(node, ast.Call)]
    names = {re.match(r"[^\W\d]+", name)[0] for call in calls if (name := named_by(call))}
    assert len(names) > 60
    assert names <= address.NAMES, f"pages/ui/limits.py, NAMES lacks {names - address.NAMES}"
    assert set(simulator.SETTINGS) <= address.NAMES


def test_no_page_has_a_control_whose_name_only_another_page_knows():
    own = {page: set(names.split()) for page, names in address.ONLY.items()}
    for folder in (path for path in (ROOT / "pages").iterdir() if path.is_dir()):
        sources = [ast.parse(path.read_text(encoding="utf-8")) for path in folder.rglob("*.py")]
        calls = [node for source in sources for node in ast.walk(source) if isinstance(node, ast.Call)]
        names = {re.match(r"[^\W\d]+", name)[0] for call in calls if (name := named_by(call))}
        for page, only in own.items():
            assert page == folder.name.replace("_", "-") or not names & only, (folder.name, page)
