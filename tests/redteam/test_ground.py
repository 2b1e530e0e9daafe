"""What a hostile submission could leave behind would be seen."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.redteam.bank import MARK
from tests.redteam.ground import Ground, Memory, prepared, processes, surroundings

LEFT: dict[str, Callable[[Ground], object]] = {
    "a file in the course": lambda ground: (ground.root / "new").write_text(""),
    "a longer gradebook": lambda ground: (ground.root / "gradebook.db").write_text("all marks are full"),
    "a seed of the same length": lambda ground: (ground.root / ".autograder" / "seed").write_text("8\n"),
    "another mode": lambda ground: (ground.root / "course.yml").chmod(0o600),
    "a second name": lambda ground: os.link(ground.root / "course.yml", ground.temporary.parent / "name"),
    "a link": lambda ground: (ground.root / "release" / "link").symlink_to("/"),
    "no suite any more": lambda ground: next((ground.root / "tests").rglob("test_*.py")).unlink(),
    "a file of a worker's": lambda ground: (ground.temporary / "left").write_text(""),
}


@pytest.fixture(scope="module")
def ground() -> Iterator[Ground]:
    """One of this module's own: it does not stay as it is."""
    with prepared() as ground:
        yield ground


@pytest.mark.parametrize("what", LEFT)
def test_what_is_left_in_the_course_is_seen(ground: Ground, what: str) -> None:
    before = surroundings(ground)
    assert surroundings(ground) == before
    LEFT[what](ground)
    assert surroundings(ground) != before


def test_what_bears_the_mark_is_seen_in_common_folders(ground: Ground) -> None:
    before = surroundings(ground)
    left = Path("/tmp") / f"{MARK}-{os.getpid()}"
    left.write_text("")
    try:
        assert surroundings(ground) != before
    finally:
        left.unlink()


def test_a_process_that_is_left_is_seen_wherever_it_belongs(ground: Ground) -> None:
    before = processes(ground)
    # As a worker's child would be: detached, its parent gone, the command line that of the zygote.
    sleeper = "import os, time\npid = os.fork()\nif pid: print(pid)\nelse: (os.setsid(), os.close(1), time.sleep(60))"
    told = subprocess.run(
        [sys.executable, "-c", f"{sleeper}  # {ground.temporary}"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=30,
    )
    assert processes(ground) - before == {int(told.stdout)}
    os.kill(int(told.stdout), 9)


def test_memory_that_was_given_back_is_seen() -> None:
    memory = Memory(os.getpid())
    assert memory.growth_mb() < 50
    assert len(b"x" * (100 << 20)) and 90 < memory.growth_mb() < 200
