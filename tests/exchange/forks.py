"""nbgrader's commands as forks of this process, which has imported it, so that each costs no start of its own."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from nbgrader.apps.nbgraderapp import NbGraderApp, main

from tests import courses
from tests.interrupted.runs import Forked


def forked(*arguments: str, folder: Path, home: Path) -> str:
    """As `courses.nbgrader`: the same arguments, environment and folder."""
    home.mkdir(parents=True, exist_ok=True)

    def run() -> int:
        os.environ.clear()
        os.environ.update(courses.environment(home))
        os.chdir(folder)
        sys.argv = [str(courses.COMMANDS / "nbgrader"), *arguments]
        NbGraderApp.clear_instance()
        try:
            main()
        except SystemExit as end:
            return int(end.code or 0)
        return 0

    with Forked(run, home / "said") as running:
        said, _ = running.communicate()
    assert running.returncode == 0, f"nbgrader {' '.join(arguments)}\n{said}"
    return said
