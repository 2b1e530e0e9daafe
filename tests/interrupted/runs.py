"""Class runs as forks of a process whose examiner is warm: each costs a second or two, and not a start of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn
from unittest import mock

from tests.interrupted.classes import SmallClass

CRASHED = 70
"""How a fork ends in which an exception came through to the top."""


class Forked:
    """A function that runs in a fork, as the leader of a process group, and is used as a `subprocess.Popen` is.

    Args:
        run: returns the exit code.
        said: the file that takes what it prints.
    """

    def __init__(self, run: Callable[[], int], said: Path) -> None:
        self._said, self.returncode = said, None
        self.pid = os.fork()
        if not self.pid:
            _run(run, said)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.setpgid(self.pid, self.pid)  # whichever of the two is the first

    returncode: int | None

    def poll(self) -> int | None:
        """Its exit code, `-signal`, or None while it runs."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def communicate(self, timeout: float = 60.0) -> tuple[str, None]:
        """Wait for its end; returns what it has printed."""
        until = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > until:
                raise TimeoutError(self._said.read_text())
            time.sleep(0.01)
        return self._said.read_text(errors="replace"), None

    def __enter__(self) -> Forked:
        return self

    def __exit__(self, *_: object) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)


def _run(run: Callable[[], int], said: Path) -> NoReturn:
    code = CRASHED
    try:
        os.setpgid(0, 0)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.stdin.close()
        sys.stdout = sys.stderr = said.open("w", buffering=1)
        os.dup2(sys.stdout.fileno(), 1)
        os.dup2(1, 2)
        code = run()
    except BaseException:  # noqa: BLE001 - a test's process must not go on here
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
    finally:
        sys.stdout.flush()
        os._exit(code)


class WarmClass(SmallClass):
    """A small class whose examiner is warm, and outlives its runs; see `warm`."""

    grader: Any
    alembic: str

    def start(self, *options: str, **_: Any) -> Forked:
        """Start ``autograder grade`` in a fork. It uses the examiner, and never ends it."""
        said = Path(tempfile.mkstemp(prefix="said-", dir=self.root)[1])
        return Forked(lambda: self._command(options), said)

    def _command(self, options: Sequence[str]) -> int:
        from nbgrader import api

        from autograder.cli import main

        os.environ.clear()
        os.environ.update(self.variables)
        tempfile.tempdir = None
        os.chdir(self.course)
        api.get_alembic_version = lambda: self.alembic
        with mock.patch("autograder.grading.Grader", lambda *_, **__: self.grader):
            return main(["--course", str(self.course), "grade", *options])

    def examiners_of(self, run: Any) -> int:
        return os.getpid() if isinstance(run, Forked) else super().examiners_of(run)


@contextmanager
def warm(root: Path, lessons: Sequence[str], students: Sequence[str]) -> Iterator[WarmClass]:
    """A small class, and its examiner, which is ended behind it."""
    from nbgrader import api

    from autograder.course import load_course
    from autograder.grading import Grader
    from autograder.nbgrader import files, gradebook  # noqa: F401 - the forks need not import them
    from autograder.nbgrader.config import provide_alembic
    from tests.interrupted.processes import living

    small = WarmClass(root, lessons, students)
    course = load_course(small.course)
    with mock.patch.dict(os.environ, small.variables):
        # Root's workers would be other users, whose folder for temporary files has to be this one too.
        grader = Grader(course, course.confinement.grade, workers=2, follow=False, assignments=list(lessons))
        provide_alembic()
        small.alembic = api.get_alembic_version()
    with grader:
        small.grader = grader
        small.standing = frozenset(living(str(root)))
        small.stays = frozenset(one.name for one in small.temporary.iterdir())
        yield small
