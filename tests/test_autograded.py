"""The graded notebook: what came in, mended, with outputs and results, and nothing of the student's that is alive."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import nbformat
import pytest
from nbgrader.preprocessors import CheckCellMetadata
from nbgrader.utils import determine_grade

from autograder.autograded import (
    MAX_CELL_SOURCE,
    MAX_OUTPUTS,
    MAX_SOURCES,
    auto_comment,
    auto_score,
    autograded,
    not_run,
    report_of,
    submission_of,
)
from autograder.errors import CourseError
from autograder.grading import Graded, Grader
from autograder.messages import message
from autograder.notebook import Cell, Notebook
from tests.engine import ATTENTION, GOOD_BODY, PROJECTION, SEED, answered, attention, course, release, with_cell

NO_SCALE = attention("weights = (Q @ K.mT).softmax(-1)\nreturn weights @ V, weights")


@pytest.fixture(scope="module")
def graded(grader: Grader) -> Graded:
    """A submission with a mistake, a print, a raw cell and hostile Markdown."""
    notebook = with_cell(answered(project_qkv=PROJECTION, scaled_dot_product_attention=NO_SCALE), 8, "print('mine')")
    more = (
        Cell(2000, "markdown", "<script>alert(1)</script>*mine*", "x"),
        Cell(2001, "raw", "<script>alert(2)</script>", "y"),
    )
    return grader.grade(replace(notebook, cells=(*notebook.cells, *more)), "attention", SEED)


@pytest.fixture(scope="module")
def notebook(graded: Graded) -> nbformat.NotebookNode:
    return autograded(graded, course(), "attention", "ab" * 32)


def cell(notebook: nbformat.NotebookNode, grade_id: str) -> Any:
    [found] = [one for one in notebook.cells if one.metadata.get("nbgrader", {}).get("grade_id") == grade_id]
    return found


def test_it_is_a_valid_notebook_for_nbformat_and_nbgrader(notebook: nbformat.NotebookNode) -> None:
    nbformat.validate(notebook)
    CheckCellMetadata().preprocess(notebook, {})


def test_it_holds_the_whole_report_and_the_fingerprint(graded: Graded, notebook: nbformat.NotebookNode) -> None:
    read = nbformat.reads(nbformat.writes(notebook), as_version=4)
    expected = msgspec.structs.replace(graded.report, notebook=Path(graded.report.notebook).name)
    assert report_of(read) == expected
    assert submission_of(read) == "ab" * 32


def test_each_graded_cell_holds_one_result_that_nbgrader_reads_as_the_report_says(
    graded: Graded, notebook: nbformat.NotebookNode
) -> None:
    for exercise in graded.report.exercises:
        tests = cell(notebook, f"test_{exercise.id}")
        [result] = tests.outputs
        assert result.output_type == "execute_result"
        assert determine_grade(tests) == (exercise.score, exercise.max_score)
        assert auto_score(tests, graded.report) == exercise.score
    assert graded.report.score == 17


def test_the_outputs_of_other_cells_are_kept(notebook: nbformat.NotebookNode) -> None:
    [mine] = [one for one in notebook.cells if one.source == "print('mine')"]
    assert [output.text for output in mine.outputs] == ["mine\n"]


def test_nothing_of_the_student_s_is_alive_in_it(notebook: nbformat.NotebookNode) -> None:
    markdown = [one for one in notebook.cells if "alert" in one.source]
    assert [one.cell_type for one in markdown] == ["markdown"]  # the raw one: shown as text
    assert "<script" not in nbformat.writes(notebook)
    assert not [one for one in notebook.cells if one.cell_type == "raw"]


def test_the_metadata_are_the_course_s(grader: Grader) -> None:
    forged = [
        replace(one, points=99.0, is_grade=True, metadata={"nbgrader": {"points": 99}, "evil": 1})
        for one in answered(project_qkv=PROJECTION).cells
    ]
    submitted = replace(
        release(), cells=tuple(forged), metadata={"kernelspec": {"name": "evil"}, "autograder": "forged"}
    )
    notebook = autograded(grader.grade(submitted, "attention", SEED), course(), "attention")
    assert cell(notebook, f"test_{ATTENTION}").metadata.nbgrader.points == 16
    assert {key for one in notebook.cells for key in one.metadata} <= {"nbgrader", "autograder"}
    assert notebook.metadata.kernelspec.name == "python3"
    assert report_of(notebook) is not None


def test_a_fault_of_the_grader_leaves_no_score_and_says_so(graded: Graded) -> None:
    exercises = tuple(msgspec.structs.replace(one, score=None, checks=()) for one in graded.report.exercises)
    report = msgspec.structs.replace(
        graded.report, status="ungraded", score=None, exercises=exercises, error=message("the lane <died>")
    )
    notebook = autograded(replace(graded, report=report, examined=None), course(), "attention")
    tests = cell(notebook, f"test_{ATTENTION}")
    assert auto_score(tests, report_of(notebook)) is None
    [note] = tests.outputs
    assert note.output_type == "display_data"
    assert "the lane &lt;died&gt;" in note.data["text/html"]


def test_the_course_s_notebook_stands_in_for_one_that_cannot_be_read(grader: Grader, tmp_path: Path) -> None:
    bad = tmp_path / "attention.ipynb"
    bad.write_text("{")
    graded = grader.grade(bad, "attention", SEED)
    notebook = autograded(graded, course(), "attention")
    nbformat.validate(notebook)
    assert auto_score(cell(notebook, f"test_{ATTENTION}"), report_of(notebook)) is None
    assert [one.source for one in notebook.cells] == [one.source for one in release().cells]


def test_an_untouched_answer_is_remarked_and_a_changed_one_is_not(
    notebook: nbformat.NotebookNode, graded: Graded
) -> None:
    assert auto_comment(cell(notebook, "project_qkv")) is None
    untouched = autograded(replace(graded, mended=None), course(), "attention")
    assert auto_comment(cell(untouched, "project_qkv")) == "No response."


def test_a_notebook_graded_without_us_has_no_report(notebook: nbformat.NotebookNode) -> None:
    assert report_of({"cells": [], "metadata": {}}) is None
    assert report_of({"cells": [], "metadata": {"autograder": {"schema": 99}}}) is None
    assert report_of({"cells": [], "metadata": {"autograder": {"schema": 1, "report": {"score": "much"}}}}) is None


def test_a_second_notebook_that_the_course_does_not_have_is_told() -> None:
    with pytest.raises(CourseError, match=r"more\.ipynb"):
        not_run(Notebook(Path("more.ipynb"), ()), course(), "attention")


def test_what_is_beyond_any_answer_is_cut(grader: Grader) -> None:
    long = with_cell(answered(project_qkv=PROJECTION), 3, "x = 1" + "#" * (3 * MAX_CELL_SOURCE))
    wordy = long
    for place in range(12):
        wordy = with_cell(wordy, place, "print('y' * 900_000)")
    graded = grader.grade(wordy, "attention", SEED)
    notebook = autograded(graded, course(), "attention")
    assert max(len(one.source) for one in notebook.cells) < MAX_CELL_SOURCE + 100
    assert len(nbformat.writes(notebook)) < MAX_OUTPUTS + 2 * MAX_SOURCES
    assert graded.report.exercises[0].score == 4


def test_an_answer_that_stands_beside_another_keeps_its_place_and_is_not_called_missing(grader: Grader) -> None:
    both = answered(project_qkv=f"import math\n{PROJECTION}\n\n{attention(GOOD_BODY)}")
    submitted = replace(both, cells=tuple(one for one in both.cells if one.grade_id != ATTENTION))
    graded = grader.grade(submitted, "attention", SEED)
    assert graded.report.score == 20
    notebook = autograded(graded, course(), "attention")
    place = cell(notebook, ATTENTION)
    assert (place.metadata.autograder.answered_in, auto_comment(place)) == (10, None)
    missing = replace(submitted, cells=tuple(one for one in release().cells if one.grade_id != ATTENTION))
    place = cell(autograded(grader.grade(missing, "attention", SEED), course(), "attention"), ATTENTION)
    assert ("answered_in" in place.metadata.autograder, auto_comment(place)) == (False, "No response.")


def test_code_that_was_cut_or_turned_into_text_is_shown_as_it_came_and_run_as_what_it_is(grader: Grader) -> None:
    cut = attention(GOOD_BODY).splitlines()
    submitted = with_cell(answered(project_qkv=PROJECTION, **{ATTENTION: "\n".join(cut[:4])}), 18, "\n".join(cut[4:]))
    as_text = tuple(replace(one, kind="markdown") if one.grade_id == "project_qkv" else one for one in submitted.cells)
    graded = grader.grade(replace(submitted, cells=as_text), "attention", SEED)
    assert graded.report.score == 20
    notebook = autograded(graded, course(), "attention")
    assert (cell(notebook, "project_qkv").cell_type, cell(notebook, "project_qkv").source) == ("code", PROJECTION)
    place = notebook.cells.index(cell(notebook, ATTENTION))
    assert [one.source for one in notebook.cells[place : place + 2]] == ["\n".join(cut[:4]), "\n".join(cut[4:])]
    assert notebook.cells[place + 1].execution_count is None
