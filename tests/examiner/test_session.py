"""One submission's conversation with a worker that says what it likes; the worker is a thread of ours here."""

from __future__ import annotations

import json
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from autograder.channel import frames
from autograder.channel.proxy import Student
from autograder.course import Limits
from autograder.errors import ConfinementUnavailable, GraderFault
from autograder.examiner import exam, lanes
from autograder.examiner.client import GRACE_SECONDS
from autograder.examiner.job import Examined, Job, JobCell
from autograder.examiner.session import Crashed, Garbled, NoMoreTime, Session, TimedOut, WorkerDied
from autograder.report import ExerciseReport

LIMITS = msgspec.structs.replace(Limits(), call_seconds=0.6, submission_seconds=30, restarts=1)
NOTHING: dict[str, Any] = {"tensors": [], "storages": [], "changed": [], "result": 7}

Says = Callable[[socket.socket, int, dict[str, Any]], None]


class Puppet:
    """A worker that answers each request by calling `says`; it has no process."""

    confinement = "none"
    overflowed = False

    def __init__(self, says: Says) -> None:
        self.sock, self._theirs = socket.socketpair()
        self._says = says
        self.closed = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def wait(self, timeout: float | None = None) -> int | None:
        return 0

    def memory(self) -> None:
        raise OSError("it has no process")

    def close(self) -> None:
        self.closed = True
        self.sock.close()

    def _run(self) -> None:
        with self._theirs:
            try:
                while True:
                    header, _ = frames.receive(self._theirs)
                    self._says(self._theirs, header["n"], header)
            except (frames.ChannelError, OSError):
                return


@pytest.fixture
def asked() -> Iterator[Callable[[Says], Any]]:
    """What a call comes to in a worker that says this."""
    opened: list[Session] = []

    def ask(says: Says, limits: Limits = LIMITS, times: int = 1) -> Any:
        session = Session(lambda: Puppet(says), (), limits)  # type: ignore[arg-type,return-value]
        opened.append(session)
        student = Student("answer", session)
        return [student(1) for _ in range(times)][-1]

    yield ask
    for session in opened:
        session.close()


