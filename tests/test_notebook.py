"""Reading files that may be anything."""

from __future__ import annotations

import codecs
import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import nbformat
import pytest

from autograder import notebook as notebook_module
from autograder import rescue
from autograder.errors import UnusableNotebook
from autograder.notebook import Cell, Notebook, exercises_of, expect_whole, read_notebook

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


def told_of(path: Path) -> list[str]:
    """What had to be mended before this file could be read."""
    return [repair.render() for repair in read_notebook(path).repairs]


def mended(path: Path, text: str | bytes) -> Notebook:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_notebook(path)


def sources(found: Notebook) -> list[str]:
    return [cell.source for cell in found.cells]


def text_of(*cells: dict[str, Any]) -> str:
    """A notebook as Jupyter writes it."""
    return json.dumps(notebook(*cells), indent=1)


def test_an_undamaged_file_is_not_said_to_be_mended(path: Path) -> None:
    for encoding in ("utf-8", "utf-8-sig"):
        path.write_bytes(json.dumps(SOURCE, indent=1).replace("\n", "\r\n").encode(encoding))
        assert (told_of(path), read_notebook(path).cut) == ([], False)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_another_encoding_is_told(path: Path, encoding: str) -> None:
    path.write_bytes(json.dumps(SOURCE).encode(encoding))
    assert told_of(path) == ["read the file in UTF-16 instead of UTF-8"]


def test_characters_that_cannot_be_read_count_in_code_alone(path: Path) -> None:
    document = json.dumps(notebook(code("a = 1  # né"), code("b")), ensure_ascii=False)
    assert sources(mended(path, document.encode("latin-1"))) == ["a = 1  # n\ufffd", "b"]
    assert told_of(path) == ["some characters of the file are not in UTF-8, and could not be read"]
    path.write_bytes(json.dumps(notebook(code("b"), code("né = 1")), ensure_ascii=False).encode("latin-1"))
    assert error_of(path).startswith("is not in UTF-8, and the code of its cell 2 can't be read for certain")
    path.write_text(json.dumps(notebook(code("'\ufffd'")), ensure_ascii=False), encoding="utf-8")
    assert told_of(path) == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("\n  },\n", "\n  },,\n", "took a comma too many out of line"),
        ("\n  }\n ],\n", "\n  },\n ],\n", "took a comma too many out of line"),
        (' "cells": [\n', ' "cells": [,\n', "took a comma too many out of line"),
        ('"nbformat_minor": 5', '"nbformat_minor": 5,', "took a comma too many out of line"),
        ("\n  },\n", "\n  }\n", "put a missing comma into line"),
        ('"nbformat": 4,', '"nbformat": 4', "put a missing comma into line"),
    ],
)
def test_a_comma_is_mended(path: Path, old: str, new: str, said: str) -> None:
    text = text_of(code("a"), code("b"))
    assert old in text
    assert sources(mended(path, text.replace(old, new, 1))) == ["a", "b"]
    [told] = told_of(path)
    assert told.startswith(said)
    assert not read_notebook(path).cut


def test_a_quotation_mark_in_a_text_is_no_missing_comma(path: Path) -> None:
    text = text_of(code("print(1)"), code("b")).replace("print(1)", 'print("")')
    found = mended(path, text)
    assert (sources(found), found.cut) == (["b"], True)


def test_many_faults_are_not_guessed_at(path: Path) -> None:
    path.write_text(json.dumps(SOURCE).replace(", ", ",, "))
    assert read_notebook(path).cut


def test_whole_cells_are_salvaged_and_it_is_told_where_some_are_lost(path: Path) -> None:
    text = text_of(code("a"), code("b"), code("c"))
    for end in range(text.index('"source": "b"'), len(text)):
        found = mended(path, text[:end])
        kept = [source for source in "abc" if f'"source": "{source}"\n  }}' in text[:end]]
        assert sources(found) == kept
        assert found.cut is (end <= text.rindex("]"))
        assert len(told_of(path)) == 1


def test_cells_behind_a_damaged_one_are_read_too(path: Path) -> None:
    text = text_of(code("a"), code("b"), code("c")).replace('"source": "b"', '"source": "b')
    found = mended(path, text)
    assert (sources(found), found.cut) == (["a", "c"], True)
    assert "read its 2 whole cells; what stood between them is lost" in told_of(path)[0]


def test_a_cell_within_an_output_is_none_of_the_notebook_s(path: Path) -> None:
    shown = {"output_type": "display_data", "metadata": {}, "data": {"application/json": notebook(code("not mine"))}}
    broken = code("b") | {"outputs": [shown]}
    text = text_of(code("a"), broken, code("c")).replace('"outputs": [', '"outputs": ["', 2)
    assert "not mine" in text
    assert "not mine" not in sources(mended(path, text))


