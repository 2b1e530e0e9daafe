"""Reading files that may be anything."""

from __future__ import annotations

import codecs
import json
import os
import threading
from pathlib import Path
from typing import Any

import nbformat
import pytest

from autograder import notebook as notebook_module
from autograder.errors import UnusableNotebook
from autograder.notebook import Cell, exercises_of, read_notebook

from .conftest import SOURCE, code, notebook

BROKEN_CELLS: list[Any] = ["x", 3, None, ["x"], {"cell_type": "code", "source": 3}, {"source": ["x", 3]}]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "n.ipynb"


def cells_of(path: Path, document: dict[str, Any]) -> tuple[Cell, ...]:
    path.write_text(json.dumps(document))
    return read_notebook(path).cells


def error_of(path: Path) -> str:
    """The one sentence about this file, without the path before it."""
    with pytest.raises(UnusableNotebook) as caught:
        read_notebook(path)
    text = str(caught.value)
    assert "\n" not in text
    assert text.endswith(".")
    assert text.startswith(f"{path} ")
    return text.removeprefix(f"{path} ")


def test_a_notebook_is_its_cells_in_order(path: Path) -> None:
    title, answer, graded = cells_of(path, SOURCE)
    assert (title.index, title.kind, title.source, title.id) == (0, "markdown", "# Twice", "title")
    assert (answer.grade_id, answer.is_solution, answer.is_grade) == ("double", True, False)
    assert (graded.grade_id, graded.is_grade, graded.is_locked, graded.points) == (
        "test_double",
        True,
        True,
        4.0,
    )


def test_a_source_may_be_a_list_of_lines_and_have_windows_line_ends(path: Path) -> None:
    [cell] = cells_of(path, notebook(code("") | {"source": ["a = 1\r\n", "b = 2"]}))
    assert cell.source == "a = 1\nb = 2"


def test_a_file_may_begin_with_a_byte_order_mark(path: Path) -> None:
    path.write_bytes(codecs.BOM_UTF8 + json.dumps(SOURCE).encode())
    assert len(read_notebook(path).cells) == 3


def test_a_file_may_be_in_utf_16(path: Path) -> None:
    path.write_text(json.dumps(SOURCE), encoding="utf-16")
    assert len(read_notebook(path).cells) == 3


@pytest.mark.parametrize("minor", [0, 2, 4, 5, 99])
def test_every_minor_version_of_format_4_can_be_read(path: Path, minor: int) -> None:
    assert len(cells_of(path, SOURCE | {"nbformat_minor": minor})) == 3


def test_a_notebook_of_format_3_is_converted(path: Path) -> None:
    v3 = nbformat.v3
    cells = [v3.new_code_cell("a = 1"), v3.new_heading_cell("Title", level=2)]
    path.write_text(v3.writes_json(v3.new_notebook(worksheets=[v3.new_worksheet(cells=cells)])))
    converted = [(cell.kind, cell.source) for cell in read_notebook(path).cells]
    assert converted == [("code", "a = 1"), ("markdown", "## Title")]


def test_a_broken_notebook_of_format_3_is_told_so(path: Path) -> None:
    path.write_text(json.dumps({"nbformat": 3, "worksheets": [{"cells": 3}], "metadata": {}}))
    assert error_of(path).startswith("is in notebook format 3 and can't be converted")


@pytest.mark.parametrize("version", [5, 1, "4", None, [4], True, 4.5, "9" * 500])
def test_another_format_is_told_so(path: Path, version: Any) -> None:
    path.write_text(json.dumps(SOURCE | {"nbformat": version}))
    sentence = error_of(path)
    assert sentence.startswith("is in notebook format")
    assert len(sentence) < 150


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is empty; save the notebook and hand it in again."),
        (b" \n\n", "is empty; save the notebook and hand it in again."),
        (b"<html></html>", "is not a notebook: line 1 is not JSON."),
        (b'{\n"cells": [\n<<<<<<< HEAD\n', "is not a notebook: line 3 is not JSON."),
        (b'{"cells": [], ', "ends in the middle, in line 1: it was not saved or copied whole"),
        (b'{"cells": ["x', "ends in the middle, in line 1: it was not saved or copied whole"),
        (b"PK\x03\x04\xff\xfe\xfa", "is not a notebook: it is not text."),
        (b"[1, 2]", "is not a notebook: it is JSON, but without cells."),
        (b'{"a": 1}', "is not a notebook: it is JSON, but without cells."),
        (b"[" * 100_000, "is not a notebook: its JSON holds absurd values."),
        (b'{"nbformat": ' + b"4" * 5000 + b"}", "is not a notebook: its JSON holds absurd values."),
        (b'{"nbformat": 4}', "is not a notebook: it has no list of cells."),
        (b'{"nbformat": 4, "cells": {"a": 1}}', "is not a notebook: it has no list of cells."),
    ],
)
def test_what_is_no_notebook_is_told_in_one_sentence(path: Path, content: bytes, sentence: str) -> None:
    path.write_bytes(content)
    assert error_of(path).startswith(sentence)


