"""The pages of a class: by one process or several, each whole, and none lost with another's fault."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from autograder.course import load_course
from autograder.errors import GraderFault
from autograder.feedback import pages
from autograder.feedback.kept import read_page
from autograder.feedback.mark import Mark
from autograder.feedback.marks import Marks
from autograder.feedback.pages import MIN_PAGES, Asked, asked, written
from autograder.nbgrader.files import read_graded
from tests.conftest import REPOSITORY
from tests.feedback.graded import CELLS, DOUBLE, HALF, answer, notebook, report, text

WORKERS = 2
COUNT = WORKERS * MIN_PAGES
ODD = 5
"""The place of a student of whom a test makes something else than of the others."""


@pytest.fixture
def graded(tmp_path: Path) -> Path:
    """The graded notebooks of a class, each with an answer of its own and one with a time stamp."""
    folder = tmp_path / "autograded"
    for number in range(COUNT):
        path = folder / f"student{number:02}" / "attention" / "attention.ipynb"
        path.parent.mkdir(parents=True)
        cells = (*CELLS[:5], answer("half", f"def half(x):\n    return x / {number}"), *CELLS[6:])
        path.write_text(json.dumps(notebook(report(DOUBLE, HALF), *cells)))
    (folder / f"student{ODD:02}" / "attention" / "timestamp.txt").write_text("2026-12-01 12:00:00 UTC")
    return folder


def class_in(graded: Path, course: Path, feedback: str) -> list[Asked]:
    """The pages of the class, with another mark for each student, in a folder of this name."""

    def marks(student: str, assignment: str, name: str) -> Marks:
        return Marks({"test_double": Mark(float(student[-2:]) / 10, 4.0)}, 0.5, student.title())

    return asked(load_course(course), "attention", graded, graded.with_name(feedback), marks)


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def one_of(pages: list[Asked], number: int = ODD) -> Asked:
    return next(page for page in pages if page.student == f"student{number:02}")


def is_gone(group: int) -> bool:
    """Whether no process of a group is left, after a moment."""
    for _ in range(100):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def test_several_processes_write_what_one_writes(graded: Path, course_folder: Path) -> None:
    one_of(class_in(graded, course_folder, "alone")).notebook.write_text("no notebook")
    alone, together = class_in(graded, course_folder, "alone"), class_in(graded, course_folder, "together")
    assert len(alone) == COUNT
    targets = [None if page is one_of(alone) else page.target for page in alone]
    assert list(written(alone)) == targets
    found = list(written(together, workers=WORKERS))
    assert [path and path.relative_to(graded.with_name("together")) for path in found] == [
        path and path.relative_to(graded.with_name("alone")) for path in targets
    ]
    files = files_in(graded.with_name("alone"))
    assert len(set(files.values())) == COUNT - 1
    assert files == files_in(graded.with_name("together"))


def test_what_nbgrader_needs_to_release_a_page_lies_beside_it(graded: Path, course_folder: Path) -> None:
    list(written(class_in(graded, course_folder, "feedback"), workers=WORKERS))
    stamps = [name for name in files_in(graded.with_name("feedback")) if name.endswith("timestamp.txt")]
    assert stamps == [f"student{ODD:02}/attention/timestamp.txt"]


@pytest.mark.parametrize("workers", [1, WORKERS])
def test_a_page_that_cannot_be_written_leaves_the_earlier_ones_and_nothing_half_written(
    graded: Path, course_folder: Path, workers: int
) -> None:
    class_pages = class_in(graded, course_folder, "feedback")
    one_of(class_pages).target.mkdir(parents=True)  # a folder where the page goes
    with pytest.raises(IsADirectoryError) as fault:
        list(written(class_pages, workers=workers))
    assert fault.value.filename is not None  # the command's sentence names it
    assert all(b"</html>" in page.target.read_bytes() for page in class_pages[:ODD])
    assert not [name for name in files_in(graded.with_name("feedback")) if name.endswith(".new")]
    assert multiprocessing.active_children() == []


def test_a_process_that_is_killed_is_told_in_a_sentence(
    graded: Path, course_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class_pages, parent = class_in(graded, course_folder, "feedback"), os.getpid()

    def read(path: Path) -> object:
        if path == one_of(class_pages).notebook and os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
        return read_page(path)

    monkeypatch.setattr(pages, "read_page", read)
    with pytest.raises(GraderFault, match=r"was killed, .* run this again with --workers 1"):
        list(written(class_pages, workers=WORKERS))
    assert multiprocessing.active_children() == []


# The last page takes its time, while the other process has nothing left to do.
SLOW = """
import os, sys, time
from pathlib import Path
from autograder.feedback import pages
from autograder.feedback.marks import Marks

[notebook] = map(Path, sys.argv[1:])
last = notebook.with_name("slow.ipynb")
read = pages.read_page
pages.read_page = lambda path: time.sleep(1) if path == last else read(path)
targets = [notebook.with_name(f"{number}.html") for number in range(40)]
asked = [pages.Asked("", "", notebook, target, "", Marks({})) for target in targets]
asked.append(pages.Asked("", "", last, last, "", Marks({})))
try:
    for done in pages.written(asked, workers=2):
        print(os.getpid(), flush=True)
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGKILL], ids=lambda sign: sign.name)
def test_an_end_leaves_no_process_behind(graded: Path, sign: signal.Signals) -> None:
    path = next(graded.rglob("*.ipynb"))
    command = [sys.executable, "-c", SLOW, str(path)]
    process = subprocess.Popen(
        command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0
    )
    assert process.stdout is not None
    for _ in range(COUNT):
        assert process.stdout.readline().strip() == str(process.pid)
    time.sleep(0.2)
    # As a terminal does, Ctrl-C goes to all; a kill to the one.
    (os.killpg if sign == signal.SIGINT else os.kill)(process.pid, sign)
    _, errors = process.communicate(timeout=20)
    assert is_gone(process.pid)
    assert errors == ""
    if sign == signal.SIGINT:
        assert process.returncode == 130
        assert not list(path.parent.glob("*.new"))
        assert all("</html>" in page.read_text() for page in path.parent.glob("*.html"))


def test_a_notebook_of_ours_is_read_as_nbformat_reads_it(graded: Path) -> None:
    path = next(graded.rglob("*.ipynb"))
    assert type(read_page(path)) is dict
    assert read_page(path) == read_graded(path)


def test_a_notebook_in_another_form_is_read_by_nbformat(graded: Path) -> None:
    path = next(graded.rglob("*.ipynb"))
    drawn = text("![](attachment:a.svg)") | {"attachments": {"a.svg": {"image/svg+xml": ["<svg>", "</svg>"]}}}
    for document in (notebook(None, drawn), notebook(None, *CELLS) | {"nbformat_minor": 4}):
        path.write_text(json.dumps(document))
        found = read_page(path)
        assert found is not None
        assert type(found) is not dict
        assert found == read_graded(path)
    for broken in (notebook(None) | {"cells": [1]}, notebook(None) | {"cells": None}, [], {}):
        path.write_text(json.dumps(broken))
        assert read_page(path) is None


def test_pages_need_no_nbgrader() -> None:
    said = "import sys, autograder.feedback.pages, autograder.feedback.place; print('nbgrader' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", said], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
