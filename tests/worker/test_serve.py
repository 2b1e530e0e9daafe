"""The worker's side of the conversation, over a real socket: cells, calls, gradients, and how it ends."""

from __future__ import annotations

import multiprocessing
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch

from autograder.channel import frames
from autograder.channel.proxy import ForbiddenCalled, Frame, Student, StudentRaised
from autograder.worker import serve

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the worker is forked")

SDPA = "torch.nn.functional.scaled_dot_product_attention"


class Conversation:
    """Asks a forked worker, and is an `Endpoint` for `Student`."""

    def __init__(self, process: Any, sock: socket.socket) -> None:
        self.process, self.sock = process, sock
        self._number = 0

    def request(self, header: dict[str, Any], blobs: Sequence[frames.Buffer]) -> Frame:
        self._number += 1
        deadline = time.monotonic() + 10
        frames.send(self.sock, {**header, "n": self._number}, blobs, deadline=deadline)
        reply, blob = frames.receive(self.sock, deadline=deadline)
        assert reply["re"] == self._number
        return reply, bytes(blob)

    def cell(self, source: str, number: int = 10, cap: int = 1 << 20) -> dict[str, Any]:
        return self.request({"op": "cell", "source": source, "number": number, "cap": cap}, ())[0]

    def kind(self, name: str) -> Any:
        return self.request({"op": "kind", "name": name}, ())[0]["kind"]


def child(sock: socket.socket, ours: socket.socket) -> None:
    ours.close()
    torch.set_num_threads(1)
    serve.serve(sock, serve.preload())


@pytest.fixture(scope="module")
def worker() -> Iterator[Conversation]:
    ours, theirs = socket.socketpair()
    process = multiprocessing.get_context("forkserver").Process(target=child, args=(theirs, ours), daemon=True)
    process.start()
    theirs.close()
    conversation = Conversation(process, ours)
    frames.send(ours, {"op": "cell", "source": "import torch", "number": 9, "cap": 9, "n": 0})
    frames.receive(ours, deadline=time.monotonic() + 60)  # it has to import torch first
    yield conversation
    ours.close()
    process.join(10)
    process.kill()
    process.join()


def test_warming_up_leaves_no_names_behind(worker: Conversation) -> None:
    assert [worker.kind(name) for name in ("f", "math", "number")] == ["missing"] * 3


def test_a_cell_is_run_and_its_function_called(worker: Conversation) -> None:
    reply = worker.cell("def double(x):\n    return 2 * x\ndouble(4)")
    assert reply["outputs"][-1]["data"]["text/plain"] == "8"
    assert Student("double", worker)(torch.ones(2)).tolist() == [2, 2]


def test_the_kind_of_a_name_is_told(worker: Conversation) -> None:
    worker.cell("a = None\nb = torch.nn.ReLU()\nclass c: pass\nd = [1]")
    assert [worker.kind(name) for name in "abcd"] == ["NoneType", "callable", "callable", "list"]
    assert worker.kind("nowhere") == "missing"


def test_a_function_may_set_the_default_device_and_so_may_a_later_cell(worker: Conversation) -> None:
    sets = "torch.set_default_device('cpu')"
    worker.cell(f"def f(x):\n    {sets}\n    return x * 2")
    f = Student("f", worker, [SDPA])
    assert [f(3), f(4), f(5)] == [6, 8, 10]
    for source in (sets, "torch.set_default_device(None)"):
        assert worker.cell(source)["error"] is None


def test_gradients_cross_the_channel(worker: Conversation) -> None:
    worker.cell("def square(x):\n    return x * x")
    x = torch.tensor([3.0], requires_grad=True)
    (gradient,) = torch.autograd.grad(Student("square", worker)(x), x)
    assert gradient.tolist() == [6]


def test_an_exception_names_the_line_of_the_cell(worker: Conversation) -> None:
    worker.cell("def bad(x):\n    y = x\n    raise ValueError('bad')", number=12)
    with pytest.raises(StudentRaised) as info:
        Student("bad", worker)(1)
    assert (info.value.type_name, info.value.line) == ("ValueError", 3)


@pytest.mark.parametrize("error", ["SystemExit", "KeyboardInterrupt"])
def test_a_function_that_raises_an_exit_does_not_end_the_worker(worker: Conversation, error: str) -> None:
    worker.cell(f"def leave():\n    raise {error}")
    with pytest.raises(StudentRaised, match=error):
        Student("leave", worker)()
    assert worker.kind("leave") == "callable"


