"""What runs in the confined child: answers the examiner's requests until the channel closes.

Requests are ``cell`` (run a cell), ``kind`` (what stands under a name), ``call`` and ``backward`` (see
`autograder.worker.calls`). Each has a number, which its reply repeats.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Sequence
from typing import Any

from autograder.channel import frames, raw, words
from autograder.channel.codec import Encoder
from autograder.worker.calls import Callee, Reply
from autograder.worker.cells import Cells, closing_new_figures
from autograder.worker.watch import Seen, watch_dispatcher, watching

WARM_UP = (
    "1 + 1",
    "print('warm')",
    "1 / 0",
    "import torch\ntorch.ones(2, 2, requires_grad=True)",
    "%matplotlib inline\nimport matplotlib.pyplot as plt\nplt.plot([1, 2], label='$x$')\nplt.legend()\nplt.show()",
    "def rehearsal(x):\n    return torch.nn.Identity()(torch.softmax(x @ x.mT, dim=-1))",
)


def preload(more: Sequence[str] = ()) -> Cells:
    """Import and warm everything once, before the first fork: a child then imports nothing new.

    What trains a model is left to `autograder.worker.training`.

    Args:
        more: the sources of cells to run as well.
    """
    import torch

    torch.set_num_threads(1)
    watch_dispatcher()
    _warm_torch()
    cells = Cells()
    cells.attach()
    cells.shell.enable_matplotlib()
    for number, source in enumerate((*WARM_UP, *more)):
        cells.run(source, number)
    _rehearse(cells)
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
        self._watch = contextlib.ExitStack()
        self._watched: list[str] = []
        self._seen = Seen()

    def answer(self, header: dict[str, Any], blob: bytearray) -> Reply:
        match header["op"]:
            case "cell":
                self.watch([])  # a notebook's own comparisons are no offence
                # The reply must fit into a frame.
                self._cells.cap = min(header["cap"], frames.MAX_HEADER // 2)
                return self._cells.run(header["source"], header["number"]), []
            case "call":
                return self._watching(header, lambda: self._call(header, blob))
            case "backward":
                return self._watching(header, lambda: self._callee.backward(header, blob))
            case "kind":
                return {"kind": self._kind(header["name"])}, []
        raise frames.ProtocolError(f"unknown request {header['op']!r}")

    def watch(self, names: Sequence[str]) -> None:
        """Look out for these from now on.

        Between two calls too: a thread, a timer or a finaliser may go on with what the function has begun.
        """
        if names != self._watched:
            self._watch.close()
            self._seen = self._watch.enter_context(watching(names, self._cells.is_cell))
            self._watched = list(names)

    def _watching(self, header: dict[str, Any], answer: Callable[[], Reply]) -> Reply:
        self.watch(header.get("watch", self._watched))  # the names are said once, as long as they are the same
        with closing_new_figures():
            reply, blobs = answer()
        calls, beside = self._seen.taken()
        if calls:
            reply["forbidden"] = calls
        if beside:
            reply["beside"] = beside
        return reply, blobs

    def _call(self, header: dict[str, Any], blob: bytearray) -> Reply:
        self._callee.free(header["free"])
        answer = self._cells.shell.user_ns.get(header["name"])
        return self._callee.call((lambda: answer) if header["value"] else answer, header, blob)

    def _kind(self, name: str) -> str:
        """``missing``, ``callable``, or the type of what stands under the name."""
        if name not in self._cells.shell.user_ns:
            return "missing"
        value = self._cells.shell.user_ns[name]
        return "callable" if callable(value) else words.name(raw.short_name(type(value)))


def _rehearse(cells: Cells) -> None:
    """One call with gradients and a watch, as an examiner makes it, of the function that `WARM_UP` defines."""
    import torch

    worker, arguments, gradient = _Worker(cells), Encoder(whole=True), Encoder()
    call: dict[str, Any] = {"op": "call", "id": 0, "name": "rehearsal", "value": False, "seed": 0, "free": []}
    call.update(watch=["torch.nn.Linear"], kwargs=arguments.value({}))
    call["args"] = arguments.value((torch.ones(1, 2, 2, requires_grad=True),))
    gradient.value(torch.ones(1, 2, 2))
    backward = {"op": "backward", "call": 0, "outputs": [1], "watch": call["watch"]}
    for header, encoder in ((call, arguments), (backward, gradient)):
        tables, blobs = encoder.tables()
        reply, _ = worker.answer(header | tables, bytearray(b"".join(blobs)))
        assert "raised" not in reply, reply
    worker.watch([])


def _warm_torch() -> None:
    # The first `grad` starts the autograd engine.
    import torch

    layer = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    x = torch.zeros(1, 4, 8, requires_grad=True)
    out, _ = layer(x, x, x)
    out.sum().backward()
    torch.autograd.grad(torch.nn.functional.cross_entropy(x[0], torch.zeros(4, dtype=torch.long)), x)
