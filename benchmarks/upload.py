"""A large file through the page Your data: how long it takes, and what it costs the server. `python -m benchmarks.upload`.

A table of random walks is written as CSV, given to the page's uploader in a Chromium of its own, and the page is waited for
until it shows what it understood. Memory is that of the server's process above what it had before, at its largest.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from playwright.sync_api import sync_playwright

from benchmarks.browser_server import FLAGS, Server, Visitors, find_chromium, running_server

CHANNELS = 12
PATIENCE_MS = 600_000


class Largest:
    """The largest memory of the server while the block runs, in MB."""

    def __init__(self, server: Server) -> None:
        self._server, self._stop = server, threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.before = self.value = server.memory()["server_mb"]

    def __enter__(self) -> Largest:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._stop.wait(0.1):
            self.value = max(self.value, self._server.memory()["server_mb"])


def write_table(path: Path, megabytes: float) -> int:
    """Random walks as CSV of about that size; how many rows."""
    row_bytes = 9 * CHANNELS + 9
    n = int(1e6 * megabytes / row_bytes)
    rng = np.random.default_rng(0)
    with path.open("w") as file:
        file.write("time," + ",".join(f"channel_{i}" for i in range(CHANNELS)) + "\n")
        at, last = 0, np.zeros(CHANNELS)
        while at < n:
            size = min(100_000, n - at)
            walk = last + rng.standard_normal((size, CHANNELS)).cumsum(axis=0)
            last = walk[-1]
            time_s = np.arange(at, at + size) / 30
            np.savetxt(file, np.column_stack([time_s, walk]), fmt=["%.3f"] + ["%8.3f"] * CHANNELS, delimiter=",")
            at += size
    return n


def measure(megabytes: float) -> dict[str, float]:
    chromium = find_chromium()
    if chromium is None:
        raise SystemExit("No Chromium was found. Install one (Debian: apt-get install chromium).")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = Path(folder) / "walks.csv"
        rows = write_table(path, megabytes)
        size = path.stat().st_size / 1e6
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        with running_server(Path(folder) / "server") as server:
            visitors = Visitors(browser, server)
            page = visitors.page()
            page.goto(f"{server.url}/your-data")
            page.wait_for_selector(".gdm-message")
            page.wait_for_timeout(12_000)  # the workers have started, and what the page needs is loaded
            with Largest(server) as largest:
                began = time.perf_counter()
                page.locator("[data-testid=stFileUploaderDropzoneInput]").first.set_input_files(path)
                page.get_by_role("button", name="Fit it").wait_for(timeout=PATIENCE_MS)
                page.wait_for_function(
                    "document.querySelector('[data-testid=stApp]').dataset.testScriptState === 'notRunning'",
                    timeout=PATIENCE_MS,
                )
                done = time.perf_counter() - began
                seen = page.locator("body").inner_text()
            if visitors.errors or server.complaints():
                raise SystemExit("\n".join([*visitors.errors, *server.complaints()]))
        browser.close()
    assert "walks.csv" in seen
    grown = largest.value - largest.before
    return {
        "file, MB": size,
        "rows": rows,
        "sent, understood and shown, s": done,
        "memory before, MB": largest.before,
        "largest memory above it, MB": grown,
        "times the file (goal 3)": grown / size,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("megabytes", nargs="?", type=float, default=195.0)
    for name, value in measure(parser.parse_args().megabytes).items():
        print(f"{name:32}{value:,.2f}")


if __name__ == "__main__":
    main()