def test_a_forbidden_call_is_told_with_its_line(worker: Conversation) -> None:
    worker.cell(f"def attend(q, k, v):\n    x = 1\n    return {SDPA}(q, k, v)", number=13)
    with pytest.raises(ForbiddenCalled) as info:
        Student("attend", worker, [SDPA])(*[torch.ones(1, 2, 2)] * 3)
    assert (info.value.call.name, info.value.call.line) == (SDPA, 3)


WAYS_AROUND = {
    "what a backward pass calls": """
class Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 1
    @staticmethod
    def backward(ctx, grad):
        return article(*ctx.saved_tensors * 3)
attend = Own.apply
""",
    "what runs when the result is let go": """
class Last:
    def __del__(self):
        article(*last)
def attend(x):
    global last
    last = (x, x, x)
    return [x * 1, Last()]
""",
    "an exception's text": """
class Talkative(Exception):
    def __str__(self):
        return str(article(*self.args))
def attend(x):
    raise Talkative(x, x, x)
""",
    "a thread that goes on afterwards": """
import threading, time
def attend(x):
    threading.Thread(target=lambda: (time.sleep(0.3), article(x, x, x)), daemon=True).start()
    return x * 1
""",
}


@pytest.mark.parametrize("way", WAYS_AROUND)
def test_a_forbidden_call_is_told_whenever_it_is_made(worker: Conversation, way: str) -> None:
    worker.cell(f"import torch\narticle = {SDPA}\n{WAYS_AROUND[way]}")
    attend, x = Student("attend", worker, [SDPA]), torch.ones(1, 2, 2, requires_grad=True)
    with pytest.raises(ForbiddenCalled):
        attend(x).sum().backward() if "backward" in way else attend(x)
        time.sleep(0.6)
        attend(x)
    worker.cell("attend = abs\n" + f"{SDPA}(*[torch.ones(1, 2, 2)] * 3)")
    assert attend(-1) == 1, "a comparison in a cell is no offence"


def test_what_a_function_prints_goes_nowhere(worker: Conversation) -> None:
    worker.cell("def talk():\n    print('x' * 1000)\n    return 1")
    assert Student("talk", worker)() == 1
    assert worker.cell("1")["outputs"][0]["output_type"] == "execute_result"


@pytest.mark.parametrize("text", ["'\\U0001f600' * 30_000_000", "'\\0' * 30_000_000", "'x' * 30_000_000"])
def test_the_largest_output_fits_into_a_frame_whatever_the_cap(worker: Conversation, text: str) -> None:
    reply = worker.cell(f"print({text})", cap=1 << 30)
    assert reply["ok"]
    assert 500_000 < len(str(reply["outputs"][0]["text"]).encode()) < frames.MAX_HEADER


def test_an_output_of_no_json_does_not_end_the_worker(worker: Conversation) -> None:
    assert worker.cell("display({'application/json': {'a': object()}}, raw=True)")["ok"]
    assert worker.kind("torch") == "module"


def test_a_result_of_millions_of_items_does_not_end_the_worker(worker: Conversation) -> None:
    worker.cell("def many():\n    return list(range(3_000_000))")
    assert Student("many", worker)().reason == "too_large"


def test_the_graphs_of_calls_are_freed_in_the_worker(worker: Conversation) -> None:
    worker.cell(
        "import weakref\nalive = weakref.WeakSet()\n"
        "def watched(x):\n    y = x * 2\n    alive.add(y)\n    return y\n"
        "def count():\n    import gc\n    gc.collect()\n    return len(alive)"
    )
    watched = Student("watched", worker)
    x = torch.ones(2, requires_grad=True)
    for _ in range(5):
        watched(x)
    assert Student("count", worker)() == 1  # the last call's, whose end is told with the next


def test_the_worker_ends_quietly_when_the_channel_closes(capfd: pytest.CaptureFixture[str]) -> None:
    ours, theirs = socket.socketpair()
    process = multiprocessing.get_context("fork").Process(target=closing_child, args=(theirs, ours))
    process.start()
    theirs.close()
    ours.close()
    process.join(20)
    assert process.exitcode == 0
    assert capfd.readouterr() == ("", "")


def closing_child(sock: socket.socket, ours: socket.socket) -> None:
    import atexit

    ours.close()
    atexit.register(print, "a student's handler")
    serve.serve(sock, serve.Cells())
