"""course.yml, its errors, the seed, and the hash of the hidden suites."""

from __future__ import annotations

import datetime
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from autograder import course as course_module
from autograder.course import SEED_LIMIT, Course, course_seed, find_course, load_course, suite_hash
from autograder.errors import CourseError

from .conftest import REPOSITORY

WriteCourse = Callable[[str, str], Path]


@pytest.fixture
def course(course_folder: Path) -> Course:
    return load_course(course_folder)


def error_of(root: Path) -> str:
    """The one sentence that loading this course gives, without the path before it."""
    with pytest.raises(CourseError) as caught:
        load_course(root)
    text = str(caught.value)
    assert text.startswith(str(root / "course.yml"))
    assert "\n" not in text
    assert text.endswith(".")
    return text.removeprefix(str(root / "course.yml"))


def test_a_course_holds_what_its_file_says(course: Course) -> None:
    attention = course.assignment("attention")
    assert course.limits.call_seconds == 2
    assert course.limits.cell_seconds == 60  # not in the file
    assert course.confinement.grade == "B"
    assert course.confinement.check == "C"
    assert attention.name == "attention"
    assert attention.due == datetime.datetime.fromisoformat("2026-12-20T23:59:00+08:00")
    assert list(attention.exercises) == ["double", "half"]


def test_the_course_of_this_repository_can_be_loaded() -> None:
    course = load_course(REPOSITORY)
    for name in course.assignments:
        assert course.source_notebook(name).is_file()
        assert course.hidden_folder(name).is_dir()


def test_forbidden_names_are_those_of_all_groups_of_the_exercise(course: Course) -> None:
    assert course.forbidden_names("attention", "double") == (
        "torch.nn.MultiheadAttention",
        "torch.nn.functional.scaled_dot_product_attention",
        "torch.nn.functional.cross_entropy",
    )
    assert course.forbidden_names("attention", "half") == ()


def test_an_unknown_assignment_is_answered_with_those_there_are(course: Course) -> None:
    with pytest.raises(CourseError, match=r"^course\.yml has no assignment 'atention'; it has: attention\.$"):
        course.assignment("atention")


def test_the_course_is_found_from_a_folder_inside_it(course_folder: Path) -> None:
    assert find_course(course_folder / "source" / "attention") == course_folder