def test_what_stands_behind_the_end_is_left_out(path: Path) -> None:
    whole = text_of(code("a"))
    assert sources(mended(path, whole + "\n}\n]")) == ["a"]
    assert told_of(path) == [
        f"left out what stands behind the end of the notebook, from line {whole.count(chr(10)) + 2} on"
    ]
    assert sources(mended(path, whole + "\n" + whole)) == ["a"]
    path.write_text(text_of(code("z = 1")) + "\n" + text_of(code("z = 2")))
    assert "holds two notebooks" in error_of(path)
    assert (sources(mended(path, whole + "\0" * 100)), told_of(path)) == (["a"], [])


def test_a_key_that_stands_twice_counts_where_it_says_what_the_code_is(path: Path) -> None:
    text = text_of(code("a"))
    mended(path, text.replace('"metadata": {},', '"metadata": {},\n   "metadata": {"x": 1},', 1))
    assert told_of(path) == ["took the last value of what stands twice in one place of the file: 'metadata'"]
    path.write_text(text.replace('"source": "a"', '"source": "b",\n   "source": "a"'))
    assert error_of(path).startswith("holds two different values of 'source' in one place")
    assert sources(mended(path, text.replace('"source": "a"', '"source": "a",\n   "source": "a"'))) == ["a"]


def test_a_text_that_is_too_large_is_not_mended(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = text_of(code("a")) + "}"
    assert sources(mended(path, text)) == ["a"]
    monkeypatch.setattr(rescue, "MAX_RESCUED", len(text) - 1)
    assert "is not JSON" in error_of(path)


@pytest.mark.parametrize(
    "text", ['{"cells": [' + ",\n".join(["{}"] * 500_000), '{"cells": [' + '\n {"cell_type": "' * 500_000]
)
def test_salvaging_ends(path: Path, text: str) -> None:
    started = time.monotonic()
    path.write_text(text)
    error_of(path)
    assert (
        time.monotonic() - started < 30
    )  # some seconds on a busy machine; minutes where each cell costs the whole text


def test_a_conflict_of_many_marks_is_refused(path: Path) -> None:
    marks = "<<<<<<< a\n=======\n>>>>>>> b\n"
    whole = text_of(code("a")) + "\n"
    assert sources(mended(path, whole + marks * 3)) == ["a"]
    path.write_text(whole + marks * 1_000)
    assert "whose sides are no whole notebooks" in error_of(path)


def test_answers_that_may_be_lost_are_asked_for(path: Path) -> None:
    expect_whole(mended(path, text_of(code("a"))), ["double"])
    cut = mended(path, text_of(code("a"), code("b")).partition('"source": "b"')[0])
    expect_whole(cut, [])
    with pytest.raises(UnusableNotebook, match="1 whole cell could be read, without an answer to double; ask for"):
        expect_whole(cut, ["double"])


def test_a_notebook_of_format_3_is_converted(path: Path) -> None:
    v3 = nbformat.v3
    cells = [v3.new_code_cell("a = 1"), v3.new_heading_cell("Title", level=2)]
    path.write_text(v3.writes_json(v3.new_notebook(worksheets=[v3.new_worksheet(cells=cells)])))
    converted = [(cell.kind, cell.source) for cell in read_notebook(path).cells]
    assert converted == [("code", "a = 1"), ("markdown", "## Title")]
    assert told_of(path) == ["converted the notebook from format 3"]


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
        (b"Attention is all you need.", "is not a notebook: line 1 is not JSON."),
        (b"\0" * 5000, "is empty; save the notebook and hand it in again."),
        (b"<html></html>", "is not a notebook: it is a web page, perhaps of a login, "),
        (b"\n<!DOCTYPE html>\n", "is not a notebook: it is a web page, perhaps of a login, "),
        (b"# Colab\nimport torch\n", "is not a notebook: it is a Python script; hand in the notebook itself"),
        (b'{\n"cells": [\n<<<<<<< HEAD\n', "holds a merge conflict, in line 3, whose sides are no whole notebooks"),
        (b'{"cells": [], ', "ends in the middle, in line 1: it was not saved or copied whole"),
        (b'{"cells": ["x', "ends in the middle, in line 1: it was not saved or copied whole"),
        (b"PK\x03\x04\xff\xfe\xfa", "is not a notebook: it is a zip archive"),
        (b"%PDF-1.7\xff", "is not a notebook: it is a PDF"),
        (b"\x1f\x8b\x08", "is not a notebook: it is a packed file"),
        (b"\xff\x00\xfa", "is not a notebook: it is not text."),
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
