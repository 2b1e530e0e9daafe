"""From source notebooks to release notebooks, by our command and by nbgrader's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autograder.course import Course, load_course
from autograder.errors import CourseError
from autograder.release import check_release, make_release, write_release

from .conftest import REPOSITORY, SOURCE, code, notebook

STOCK_STUB = "# YOUR CODE HERE\nraise NotImplementedError()"

STUB = """\
def double(x):
    ### BEGIN SOLUTION
    return 2 * x
    ### END SOLUTION
    ### BEGIN STUB
    # if x:
    #     raise NotImplementedError("double is yours to write")
    #
    #no space
    ### END STUB"""

CLEARED_STUB = """\
def double(x):
    if x:
        raise NotImplementedError("double is yours to write")

    no space"""


@pytest.fixture
def course(course_folder: Path) -> Course:
    return load_course(course_folder)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return tmp_path / "n.ipynb"


def cleared(source: Path, text: str, **nbgrader: Any) -> str:
    """The release's text of a solution cell."""
    nbgrader = {"grade_id": "double", "solution": True} | nbgrader
    source.write_text(json.dumps(notebook(code("import torch"), code(text, **nbgrader))))
    return "".join(json.loads(make_release(source))["cells"][1]["source"])


def test_a_stub_takes_the_place_of_its_solution(source: Path) -> None:
    assert cleared(source, STUB) == CLEARED_STUB


def test_a_solution_without_a_stub_gets_the_one_of_nbgrader(source: Path) -> None:
    text = "def double(x):\n    ### BEGIN SOLUTION\n    return 2 * x\n    ### END SOLUTION\n\n\nprint(double(2))"
    expected = f"def double(x):\n    {STOCK_STUB.replace(chr(10), chr(10) + '    ')}\n\n\nprint(double(2))"
    assert cleared(source, text) == expected


def test_a_cell_without_marks_is_cleared_whole(source: Path) -> None:
    assert cleared(source, "answer = 42") == STOCK_STUB


