"""Limits on fits, tables, uploads, exported text and addresses."""

from __future__ import annotations

import asyncio
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

SHORT = Trials((Trial(np.zeros((30, 2), np.float32)),))


def test_too_many_fits_raise_config_error():
    few = {"family": "gdm", "base": {}, "grid": {}, "train": SHORT, "test": SHORT, "scorer": ""}
    assert len(sweep.Sweep(**few, seeds=range(sweep.MAX_CELLS)).cells()) == sweep.MAX_CELLS
    with pytest.raises(ConfigError, match=f"the limit is {sweep.MAX_CELLS}"):
        sweep.Sweep(**few, seeds=range(sweep.MAX_CELLS + 1))
    with pytest.raises(ConfigError, match=f"the limit is {compare.MAX_FITS}"):
        Comparison({"A": ("gdm", {})}, range(compare.MAX_FITS + 1), SHORT, SHORT)


def test_too_many_trials_or_frames_raise_data_error():
    text = "trial,y\n" + "".join(f"t{i},{i % 7}.5\n" for i in range(tables.MAX_TRIALS + 1))
    table = tables.read(text.encode(), "a.csv")
    with pytest.raises(DataError, match=r"into 10,001 trials; the limit is 10,000"):
        table.to_trials({"trial": "group", "y": "channel"})
    with pytest.raises(DataError, match="which is invalid"):
        annotations.read_annotation(b"start,stop,behaviour\n0,1e6,rest\n", 30.0, "a.csv")


@pytest.mark.parametrize(("more", "status"), [(0, 400), (1, 413)])
def test_upload_over_limit_gets_status_413(more, status, monkeypatch):
    """An upload of the allowed size is read, and gets 400 because it holds no file."""
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
