"""Stands in for `autograder.worker.serve` in tests: runs the Python that it is sent.

Requests and answers are one line of JSON each. It is copied into a package of its own, beside the real
confinement.
"""

from __future__ import annotations

import json
import os
import socket
import tempfile
from typing import Any


def preload() -> dict[str, Any]:
    """What the zygote was given, for the tests to look at from a worker."""
    descriptors = [int(name) for name in os.listdir("/proc/self/fd")] if os.path.isdir("/proc/self/fd") else []
    tempfile.gettempdir()  # remembers the answer; a worker must find its own
    return {"environment": dict(os.environ), "descriptors": descriptors, "folder": os.getcwd()}


def serve(channel: socket.socket, preloaded: object) -> None:
    """Run what comes until the channel closes."""
    with channel.makefile("rb") as requests:
        for line in requests:
            channel.sendall(json.dumps(_outcome(json.loads(line), channel, preloaded)).encode() + b"\n")


def _outcome(request: dict[str, Any], channel: socket.socket, preloaded: object) -> dict[str, Any]:
    names: dict[str, Any] = {"channel": channel, "preloaded": preloaded}
    try:
        exec(request["source"], names)
        return {"value": names[request["name"]](request["about"])}
    except BaseException as error:  # noqa: BLE001  (whatever an attack raises is its outcome)
        return {"error": type(error).__name__, "errno": getattr(error, "errno", None), "text": str(error)}
