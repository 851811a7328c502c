"""Whether a part of the service answers: `python -m gdm_studio.health http://127.0.0.1:8501` or `tcp://HOST:PORT`."""

from __future__ import annotations

import socket
import sys
import urllib.request
from urllib.parse import urlsplit

PATIENCE_S = 4.0


def answers(address: str) -> bool:
    """A web server by its health page, anything else by taking a connection."""
    parts = urlsplit(address)
    try:
        if parts.scheme in ("http", "https"):
            with urllib.request.urlopen(f"{address.rstrip('/')}/_stcore/health", timeout=PATIENCE_S) as answer:
                return bool(answer.status == 200)
        socket.create_connection((parts.hostname or "", parts.port or 0), timeout=PATIENCE_S).close()
    except OSError:  # refused, unreachable, too late, or another answer than 200
        return False
    return True


def main() -> int:
    """0 where it answers, 1 where not, 2 for an address that is none."""
    if len(sys.argv) != 2 or not urlsplit(sys.argv[1]).hostname:
        print("usage: python -m gdm_studio.health http://HOST:PORT | tcp://HOST:PORT", file=sys.stderr)
        return 2
    return 0 if answers(sys.argv[1]) else 1


if __name__ == "__main__":
    sys.exit(main())