def frame(header: Any, blob: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack(">II", len(text), len(blob)) + text + blob


def honest(sock: socket.socket, number: int, header: dict[str, Any]) -> None:
    sock.sendall(frame({**NOTHING, "re": number}))


def test_an_honest_worker_is_believed(asked: Any) -> None:
    assert asked(honest, times=3) == 7


GARBLED: dict[str, Says] = {
    "an earlier request": lambda sock, n, _: sock.sendall(frame({**NOTHING, "re": n - 1})),
    "a later request": lambda sock, n, _: sock.sendall(frame({**NOTHING, "re": n + 1})),
    "no request": lambda sock, n, _: sock.sendall(frame(NOTHING)),
    "a number that is true": lambda sock, n, _: sock.sendall(frame({**NOTHING, "re": True})),
    "a number that is a float": lambda sock, n, _: sock.sendall(frame({**NOTHING, "re": float(n)})),
    "a number that is text": lambda sock, n, _: sock.sendall(frame({**NOTHING, "re": str(n)})),
    "the reply twice": lambda sock, n, _: sock.sendall(2 * frame({**NOTHING, "re": n})),
    "the next reply as well": lambda sock, n, _: sock.sendall(
        frame({**NOTHING, "re": n}) + frame({**NOTHING, "re": n + 1})
    ),
    "the replies in another order": lambda sock, n, _: sock.sendall(
        frame({**NOTHING, "re": n + 1}) + frame({**NOTHING, "re": n})
    ),
    "a byte too much": lambda sock, n, _: sock.sendall(frame({**NOTHING, "re": n}) + b"x"),
    "a reply of other lengths": lambda sock, n, _: sock.sendall(b"\xff" * 64),
    "a header that is too large for a call": lambda sock, n, _: sock.sendall(struct.pack(">II", 5 << 20, 0)),
    "nested lists": lambda sock, n, _: sock.sendall(frame(b"[" * 200_000)),
    "no JSON": lambda sock, n, _: sock.sendall(frame(b"{'re': 1}")),
}


@pytest.mark.parametrize("what", GARBLED)
def test_what_is_no_answer_to_what_was_asked_ends_the_worker(asked: Any, what: str) -> None:
    with pytest.raises(Garbled):
        asked(GARBLED[what], times=2)


@pytest.mark.parametrize("part", [0, 3, 8, 20, -1])
def test_a_frame_that_breaks_off_is_a_crash(asked: Any, part: int) -> None:
    def breaks_off(sock: socket.socket, number: int, header: dict[str, Any]) -> None:
        sock.sendall(frame({**NOTHING, "re": number}, b"12345678")[:part])
        sock.close()

    with pytest.raises(Crashed):
        asked(breaks_off)


@pytest.mark.parametrize("part", [0, 3, 8, 20])
def test_a_reply_that_never_comes_or_never_ends_meets_the_deadline(asked: Any, part: int) -> None:
    started = time.monotonic()
    with pytest.raises(TimedOut):
        asked(lambda sock, number, header: sock.sendall(frame({**NOTHING, "re": number}, b"12345678")[:part]))
    assert time.monotonic() - started < 3


def test_a_reply_that_comes_too_late_is_nobodys() -> None:
    def late(sock: socket.socket, number: int, header: dict[str, Any]) -> None:
        time.sleep(1.2)
        sock.sendall(b"".join(frame({**NOTHING, "re": number + more, "result": 8}) for more in range(3)))

    puppets: list[Puppet] = []

    def spawn() -> Puppet:
        puppets.append(Puppet(honest if puppets else late))
        return puppets[-1]

    session = Session(spawn, (), LIMITS)  # type: ignore[arg-type]
    student = Student("answer", session)
    with pytest.raises(TimedOut):
        student(1)
    assert student(1) == 7
    time.sleep(1)  # by now it has come
    assert student(1) == 7
    session.close()


def test_the_submissions_time_ends_whatever_a_call_may_take(asked: Any) -> None:
    limits = msgspec.structs.replace(LIMITS, call_seconds=30, submission_seconds=0.3)
    with pytest.raises(NoMoreTime):
        asked(lambda sock, number, header: None, limits)


@pytest.mark.parametrize("error", [ConfinementUnavailable("step: reason"), OSError(24, "Too many open files")])
def test_a_worker_that_cannot_be_started_is_our_fault(error: Exception) -> None:
    def spawn() -> Any:
        raise error

    session = Session(spawn, (), LIMITS)
    with pytest.raises(GraderFault, match="no worker could be started"):
        session.run_until(0)


def test_a_worker_may_be_started_until_the_submissions_time_ends_and_little_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[float] = []

    class Zygote:
        def spawn(self, limits: Any, deadline: float) -> None:
            asked.append(deadline - time.monotonic())

    job = Job("attention", (), (), 1, LIMITS)
    spawn = lanes._spawner(Zygote(), job)  # type: ignore[arg-type]
    time.sleep(0.1)
    spawn()
    assert LIMITS.submission_seconds < asked[0] < LIMITS.submission_seconds + lanes.SPAWN_SECONDS
    assert lanes.SPAWN_SECONDS < GRACE_SECONDS / 2


@pytest.mark.parametrize(
    ("says", "kind"),
    [
        (lambda sock, number, header: None, TimedOut),
        (lambda sock, number, header: sock.close(), Crashed),
        (GARBLED["no request"], Garbled),
    ],
)
def test_a_cell_that_ended_its_worker_is_known_by_how(says: Says, kind: type[WorkerDied]) -> None:
    def lies(sock: socket.socket, number: int, header: dict[str, Any]) -> None:
        if header["number"] == 3:
            says(sock, number, header)
        else:
            sock.sendall(frame({"re": number, "outputs": [], "error": {"type": "TimedOut", "text": "", "ended": 1}}))

    limits = msgspec.structs.replace(LIMITS, cell_seconds=0.3)
    session = Session(lambda: Puppet(lies), (JobCell(3, "x"), JobCell(4, "y")), limits)  # type: ignore[arg-type,return-value]
    session.run_until(2)
    assert type(session.errors[3]["ended"]) is kind
    assert "ended" not in session.errors[4]
    session.close()


def test_a_fresh_worker_answers_after_one_that_was_ended() -> None:
    puppets: list[Puppet] = []

    def spawn() -> Puppet:
        puppets.append(Puppet(honest if puppets else GARBLED["no request"]))
        return puppets[-1]

    session = Session(spawn, (), LIMITS)  # type: ignore[arg-type]
    student = Student("answer", session)
    with pytest.raises(WorkerDied):
        student(1)
    assert student(1) == 7
    assert [puppet.closed for puppet in puppets] == [True, False]
    session.close()


@pytest.mark.parametrize(
    ("code", "overflowed", "was_killed"), [(-signal.SIGKILL, False, True), (-signal.SIGSEGV, False, False),
                                           (-signal.SIGKILL, True, False), (1, False, False)],
)  # fmt: skip
def test_a_worker_that_somebody_else_has_killed_is_known(code: int, overflowed: bool, was_killed: bool) -> None:
    puppet = Puppet(lambda sock, number, header: sock.close())
    puppet.wait, puppet.overflowed = lambda timeout=None: code, overflowed  # type: ignore[method-assign,misc]
    session = Session(lambda: puppet, (), LIMITS)  # type: ignore[arg-type,return-value]
    with pytest.raises(Crashed):
        Student("answer", session)(1)
    assert (session.was_killed, session.was_late) == (was_killed, False)
    session.close()


def test_a_worker_that_we_have_killed_for_its_time_was_late() -> None:
    session = Session(lambda: Puppet(lambda *_: None), (), LIMITS)  # type: ignore[arg-type,return-value]
    with pytest.raises(TimedOut):
        Student("answer", session)(1)
    assert (session.was_killed, session.was_late) == (False, True)
    session.close()


@pytest.mark.parametrize("killed", [(), (True,), (True, True)])
def test_a_submission_whose_worker_was_killed_from_outside_is_examined_once_more(
    monkeypatch: pytest.MonkeyPatch, killed: tuple[bool, ...]
) -> None:
    begun: list[float] = []

    def attempt(job: Job, plugin: object, spawn: object, end: float) -> tuple[Examined, bool]:
        begun.append(end)
        return Examined((), calls=len(begun)), len(begun) <= len(killed)

    monkeypatch.setattr(exam, "_attempt", attempt)
    examined = exam.examine(Job("attention", (), (), 1, LIMITS), None, None)  # type: ignore[arg-type]
    assert examined.calls == len(begun) == min(2, len(killed) + 1)
    assert len(set(begun)) == 1  # in the time of one
    assert examined.by_chance == (len(killed) == 2)


def test_a_second_examination_for_which_little_time_was_left_does_not_replace_a_better_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scores = iter([8.0, 0.0])

    def attempt(*_: object) -> tuple[Examined, bool]:
        score = next(scores)
        return Examined((ExerciseReport("answer", score, 16.0),)), score > 0

    monkeypatch.setattr(exam, "_attempt", attempt)
    examined = exam.examine(Job("attention", (), (), 1, LIMITS), None, None)  # type: ignore[arg-type]
    assert [one.score for one in examined.exercises] == [8.0] and examined.by_chance


def test_a_worker_is_told_once_what_to_look_out_for_and_again_after_a_cell_or_a_restart() -> None:
    told: list[Any] = []

    def says(sock: socket.socket, number: int, header: dict[str, Any]) -> None:
        told.append(header.get("watch", header["op"] if header["op"] == "cell" else None))
        if told[-4:] == [["torch.softmax"], None, ["torch.matmul"], None]:
            sock.close()  # it dies
            return
        frames.send(sock, {"re": number} | (NOTHING if header["op"] == "call" else {"outputs": []}))

    session = Session(lambda: Puppet(says), (JobCell(0, "1"),), LIMITS)  # type: ignore[arg-type,return-value]
    softmax, matmul = (Student("answer", session, (name,)) for name in ("torch.softmax", "torch.matmul"))
    softmax(1), softmax(1), matmul(1)
    with pytest.raises(WorkerDied):
        matmul(1)
    matmul(1)
    session.run_until(1)
    matmul(1), matmul(1)
    session.close()
    assert told == [["torch.softmax"], None, ["torch.matmul"], None, ["torch.matmul"], "cell", ["torch.matmul"], None]
