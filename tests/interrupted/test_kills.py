"""A class run that is killed, interrupted, or meets a full disk or a locked gradebook loses nothing."""

from __future__ import annotations

import contextlib
import functools
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from tests.interrupted.classes import CONFIGURATION, DAMAGED, differences
from tests.interrupted.disks import full
from tests.interrupted.kills import Before, Kills, Trial, folder, line
from tests.interrupted.processes import INTERRUPT
from tests.interrupted.runs import WarmClass, warm

STUDENTS = ("amara", "ben", DAMAGED, "farah")
KILLS = 3
"""At random moments. The command of `tests.interrupted.kills` tries more of them, and kills examiners as well."""


LOCKED = 3.0
"""Seconds, in which a run would be done."""
LOCK = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
sys.stdin.readline()
"""


@pytest.fixture(scope="module")
def kills() -> Iterator[Kills]:
    with folder() as root, warm(root, ["attention"], STUDENTS) as small:
        yield Kills(small, starts=["again", "fresh"])


@pytest.fixture
def small(kills: Kills) -> WarmClass:
    assert isinstance(kills.small, WarmClass)
    return kills.small


@pytest.fixture
def before(kills: Kills) -> Before:
    """The class, graded once, of which some have handed in anew since."""
    before = kills.before["again"]
    kills.small.restore(before.copy)
    return before


def expect_completed(*trials: Trial) -> None:
    told = "\n".join(line(number, trial) + f"\n{trial.said}" for number, trial in enumerate(trials, 1))
    assert not any(trial.wrong for trial in trials), told
    assert sum(trial.struck for trial in trials) >= len(trials) - 1, told


def test_a_run_that_is_killed_at_a_random_moment_is_completed_by_the_next_one(kills: Kills) -> None:
    expect_completed(*kills.trials(KILLS, random.Random(7), targets=["group"]))


def test_a_lane_that_is_killed_costs_no_score(kills: Kills) -> None:
    trial = kills.trial("again", "lane", None, random.Random(7))
    expect_completed(trial)
    assert trial.struck and trial.code in (0, 3) and "Traceback" not in trial.said


def test_a_worker_that_is_killed_from_outside_costs_no_score(kills: Kills) -> None:
    trial = kills.trial("again", "worker", None, random.Random(7))
    expect_completed(trial)
    assert trial.struck and trial.code in (0, 3) and "Traceback" not in trial.said


def test_an_examiner_that_is_killed_in_the_middle_costs_no_score(kills: Kills) -> None:
    trial = kills.trial("again", "examiner", None, random.Random(7), run=kills.small.start_command)
    expect_completed(trial)
    assert trial.struck and trial.code == 3 and "Traceback" not in trial.said


def test_ctrl_c_loses_nothing_and_leaves_nobody(kills: Kills) -> None:
    trial = kills.trial("again", INTERRUPT, None, random.Random(7))
    expect_completed(trial)
    assert trial.struck and trial.code == 130
    assert trial.said.splitlines()[-1] == "interrupted" and "Traceback" not in trial.said


def test_a_gradebook_that_is_locked_for_a_while_is_waited_for(small: WarmClass, before: Before) -> None:
    with locked(small) as unlock, small.start() as run:
        time.sleep(LOCKED)
        assert run.poll() is None
        unlock()
        said, _ = run.communicate()
    assert run.returncode == 0, said
    assert not list(differences(before.right, small.state()))


def test_of_a_gradebook_that_stays_locked_one_sentence_tells(small: WarmClass, before: Before) -> None:
    setting = f"c.CourseDirectory.db_url = 'sqlite:///{small.gradebook}?timeout=1'\n"
    configuration = small.course / "nbgrader_config.py"
    configuration.write_text(CONFIGURATION + setting)
    try:
        with locked(small):
            code, said = small.grade()
    finally:
        configuration.write_text(CONFIGURATION)
    assert code == 2, said
    [sentence] = said.splitlines()
    assert "database is locked" in sentence and "another program is writing to it: close that" in sentence
    assert not list(differences(before.old, small.state()))


@pytest.mark.parametrize("part", ["", "autograded"])
def test_a_full_disk_is_told_as_such_and_never_put_down_to_a_student_s_files(
    kills: Kills, before: Before, part: str
) -> None:
    """The disk of the whole course, or that of the graded notebooks alone."""
    with full(kills.small, part) as make_room:
        code, said = kills.small.grade()
        wrong = list(kills.after("group", before))
        make_room()
        completed = list(kills.completed(before))
    assert not wrong and not completed, (said, wrong, completed)
    assert code == 2, said
    assert said.splitlines()[-1].startswith("autograder: ") and "disk" in said.splitlines()[-1], said
    assert "its files can't be handled" not in said and "Traceback" not in said


@contextlib.contextmanager
def locked(small: WarmClass) -> Iterator[Callable[[], None]]:
    """Have another process lock a gradebook against reading and writing until the function that is yielded is called.

    A fork of one that holds the lock would take it for its own.
    """
    command = [sys.executable, "-c", LOCK, str(small.gradebook)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None and other.stdout.readline() == "locked\n"
        yield functools.partial(print, file=other.stdin, flush=True)
