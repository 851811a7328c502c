"""A relay between two ends of a connection that counts the bytes on the way."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Relay:
    """Passes on what comes to `address`. `to_server` and `to_client` count."""

    def __init__(self, target: str) -> None:
        host, port = target.removeprefix("tcp://").rsplit(":", 1)
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        self.to_server = self.to_client = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target)
                threading.Thread(target=self._pass, args=(client, server, "to_server"), daemon=True).start()
                threading.Thread(target=self._pass, args=(server, client, "to_client"), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, count: str) -> None:
        with suppress(OSError):  # either end may hang up
            while chunk := source.recv(1 << 16):
                setattr(self, count, getattr(self, count) + len(chunk))
                target.sendall(chunk)
            target.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._listener.close()


@contextmanager
def counted(target: str) -> Iterator[Relay]:
    """A relay to `target` for the length of a block."""
    relay = Relay(target)
    try:
        yield relay
    finally:
        relay.close()
