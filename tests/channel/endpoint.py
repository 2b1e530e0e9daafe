"""The other side of the border without a process: every frame goes through JSON and bytes, as on a socket."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from autograder.channel.frames import Buffer
from autograder.channel.proxy import Frame, Student
from autograder.worker.calls import Callee


class InProcess:
    """Answers `Student`'s requests with a function of this process.

    Attributes:
        callee: keeps the graphs of the calls.
        tamper: changes a reply's header before it is delivered, as a hostile process could.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.callee = Callee()
        self.tamper: Callable[[dict[str, Any]], object] = lambda header: None

    def request(self, header: dict[str, Any], blobs: Sequence[Buffer]) -> Frame:
        header, blob = over_the_wire(header, blobs)
        if header["op"] == "call":
            self.callee.free(header["free"])
            reply, pieces = self.callee.call(self.function, header, blob)
        else:
            reply, pieces = self.callee.backward(header, blob)
        reply, blob = over_the_wire(reply, pieces)
        self.tamper(reply)
        return reply, blob


def over_the_wire(header: dict[str, Any], blobs: Sequence[Buffer]) -> Frame:
    """A frame as the other side would read it: lists for tuples, copies for everything."""
    return json.loads(json.dumps(header)), b"".join(bytes(blob) for blob in blobs)


def student(function: Callable[..., Any]) -> Student:
    """`function` behind a border."""
    return Student("answer", InProcess(function))
