"""From the notebook that came in to the one that the course knows."""

from __future__ import annotations

import ast
import gc
import json
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from autograder import definitions as definitions_module
from autograder.course import HASHED_MODULES
from autograder.definitions import MAX_CODE, definitions, tree
from autograder.errors import UnusableNotebook
from autograder.matching import most_alike
from autograder.mend import MAX_REPAIRS, Mended, Undecided, mend, recognise, released_notebook, restored
from autograder.notebook import Cell, Kind, Notebook, read_notebook
from tests.engine import ATTENTION, GOOD, PROJECTION, ROOT, answered, course, release, with_cell


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
        assert definitions(absurd) == {}


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
            trees = list(pool.map(tree, [source] * 32))
    finally:
        gc.callbacks.remove(let_others_run)
        gc.set_threshold(*threshold)
    assert [len(body or ()) for body in trees] == [200] * 32


def text_of(grade_id: str) -> str:
    return next(cell.source for cell in release().cells if cell.grade_id == grade_id)


def bare(notebook: Notebook) -> Notebook:
    """The notebook as copy and paste leaves it: texts alone."""
    return replace(notebook, cells=tuple(Cell(cell.index, cell.kind, cell.source, "") for cell in notebook.cells))


def numbered(*cells: tuple[Kind, str]) -> tuple[Cell, ...]:
    return tuple(Cell(place, kind, source, "") for place, (kind, source) in enumerate(cells))


@pytest.mark.parametrize("path", sorted((ROOT / "examples" / "submissions").glob("*/*/*.ipynb")), ids=str)
def test_a_notebook_that_nothing_happened_to_needs_no_repair(path: Path) -> None:
    assert mend(read_notebook(path), course(), path.parent.name).repairs == ()


@pytest.mark.parametrize("name", sorted(course().assignments))
def test_without_any_metadata_each_cell_of_each_lesson_is_found_and_nothing_is_put_in_its_place(name: str) -> None:
    released = read_notebook(course().release_notebook(name))
    found = mend(bare(released), course(), name)
    expected = [cell.grade_id for cell in released.cells if cell.grade_id]
    assert [cell.role.grade_id for cell in found.notebook if cell.role] == expected
    assert [cell.number for cell in found.notebook] == list(range(len(released.cells)))
    assert all(" was found in cell " in repair.render() for repair in found.repairs)


def test_a_text_is_found_that_is_like_the_course_s_but_not_one_of_two_that_are_as_much_alike() -> None:
    text, foreign = text_of(f"test_{ATTENTION}"), text_of("setup")
    edited, other = text.replace("torch.tensor", "torch.Tensor"), text.replace("float", "double")
    assert text not in (edited, other)
    found = most_alike(text, numbered(("code", foreign), ("code", edited)))
    assert found is not None and found.source == edited
    assert most_alike(text, numbered(("code", edited), ("code", other))) is None
    assert most_alike(text, numbered(("code", foreign))) is None
    assert most_alike("", numbered(("code", ""))) is None


HOSTILE: dict[str, list[tuple[Kind, str]]] = {
    "near-copies": [("markdown", f"{{test}}# {number}") for number in range(1_900)],
    "pieces": [("code", 'def project_qkv(x):\n    """'), ("code", "    (")] * 900,
    "answers": [("code", f"def project_qkv(x):\n    return {number}") for number in range(1_900)],
    "imports": [("code", "\n".join(f"from tkinter import a{line}" for line in range(1_500)))] * 10,
    "modules": [
        ("code", "\n".join(f"import m{cell}_{n}" for n in range(3_000)) + "\nproject_qkv = 1") for cell in range(9)
    ],
    "chain": [("code", "from tkinter import a\n" + "\n".join(f"b{n} = a.f(b{n + 1})" for n in range(1_500)))] * 5,
    "texts-of-code": [("markdown", "def project_qkv(x):\n    return (" + "1 + " * 15_000 + "1)")] * 3,
    "blank-lines": [("code", "project_qkv = 1\n" + "\n" * 40_000)] * 2,
    "calls": [("code", "project_qkv = 1\n" + "input();" * 5_000)] * 4,
    "open-brackets": [("code", "project_qkv = 1\n" + ("f(" * 95 + "1" + ")" * 94 + "\n") * 80)] * 4,
    "claims": [("code", f"def project_qkv(x):\n    return [{'x, ' * number}]") for number in range(200)],
}
TOO_MUCH: dict[str, list[tuple[Kind, str]]] = {
    "code": [("code", f"x = [{'a(), ' * 10_000}]")] * 5,
    "texts": [("markdown", "def project_qkv(x):\n    return (" + "1 + " * 15_000 + "1)")] * 1_000,
}


