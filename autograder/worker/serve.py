"""What runs in the confined child: answers the examiner's requests until the channel closes.

Requests are ``cell`` (run a cell), ``call`` and ``backward`` (see `autograder.worker.calls`). Each has a number,
which its reply repeats.
"""

from __future__ import annotations

import os
import socket
from typing import Any

from autograder.channel import frames
from autograder.worker.calls import Callee, Reply
from autograder.worker.cells import Cells
from autograder.worker.watch import Sighting, watching

WARM_UP = ("1 + 1", "print('warm')", "1 / 0", "def f(x):\n    return x\nf(2)", "import math\nmath.pi")


def preload() -> Cells:
    """Import and warm everything once, before the first fork: a child then imports nothing new."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot
    import torch

    torch.set_num_threads(1)
    _warm_torch()
    cells = Cells()
    cells.attach()
    for number, source in enumerate(WARM_UP):
        cells.run(source, number)
    cells.shell.reset(new_session=True)
    cells.shell.execution_count = 1
    return cells


def serve(sock: socket.socket, preloaded: object) -> None:
    """Answer requests on `sock` until it closes; `preloaded` is what `preload` returned, before the fork."""
    assert isinstance(preloaded, Cells)
    preloaded.attach()
    worker = _Worker(preloaded)
    while True:
        try:
            header, blob = frames.receive(sock)
            reply, blobs = worker.answer(header, blob)
            frames.send(sock, {**reply, "re": header.get("n")}, blobs)
        except frames.ChannelError:
            os._exit(0)  # without the student's atexit handlers


class _Worker:
    def __init__(self, cells: Cells) -> None:
        self._cells = cells
        self._callee = Callee(cells.is_cell)

    def answer(self, header: dict[str, Any], blob: bytearray) -> Reply:
        match header["op"]:
            case "cell":
                # The reply must fit into a frame.
                self._cells.cap = min(header["cap"], frames.MAX_HEADER // 2)
                return self._cells.run(header["source"], header["number"]), []
            case "call":
                return self._call(header, blob)
            case "backward":
                return self._callee.backward(header, blob)
            case "kind":
                return {"kind": self._kind(header["name"])}, []
        raise frames.ProtocolError(f"unknown request {header['op']!r}")

    def _call(self, header: dict[str, Any], blob: bytearray) -> Reply:
        self._callee.free(header["free"])
        function = self._cells.shell.user_ns.get(header["name"])
        seen: list[Sighting] = []

        def watched(*args: Any, **kwargs: Any) -> Any:
            # The function alone: watching what we do with its tensors would take longer than it does.
            with watching(header["watch"], self._cells.is_cell) as sightings:
                try:
                    return function(*args, **kwargs)
                finally:
                    seen.extend(sightings)

        reply, blobs = self._callee.call(watched, header, blob)
        if seen:
            reply["forbidden"] = seen
        return reply, blobs

    def _kind(self, name: str) -> str:
        """``missing``, ``callable``, or the type of what stands under the name."""
        if name not in self._cells.shell.user_ns:
            return "missing"
        value = self._cells.shell.user_ns[name]
        return "callable" if callable(value) else type(value).__name__[:100]


def _warm_torch() -> None:
    # The first optimiser step imports half of torch's compiler, the first `grad` the autograd engine.
    import torch

    layer = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    optimiser = torch.optim.AdamW(layer.parameters())
    x = torch.zeros(1, 4, 8, requires_grad=True)
    out, _ = layer(x, x, x)
    out.sum().backward()
    optimiser.step()
    torch.autograd.grad(torch.nn.functional.cross_entropy(x[0], torch.zeros(4, dtype=torch.long)), x)