def test_each_solution_of_a_cell_has_a_stub_of_its_own(source: Path) -> None:
    text = "\n".join([
        "### BEGIN SOLUTION", "a = 1", "### END SOLUTION", "",
        "### BEGIN STUB", "# a = None", "### END STUB",
        "### BEGIN SOLUTION", "b = 2", "### END SOLUTION",
        "c = 3",
    ])  # fmt: skip
    assert cleared(source, text) == f"\na = None\n{STOCK_STUB}\nc = 3"


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (["### BEGIN SOLUTION", "a = 1"], "BEGIN SOLUTION has no END SOLUTION"),
        (["a = 1", "### END SOLUTION"], "END SOLUTION has no BEGIN SOLUTION"),
        (
            ["### BEGIN SOLUTION", "### BEGIN SOLUTION"],
            "BEGIN SOLUTION stands before the END SOLUTION of another",
        ),
        (["### BEGIN SOLUTION", "### BEGIN STUB"], "BEGIN STUB stands before the END SOLUTION of another"),
        (["### BEGIN SOLUTION", "### END STUB"], "END STUB has no BEGIN STUB"),
        (
            ["### BEGIN STUB", "# a", "### END STUB"],
            "BEGIN STUB must follow the END SOLUTION that it stands for",
        ),
        (
            ["### BEGIN SOLUTION", "### END SOLUTION", "b = 1", "### BEGIN STUB", "# a", "### END STUB"],
            "BEGIN STUB must follow the END SOLUTION that it stands for",
        ),
        (["### BEGIN SOLUTION", "### END SOLUTION", "### BEGIN STUB", "# a"], "BEGIN STUB has no END STUB"),
        (
            ["### BEGIN SOLUTION", "### END SOLUTION", "### BEGIN STUB", "a = 1", "### END STUB"],
            "a line of the stub is not commented out: a = 1",
        ),
    ],
)
def test_marks_that_do_not_fit_together_are_told_with_their_cell(
    source: Path, lines: list[str], sentence: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(CourseError) as caught:
        cleared(source, "\n".join(lines))
    assert str(caught.value) == f"n, cell 2 (double): {sentence}."
    assert capfd.readouterr() == ("", "")


def test_a_solution_in_an_ordinary_cell_is_told(source: Path) -> None:
    with pytest.raises(CourseError, match=r"^n, cell 2 \(double\): a solution stands here, but nbgrader has not"):
        cleared(source, STUB, solution=False)


def test_two_cells_of_one_name_are_told(source: Path, capfd: pytest.CaptureFixture[str]) -> None:
    cells = [code(f"a = {number}", grade_id="double", solution=True) for number in range(2)]
    source.write_text(json.dumps(notebook(*cells)))
    with pytest.raises(CourseError, match="double"):
        make_release(source)
    assert capfd.readouterr() == ("", "")


def test_a_cell_without_an_id_is_told_since_it_would_get_a_random_one(source: Path) -> None:
    document = notebook(code("a = 1"), code("b = 2"))
    del document["cells"][1]["id"]
    source.write_text(json.dumps(document))
    with pytest.raises(CourseError, match="cell 2 has no id; open the notebook in JupyterLab"):
        make_release(source)
    document["cells"][1]["id"] = document["cells"][0]["id"]
    source.write_text(json.dumps(document))
    with pytest.raises(CourseError, match="cell 2 has the id of an earlier cell"):
        make_release(source)


def test_a_missing_source_is_told(source: Path) -> None:
    with pytest.raises(CourseError, match=r"n\.ipynb does not exist\.$"):
        make_release(source)


def test_a_release_holds_no_outputs_and_no_solution_and_its_cells_are_locked(source: Path) -> None:
    answer = code(STUB, grade_id="double", solution=True)
    answer |= {"execution_count": 3, "outputs": [{"output_type": "stream", "name": "stdout", "text": "4"}]}
    source.write_text(json.dumps(notebook(answer, SOURCE["cells"][2])))
    text = make_release(source)
    answer, graded = json.loads(text)["cells"]
    assert "2 * x" not in text
    assert (answer["outputs"], answer["execution_count"]) == ([], None)
    assert answer["metadata"]["deletable"] is False
    assert graded["metadata"]["editable"] is False
    assert len(graded["metadata"]["nbgrader"]["checksum"]) == 32


def test_the_same_source_gives_the_same_bytes(course: Course) -> None:
    source = course.source_notebook("attention")
    assert make_release(source) == make_release(source)


def test_a_release_is_written_once(course: Course) -> None:
    release = course.release_notebook("attention")
    assert check_release(course) == [release]
    assert write_release(course) == [release]
    assert check_release(course) == []
    assert write_release(course) == []
    assert [path.name for path in release.parent.iterdir()] == ["attention.ipynb"]


def test_a_release_out_of_step_is_found(course: Course) -> None:
    release = course.release_notebook("attention")
    write_release(course)
    release.write_text(release.read_text().replace("Twice", "Thrice"))
    assert check_release(course, ["attention"]) == [release]
    release.write_bytes(b"\xff")
    assert check_release(course) == [release]


def test_an_unknown_assignment_is_told_before_anything_is_written(course: Course) -> None:
    with pytest.raises(CourseError, match="has no assignment 'atention'"):
        write_release(course, ["attention", "atention"])
    assert not course.release_notebook("attention").exists()


def test_nbgrader_generates_the_same_bytes(course: Course) -> None:
    document = notebook(SOURCE["cells"][0], code(STUB, grade_id="double", solution=True), SOURCE["cells"][2])
    course.source_notebook("attention").write_text(json.dumps(document))
    config = "from autograder.release import release_preprocessors\nc = get_config()\n"
    config += "c.GenerateAssignment.preprocessors = release_preprocessors()\n"
    (course.root / "nbgrader_config.py").write_text(config)
    scripts = Path(sys.executable).parent  # nbgrader calls its helpers by bare name
    if not any(scripts.glob("alembic*")):
        pytest.skip("nbgrader needs the command alembic, which is not beside this Python")
    environment = os.environ | {
        "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")]),
        "HOME": str(course.root),
    }
    command = [sys.executable, "-m", "nbgrader", "generate_assignment", "attention"]
    done = subprocess.run(command, cwd=course.root, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    generated = course.release_notebook("attention").read_text(encoding="utf-8")
    assert generated == make_release(course.source_notebook("attention"))
    assert "is yours to write" in generated


def test_an_exercise_without_its_cells_is_refused(write_course: Callable[[str, str], Path]) -> None:
    course = load_course(write_course("      half:\n", "      halve:\n"))
    with pytest.raises(CourseError, match=r"has no cell with the grade_id 'halve', which course\.yml asks for"):
        write_release(course)
