"""From the notebook that came in to the one that the course knows."""

from __future__ import annotations

import gc
import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from autograder import mend as mend_module
from autograder.errors import UnusableNotebook
from autograder.mend import MAX_CODE, Mended, mend, recognise
from autograder.notebook import Cell, Notebook, read_notebook
from tests.engine import ATTENTION, GOOD, PROJECTION, answered, course, release, with_cell


def mended(notebook: Notebook) -> Mended:
    return mend(notebook, course(), "attention")


def repairs(notebook: Notebook) -> list[str]:
    return [repair.render() for repair in mended(notebook).repairs]


def untouched(notebook: Notebook) -> dict[str, bool]:
    return {exercise.id: exercise.untouched for exercise in mended(notebook).exercises}


def without(notebook: Notebook, grade_id: str) -> Notebook:
    return replace(notebook, cells=tuple(cell for cell in notebook.cells if cell.grade_id != grade_id))


def test_the_release_notebook_needs_no_repair_and_holds_no_answer() -> None:
    assert repairs(release()) == []
    assert untouched(release()) == {"project_qkv": True, ATTENTION: True}


def test_an_answer_is_told_from_the_stub() -> None:
    assert untouched(answered(project_qkv=PROJECTION)) == {"project_qkv": False, ATTENTION: True}


def test_a_stub_with_another_docstring_and_a_comment_is_still_the_stub() -> None:
    [stub] = [cell.source for cell in release().cells if cell.grade_id == "project_qkv"]
    raising = next(line for line in stub.splitlines() if "raise" in line)
    edited = f'def project_qkv(x, W_q, W_k, W_v):\n    """Mine."""\n    # soon\n{raising}\n'
    assert untouched(answered(project_qkv=edited))["project_qkv"]


def test_illustrations_are_not_run_unless_the_student_changed_them() -> None:
    drawn = [cell for cell in release().cells if "illustration" in cell.tags]
    assert drawn
    ran = {cell.number for cell in mended(release()).cells}
    assert not ran & {cell.index for cell in drawn}
    changed = replace(drawn[0], source="answer = 42")
    notebook = replace(release(), cells=tuple(changed if cell is drawn[0] else cell for cell in release().cells))
    assert drawn[0].index in {cell.number for cell in mended(notebook).cells}


def test_the_course_s_own_cells_are_put_back() -> None:
    notebook = answered(setup="import os; os._exit(1)", **{f"test_{ATTENTION}": "assert True"})
    assert repairs(notebook) == [
        "put the course's own cell setup in place of one that differs from it",
        f"put the course's own cell test_{ATTENTION} in place of one that differs from it",
    ]
    assert mended(notebook).cells == mended(release()).cells


def test_a_missing_cell_of_the_course_is_added_and_a_missing_test_cell_is_told() -> None:
    notebook = without(without(answered(project_qkv=PROJECTION), "setup"), "test_project_qkv")
    assert repairs(notebook) == [
        "added the cell setup, which belongs to the course",
        "the cell test_project_qkv is missing; the exercise was checked all the same",
    ]
    first = mended(notebook).cells[0]
    assert first.number < 0 and first.source == next(c.source for c in release().cells if c.grade_id == "setup")


def test_an_exercise_is_examined_after_its_last_definition() -> None:
    notebook = with_cell(answered(project_qkv=PROJECTION), len(release().cells), GOOD)
    exam = next(exercise for exercise in mended(notebook).exercises if exercise.id == ATTENTION)
    assert not exam.untouched
    assert mended(notebook).cells[exam.after - 1].source == GOOD


def test_the_assignment_is_recognised_whatever_the_file_is_called(tmp_path: Path) -> None:
    path = tmp_path / "Homework (3) final.ipynb"
    path.write_bytes(course().release_notebook("attention").read_bytes())
    assert recognise(read_notebook(path), course()) == "attention"


def test_the_assignment_is_recognised_without_any_metadata() -> None:
    bare = tuple(Cell(cell.index, cell.kind, cell.source, "") for cell in answered(project_qkv=PROJECTION).cells)
    assert recognise(replace(release(), cells=bare), course()) == "attention"


def test_a_foreign_notebook_is_refused_in_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "shopping.ipynb"
    path.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}))
    with pytest.raises(
        UnusableNotebook, match=r"shopping\.ipynb holds no exercise of this course, whose .* are sequences, "
    ):
        recognise(read_notebook(path), course())


def test_a_notebook_of_megabytes_of_code_is_refused() -> None:
    with pytest.raises(UnusableNotebook, match="more than 1 MB of code"):
        mended(with_cell(release(), 0, "#" * (MAX_CODE + 1)))


def test_absurd_code_is_not_looked_into_and_takes_no_time_and_no_room() -> None:
    for absurd in ("x = f'" + "{a}" * 80_000 + "'", "x = [" + "a()," * 60_000 + "]", "a;" * 100_000):
        assert untouched(with_cell(answered(project_qkv=PROJECTION), 3, absurd))["project_qkv"] is False
        assert mend_module._definitions(absurd) == {}


@pytest.mark.parametrize("source", ["(" * 10_000, "\0", "def f(:", "%%bash\nls", "x = " + "-" * 50_000 + "1"])
def test_cells_that_no_parser_likes_are_kept_as_they_are(source: str) -> None:
    assert source in [cell.source for cell in mended(with_cell(release(), 3, source)).cells]


def test_threads_that_mend_at_the_same_time_do_not_disturb_each_other() -> None:
    """Each collection of garbage lets another thread run in the middle of building a tree, as busy classes do."""

    def let_others_run(*_: object) -> None:
        time.sleep(1e-6)

    source = "\n".join(
        f"def f{i}(x):\n    return [(x + {i}, (x * {i} - 1) ** 2) for _ in range({i}) if x > {i} and not x < 3]"
        for i in range(200)
    )
    threshold = gc.get_threshold()
    gc.set_threshold(400)
    gc.callbacks.append(let_others_run)
    try:
        with ThreadPoolExecutor(8) as pool:
            trees = list(pool.map(mend_module._parsed, [source] * 32))
    finally:
        gc.callbacks.remove(let_others_run)
        gc.set_threshold(*threshold)
    assert [len(tree) for tree in trees] == [200] * 32
