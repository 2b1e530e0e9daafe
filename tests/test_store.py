"""The store of results: what is found again, what is not, and that nothing in it is a student's to write."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from autograder import statefiles, store
from autograder.course import STATE_FOLDER, Course, load_course
from autograder.examiner.job import Examined
from autograder.fingerprints import result_key
from autograder.grading import Graded, Grader
from autograder.mend import mend, released_notebook
from autograder.messages import message
from autograder.report import CheckReport, ExerciseReport, GradeReport
from autograder.statefiles import DAY, MAX_DAYS, read_state, write_state
from autograder.store import ResultStore
from tests import engine

KEY = "ab" * 32
PATH = Path("submitted", "ada", "attention", "attention.ipynb")


@pytest.fixture
def course(course_folder: Path) -> Course:
    return load_course(course_folder)


@pytest.fixture
def folder(course: Course) -> Path:
    """Where the results are."""
    return course.root / STATE_FOLDER / "results"


@pytest.fixture
def graded(course: Course) -> Graded:
    """A result with something of everything in it."""
    nested = message("{what}", what=message("row {row} sums to {total}", row=1, total=0.53))
    check = CheckReport("value", message("It doubles"), "failed", 1.5, 4.0, nested, "no-scale", message("try"))
    outputs = {2: [{"output_type": "stream", "name": "stdout", "text": "4\n"}], -1: []}
    report = GradeReport(
        str(PATH), "attention", "graded", 1.5, 4.0, 7, "cd", "landlock",
        repairs=(message("mended"),), doubts=(message("may have called it"),),
        exercises=(ExerciseReport("double", 1.5, 4.0, (check,)),),
    )  # fmt: skip
    mended = mend(released_notebook(course, "attention"), course, "attention")
    return Graded(report, mended, Examined(report.exercises, outputs, seconds={"total": 0.5}))


def test_a_result_comes_back_as_it_was(course: Course, graded: Graded) -> None:
    given = ResultStore(course).put(KEY, graded)
    found = ResultStore(course).get(KEY, PATH)
    assert found == given
    assert found is not None and found.mended == graded.mended
    assert found.report.public() == graded.report.public()
    assert found.examined is not None and graded.examined is not None
    assert found.examined.outputs == graded.examined.outputs


def test_a_result_is_told_of_the_file_that_has_it_now(course: Course, graded: Graded) -> None:
    ResultStore(course).put(KEY, graded)
    found = ResultStore(course).get(KEY, Path("submitted/zoe/attention/mine.ipynb"))
    assert found is not None and found.report.notebook == "submitted/zoe/attention/mine.ipynb"
    odd = msgspec.structs.replace(graded.report, notebook=os.fsdecode(b"\xff.ipynb"))
    assert ResultStore(course).put(KEY, replace(graded, report=odd)).report.notebook == odd.notebook


def test_a_key_hangs_on_all_that_decides_a_score(course: Course) -> None:
    asked = {"submission": "a", "assignment": "attention", "suites": "b", "seed": 1}
    strict = msgspec.structs.replace(course, confinement=msgspec.structs.replace(course.confinement, grade="A"))
    keys = {result_key(course, **asked), result_key(strict, **asked)}  # type: ignore[arg-type]
    for name, other in {"submission": "c", "assignment": "masking", "suites": "c", "seed": 2}.items():
        keys.add(result_key(course, **asked | {name: other}))  # type: ignore[arg-type]
    assert len(keys) == 6
    assert result_key(course, "", "attention", "b", 1) == ""  # a file that can't be read has no result


@pytest.mark.parametrize("status", ["ungraded", "unusable"])
def test_only_what_was_graded_is_kept(course: Course, graded: Graded, folder: Path, status: str) -> None:
    other = msgspec.structs.replace(graded.report, status=status)
    ResultStore(course).put(KEY, replace(graded, report=other))
    ResultStore(course).put("", graded)
    assert not folder.exists()
    assert ResultStore(course).get("", PATH) is None


def _rewritten(path: Path, content: bytes) -> None:
    path.unlink()
    path.write_bytes(content)


DAMAGE = {
    "empty": lambda path: _rewritten(path, b""),
    "cut": lambda path: _rewritten(path, path.read_bytes()[:-50]),
    "one bit": lambda path: _rewritten(path, path.read_bytes()[:-9] + b"\x00" + path.read_bytes()[-8:]),
    "no file of ours": lambda path: _rewritten(path, b"{}" * 100),
    "another version": lambda path: _rewritten(path, path.read_bytes().replace(b"state 1", b"state 0")),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "a link": lambda path: (path.rename(path.with_name("real")), path.symlink_to(path.with_name("real"))),
    "a pipe": lambda path: (path.unlink(), os.mkfifo(path)),
    "others may write it": lambda path: path.chmod(0o666),
    "others may write the folder": lambda path: path.parent.chmod(0o777),
    "the result of another": lambda path: path.rename(path.with_name("ef" * 32)),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_or_foreign_file_is_no_result(course: Course, graded: Graded, folder: Path, damage: str) -> None:
    given = ResultStore(course).put(KEY, graded)
    DAMAGE[damage](folder / KEY)
    key = "ef" * 32 if damage == "the result of another" else KEY
    assert ResultStore(course).get(key, PATH) is None
    if damage not in ("a folder", "others may write the folder"):
        ResultStore(course).put(key, graded)
        assert ResultStore(course).get(key, PATH) == given  # replaced


def test_content_of_another_shape_is_no_result(course: Course, folder: Path, graded: Graded) -> None:
    ResultStore(course).put(KEY, graded)
    write_state(folder / KEY, msgspec.msgpack.encode({"key": KEY, "report": {"score": "much"}}))
    assert ResultStore(course).get(KEY, PATH) is None


def test_a_file_that_unpacks_to_too_much_is_not_unpacked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = msgspec.msgpack.encode("x" * 5_000)
    assert write_state(folder / KEY, content) and read_state(folder / KEY, str) == "x" * 5_000
    assert read_state(folder / KEY, str, 4_000) is None
    assert not write_state(folder / "other", content, 4_000) and not (folder / "other").exists()
    size = (folder / KEY).stat().st_size
    monkeypatch.setattr(statefiles, "PACKED", 100)
    assert read_state(folder / KEY, str, 100 * size - 1) is None and read_state(folder / KEY, str, 100 * size)
    assert not write_state(folder / "other", content, 100 * size - 1)


def test_what_lies_there_is_for_this_user_alone(course: Course, graded: Graded, folder: Path) -> None:
    ResultStore(course).put(KEY, graded)
    assert [path.stat().st_mode & 0o777 for path in (folder.parent, folder, folder / KEY)] == [0o700, 0o700, 0o600]


def test_a_disk_that_is_full_leaves_the_old_result_and_no_half(
    course: Course, graded: Graded, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = ResultStore(course).put(KEY, graded)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    better = replace(graded, report=msgspec.structs.replace(graded.report, score=4.0))
    assert ResultStore(course).put(KEY, better).report.score == 4  # of this run all the same
    assert ResultStore(course).get(KEY, PATH) == given
    assert [path.name for path in folder.iterdir()] == [KEY]


def test_a_result_that_is_too_large_leaves_no_older_one(
    course: Course, graded: Graded, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ResultStore(course).put(KEY, graded)
    monkeypatch.setattr(statefiles, "PACKED", 1 << 30)
    assert ResultStore(course).put(KEY, graded).report.score == 1.5  # of this run all the same
    assert list(folder.iterdir()) == []


def test_what_no_run_has_used_for_long_is_dropped(course: Course, graded: Graded, folder: Path) -> None:
    for key in ("old", "used", "young", ".draft.new", ".fresh.new"):
        ResultStore(course).put(key, graded)
    for key, days in {"old": MAX_DAYS + 1, "used": MAX_DAYS + 1, "young": MAX_DAYS - 1, ".draft.new": 2}.items():
        os.utime(folder / key, (time.time() - days * DAY,) * 2)
    ResultStore(course).get("used", PATH)
    ResultStore(course).tidy()
    assert {path.name for path in folder.iterdir()} == {"used", "young", ".fresh.new"}


def test_beyond_its_room_what_was_used_longest_ago_is_dropped(
    course: Course, graded: Graded, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place, key in enumerate("abcd"):
        ResultStore(course).put(key, graded)
        os.utime(folder / key, (time.time() - place,) * 2)
    size = (folder / "a").stat().st_size
    monkeypatch.setattr(store, "MAX_TOTAL", 2 * size + 1)
    ResultStore(course).tidy()
    assert {path.name for path in folder.iterdir()} == {"a", "b"}


def test_no_worker_can_look_into_the_store(grader: Grader, course: Course, graded: Graded, folder: Path) -> None:
    ResultStore(course).put(KEY, graded)
    places = [folder, folder / KEY, engine.ROOT / STATE_FOLDER, folder.parent / "ledgers"]
    look = (
        f"import os\nfor place in {[str(place) for place in places]!r}:\n"
        "    for look in (os.listdir, open, lambda place: os.mkdir(place + '.x')):\n"
        "        try:\n            print('SEEN', look(place))\n"
        "        except NotADirectoryError:\n            print('SEEN')\n"
        "        except OSError:\n            print('LOCKED')\n"
    )
    report = grader.grade(engine.with_cell(engine.answered(project_qkv=engine.PROJECTION), 0, look), "attention", 1)
    assert report.examined is not None
    said = "".join(str(output) for outputs in report.examined.outputs.values() for output in outputs)
    assert said.count("LOCKED") == 12 and "SEEN" not in said
