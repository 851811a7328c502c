"""`studio`: the dashboard, or a look at what on this machine would keep it from running well."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from dataclasses import asdict
from typing import Any

from gdm_studio.cli.shared import say
from gdm_studio.paths import APP

PORT = 8501


def add_studio(commands: Any) -> None:
    """The command `studio`."""
    parser = commands.add_parser(
        "studio",
        help="open the dashboard",
        description="Serves the dashboard. Options after -- go to Streamlit, such as -- --server.baseUrlPath=gdm.",
    )
    parser.add_argument("--port", type=int, default=PORT, help=f"port of the web server (default: {PORT})")
    parser.add_argument(
        "--address",
        default="localhost",
        help="address that it listens on; 0.0.0.0 for every network of this machine (default: localhost)",
    )
    parser.add_argument("--check", action="store_true", help="say what is wrong with this machine, and serve nothing")
    parser.add_argument("--json", action="store_true", help="with --check: print the findings as JSON")
    parser.add_argument("streamlit", nargs="*", metavar="-- option", help="options of Streamlit's own")
    parser.set_defaults(run=studio)


def studio(options: argparse.Namespace) -> int:
    """Serve until stopped, or check."""
    if options.check:
        return check(options)
    command = [sys.executable, "-m", "streamlit", "run", str(APP / "app.py")]
    command += [f"--server.port={options.port}", f"--server.address={options.address}", *options.streamlit]
    # Of some twenty threads of the server, each would have a heap of its own, and what one gave back no other took.
    os.environ.setdefault("MALLOC_ARENA_MAX", "2")
    sys.stdout.flush()
    if os.name == "nt":  # has no way to become another program
        return subprocess.call(command, stdin=subprocess.DEVNULL)
    os.dup2(os.open(os.devnull, os.O_RDONLY), sys.stdin.fileno())  # Streamlit would ask a terminal for an address
    os.execv(command[0], command)


def check(options: argparse.Namespace) -> int:
    """Every finding, what is wrong first; 1 if something is."""
    from gdm_studio.check import LEVELS, examine

    findings = sorted(examine(options.address, options.port), key=lambda finding: LEVELS.index(finding.level))
    if options.json:
        say([asdict(finding) for finding in findings])
    else:
        for finding in findings:
            print(f"{finding.level:5}  {finding.what}: {finding.text}")
    return int(any(finding.level == "wrong" for finding in findings))
