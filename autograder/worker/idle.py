"""A worker that does nothing: to see what confinement a machine offers without waiting for torch."""

from __future__ import annotations

import socket


def preload() -> None:
    """There is nothing to prepare."""


def serve(channel: socket.socket, preloaded: None) -> None:
    """Wait until the trusted side closes the channel."""
    channel.recv(1)
