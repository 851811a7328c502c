"""Two web servers behind one proxy, with one scheduler: sessions, files and the live channel stay where they began."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, expect

from gdm_studio.seeds import SEEDS_VARIABLE
from tests.support.browser_server import HOST, ROOT, Server, running_server
from tests.support.local_cluster import kept_cluster
from tests.support.patience import patience_s, until

pytestmark = [pytest.mark.browser, pytest.mark.bulk]

LINE = "window.gdmChannel?.socket?.readyState === 1"
SERVED_BY = "x-served-by"


def as_documented(servers: list[Server], port: int, folder: Path) -> str:
    """The proxy's settings of docs/service.md, with the ports of these servers and their names in every answer."""
    (block,) = re.findall(r"```nginx\n(.*?)```", (ROOT / "docs" / "service.md").read_text(encoding="utf-8"), re.S)
    for documented, server in zip(("8501", "8502"), servers, strict=True):
        block = block.replace(f"server 127.0.0.1:{documented};", f"server {urlsplit(server.url).netloc};")
    block = block.replace("listen 127.0.0.1:8080;", f"listen {HOST}:{port};")
    block = block.replace(
        "add_header Set-Cookie", f"add_header {SERVED_BY} $upstream_addr always;\n        add_header Set-Cookie"
    )
    kept = " ".join(
        f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    http = f"access_log off; error_log {folder}/error.log; {kept}\n{block}"
    return f"daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log;\nevents {{}}\nhttp {{ {http} }}\n"


@contextmanager
def running_proxy(servers: list[Server], folder: Path) -> Iterator[str]:
    """nginx before these servers; its address."""
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if program is None:
        message = "No nginx was found. Install one (Debian: apt-get install nginx-light) to try two servers behind it."
        pytest.fail(message, pytrace=False) if os.environ.get("CI") else pytest.skip(message)
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        port = int(listener.getsockname()[1])
    (folder / "nginx.conf").write_text(as_documented(servers, port, folder))
    process = subprocess.Popen([program, "-c", str(folder / "nginx.conf"), "-e", str(folder / "error.log")])

    def listens() -> bool:
        with socket.socket() as caller:
            return caller.connect_ex((HOST, port)) == 0

    try:
        until(listens, lambda: f"nginx does not listen:\n{(folder / 'error.log').read_text()}", 0.05)
        yield f"http://{HOST}:{port}/gdm"
    finally:
        process.terminate()
        process.wait()


def test_each_visitor_stays_with_one_of_two_servers_and_both_use_one_cluster(browser: Browser, tmp_path: Path):
    expect.set_options(timeout=1000 * patience_s())
    (tmp_path / "proxy").mkdir()
    (tmp_path / "cluster").mkdir()
    with ExitStack() as stack:
        scheduler = stack.enter_context(kept_cluster(tmp_path / "cluster", 1, dask=True)).address
        settings = {"GDM_SCHEDULER": scheduler, SEEDS_VARIABLE: "0"}
        servers = [stack.enter_context(running_server(tmp_path / name, "gdm", **settings)) for name in "ab"]
        url = stack.enter_context(running_proxy(servers, tmp_path / "proxy"))
        met: set[str] = set()
        for number in range(12):  # each new browser falls to one of them by chance: all to one in 1 of 2,000 runs
            context = browser.new_context(accept_downloads=True)
            page = context.new_page()
            page.set_default_timeout(1000 * patience_s())
            served: list[str] = []
            page.on("response", lambda answer, served=served: served.append(answer.headers.get(SERVED_BY, "")))
            errors: list[str] = []
            page.on("pageerror", lambda error, errors=errors: errors.append(str(error)))
            page.goto(f"{url}/nascar?K={3 + number}&T=300&view=Export+%26+reproduce")
            if served[0] in met:
                context.close()
                continue
            met.add(served[0])
            page.wait_for_function(LINE)
            expect(page.locator(".gdm-text", has_text="Fitted in").first).to_be_attached()
            page.evaluate("window.gdmChannel.socket.close()")
            page.wait_for_function(f"window.gdmChannel.failed === 0 && {LINE}")
            page.get_by_role("slider", name="States (K)").press("ArrowRight")
            expect(page.locator(".gdm-facts")).to_contain_text(str(4 + number))
            expect(page.locator(".gdm-text", has_text="Fitted in").first).to_be_attached()
            button = page.get_by_role("button", name="States (CSV)", exact=True)
            with page.expect_download() as arriving:
                button.click()
            assert arriving.value.path().stat().st_size > 300
            assert {each for each in served if each} == {served[0]}
            assert errors == []
            context.close()
            if len(met) == 2:
                break
        assert met == {urlsplit(server.url).netloc for server in servers}
        assert not [line for server in servers for line in server.complaints()]
