"""The grader's own work on a submission has an end in time and memory, and costs no score where it ends."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autograder.channel import frames, proxy
from autograder.course import Limits
from autograder.errors import GraderFault
from autograder.examiner import exam, lanes, patience
from autograder.examiner.__main__ import OPTIONS
from autograder.examiner.job import Job, JobCell, JobExercise
from autograder.examiner.patience import OutOfPatience, bound_memory, bounded_time
from autograder.examiner.plugin import SuitePlugin
from autograder.examiner.zygotes import ZygoteDied
from tests.examiner.test_session import NOTHING, Puppet, frame

SUITE = """
from autograder.suite import N_, check

@check(points=1, title=N_("first"), hint=N_("h"))
def test_first(student):
    answer = student(1)
    if {slow}:
        while True:
            pass

@check(points=1, title=N_("second"), hint=N_("h"))
def test_second(student):
    assert student(1) == 7
"""


def says(sock: socket.socket, number: int, header: dict[str, Any]) -> None:
    """A notebook without outputs whose every function returns 7."""
    sock.sendall(frame({**NOTHING, "re": number, "kind": "callable", "outputs": []}))


@pytest.fixture
def examined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """What an examiner with little patience makes of two exercises, whose suites are `slow` in the case of some.

    A fault of its own is given back.
    """
    monkeypatch.setattr(patience, "OWN_SECONDS", 0.5)

    def examine(*slow: bool, spawn: Callable[[], Any] = lambda: Puppet(says)) -> Any:
        folder = tmp_path / "hidden" / "clock"
        folder.mkdir(parents=True)
        for name, is_slow in zip(("tick", "tock"), slow, strict=True):
            (folder / f"test_{name}.py").write_text(SUITE.format(slow=is_slow))
            (folder / f"mistakes_{name}.py").write_text("")
            (folder / f"correct_{name}.py").write_text(
                'from autograder.suite import correct\n\n@correct("plain")\ndef plain(x):\n    return 7\n'
            )
        for name in [name for name in sys.modules if name.startswith("clock")]:
            del sys.modules[name]
        reports: list[Any] = []
        exercises = tuple(JobExercise(name, 1, False) for name in ("tick", "tock"))
        job = Job("clock", (JobCell(0, "tick = tock = 7"),), exercises, 1, Limits())

        def serve(plugin: SuitePlugin) -> None:
            try:
                reports.append(exam.examine(job, plugin, spawn))
            except GraderFault as fault:
                reports.append(fault)

        pytest.main([*OPTIONS, f"--rootdir={folder.parent}", str(folder.parent)], plugins=[SuitePlugin(serve)])
        return reports[0]

    return examine


def test_a_submission_that_takes_us_no_time_is_examined_to_its_end(examined: Any) -> None:
    report = examined(False, False)
    assert [one.score for one in report.exercises] == [2, 2] and report.in_time


def test_a_check_that_takes_us_too_long_leaves_the_rest_without_a_score(examined: Any) -> None:
    started = time.process_time()
    report = examined(False, True)
    assert time.process_time() - started < 5
    assert [one.score for one in report.exercises] == [2, None] and not report.in_time
    [first, second] = report.exercises[1].checks
    assert first.outcome == second.outcome == "ungraded"
    assert first.message and "a person has to look at it" in first.message.render()


def test_a_source_that_takes_us_too_long_to_read_leaves_no_score(
    examined: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def endless(*args: Any) -> None:
        while True:
            with contextlib.suppress(Exception):
                sum(range(1000))

    monkeypatch.setattr(exam, "search", endless)
    started = time.process_time()
    report = examined(False, False)
    assert time.process_time() - started < 5
    assert [one.score for one in report.exercises] == [None, None]


def test_a_first_alarm_that_is_lost_is_followed_by_another() -> None:
    alarms = 0
    with pytest.raises(OutOfPatience), bounded_time(0.05):
        while True:
            try:
                while True:
                    pass
            except OutOfPatience:
                alarms += 1
                if alarms == 2:
                    raise


def test_no_alarm_is_left_behind() -> None:
    with bounded_time(0.1):
        pass
    until = time.process_time() + 0.3
    while time.process_time() < until:
        pass


def test_an_alarm_on_the_way_out_stops_nothing_and_leaves_no_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    real, before = signal.setitimer, signal.getsignal(signal.SIGPROF)

    def late(which: int, seconds: float, interval: float = 0.0) -> Any:
        signal.raise_signal(signal.SIGPROF)
        return real(which, seconds, interval)

    monkeypatch.setattr(signal, "setitimer", late)
    with bounded_time(20):
        pass
    assert real(signal.ITIMER_PROF, 0) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGPROF) == before


def test_an_alarm_on_the_way_out_of_what_failed_leaves_the_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    real = signal.setitimer

    def late(*args: Any) -> Any:
        signal.raise_signal(signal.SIGPROF)
        return real(*args)

    monkeypatch.setattr(signal, "setitimer", late)
    with pytest.raises(KeyError), bounded_time(20):
        raise KeyError


def test_a_worker_that_cannot_be_started_within_a_check_costs_the_report_and_not_the_check(examined: Any) -> None:
    puppets: list[Puppet] = []

    def dies(sock: socket.socket, number: int, header: dict[str, Any]) -> None:
        if header["op"] == "call":
            sock.close()
        else:
            says(sock, number, header)

    def spawn() -> Puppet:
        puppets.append(Puppet(dies))
        if len(puppets) == 2:
            raise ZygoteDied("the zygote has ended")
        return puppets[-1]

    assert isinstance(examined(False, False, spawn=spawn), ZygoteDied)


def test_a_check_without_memory_is_ungraded_and_whoever_ran_it_is_not_asked_again(
    examined: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "_has_run_out", False, raising=False)

    def failing(*args: Any) -> Any:
        raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes")

    patience.note_memory(RuntimeError("not enough memory"))
    assert not patience.has_run_out_of_memory()
    monkeypatch.setattr(proxy.replies, "read_reply", failing)
    report = examined(False, False)
    assert [one.score for one in report.exercises] == [None, None]
    assert patience.has_run_out_of_memory()


def test_a_lane_that_ran_out_of_memory_ends_and_each_submission_has_its_own_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bounds: list[int] = []
    monkeypatch.setattr(patience, "_has_run_out", False, raising=False)
    monkeypatch.setattr(lanes, "bound_memory", lambda: bounds.append(len(bounds)))

    def answer(header: dict[str, Any], *_: Any) -> dict[str, Any]:
        if header["job"] == 2:
            patience.note_memory(MemoryError())
        return {"examined": {"in_time": True}}

    monkeypatch.setattr(lanes, "_answer", answer)
    ours, theirs = socket.socketpair()
    lane = threading.Thread(target=lanes._serve_lane, args=(theirs, None, contextlib.nullcontext()), daemon=True)
    lane.start()
    frames.receive(ours, deadline=time.monotonic() + 5)
    for number in (0, 1, 2):
        frames.send(ours, {"job": number})
        for _ in ("taken", "examined"):
            frames.receive(ours, deadline=time.monotonic() + 5)
    lane.join(5)
    assert not lane.is_alive() and bounds == [0, 1, 2]


def grow(pipe: Any) -> None:
    patience.OWN_BYTES = 256 << 20
    bound_memory()
    small = bytearray(64 << 20)
    try:
        bytearray(512 << 20)
    except MemoryError:
        pipe.send(("refused", len(small)))
    else:
        pipe.send(("granted", len(small)))


@pytest.mark.skipif(sys.platform != "linux", reason="the size of a process is read from /proc")
def test_a_lane_may_not_grow_without_end() -> None:
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=grow, args=(theirs,))
    process.start()
    assert ours.poll(20) and ours.recv() == ("refused", 64 << 20)
    process.join(20)
