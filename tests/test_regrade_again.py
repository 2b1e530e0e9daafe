"""Grading a class again, where a run was killed, a clock or a fault decided, a human marked, or a disk is full."""

# ruff: noqa: F811 - the fixtures of a class in a folder, and of its stand-in for a grader, come from a module

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sqlite3
import sys
import sysconfig
import types
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from autograder import folders
from autograder.classroom import ClassRun
from autograder.cli import main
from autograder.course import load_course, suite_hash
from autograder.fingerprints import frame_of, own_modules
from autograder.ledger import Ledger
from autograder.nbgrader.files import ClassFiles
from autograder.nbgrader.rows import _Found, submitted_rows
from autograder.settled import REOPENED
from autograder.statefiles import Journal

from .test_regrade import (  # noqa: F401
    STUDENTS,
    ByText,
    change,
    course,
    graded,
    graded_class,
    grader,
    grades,
    hand_in,
    refuse_the_long_way,
    sql,
    state,
    submitted,
)

Capture = pytest.CaptureFixture[str]


class Killed(BaseException):
    """Ends a run where it is; what is left to do at its end is what a kill would leave undone."""


@pytest.fixture
def kill(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A function that runs ``autograder grade`` and ends it when `method` of `owner` is called for the second time."""

    def kill_it(owner: type, method: str, *options: str, call: int = 2) -> None:
        left, real = [call], getattr(owner, method)

        def counted(*arguments: Any, **named: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                raise Killed
            return real(*arguments, **named)

        with monkeypatch.context() as patch, pytest.raises(Killed):
            patch.setattr(owner, method, counted)
            main(["grade", *options])

    return kill_it


# A run that was killed


@pytest.mark.parametrize(
    ("owner", "method", "call"),
    [(ClassFiles, "write", 2), (Ledger, "enter", 2), (Ledger, "enter", 3), (Ledger, "told", 1)],
)
def test_the_run_that_completes_a_killed_one_tells_of_both(
    grader: type[ByText], course: Path, capsys: Capture, kill: Callable[..., None],
    owner: type, method: str, call: int,
) -> None:  # fmt: skip
    main(["grade"])
    for student, worth in (("ada", 3), ("bob", 1), ("cleo", 2)):
        hand_in(student, worth)
    kill(owner, method, call=call)
    told = graded_class(capsys)
    assert [change(told[student]) for student in STUDENTS] == [
        (4, 3, {"file"}),
        (2.5, 1, {"file"}),
        (1, 2, {"file"}),
    ]
    assert grader.examined.count("ada") == 2
    assert all(one["change"] is None and one["unchanged"] for one in graded_class(capsys).values())


def test_what_a_killed_run_did_to_others_is_told_by_the_run_that_comes_to_them(
    grader: type[ByText], course: Path, capsys: Capture, kill: Callable[..., None]
) -> None:
    main(["grade"])
    hand_in("ada", 3)
    kill(Ledger, "told", call=1)
    assert graded_class(capsys, "--student", "cleo")["cleo"]["change"] is None
    hand_in("ada", 2)
    kill(Ledger, "told", call=1)
    assert change(graded_class(capsys)["ada"]) == (4, 2, {"file"})


def test_a_first_run_that_was_killed_has_changed_nothing(
    grader: type[ByText], course: Path, capsys: Capture, kill: Callable[..., None]
) -> None:
    kill(Ledger, "enter", call=3)
    assert all(one["change"] is None for one in graded_class(capsys).values())
    assert grader.examined == [*STUDENTS]


def test_a_journal_ends_before_what_was_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "ledgers" / "x-journal"
    for record in (b"one", b"two", b"three"):
        Journal(path).append(record)
    assert Journal(path).read() == [b"one", b"two", b"three"]
    path.write_bytes(path.read_bytes()[:-1])
    assert Journal(path).read() == [b"one", b"two"]
    Journal(path).append(b"four")
    assert Journal(path).read() == [b"one", b"two", b"four"]
    content = path.read_bytes()
    place = content.index(zlib.compress(b"two"))
    path.write_bytes(content[:place] + b"?" + content[place + 1 :])
    assert Journal(path).read() == [b"one"]
    Journal(path).append(b"six")  # of the same length: what stood behind it stays away
    assert Journal(path).read() == [b"one", b"six"]
    path.chmod(0o666)
    assert Journal(path).read() == []
    path.chmod(0o600)
    Journal(path).remove()
    assert not path.exists()


# A clock that decided


@pytest.mark.parametrize(("bonus", "after"), [(0, 4), (-2, 3)])
def test_what_a_time_limit_decided_is_examined_once_more_and_the_better_result_stays(
    grader: type[ByText], course: Path, capsys: Capture, refuse_the_long_way: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch, bonus: float, after: float,
) -> None:  # fmt: skip
    grader.by_chance, grader.bonus = True, -1
    hand_in("cleo", 2)
    assert all(one["provisional"] for one in graded_class(capsys).values())
    with monkeypatch.context() as patch:
        patch.setattr("autograder._class_commands._nbgrader", None)
        main(["grade"])  # nothing is examined, and nobody pays for it
    assert "a time limit or a killed process decided, ada, bob, cleo: " in " ".join(capsys.readouterr().out.split())
    grader.by_chance, grader.bonus = bonus != 0, bonus
    hand_in("dan", 2.5)
    told = graded_class(capsys)
    assert grader.examined == [*STUDENTS, *STUDENTS, "dan"]
    assert [name for name, one in told.items() if one["again"]] == list(STUDENTS)
    assert change(told["ada"]) == ((3, 4, {"clock"}) if after == 4 else None) and told["ada"]["score"] == after
    assert [one["provisional"] for one in told.values()] == [False, False, False, bonus != 0]
    grader.by_chance = False
    hand_in("eve", 2.5)
    graded_class(capsys)
    assert grader.examined[7:] == (["dan", "eve"] if bonus else ["eve"])


# What has no score


def test_what_no_second_run_would_grade_is_as_unchanged_as_the_others(
    grader: type[ByText], course: Path, capsys: Capture, refuse_the_long_way: Callable[[], None]
) -> None:
    submitted("bob").write_text("{")
    submitted("cleo").unlink()
    first = graded_class(capsys)
    assert [one["status"] for one in first.values()] == ["graded", "unusable", "unusable"]
    refuse_the_long_way()
    again = graded_class(capsys)
    assert [one.get("error") for one in again.values()] == [one.get("error") for one in first.values()]
    assert all(one["unchanged"] for one in again.values()) and grader.examined == [*STUDENTS]
    submitted("cleo").write_text("[")
    with pytest.raises(AssertionError, match="asked nbgrader"):
        main(["grade"])


def test_what_a_person_has_to_decide_is_as_unchanged_as_the_others(
    grader: type[ByText], course: Path, capsys: Capture, refuse_the_long_way: Callable[[], None]
) -> None:
    grader.fails_for, grader.undecided = ("bob",), True
    main(["grade"])
    refuse_the_long_way()
    assert graded_class(capsys)["bob"]["status"] == "ungraded"


def test_a_folder_within_a_submission_is_as_it_was(
    grader: type[ByText], course: Path, capsys: Capture, refuse_the_long_way: Callable[[], None]
) -> None:
    data = submitted("bob").parent / "data"
    (data / "more").mkdir(parents=True)
    (data / "more" / "numbers.csv").write_text("1,2\n")
    main(["grade"])
    refuse_the_long_way()
    assert all(one["unchanged"] for one in graded_class(capsys).values())
    (data / "more" / "numbers.csv").write_text("1,3\n")
    with pytest.raises(AssertionError, match="asked nbgrader"):
        main(["grade"])


def test_what_a_killed_run_has_changed_is_told_where_the_next_one_fails(
    grader: type[ByText], course: Path, capsys: Capture, kill: Callable[..., None]
) -> None:
    main(["grade"])
    hand_in("ada", 3)
    kill(Ledger, "told", call=1)
    grader.fails_for = ("ada",)
    told = graded_class(capsys, "--fresh")
    assert told["ada"]["retained"] and change(told["ada"]) == (4, 3, {"file"})


def test_nothing_that_grows_with_the_class_is_read_from_end_to_end_for_one_student(
    grader: type[ByText], course: Path
) -> None:
    main(["grade"])
    read: set[str] = set()

    def explain(query: str, asked: Mapping[str, Any]) -> list[Any]:
        with contextlib.closing(sqlite3.connect("gradebook.db")) as connection:
            read.update(row[-1] for row in connection.execute(f"EXPLAIN QUERY PLAN {query}", asked))
        return []

    submitted_rows(explain, "attention", "ada")
    large = ("submitted_assignment", "submitted_notebook", "grade", "comment")
    assert read and not [step for step in read if step.startswith("SCAN") and step.split()[1] in large]


def test_a_fault_of_ours_is_tried_again_alone(grader: type[ByText], course: Path, capsys: Capture) -> None:
    grader.fails_for = ("bob",)
    main(["grade"])
    for _ in range(2):
        told = graded_class(capsys)
        assert [one["unchanged"] for one in told.values()] == [True, False, True]
    assert grader.examined == [*STUDENTS, "bob", "bob"]


# Marks by hand


def _settle(student: str, exercise: str, mark: float) -> None:
    """As formgrader does."""
    sql(
        f"""UPDATE grade SET manual_score = {mark}, needs_manual_grade = 0
        WHERE cell_id IN (SELECT id FROM base_cell WHERE name = 'test_{exercise}') AND notebook_id IN (
            SELECT submitted_notebook.id FROM submitted_notebook JOIN submitted_assignment
            ON submitted_assignment.id = submitted_notebook.assignment_id WHERE student_id = '{student}')"""
    )


def test_a_mark_by_hand_stays_settled_where_nothing_has_changed_that_it_was_given_for(
    grader: type[ByText], course: Path, capsys: Capture
) -> None:
    main(["grade"])
    for student in STUDENTS:
        _settle(student, "double", 3)
        _settle(student, "half", 1)
    Path(".autograder/seed").write_text("1\n")
    hand_in("bob", 2.5, said="another text")
    told = graded_class(capsys)
    assert grades("ada") == {"test_double": [4, 3, None, 0], "test_half": [None, 1, None, 0]}
    assert grades("bob") == {"test_double": [2.5, 3, None, 1], "test_half": [None, 1, None, 0]}
    assert told["ada"]["waiting"] == [] and told["bob"]["reopened"] == {"double": "answer"}
    grader.bonus = -0.5
    graded_class(capsys, "--fresh")
    assert grades("ada") == {"test_double": [3.5, 3, None, 1], "test_half": [None, 1, None, 0]}
    for _ in range(2):  # an unchanged class says why, too
        main(["grade"])
        said = " ".join(capsys.readouterr().out.split())
        assert f"for a human, ada: double ({REOPENED['score']})" in said
        assert f"for a human, bob: double ({REOPENED['answer']})" in said
    _settle("bob", "double", 2)
    assert graded_class(capsys)["bob"]["waiting"] == [] and grades("bob")["test_double"] == [2, 2, None, 0]


def test_without_a_record_of_the_answer_a_mark_by_hand_waits_for_a_human(
    grader: type[ByText], course: Path, capsys: Capture
) -> None:
    main(["grade"])
    _settle("ada", "half", 1)
    shutil.rmtree(".autograder/ledgers")
    told = graded_class(capsys)
    assert told["ada"]["reopened"] == {"half": "unrecorded"} and grades("ada")["test_half"] == [None, 1, None, 1]


def test_a_mark_for_a_file_that_could_not_be_graded_is_of_that_file(
    grader: type[ByText], course: Path, capsys: Capture
) -> None:
    submitted("ada").write_text("{")
    main(["grade"])
    _settle("ada", "double", 2)
    assert graded_class(capsys)["ada"]["reopened"] == {} and grader.examined == [*STUDENTS]
    Path(".autograder/seed").write_text("1\n")
    assert graded_class(capsys)["ada"]["reopened"] == {} and grades("ada")["test_double"] == [None, 2, None, 0]
    submitted("ada").write_text("[")
    assert graded_class(capsys)["ada"]["reopened"] == {"double": "answer"}


# A machine that fails


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_ends_the_run_with_one_sentence_and_nothing_half_written(
    grader: type[ByText], course: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    main(["grade"])
    before, write = graded("bob").read_bytes(), Path.write_bytes

    def full(path: Path, *arguments: Any, **named: Any) -> int:
        if "bob" in path.parts[-2] or "bob" in str(path):
            write(path, b"half")
            raise OSError(number, os.strerror(number))
        return write(path, *arguments, **named)

    hand_in("ada", 3)
    hand_in("bob", 1)
    capsys.readouterr()
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        assert main(["grade"]) == 2
    [said] = [line for line in capsys.readouterr().err.splitlines() if line.startswith("autograder: ")]
    assert os.strerror(number) in said and "bob" not in said.replace(str(course), "")
    assert graded("bob").read_bytes() == before and grades("bob")["test_double"] == [2.5, None, None, 0]
    assert [path.name for path in Path("autograded/bob").iterdir()] == ["attention"]
    told = graded_class(capsys)
    assert change(told["ada"]) == (4, 3, {"file"}) and change(told["bob"]) == (2.5, 1, {"file"})


def test_results_that_vanish_from_the_store_in_the_middle_of_a_run_are_made_again(
    grader: type[ByText], course: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    main(["grade"])
    before, results = state(), ClassRun.results

    def emptied(self: ClassRun, *arguments: Any) -> Iterator[Any]:
        shutil.rmtree(".autograder/results")
        return results(self, *arguments)

    shutil.rmtree("autograded")
    monkeypatch.setattr(ClassRun, "results", emptied)
    assert all(one["status"] == "graded" for one in graded_class(capsys).values())
    assert state() == before and grader.examined == [*STUDENTS, *STUDENTS]


# What all of it hangs on


def test_a_configuration_that_another_one_loads_counts(
    grader: type[ByText], course: Path, capsys: Capture, refuse_the_long_way: Callable[[], None]
) -> None:
    with Path("nbgrader_config.py").open("a") as config:
        config.write(f"load_subconfig('house.py', path={str(course)!r})\nload_subconfig('later.py')\n")
    Path("house.py").write_text("c = get_config()\n")
    main(["grade"])
    refuse_the_long_way()
    main(["grade"])
    for name in ("house.py", "later.py"):
        before = Path(name).read_text() if Path(name).exists() else None
        Path(name).write_text("c = get_config()  # another\n")
        with pytest.raises(AssertionError, match="asked nbgrader"):
            main(["grade"])
        Path(name).unlink() if before is None else Path(name).write_text(before)
    main(["grade"])


def test_a_plugin_of_nbgrader_counts_wherever_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    from nbgrader.plugins import LateSubmissionPlugin

    place = os.path.realpath(os.path.join(sysconfig.get_path("purelib"), "house_penalties.py"))
    module = types.ModuleType("house_penalties")
    module.__file__ = place
    monkeypatch.setitem(sys.modules, "house_penalties", module)
    assert place not in own_modules()
    plugin = type("House", (LateSubmissionPlugin,), {"__module__": "house_penalties"})
    assert plugin and place in own_modules()


def test_all_that_decides_a_result_is_in_its_hash(course_folder: Path) -> None:
    def now() -> str:
        return suite_hash(load_course(course_folder), "attention")

    seen = [now()]
    rules = course_folder / "course.yml"
    rules.write_text(rules.read_text().replace("      half:\n", "      half:\n        manual: true\n"))
    seen.append(now())
    data = course_folder / "tests" / "hidden" / "attention" / "words.txt"
    data.write_text("what a suite reads")
    seen.append(now())
    cache = data.parent / "__pycache__" / "test_double.pyc"
    cache.parent.mkdir()
    cache.write_bytes(b"")
    assert now() == seen[-1]
    source = course_folder / "source" / "attention" / "attention.ipynb"
    release = course_folder / "release" / "attention" / "attention.ipynb"
    release.parent.mkdir(parents=True)
    release.write_text(source.read_text())
    assert now() == seen[-1]
    source.unlink()
    release.write_text(release.read_text() + "\n")
    seen.append(now())
    release.write_text(release.read_text() + "\n")
    seen.append(now())
    assert len(set(seen)) == 5


def test_the_course_s_files_count_and_large_ones_are_not_read(
    course_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "MAX_READ", 1_000)
    course = load_course(course_folder)
    source = course.source_notebook("attention").parent
    opened: list[str] = []
    monkeypatch.setattr(folders.os, "open", lambda path, *rest, real=os.open: opened.append(path) or real(path, *rest))

    def now() -> str:
        return frame_of(course, "attention", "")

    large, small = source / "large.bin", source / "small.txt"
    large.write_bytes(b"x" * 2_000)
    small.write_bytes(b"x")
    seen = [now(), now()]
    assert seen[0] == seen[1] and str(small) in opened and str(large) not in opened
    large.write_bytes(b"y" * 2_000)
    seen.append(now())
    small.write_bytes(b"y")
    seen.append(now())
    for number in range(folders.MAX_FILES):  # more than of a submission are looked at
        (source / f"z{number}").touch()
    seen.append(now())
    (source / "z7").write_text("z")
    seen.append(now())
    assert len(set(seen)) == 5


def test_a_penalty_is_never_a_gift() -> None:
    assert _Found(penalties=[-1.0], scores=[2.0]).rows().score == 2
    assert _Found(penalties=[3.0], scores=[2.0]).rows().score == 0


def test_what_is_told_to_people_is_told_to_programs(grader: type[ByText], course: Path, capsys: Capture) -> None:
    submitted("ada").rename(submitted("ada").with_name("mine.ipynb"))
    (submitted("bob").parent / "more.ipynb").write_text("{}")
    _ = graded_class(capsys)
    sql("UPDATE grade SET extra_credit = 1 WHERE auto_score = 1")
    told = graded_class(capsys)
    assert told["ada"]["remarks"] == ["took mine.ipynb, for there is no attention.ipynb"]
    assert told["bob"]["left_out"] == ["more.ipynb"]
    assert [one["adjusted"] for one in told.values()] == [False, False, True]