@pytest.mark.parametrize("cells", HOSTILE.values(), ids=HOSTILE)
def test_whatever_a_notebook_holds_it_is_mended_in_seconds(cells: list[tuple[Kind, str]]) -> None:
    test = text_of(f"test_{ATTENTION}")
    filled: list[tuple[Kind, str]] = [(kind, source.replace("{test}", test)) for kind, source in cells]
    notebook = replace(release(), cells=numbered(("code", PROJECTION), *filled))
    started = time.process_time()
    assert len(mended(notebook).repairs) < 30
    assert time.process_time() - started < 10


def test_each_text_is_parsed_once_and_all_of_them_are_no_more_than_is_looked_into(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parsed: Counter[str] = Counter()
    parse = ast.parse

    def counting(text: str) -> ast.Module:
        parsed[text] += 1
        return parse(text)

    own = [
        f"import m{number}_\nfrom tkinter import Y\nb{number} = input()\nproject_qkv = b{number}"
        for number in range(99)
    ]
    notebook = answered(project_qkv=PROJECTION, setup="NEG = 1\n" + text_of("setup"))
    for place, source in enumerate([*own, "def project_qkv(x):", "    (", "NEG"]):
        notebook = with_cell(notebook, place + 3, source)
    with monkeypatch.context() as patch:
        patch.setattr(ast, "parse", counting)
        forget_what_was_read()
        told = repairs(notebook)
    assert len(told) == MAX_REPAIRS + 1
    assert set(own) <= parsed.keys()
    assert set(parsed.values()) == {1}


@pytest.mark.parametrize("cells", TOO_MUCH.values(), ids=TOO_MUCH)
def test_what_is_too_much_to_look_into_is_not_looked_into_and_a_person_decides(
    cells: list[tuple[Kind, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = next(cell for cell in answered(project_qkv=PROJECTION).cells if cell.grade_id == "project_qkv")
    extra = [Cell(100 + place, kind, source, "") for place, (kind, source) in enumerate(cells)]
    notebook = replace(release(), cells=(answer, *extra))
    released = release().cells
    forget_what_was_read()
    said = "words and signs of code, and no more than 100000 are looked into"
    with monkeypatch.context() as patch, pytest.raises(Undecided, match=said) as caught:
        patch.setattr(ast, "parse", None)
        mended(notebook)
    held = caught.value.mended.notebook
    assert [cell.role.grade_id for cell in held if cell.role] == [cell.grade_id for cell in released if cell.grade_id]
    assert PROJECTION in [cell.source for cell in held]
    own = released_notebook(course(), "attention")
    assert restored(notebook, own, course().assignment("attention")) == (held, ())
    assert not any(cell.runs for cell in held)


def forget_what_was_read() -> None:
    """Texts that earlier tests have had mended."""
    definitions_module._read.cache_clear()


def test_of_two_answers_that_claim_the_same_exercise_the_last_one_counts_and_that_is_told() -> None:
    notebook = answered(project_qkv=PROJECTION)
    [answer] = [cell for cell in notebook.cells if cell.grade_id == "project_qkv"]
    copy = replace(answer, index=len(notebook.cells), source=PROJECTION.replace("W_q,", "W_k,"))
    twice = replace(notebook, cells=(*notebook.cells, copy))
    first, last = answer.index + 1, copy.index + 1
    assert repairs(twice) == [
        f"cells {first}, {last} all answer project_qkv; the last one counts, as it does when the notebook is run"
    ]
    assert [cell.number for cell in mended(twice).notebook if cell.plays("project_qkv")] == [copy.index]


def test_an_answer_in_the_place_of_a_course_s_cell_that_differs_is_for_a_person_to_decide() -> None:
    notebook = answered(project_qkv=PROJECTION)
    [answer] = [cell for cell in notebook.cells if cell.grade_id == "project_qkv"]
    copy = replace(answer, index=len(notebook.cells), source=PROJECTION.replace("W_q,", "W_k,"))
    typed = answered(project_qkv=PROJECTION, test_project_qkv=copy.source)
    with pytest.raises(Undecided, match="cell 11 gives another answer to project_qkv than cell 10") as caught:
        mended(typed)
    assert copy.source in [cell.source for cell in caught.value.mended.notebook]
    same = replace(copy, source="# once more\n" + PROJECTION)
    assert repairs(replace(notebook, cells=(*notebook.cells, same))) == []


def test_an_answer_beside_another_has_its_place_in_the_gradebook_and_is_told_from_none() -> None:
    both = without(answered(project_qkv=PROJECTION + GOOD), ATTENTION)
    found = mended(both)
    [place] = [cell for cell in found.notebook if cell.plays(ATTENTION)]
    [answer] = [cell for cell in found.notebook if cell.plays("project_qkv")]
    assert (place.added, place.runs, place.answered_in) == (True, False, answer.number)
    [none] = [cell for cell in mended(without(release(), ATTENTION)).notebook if cell.plays(ATTENTION)]
    assert (none.added, none.answered_in) == (True, None)


def test_what_a_changed_cell_of_the_course_had_more_is_kept_only_where_other_cells_use_it() -> None:
    more = "import numpy as np, os\nfrom os import sep\nimport shutil; shutil.rmtree('/')\nx = 1\n"
    notebook = answered(setup=more + text_of("setup"), project_qkv="import os\n" + PROJECTION + "np, shutil, x\n")
    own, kept, *_ = mended(notebook).notebook[1:]
    assert (own.role is not None, own.source) == (True, text_of("setup"))
    assert (kept.role, kept.source, kept.runs) == (None, "import numpy as np, os\nx = 1", True)
    assert not kept.as_released  # pages show it
    assert repairs(notebook)[1] == "kept np, x of the changed cell setup, for other cells use it"
    assert len({cell.number for cell in mended(notebook).notebook}) == len(mended(notebook).notebook)


def test_what_the_course_s_own_cell_gives_is_not_kept_of_a_changed_one() -> None:
    setup = "import math, sys\ntorch = 5\nimport torch\n" + text_of("setup")
    notebook = answered(setup=setup, project_qkv=PROJECTION + "torch, math, sys\n")
    [kept] = [cell.source for cell in mended(notebook).notebook if cell.source.startswith("import math")]
    assert kept == "import math, sys"
    assert repairs(notebook)[1].startswith("kept sys of the changed cell setup")


def test_of_many_answers_to_one_exercise_some_are_named() -> None:
    notebook = answered(project_qkv=PROJECTION)
    for place in range(12, 32):
        notebook = with_cell(notebook, place, f"def project_qkv(x):\n    return {place}")
    [told] = repairs(notebook)
    assert told.startswith(
        "cells 10, 1013, 1014, 1015, 1016, 1017, 1018, 1019, … 1032 all answer project_qkv; the last"
    )


def test_two_raw_cells_that_answer_differently_are_for_a_person_to_decide() -> None:
    notebook = without(release(), "project_qkv")
    raw = [Cell(200 + place, "raw", PROJECTION.replace("x @ W_q", f"{place}"), "") for place in range(2)]
    with pytest.raises(Undecided, match="cells 201 and 202 both stand for the answer to project_qkv"):
        mended(replace(notebook, cells=(*notebook.cells, *raw)))


def test_the_hash_of_a_suite_covers_every_module_that_mending_imports() -> None:
    package, found, new = ROOT / "autograder", set[str](), {"mend"}
    while new:
        found |= new
        trees = [ast.parse((package / f"{name}.py").read_text(encoding="utf-8")) for name in new]
        imports = [node for one in trees for node in ast.walk(one) if isinstance(node, ast.ImportFrom)]
        named = [(node.module or "", alias.name) for node in imports for alias in node.names]
        modules = {name if module == "autograder" else module.removeprefix("autograder.") for module, name in named}
        new = {module for module in modules if (package / f"{module}.py").is_file()} - found
    words_and_settings = {"__init__", "_yaml", "course", "errors", "messages"}  # what they settle is hashed itself
    assert found - words_and_settings <= {module.removesuffix(".py") for module in HASHED_MODULES}
    assert {"rescue", "merging", "restoration", "stubs"} <= found


def test_a_line_that_cannot_run_here_stays_where_an_answer_relies_on_it() -> None:
    text = "import nosuch, nosuchtoo\nfrom nosuchthree import used, unused\nfrom tkinter import Y\n"
    relying = PROJECTION.replace("x @ W_q", "used(x) @ W_q")
    notebook = answered(project_qkv=text + relying)
    [cell] = [cell for cell in mended(notebook).cells if "used(x)" in cell.source]
    assert cell.source == "\nfrom nosuchthree import used, unused\n\n" + relying
    [shown] = [cell for cell in mended(notebook).notebook if cell.plays("project_qkv")]
    assert shown.source == text + relying


def test_only_answers_are_touched_and_a_module_of_the_student_s_own_is_not_taken_for_a_missing_one() -> None:
    other = with_cell(answered(project_qkv=PROJECTION), 3, "from tkinter import Y")
    assert repairs(other) == []
    importing = answered(project_qkv="from mine import helper\n" + PROJECTION)
    assert len(repairs(importing)) == 1
    assert repairs(with_cell(importing, 3, "%%writefile mine.py\nhelper = 1")) == []


def test_a_line_that_gives_the_answer_stays_even_if_it_can_only_fail() -> None:
    for source in ("from nosuch import project_qkv", "project_qkv = input()"):
        notebook = without(answered(project_qkv=source), "test_project_qkv")
        assert source in [cell.source for cell in mended(notebook).cells]


@pytest.mark.parametrize("behind", ["    print(1)", "print(1)", "    return 2\n  (", "def g(:"])
def test_a_function_is_not_joined_with_what_may_stand_for_itself(behind: str) -> None:
    assert repairs(with_cell(answered(project_qkv=PROJECTION), 10, behind)) == []


def test_a_stub_behind_the_answer_is_not_run_unless_its_cell_holds_more() -> None:
    notebook, stub = answered(project_qkv=PROJECTION), text_of("project_qkv")
    [told] = repairs(with_cell(notebook, 12, stub))
    assert told == "cell 1013 was not run: it holds project_qkv without the answer, which cell 10 gives"
    more = with_cell(notebook, 12, stub + "\nmine = 1\n")
    assert repairs(more) == []
    assert "mine = 1" in "".join(cell.source for cell in mended(more).cells)


def test_words_that_a_human_grades_are_words_whatever_their_cell_was_turned_into() -> None:
    released = read_notebook(course().release_notebook("heads"))
    cells = tuple(
        replace(cell, kind="code", source="Heads look elsewhere.") if cell.grade_id == "conclusion" else cell
        for cell in released.cells
    )
    found = mend(replace(released, cells=cells), course(), "heads")
    [answer] = [cell for cell in found.notebook if cell.plays("conclusion")]
    assert (answer.kind, answer.runs, answer.as_released) == ("markdown", False, False)
    assert "was taken for words" in found.repairs[0].render()