def test_no_course_is_found_outside_of_one(tmp_path: Path) -> None:
    with pytest.raises(CourseError, match=r"there is no course\.yml in .* or above it"):
        find_course(Path(tmp_path.anchor))


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            "call_seconds",
            "cal_seconds",
            ", line 3: limits.cal_seconds is not a known key; did you mean 'call_seconds'?.",
        ),
        ("title: A course", "titel: A course", ", line 1: titel is not a known key; did you mean 'title'?."),
        ("title: A course\n", "", ": title is missing."),
        ("title: A course", "title: 3", ", line 1: title must be a text, not 3."),
        (
            "title: A course",
            "title: A course\nlanguage: chinese",
            ", line 2: language must be a language such as",
        ),
        (
            "call_seconds: 2",
            "call_seconds: ten",
            ", line 3: limits.call_seconds must be a number of seconds above 0",
        ),
        (
            "call_seconds: 2",
            "call_seconds: 0",
            ", line 3: limits.call_seconds must be a number of seconds above 0",
        ),
        (
            "call_seconds: 2",
            "call_seconds: .nan",
            ", line 3: limits.call_seconds must be a number of seconds above 0",
        ),
        (
            "call_seconds: 2",
            "call_seconds: true",
            ", line 3: limits.call_seconds must be a number of seconds above 0",
        ),
        (
            "forbidden: [finished, loss]",
            "value: half",
            ", line 19: assignments.attention.exercises.double.value asks for 'half', as another exercise",
        ),
        (
            "forbidden: [finished, loss]",
            "value: results\n        manual: true",
            ", line 19: assignments.attention.exercises.double.value does not go together with `manual`",
        ),
        (
            "forbidden: [finished, loss]",
            "value: results\n        forbidden: [loss]",
            ", line 20: assignments.attention.exercises.double.forbidden has no effect on a value",
        ),
        ("call_seconds: 2", "memory_mb: 100", ", line 3: limits.memory_mb must be a whole number from 1024"),
        (
            "call_seconds: 2",
            "restarts: 1.5",
            ", line 3: limits.restarts must be a whole number from 0 to 100, not 1.5.",
        ),
        (
            "  call_seconds: 2",
            "  - call_seconds",
            ", line 2: limits must be a list of keys and values, not [",
        ),
        ("grade: B", "grade: D", ", line 5: confinement.grade must be A, B or C, not 'D'."),
        (
            "minutes: 30",
            "minutes: half",
            ", line 15: assignments.attention.minutes must be a whole number from 1",
        ),
        (
            "2026-12-20T",
            "2026-13-20T",
            ", line 16: assignments.attention.due must be a date and time such as 2026-12",
        ),
        (
            "T23:59:00+08:00",
            "",
            ", line 16: assignments.attention.due must be a date and time such as 2026-12-20T23",
        ),
        (
            "  attention:\n",
            "  ../attention:\n",
            ", line 13: assignments.../attention must be a name of letters",
        ),
        (
            "  attention:\n",
            "  12:\n",
            ", line 13: assignments.12 must be a name, in quotes where it is a number.",
        ),
        (
            "      half:",
            "      half a:",
            "assignments.attention.exercises.half a must be the name of a function.",
        ),
        (
            "[finished, loss]",
            "[finishd]",
            "names the group 'finishd', which is not under `forbidden`; did you mean 'finished'?",
        ),
        (
            "[finished, loss]",
            "finished",
            "double.forbidden must be a list of groups that stand under `forbidden`",
        ),
        (
            "    - torch.nn.functional.cross_entropy",
            "    - cross entropy",
            ", line 10: forbidden.loss must be a list of dotted names",
        ),
        (
            "    title: Attention\n",
            "    title: Attention\n    title: Again\n",
            ", line 15: assignments.attention.title stands here a second time.",
        ),
        ("title: A course", "title: [A course", ": this is not YAML: "),
        (
            "title: A course",
            "title: !!python/name:os.system",
            ", line 1: this is not YAML: could not determine",
        ),
        ("title: A course", "title: !!int many", ": this is not YAML: "),
        ("title: A course", 'title: "\\x"', ", line 1: this is not YAML: "),
    ],
)
def test_what_is_wrong_in_the_file_is_told_in_one_sentence(
    write_course: WriteCourse, old: str, new: str, sentence: str
) -> None:
    assert sentence in error_of(write_course(old, new))


@pytest.mark.parametrize("content", ["", "- a list\n", "a text\n", "12"])
def test_a_file_that_is_no_course_is_told_so(course_folder: Path, content: str) -> None:
    (course_folder / "course.yml").write_text(content)
    assert "the file must be a list of keys and values" in error_of(course_folder)


def test_a_course_without_assignments_is_told_so(course_folder: Path) -> None:
    (course_folder / "course.yml").write_text("title: A course\nassignments: {}\n")
    assert error_of(course_folder) == ", line 2: assignments must name at least one assignment."


def test_absurd_nesting_is_no_traceback(course_folder: Path) -> None:
    (course_folder / "course.yml").write_text("[" * 5000)
    assert "this is not YAML" in error_of(course_folder)


def test_a_missing_file_a_folder_and_bytes_are_told_apart(course_folder: Path) -> None:
    path = course_folder / "course.yml"
    path.write_bytes(b"title: \xff\xfe\xfa")
    assert error_of(course_folder) == " is not UTF-8 text."
    path.unlink()
    assert "does not exist" in error_of(course_folder)
    path.mkdir()
    assert "can't be read: Is a directory." in error_of(course_folder)


def test_the_seed_is_drawn_once(course: Course) -> None:
    seed = course_seed(course)
    assert 0 <= seed < SEED_LIMIT
    assert course_seed(course) == seed
    assert (course.root / ".autograder" / "seed").read_text() == f"{seed}\n"
    assert [path.name for path in (course.root / ".autograder").iterdir()] == ["seed"]


def test_only_its_owner_can_read_the_seed(course: Course) -> None:
    course_seed(course)
    assert (course.root / ".autograder" / "seed").stat().st_mode & 0o077 == 0


