"""The course that is attacked, a copy, and all that must not change around it."""

from __future__ import annotations

import contextlib
import os
import shutil
import site
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import autograder
from tests.engine import ROOT
from tests.redteam.bank import MARK, document, file_of

PARTS = ("course.yml", "release", "source", "tests/hidden")
LOG = "examiner.log"
"""What the trusted side writes itself."""
PACKAGE = Path(autograder.__file__).parent
COMMON_FOLDERS = ("/tmp", "/var/tmp", "/dev/shm", "/run")
PERSONAL_FOLDERS = (".", ".cache", ".config", ".local", ".ipython", ".jupyter", ".matplotlib")


@dataclass(frozen=True)
class Ground:
    """Two folders: the course's, open to every user so that nothing but the confinement protects it, and one for
    what is temporary on the trusted side, which is to be started with it as its TMPDIR."""

    root: Path
    temporary: Path


@contextmanager
def prepared() -> Iterator[Ground]:
    """A copy of this course with another student's submission and a gradebook."""
    folder = Path(tempfile.mkdtemp(prefix="course-"))
    ground = Ground(folder / "course", folder / "temporary")
    try:
        _fill(ground)
        yield ground
    finally:
        shutil.rmtree(folder)


def _fill(ground: Ground) -> None:
    for part in PARTS:
        target = ground.root / part
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, target, ignore=shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints"))
        else:
            shutil.copy(ROOT / part, target)
    for folder in ("submitted", "autograded"):
        honest = ground.root / folder / "honest" / "attention" / "attention.ipynb"
        honest.parent.mkdir(parents=True)
        honest.write_bytes(file_of(document()))
    (ground.root / "gradebook.db").write_text("every student's marks")
    (ground.root / ".autograder").mkdir()
    (ground.root / ".autograder" / "seed").write_text("7\n")
    ground.temporary.mkdir()
    for path in (ground.root.parent, *ground.root.parent.rglob("*")):
        path.chmod(0o777 if path.is_dir() else 0o666)


T = TypeVar("T")
Surroundings = dict[str, object]


def surroundings(ground: Ground) -> Surroundings:
    """What can be compared: every file of the course by its state, the first ones of every installed package by their
    content's, and what bears the mark of the bank in folders that others write to meanwhile."""
    seen: Surroundings = {}
    for path in ground.root.rglob("*"):
        if path.name != LOG:
            seen[str(path)] = _state(path)
    seen |= {str(path): None for path in ground.temporary.rglob("*")}
    seen |= {str(path): None for path in PACKAGE.rglob("*") if _is_marked(path)}
    for packages in site.getsitepackages():
        for path in (*Path(packages).glob("*.*"), *Path(packages).glob("*/__init__.py")):
            seen[str(path)] = _state(path)[:3] if path.is_file() else None
    personal = [Path.home() / part for part in PERSONAL_FOLDERS]
    for folder in [Path(name) for name in COMMON_FOLDERS] + personal:
        with contextlib.suppress(OSError):
            seen |= {str(folder / name): None for name in os.listdir(folder) if MARK in name}
    return seen


def _state(path: Path) -> tuple[int, ...]:
    status = path.lstat()
    return status.st_mode, status.st_size, status.st_mtime_ns, status.st_ino, status.st_nlink, status.st_uid


def _is_marked(path: Path) -> bool:
    """Whether a case has left its mark in the name or in the text."""
    return MARK in path.name or (path.suffix == ".py" and MARK.encode() in path.read_bytes())


def processes(ground: Ground) -> set[int]:
    """Those that were started with a path of the ground's temporary folder: the zygote and all its children, which
    keep its command line, wherever they belong by now; and every child of the examiner."""
    found, parents = set(), {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                if str(ground.temporary).encode() in Path(f"/proc/{entry}/cmdline").read_bytes():
                    found.add(int(entry))
                parents[int(entry)] = int(Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[1])
    return found | descendants(os.getpid(), parents)


def descendants(of: int, parents: dict[int, int]) -> set[int]:
    """All processes below one, itself left out."""
    below = {pid for pid, parent in parents.items() if parent == of}
    return below.union(*(descendants(pid, parents) for pid in below)) if below else below


def settled(look: Callable[[], T], expected: T, within: float = 5.0) -> T:
    """What is seen once it is as expected, or in the end: a killed process takes a moment to go."""
    deadline = time.monotonic() + within
    while (seen := look()) != expected and time.monotonic() < deadline:
        time.sleep(0.02)
    return seen


class Memory:
    """The peak of some processes' memory from now on."""

    def __init__(self, *pids: int) -> None:
        self._before = {}
        for pid in pids:
            with contextlib.suppress(OSError):  # not ours to reset: then the peak so far is what can be exceeded
                Path(f"/proc/{pid}/clear_refs").write_text("5")
            self._before[pid] = _kilobytes(pid, "VmHWM")

    def growth_mb(self) -> float:
        """By how much the one that grew most did at its peak."""
        return max((_kilobytes(pid, "VmHWM") - before) / 1024 for pid, before in self._before.items())


def _kilobytes(pid: int, field: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field))