@pytest.mark.parametrize("values", ["[],", "1,"])
def test_millions_of_values_are_refused_before_they_take_memory(path: Path, values: str) -> None:
    path.write_text('{"cells": [' + values * (20_000_000 // len(values)) + "1]}")
    assert error_of(path).startswith("holds millions of numbers or lists")


def test_brackets_in_printed_text_are_no_values(path: Path) -> None:
    cell = code("a = 1") | {"outputs": [{"output_type": "stream", "name": "stdout", "text": '[0.1, "],' * 2_000_000}]}
    path.write_text(json.dumps(notebook(cell)))
    assert len(read_notebook(path).cells) == 1


@pytest.mark.parametrize("cell", BROKEN_CELLS)
def test_a_cell_that_is_none_is_told_with_its_number(path: Path, cell: Any) -> None:
    path.write_text(json.dumps(notebook(code("a = 1"), cell)))
    assert "cell 2" in error_of(path)


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        [],
        "x",
        {"nbgrader": []},
        {"nbgrader": {"grade_id": 3, "points": "many", "solution": "yes", "grade": 1, "locked": []}},
        {"nbgrader": {"grade_id": ["a"], "points": -1}},
        {"nbgrader": {"grade_id": "", "points": True}},
        {"nbgrader": {"grade_id": {}, "points": float("nan")}},
        {"nbgrader": {"points": 10**400}},
        {"tags": "a tag"},
        {"tags": {"a": 1}},
    ],
)
def test_metadata_of_wrong_types_counts_for_nothing(path: Path, metadata: Any) -> None:
    [cell] = cells_of(path, notebook(code("a = 1") | {"metadata": metadata, "id": [1]}))
    assert (cell.grade_id, cell.points, cell.tags, cell.id) == (None, 0.0, frozenset(), "")
    assert not (cell.is_solution or cell.is_grade or cell.is_locked)


def test_tags_that_are_no_text_are_left_out(path: Path) -> None:
    [cell] = cells_of(path, notebook(code("a") | {"metadata": {"tags": ["illustration", 3, None, ["x"]]}}))
    assert cell.tags == {"illustration"}


def test_an_unknown_kind_of_cell_is_raw(path: Path) -> None:
    cells = cells_of(path, notebook(code("a") | {"cell_type": "script"}, code("b") | {"cell_type": ["code"]}))
    assert [cell.kind for cell in cells] == ["raw", "raw"]


def test_lone_surrogates_are_replaced_so_that_the_text_can_be_written(path: Path) -> None:
    [cell] = cells_of(path, notebook(code("a = '\ud83d'", grade_id="\udc00", solution=True)))
    assert cell.source == "a = '\ufffd'"
    assert cell.grade_id == "\ufffd"
    [smile] = cells_of(path, notebook(code("'\U0001f600'")))
    assert smile.source == "'\U0001f600'"


def test_a_missing_file_and_a_folder_are_told_apart(tmp_path: Path) -> None:
    assert error_of(tmp_path / "absent.ipynb") == "does not exist."
    assert error_of(tmp_path) == "is a folder; name the notebook file in it."


def test_a_name_that_the_system_refuses_is_told_so(tmp_path: Path) -> None:
    assert error_of(tmp_path / ("x" * 5000)) == "can't be read: File name too long."
    assert "can't be read" in error_of(tmp_path / "a\0b.ipynb")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_refused_and_not_waited_for(path: Path) -> None:
    os.mkfifo(path)
    writer = threading.Thread(target=lambda: path.open("wb").close(), daemon=True)  # ends a reader's waiting
    writer.start()
    assert error_of(path) == "is not an ordinary file."
    os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))  # and the writer's


def test_a_huge_file_is_refused_unread(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "read_bytes", lambda _: pytest.fail("it was read"))
    with path.open("wb") as file:
        file.truncate(notebook_module.MAX_MEGABYTES * 2**20 + 1)
    assert "is larger than 100 MB" in error_of(path)


def test_the_cells_of_an_exercise_are_found_by_their_grade_ids(path: Path) -> None:
    manual = code("", grade_id="conclusion", solution=True, grade=True, points=6)
    test = code("assert 1", grade_id="test_half", grade=True, solution=False, points=2)
    readonly = code("import torch", grade_id="setup", locked=True, solution=False)
    exercises = exercises_of(cells_of(path, notebook(*SOURCE["cells"], manual, test, readonly)))
    assert list(exercises) == ["double", "conclusion", "half"]
    assert [cell.index for cell in exercises["double"].answers] == [1]
    assert [cell.index for cell in exercises["double"].graded] == [2]
    assert exercises["conclusion"].manual
    assert not exercises["double"].manual
    assert exercises["half"].answers == ()


def test_a_copied_cell_is_found_beside_its_original(path: Path) -> None:
    document = notebook(*SOURCE["cells"], SOURCE["cells"][1])
    assert [cell.index for cell in exercises_of(cells_of(path, document))["double"].answers] == [1, 3]


def test_a_notebook_of_too_many_cells_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "n.ipynb"
    cells = [{}] * (notebook_module.MAX_CELLS + 1)
    path.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}))
    with pytest.raises(UnusableNotebook, match="more than 2000 are not read"):
        read_notebook(path)


def test_a_link_is_read_where_it_may_be_one_and_refused_in_a_class(tmp_path: Path) -> None:
    path, link = tmp_path / "n.ipynb", tmp_path / "link.ipynb"
    path.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}))
    link.symlink_to(path)
    assert read_notebook(link).cells == ()
    with pytest.raises(UnusableNotebook, match="is a link; hand in the file itself"):
        read_notebook(link, follow=False)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "n.ipynb")
    with pytest.raises(UnusableNotebook, match="not an ordinary file"):
        read_notebook(tmp_path / "n.ipynb")