def test_processes_that_start_at_once_agree_on_the_seed(course: Course) -> None:
    program = "import sys; from pathlib import Path; from autograder.course import *; sys.stdin.read(1)\n"
    program += "print(course_seed(load_course(Path(sys.argv[1]))))"
    command = [sys.executable, "-c", program, str(course.root)]
    running = [
        subprocess.Popen(command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(6)
    ]
    for process in running:
        assert process.stdin is not None
        process.stdin.write(b"!")
        process.stdin.flush()
    assert len({process.communicate(timeout=60)[0] for process in running}) == 1


def test_another_process_that_draws_in_between_wins(course: Course, monkeypatch: pytest.MonkeyPatch) -> None:
    path = course.root / ".autograder" / "seed"

    def draw(_limit: int) -> int:
        path.parent.mkdir(exist_ok=True)
        path.write_text("17\n")
        return 5

    monkeypatch.setattr(course_module.secrets, "randbelow", draw)
    assert course_seed(course) == 17


@pytest.mark.parametrize("content", ["", "seventeen", "-3", "1.5", "9" * 5000, str(SEED_LIMIT), "\xff"])
def test_a_corrupt_seed_is_told_and_never_replaced(course: Course, content: str) -> None:
    path = course.root / ".autograder" / "seed"
    path.parent.mkdir()
    path.write_text(content)
    with pytest.raises(CourseError, match=r"seed does not hold a whole number below \d+; restore it, or delete it"):
        course_seed(course)
    assert path.read_text() == content


def test_a_file_in_the_way_of_the_seeds_folder_is_told(course: Course) -> None:
    (course.root / ".autograder").write_text("in the way")  # holds for root too, unlike permissions
    with pytest.raises(CourseError, match="can't be read: Not a directory"):
        course_seed(course)


def test_where_the_folder_is_read_only_the_seed_serves_this_run(
    course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_args: object, **_kwargs: object) -> int:
        raise PermissionError("read-only")

    monkeypatch.setattr(course_module.os, "open", refuse)
    draws = {course_seed(course) for _ in range(3)}
    assert len(draws) == 3


def test_the_hash_changes_with_whatever_decides_a_score(course: Course, write_course: WriteCourse) -> None:
    suite = course.hidden_folder("attention") / "test_double.py"
    hashes = [suite_hash(course, "attention")]
    assert suite_hash(course, "attention") == hashes[0]
    suite.write_text(suite.read_text() + "# changed\n")
    hashes.append(suite_hash(course, "attention"))
    suite.rename(suite.with_name("test_other.py"))
    hashes.append(suite_hash(course, "attention"))
    hashes.append(suite_hash(load_course(write_course("    - torch.nn.MultiheadAttention\n", "")), "attention"))
    hashes.append(suite_hash(load_course(write_course("call_seconds: 2", "call_seconds: 3")), "attention"))
    hashes.append(
        suite_hash(load_course(write_course("      half:", "      half:\n        value: third")), "attention")
    )
    assert len(set(hashes)) == len(hashes)
    assert all(len(one) == 64 for one in hashes)


def test_the_hash_covers_the_suites_of_others_where_one_makes_use_of_them(course: Course) -> None:
    hidden = course.hidden_folder("attention")
    other = hidden.parent / "other" / "test_other.py"
    other.parent.mkdir()
    other.write_text("")
    alone = suite_hash(course, "attention")
    other.write_text("# changed\n")
    assert suite_hash(course, "attention") == alone
    suite = hidden / "test_double.py"
    suite.write_text(suite.read_text() + 'judged_by(__file__, "other", "other")\n')
    together = suite_hash(course, "attention")
    other.write_text("# changed again\n")
    assert suite_hash(course, "attention") != together


def test_the_hash_covers_the_source_notebook_and_the_code_that_examines(
    course: Course, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    package = tmp_path / "autograder"
    files = [package / part / "code.py" for part in course_module.HASHED_PARTS]
    files += [package / module for module in course_module.HASHED_MODULES]
    files.append(course.source_notebook("attention"))
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("1")
    monkeypatch.setattr(course_module, "__file__", str(package / "course.py"))
    before = suite_hash(course, "attention")
    for file in files:
        file.write_text("2")
        after = suite_hash(course, "attention")
        assert after != before
        before = after


def test_an_assignment_without_a_suite_has_no_hash(course: Course) -> None:
    (course.hidden_folder("attention") / "test_double.py").unlink()
    with pytest.raises(CourseError, match="holds no hidden suite"):
        suite_hash(course, "attention")
