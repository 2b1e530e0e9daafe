"""A small class in a folder of its own, and all that a class run leaves of it, so that two runs can be compared."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from autograder.course import STATE_FOLDER
from autograder.statefiles import read_state
from autograder.store import _Stored
from tests.courses import COMMANDS, REPOSITORY, environment
from tests.nbgrader.rows import rows

COURSE = """\
title: Interrupted
limits:
  call_seconds: 2
  restarts: 1
confinement:
  grade: B
assignments:
"""
LESSONS = {
    "attention": """\
  attention:
    title: Attention
    minutes: 30
    exercises:
      project_qkv:
      scaled_dot_product_attention:
""",
    "masking": """\
  masking:
    title: Masks
    minutes: 30
    exercises:
      padding_mask:
      causal_mask:
      masked_attention:
""",
}
CONFIGURATION = """\
from autograder.nbgrader.config import configure
c = get_config()
configure(c, __file__)
"""
HANGS, DAMAGED = "hangs", "damaged"
CLASS = {
    "attention": ("amara", "ben", DAMAGED, "emil", "farah", HANGS, "hugo"),
    "masking": ("amara", "dora", "goran", "mei", "noor"),
}
STUDENTS = tuple(sorted({student for students in CLASS.values() for student in students}))
LATER = {("attention", "amara"): "ben", ("masking", "goran"): "amara"}
"""Whose notebook a student had handed in when the class was graded before."""
NEW = (("attention", "farah"), ("attention", HANGS), ("masking", "mei"))
"""Who had handed in nothing then."""
COMES_AND_GOES = ("submitted", "autograded", "gradebook.db", STATE_FOLDER)
"""What of a course a class run reads and writes; the rest is as it was."""
BY_HAND = """
UPDATE grade SET manual_score = 1.5 WHERE cell_id IN (SELECT id FROM base_cell WHERE name = 'test_project_qkv')
AND notebook_id IN (SELECT submitted_notebook.id FROM submitted_notebook
JOIN submitted_assignment ON submitted_assignment.id = submitted_notebook.assignment_id WHERE student_id = 'ben')
"""

Grades = dict[tuple[str, str], list[tuple[Any, ...]]]
"""By student and notebook: cell, automatic score, mark by hand, extra credit, whether it waits for a human."""


@dataclass
class State:
    """What there is of a class."""

    rows: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    store: dict[str, Any] = field(default_factory=dict)

    @property
    def grades(self) -> Grades:
        found: Grades = {}
        for student, notebook, *grade in self.rows.get("grade", []):
            found.setdefault((student, notebook), []).append(tuple(grade))
        return found


class SmallClass:
    """A course and its submissions, below `root`, where temporary files go too.

    Args:
        root: an empty folder.
        lessons: which of `LESSONS`.
        students: which of `STUDENTS`.
    """

    standing: frozenset[int] = frozenset()
    """The processes that were there before a run, and stay: an examiner that is warm already."""
    stays: frozenset[str] = frozenset()
    """What these have in the folder of temporary files."""

    def __init__(self, root: Path, lessons: Sequence[str] = tuple(LESSONS), students: Sequence[str] = STUDENTS) -> None:
        self.root, self.course = root, root / "course"
        self.temporary = root / "tmp"
        self.temporary.mkdir()
        self.temporary.chmod(0o711)
        self.variables = {**environment(root / "home"), "TMPDIR": str(self.temporary), "OMP_NUM_THREADS": "1"}
        self._draw_seed()
        (self.course / "course.yml").write_text(COURSE + "".join(LESSONS[name] for name in lessons))
        (self.course / "nbgrader_config.py").write_text(CONFIGURATION)
        for assignment in lessons:
            for part in ("source", "release", "tests/hidden"):
                original, copy = REPOSITORY / part / assignment, self.course / part / assignment
                shutil.copytree(original, copy, ignore=shutil.ignore_patterns("__pycache__"))
        self._class = [(name, one) for name in lessons for one in CLASS[name] if one in students]
        for assignment, student in self._class:
            self._hand_in_now(assignment, student)

    def _draw_seed(self) -> None:
        """So that a first run which is killed, and one which is not, have the same."""
        (self.course / STATE_FOLDER).mkdir(mode=0o700, parents=True)
        (self.course / STATE_FOLDER / "seed").write_text("1\n")

    def hand_in(self, assignment: str, student: str, text: str, encoding: str = "utf-8") -> None:
        """Put a notebook where a student hands it in."""
        path = self.course / "submitted" / student / assignment / f"{assignment}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding=encoding)

    def _hand_in_now(self, assignment: str, student: str) -> None:
        if student == HANGS:
            self.hand_in(assignment, student, _hanging())
        elif student == DAMAGED:
            self.hand_in(assignment, student, _text(assignment, "emil"), encoding="utf-16")
        else:
            self.hand_in(assignment, student, _text(assignment, student))

    @property
    def gradebook(self) -> Path:
        """Its file."""
        return self.course / "gradebook.db"

    def start(self, *options: str, **how: Any) -> Any:
        """Start ``autograder grade`` as the leader of a process group; as `subprocess.Popen` returns it."""
        return self.start_command(*options, **how)

    def start_command(self, *options: str, **how: Any) -> subprocess.Popen[str]:
        """The same, in a process that has an examiner of its own."""
        said = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        command = [str(COMMANDS / "autograder"), "--course", str(self.course), "grade", *options]
        return subprocess.Popen(
            command,
            cwd=self.course,
            env=self.variables,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            **(said | how),
        )

    def examiners_of(self, run: Any) -> int:
        """The process that has started the examiner of a run."""
        return int(run.pid)

    def grade(self, *options: str) -> tuple[int, str]:
        """Run ``autograder grade``: its exit code, and what it said."""
        with self.start(*options) as run:
            said, _ = run.communicate(timeout=240)
        return run.returncode, said

    def grade_earlier(self) -> None:
        """Grade the class when some have handed in something else, and some nothing; then a mark is given by hand."""
        for one in self._class:
            if one in LATER:
                self.hand_in(*one, _text(one[0], LATER[one]))
            if one in NEW:
                shutil.rmtree(self.course / "submitted" / one[1] / one[0])
        code, said = self.grade()
        assert code == 0, said
        with contextlib.closing(sqlite3.connect(self.gradebook)) as database, database:
            assert database.execute(BY_HAND).rowcount == 1
        for one in self._class:
            self._hand_in_now(*one)

    def keep(self) -> Path:
        """Copy what there is now of the class; returns where."""
        copy = Path(tempfile.mkdtemp(prefix="kept-", dir=self.root))
        for name in COMES_AND_GOES:
            _copy(self.course / name, copy / name)
        return copy

    def restore(self, copy: Path) -> None:
        """Put a copy in its place again."""
        for path in self.course.glob("gradebook.db*"):
            path.unlink()
        for name in COMES_AND_GOES:
            shutil.rmtree(self.course / name, ignore_errors=True)
            _copy(copy / name, self.course / name)

    def state(self) -> State:
        """What there is; the gradebook is read from a copy, so that a look mends nothing."""
        graded = self.course / "autograded"
        files = {p.relative_to(graded).as_posix(): p.read_bytes() for p in sorted(graded.rglob("*/*")) if p.is_file()}
        folder = self.course / STATE_FOLDER / "results"
        store = {path.name: _kept(path) for path in sorted(folder.glob("[!.]*"))}
        return State(_rows(self.gradebook), files, store)

    def half_written(self) -> Iterator[str]:
        """What is not whole: of a gradebook, of JSON files and pages, of our own files."""
        with copied(self.gradebook) as copy:
            if copy is not None:
                with contextlib.closing(sqlite3.connect(copy)) as database:
                    [(said,)] = database.execute("PRAGMA integrity_check").fetchall()
                if said != "ok":
                    yield f"gradebook.db: {said}"
        for path in self.course.rglob("*"):
            inside = path.relative_to(self.course)
            if path.is_dir() or inside.parts[0] == "submitted" or any(_is_draft(part) for part in inside.parts):
                continue
            if path.suffix in (".json", ".ipynb") and not _is_json(path):
                yield f"{inside} is no JSON"
            if path.suffix == ".html" and not path.read_text().rstrip().endswith("</html>"):
                yield f"{inside} has no end"
            if inside.parts[:2] == (STATE_FOLDER, "results") and _kept(path) is None:
                yield f"{inside} is damaged"

    def leftovers(self) -> Iterator[str]:
        """Folders and drafts that a finished run leaves behind: none."""
        for path in self.temporary.iterdir():
            if path.name not in self.stays:
                yield f"left in the folder of temporary files: {path.name}"
        for path in sorted(self.course.rglob(".*")):
            inside = path.relative_to(self.course)
            # A draft of a result may be another run's, at work on another gradebook: a day later it is dropped.
            if inside.parts[0] != STATE_FOLDER:
                yield f"left: {inside}"


def differences(right: State, found: State) -> Iterator[str]:
    """What is other than it would be."""
    for name in ("rows", "files", "store"):
        ours, theirs = getattr(right, name), getattr(found, name)
        for key in sorted(ours.keys() | theirs.keys()):
            if ours.get(key) != theirs.get(key):
                yield f"{name}: {key} {_how(ours.get(key), theirs.get(key))}"


def _how(right: Any, found: Any) -> str:
    if right is None or found is None:
        return "is missing" if found is None else "is there"
    if isinstance(right, list):
        missing, more = [one for one in right if one not in found], [one for one in found if one not in right]
        return f"lacks {missing[:2]!r:.300}, has {more[:2]!r:.300}"
    ours, theirs = (one if isinstance(one, bytes) else msgspec.json.encode(one) for one in (right, found))
    place = next((n for n, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), min(len(ours), len(theirs)))
    return (
        f"is another: {ours[max(0, place - 80) : place + 80]!r} has become {theirs[max(0, place - 80) : place + 80]!r}"
    )


def _copy(path: Path, copy: Path) -> None:
    if path.is_dir():
        shutil.copytree(path, copy)
    elif path.exists():
        shutil.copy2(path, copy)


def _text(assignment: str, student: str) -> str:
    return (REPOSITORY / "examples" / "submissions" / student / assignment / f"{assignment}.ipynb").read_text()


def _hanging() -> str:
    notebook = json.loads(_text("attention", "amara"))
    [cell] = [one for one in notebook["cells"] if one["metadata"].get("nbgrader", {}).get("grade_id") == "project_qkv"]
    cell["source"] = "def project_qkv(*inputs):\n    while True:\n        pass\n"
    return json.dumps(notebook)


def _kept(path: Path) -> Any:
    """A result of the store without what was measured; None of a damaged one."""
    kept = read_state(path, _Stored)
    if kept is None:
        return None
    found: dict[str, Any] = msgspec.to_builtins(kept, str_keys=True)
    if found["examined"] is not None:
        for name in ("seconds", "memory", "by_chance"):  # after a kill, what hangs may be examined once more
            found["examined"].pop(name, None)
    return found


@contextlib.contextmanager
def copied(database: Path) -> Iterator[Path | None]:
    """A copy of a gradebook, with the journal that a killed run leaves; None where there is none."""
    with tempfile.TemporaryDirectory() as folder:
        for path in database.parent.glob(f"{database.name}*"):
            shutil.copy(path, folder)
        copy = Path(folder) / database.name
        yield copy if copy.exists() else None


def _rows(database: Path) -> dict[str, list[tuple[Any, ...]]]:
    with copied(database) as copy:
        if copy is None:
            return {}
        with contextlib.closing(sqlite3.connect(copy)) as connection:
            version = connection.execute("SELECT version_num FROM alembic_version").fetchall()
        return {**rows(copy), "version": version}


def _is_draft(name: str) -> bool:
    return name.startswith(".") and name.endswith((".new", ".old"))


def _is_json(path: Path) -> bool:
    try:
        json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return False
    return True
