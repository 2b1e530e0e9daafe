"""The door's side of the examiner."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from autograder.channel import frames
from autograder.errors import GraderFault
from autograder.examiner import client
from autograder.examiner.client import Examiner, Lane, LaneLost
from autograder.examiner.job import Job, JobCell
from autograder.grading import Grader
from autograder.mend import mend
from autograder.notebook import read_notebook
from tests.engine import ATTENTION, GOOD, PROJECTION, ROOT, SEED, answered, course, with_cell

HIDDEN = ROOT / "tests" / "hidden"


def test_in_tier_c_the_same_notebook_earns_the_same_points_and_nothing_is_left_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # other tests' workers have their folders in the usual one
    mended = mend(read_notebook(course().source_notebook("attention")), course(), "attention")
    job = Job("attention", mended.cells, mended.exercises, SEED, course().limits)
    with Examiner(HIDDEN, "C") as examiner:
        lane = examiner.lane()
        examined = lane.examine(job)
        runs = JobCell(0, "open('runs', 'w').close()\nwhile True: pass")
        endless = Job("attention", (runs,), job.exercises, SEED, course().limits)
        threading.Thread(target=_examine_quietly, args=(lane, endless), daemon=True).start()
        _wait_until(lambda: list(tmp_path.glob("autograder-worker-*/runs")))
        lane.close()
    _wait_until(lambda: not list(tmp_path.glob("autograder-worker-*")))
    assert examined.confinement == "none"
    assert [exercise.score for exercise in examined.exercises] == [4, 16]


def test_a_worker_imports_nothing_that_its_zygote_has_not(grader: Grader) -> None:
    notebook = answered(project_qkv=PROJECTION, **{ATTENTION: GOOD})
    notebook = with_cell(notebook, 0, "import sys\nmodules_before = set(sys.modules)")
    notebook = with_cell(notebook, len(notebook.cells), "print(sorted(set(sys.modules) - modules_before))")
    examined = grader.grade(notebook, "attention", SEED).examined
    assert examined is not None
    [output] = examined.outputs[max(examined.outputs)]
    assert output["text"] == "[]\n"


def test_nothing_is_left_when_the_door_is_killed_in_the_middle_of_a_submission() -> None:
    script = (
        "import time\nfrom pathlib import Path\nfrom autograder.examiner.client import Examiner\n"
        f"examiner = Examiner(Path({str(HIDDEN)!r}), 'ABC')\nlane = examiner.lane()\n"
        "import threading\nfrom autograder.examiner.job import Job, JobCell, JobExercise\n"
        "from autograder.course import Limits\n"
        f"cells, exercises = (JobCell(0, 'while True: pass'),), (JobExercise('{ATTENTION}', 1, False),)\n"
        "job = Job('attention', cells, exercises, 1, Limits())\n"
        "threading.Thread(target=lane.examine, args=(job,), daemon=True).start()\n"
        "time.sleep(1)\nprint(examiner._process.pid, lane._pid, flush=True)\ntime.sleep(60)\n"
    )
    door = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert door.stdout is not None
    pids = [int(pid) for pid in door.stdout.readline().split()]
    assert len(pids) == 2 and all(_runs(pid) for pid in pids)
    door.send_signal(signal.SIGKILL)
    door.wait()
    deadline = time.monotonic() + 10
    while any(_runs(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(_runs(pid) for pid in pids)


def test_a_lane_that_ends_over_a_submission_is_told_from_one_that_was_gone_before() -> None:
    endless = Job("attention", (JobCell(0, "while True: pass"),), (), SEED, course().limits)
    with Examiner(HIDDEN, "ABC") as examiner:
        lane = examiner.lane()
        killing = threading.Timer(1, os.kill, (lane._pid, signal.SIGKILL))
        killing.start()
        with pytest.raises(LaneLost):
            lane.examine(endless)
        killing.join()
        gone = examiner.lane()
        os.kill(gone._pid, signal.SIGKILL)
        with pytest.raises(GraderFault) as fault:
            gone.examine(endless)
        assert not isinstance(fault.value, LaneLost)
        slow = examiner.lane()
        with pytest.raises(LaneLost, match="no report in time"):
            slow.examine(endless, time.monotonic() + 0.5)
        _wait_until(lambda: not _runs(slow._pid))


def test_a_lane_that_says_nothing_in_time_is_a_fault_that_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "HELLO_SECONDS", 0.1, raising=False)
    monkeypatch.setattr(client, "GRACE_SECONDS", 0.1)
    ours, theirs = socket.socketpair()
    with theirs, pytest.raises(GraderFault, match="in time") as fault:
        Lane(ours)
    assert type(fault.value) is GraderFault and ours.fileno() == -1


def test_a_lane_that_does_not_take_a_submission_in_time_has_not_lost_it() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        frames.send(theirs, {"pid": _ended_process()})
        lane = Lane(ours)
        with pytest.raises(GraderFault, match="in time") as fault:
            lane.examine(Job("attention", (), (), SEED, course().limits), time.monotonic() + 0.2)
    assert type(fault.value) is GraderFault


def _ended_process() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def _examine_quietly(lane: Lane, job: Job) -> None:
    with contextlib.suppress(GraderFault):  # the lane is closed meanwhile
        lane.examine(job)


def _wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _runs(pid: int) -> bool:
    """Whether a process is there and is no zombie that nobody has buried yet."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
