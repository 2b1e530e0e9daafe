"""Exercises that ask for something else than a function to be written: a value, or a sick function mended."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from autograder.grading import Grader
from autograder.mend import mend, recognise
from autograder.notebook import Notebook, read_notebook
from autograder.report import GradeReport
from tests.engine import SEED, course, exercise, first_message, outcomes

MEASURED = (
    "results = {'final_loss': {1: 0.51, 8: 0.42}, 'steps': {1: 30, 8: 30}, 'bytes': {1: 4096, 8: 32768}}\n"
    "import torch\n"
    "w = torch.ones(2, requires_grad=True)\n"
    "for step in range(30):\n"
    "    w.square().sum().backward()\n"
)
TYPED = MEASURED.splitlines()[0]
SICK = "clinic_split"


@cache
def release(name: str) -> Notebook:
    return read_notebook(course().release_notebook(name))


def answered(name: str, **answers: str) -> Notebook:
    """The release notebook of an assignment with these answers, by grade_id."""
    cells = [
        replace(cell, source=answers[cell.grade_id]) if cell.grade_id in answers else cell
        for cell in release(name).cells
    ]
    return replace(release(name), cells=tuple(cells))


def source_of(name: str, grade_id: str) -> str:
    return next(cell.source for cell in release(name).cells if cell.grade_id == grade_id)


@pytest.fixture
def graded(grader: Grader):  # type: ignore[no-untyped-def]
    def grade(name: str, **answers: str) -> GradeReport:
        return grader.grade(answered(name, **answers), name, SEED).report

    return grade


def lost(report: GradeReport, name: str) -> set[str]:
    return {check.id for check in exercise(report, name).checks if check.outcome != "passed"}


def test_a_value_is_examined_under_its_own_name(graded) -> None:  # type: ignore[no-untyped-def]
    assert exercise(graded("heads", experiment=MEASURED), "experiment").score == 4


def test_numbers_for_which_nothing_was_trained_are_seen_to_be_typed_in(graded) -> None:  # type: ignore[no-untyped-def]
    report = graded("heads", experiment=TYPED)
    assert lost(report, "experiment") == {"trained", "losses", "two_losses", "bytes", "steps"}
    assert "0 times" in first_message(report, "experiment")


def test_tensors_among_the_steps_are_the_student_s_mistake_and_no_fault_of_ours(graded) -> None:  # type: ignore[no-untyped-def]
    curves = MEASURED.replace("{1: 30, 8: 30}", "{1: __import__('torch').arange(3), 8: __import__('torch').arange(3)}")
    report = graded("heads", experiment=curves.replace("32768", "4096"))
    assert lost(report, "experiment") == {"bytes", "steps"} and outcomes(report, "experiment") == {"passed", "failed"}


def test_a_cell_that_stops_says_so_where_the_value_is_annotated_too(graded) -> None:  # type: ignore[no-untyped-def]
    report = graded("sequences", shapes="shapes: dict = {'scores': 1 / 0}")
    assert first_message(report, "shapes").startswith("the cell that defines shapes stopped with ZeroDivisionError")


def test_a_value_is_untouched_whatever_its_layout_and_touched_by_one_entry() -> None:
    stub = source_of("heads", "experiment")
    other_layout = stub.replace("None", "( None )") + "\n# soon\n"
    filled = stub.replace("None", "1", 1)
    filled_below = stub + '\nresults["steps"].update({1: 30, 8: 30})\n'
    for source, untouched in ((stub, True), (other_layout, True), (filled, False), (filled_below, False)):
        [found] = [
            one.untouched
            for one in mend(answered("heads", experiment=source), course(), "heads").exercises
            if one.id == "experiment"
        ]
        assert found is untouched, source


def test_a_value_that_is_missing_or_a_function_is_told_in_one_sentence(graded) -> None:  # type: ignore[no-untyped-def]
    report = graded("sequences", shapes="del_me = 1")
    assert first_message(report, "shapes") == "shapes has no value after your notebook has run"
    report = graded("sequences", shapes="def shapes():\n    return {}\n")
    assert first_message(report, "shapes") == "shapes is a function, and a plain value is asked for"


def test_an_answer_without_metadata_is_found_by_the_value_that_it_gives() -> None:
    notebook = answered("heads", experiment=MEASURED)
    bare = replace(
        notebook, cells=tuple(replace(cell, grade_id=None, is_solution=False) if cell.source == MEASURED else cell
                              for cell in notebook.cells)
    )  # fmt: skip
    mended = mend(bare, course(), "heads")
    assert any(cell.plays("experiment") and cell.source == MEASURED for cell in mended.notebook)


def test_a_sick_function_is_not_attempted_until_something_in_it_is_changed(graded) -> None:  # type: ignore[no-untyped-def]
    sick = source_of("clinic", SICK)
    report = graded("clinic", **{SICK: sick.replace("return", "# I have looked at this\n    return", 1)})
    assert outcomes(report, SICK) == {"not_attempted"}
    assert first_message(report, SICK) == "this exercise is still as it came"
    report = graded("clinic", **{SICK: sick.replace("return ", "x = x + 0\n    return ", 1)})
    assert (exercise(report, SICK).score, exercise(report, SICK).mistake) == (0, "as-sick-as-before")


def test_a_mended_function_is_judged_by_its_original_and_the_failing_check_is_told(graded) -> None:  # type: ignore[no-untyped-def]
    right = (
        "def clinic_split(x, num_heads):\n    *axes, T, E = x.shape\n    if E % num_heads:\n"
        "        raise ValueError('does not divide')\n"
        "    return x.reshape(*axes, T, num_heads, E // num_heads).transpose(-3, -2)\n"
    )
    assert exercise(graded("clinic", clinic_split=right), SICK).score == 2
    report = graded(
        "clinic", clinic_split=right.replace("        raise ValueError('does not divide')\n", "        pass\n")
    )
    assert exercise(report, SICK).score == 0
    assert first_message(report, SICK).startswith("“")


@pytest.mark.parametrize("name", ["sequences", "heads", "clinic"])
def test_the_assignment_is_recognised(name: str) -> None:
    assert recognise(release(name), course()) == name
