"""What happened to the text of the file: encodings, merges, cuts, commas, formats, and things that are no notebook."""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat

from tests.damaged.bank import Case, HandIn, cell_of, edited, solved
from tests.engine import course

PROJECT, ATTENTION = "project_qkv", "scaled_dot_product_attention"
Document = dict[str, Any]
Change = Callable[[Document], None]


def text_of(document: Document) -> str:
    """As Jupyter writes it."""
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def written(text: str | bytes) -> HandIn:
    """Hands in a file of this text."""
    content = text.encode() if isinstance(text, str) else text

    def hand_in(folder: Path) -> None:
        (folder / "attention.ipynb").write_bytes(content)

    return hand_in


def changed(change: Change, document: Document | None = None) -> Document:
    """The solved notebook, or another one, after a change."""
    document = solved() if document is None else document
    change(document)
    return document


def released() -> Document:
    """The notebook as students got it."""
    document: Document = json.loads(course().release_notebook("attention").read_text(encoding="utf-8"))
    return document


def unanswered(grade_id: str) -> Document:
    """The solved notebook with one answer as it was released."""
    document = solved()
    cell_of(document, grade_id)["source"] = cell_of(released(), grade_id)["source"]
    return document


def cell(source: str | None) -> Document:
    """A code cell of the student's own."""
    return {"cell_type": "code", "execution_count": None, "id": "own", "metadata": {}, "outputs": [], "source": source}


def with_cell(*cells: Document, place: int | None = None, document: Document | None = None) -> Document:
    """The solved notebook, or another one, with more cells."""
    document = solved() if document is None else document
    place = len(document["cells"]) if place is None else place
    document["cells"][place:place] = cells
    return document


def shown(text: str) -> Change:
    """A run that printed this below an answer."""

    def change(document: Document) -> None:
        answer = cell_of(document, ATTENTION)
        answer["outputs"] = [{"name": "stdout", "output_type": "stream", "text": [text]}]
        answer["execution_count"] = len(text)

    return change


def conflict(first: Document, second: Document, base: str | None = None, end: str = "\n") -> str:
    """Two versions with the marks that Git leaves, around the lines in which they differ."""
    ours, theirs = text_of(first).splitlines(), text_of(second).splitlines()
    start = next(number for number, pair in enumerate(zip(ours, theirs, strict=False)) if pair[0] != pair[1])
    stop = 0
    while ours[stop - 1] == theirs[stop - 1] and len(ours) + stop > start and len(theirs) + stop > start:
        stop -= 1
    middle = [] if base is None else ["||||||| 1f2e3d4", base]
    lines = [*ours[:start], "<<<<<<< HEAD", *ours[start : len(ours) + stop], *middle, "======="]
    lines += [*theirs[start : len(theirs) + stop], ">>>>>>> origin/main", *ours[len(ours) + stop :], ""]
    return end.join(lines)


def cut(text: str, behind: str, more: int = 0) -> str:
    """The text up to the last place where `behind` stands, and so many characters more."""
    return text[: text.rindex(behind) + len(behind) + more]


def comma(old: str, new: str, count: int = 1) -> str:
    """The solved notebook with an edited comma at the first place that fits."""
    text = text_of(solved())
    assert old in text
    return text.replace(old, new, count)


def format_3(document: Document) -> str:
    """As IPython 2 writes it."""
    old = nbformat.convert(nbformat.reads(text_of(document), as_version=4), 3)
    return text_of(json.loads(nbformat.v3.writes_json(old)))


def in_format_4(minor: int) -> Change:
    """Format 4 before 4.5, which knows no ids of cells."""

    def change(document: Document) -> None:
        document["nbformat_minor"] = minor
        for one in document["cells"]:
            one.pop("id")

    return change


def much_printed(document: Document) -> None:
    shown("0.25, " * (50 * 2**20 // 6))(document)


def without_text(document: Document) -> None:
    with_cell(cell(None), document=document)


def widgets(document: Document) -> None:
    view = {"application/vnd.jupyter.widget-view+json": {"model_id": "3", "version_major": 2, "version_minor": 0}}
    state = {str(number): {"model_name": "HTMLModel", "state": {"value": "x" * 500}} for number in range(500)}
    document["metadata"]["widgets"] = {"application/vnd.jupyter.widget-state+json": {"state": state}}
    cell_of(document, ATTENTION)["outputs"] = [{"output_type": "display_data", "data": view, "metadata": {}}]


def not_a_number(document: Document) -> None:
    document["metadata"]["loss"] = [float("nan"), float("inf"), -float("inf")]


def case(id: str, damage: str, text: str | bytes | HandIn, *repairs: str, **required: Any) -> Case:
    """A case of this family."""
    hand_in = text if callable(text) else written(text)
    return Case(id, "text", damage, hand_in, repairs=repairs, **required)


def for_a_human(id: str, damage: str, text: str | bytes | HandIn, says: str) -> Case:
    """A case that nobody can decide."""
    return case(id, damage, text, score=None, says=says)


PRINTED = cell("1") | {"outputs": [{"name": "stdout", "output_type": "stream", "text": ["0.25, 0.25\n"]}]}
SOLVED = text_of(solved())
OTHER = changed(lambda document: cell_of(document, ATTENTION).update(source=f"def {ATTENTION}(Q, K, V): ..."))
OWN, HELPER = cell("print(project_qkv)"), cell("scale = 3\nprint(scale)")
CHINESE = with_cell(cell("# 注意力\nprint('a')  # 权重\n"))
IN_CODE = with_cell(cell("名字 = 1\nprint(名字)\n"))
SCRIPT = f"""# -*- coding: utf-8 -*-
\"\"\"attention.ipynb

Automatically generated by Colab.
\"\"\"

import torch

{"".join(cell_of(solved(), PROJECT)["source"])}
"""
LOGIN = "<!DOCTYPE html>\n<html><head><title>Log in</title></head><body><form></form></body></html>\n"
FIRST_LINE = '   "source": [\n    "def project_qkv'
TWO_SOURCES = SOLVED.replace(FIRST_LINE, f'   "source": "x = 1",\n{FIRST_LINE}')
CUT_OUT = SOLVED.index(f"def {ATTENTION}")
ABOUT_OUTPUTS = "about outputs or texts alone: read its first side"
BOTH_SIDES = "around its answers: read the cells of both sides"
DIFFER = "differ in the student's own code or answers; which of them counts has to be asked."
TOO_MANY, MISSING = "took a comma too many out of line", "put a missing comma into line"

CASES = (
    # Encodings and line ends
    case("bom", "saved with a byte order mark", codecs.BOM_UTF8 + SOLVED.encode()),
    case("utf-16", "saved as UTF-16 by a Windows editor", SOLVED.encode("utf-16"), "in UTF-16 instead of UTF-8"),
    case("utf-16-be", "UTF-16, the other order", codecs.BOM_UTF16_BE + SOLVED.encode("utf-16-be"), "in UTF-16"),
    case("utf-16-le-without-mark", "UTF-16 without a mark", SOLVED.encode("utf-16-le"), "in UTF-16"),
    case("utf-16-be-without-mark", "UTF-16 without a mark, the other order", SOLVED.encode("utf-16-be"), "in UTF-16"),
    case("windows-newlines", "Windows newlines, in the file and in the cells",
         SOLVED.replace("\\n", "\\r\\n").replace("\n", "\r\n")),
    case("gbk-comments", "saved in GBK, with Chinese in comments and texts", text_of(CHINESE).encode("gbk", "replace"),
         "some characters of the file are not in UTF-8"),
    for_a_human("gbk-code", "saved in GBK, with Chinese names in the code", text_of(IN_CODE).encode("gbk", "replace"),
                "is not in UTF-8, and the code of its cell 32 can't be read for certain"),
    for_a_human("gbk-text-with-a-hash", "saved in GBK, with Chinese behind a # in a text of the code",
                text_of(with_cell(cell("print('# 权重')"))).encode("gbk", "replace"),
                "the code of its cell 32 can't be read for certain"),
    for_a_human("gbk-long", "saved in GBK, with more code around Chinese comments than is looked into",
                text_of(with_cell(cell("# 权重\n" + "print(1)\n" * 5_000))).encode("gbk", "replace"),
                "the code of its cell 32 can't be read for certain"),
    for_a_human("gbk-code-format-3", "the same in a notebook of format 3, with Chinese names in the code",
                format_3(IN_CODE).encode("gbk"), "the code of its cell 32 can't be read for certain"),
    case("gbk-comments-format-3", "the same, with Chinese in comments alone", format_3(CHINESE).encode("gbk"),
         "some characters of the file are not in UTF-8", "converted the notebook from format 3"),
    # Merges
    case("conflict-in-outputs", "a merge conflict in outputs and counters",
         conflict(changed(shown("first")), changed(shown("the second"))), ABOUT_OUTPUTS),
    case("conflict-in-metadata", "a merge conflict in the notebook's metadata",
         conflict(solved(), changed(lambda document: document["metadata"].update(kernelspec={"name": "conda"}))),
         ABOUT_OUTPUTS),
    case("conflict-with-base", "a merge conflict in outputs, in the style that shows what both were made from",
         conflict(changed(shown("first")), changed(shown("the second")), base='     "nothing"'), ABOUT_OUTPUTS),
    case("conflict-with-windows-newlines", "a merge conflict in outputs, with Windows newlines",
         conflict(changed(shown("first")), changed(shown("the second")), end="\r\n"), ABOUT_OUTPUTS),
    case("conflict-cell-on-one-side", "a merge conflict around a cell that one side lacks",
         conflict(with_cell(OWN, place=12), solved()), BOTH_SIDES),
    case("conflict-cell-on-the-other-side", "a merge conflict around a cell that the other side lacks",
         conflict(solved(), with_cell(OWN, place=12)), BOTH_SIDES),
    case("conflict-cells-on-both-sides", "a merge conflict around cells of both sides",
         conflict(with_cell(OWN, place=12), with_cell(HELPER, place=12)), BOTH_SIDES),
    case("conflict-with-the-release", "a merge conflict between an answer and the course's stub",
         conflict(unanswered(ATTENTION), solved()), "between answers and cells as they were released"),
    case("conflict-of-a-pair", "a merge conflict between two students, each of whom answered one exercise",
         conflict(unanswered(ATTENTION), unanswered(PROJECT)), "between answers and cells as they were released"),
    for_a_human("conflict-in-an-answer", "a merge conflict between two answers", conflict(solved(), OTHER), DIFFER),
    for_a_human("conflict-beside-an-answer", "a merge conflict around a cell that redefines an answer",
                conflict(with_cell(cell("def project_qkv(*all):\n    return all")), solved()), DIFFER),
    for_a_human("conflict-in-a-helper", "a merge conflict about what an answer may rely on",
                conflict(with_cell(cell("K = 1"), place=12), with_cell(cell("K = 2"), place=12)), DIFFER),
    for_a_human("conflict-half-resolved", "a merge conflict of which one mark was taken out",
                conflict(solved(), OTHER).replace("=======\n", ""), "whose sides are no whole notebooks"),
    case("comma-too-many", "a comma too many between two cells, after a merge by hand", comma("\n  },\n", "\n  },,\n"),
         TOO_MANY),
    case("comma-behind-the-last", "a comma behind the last cell", comma("  }\n ],\n", "  },\n ],\n"), TOO_MANY),
    case("comma-in-an-answer", "a comma behind the last line of an answer",
         SOLVED[: SOLVED.index("def project_qkv")]
         + SOLVED[SOLVED.index("def project_qkv") :].replace('"\n   ]', '",\n   ]', 1), TOO_MANY),
    case("comma-missing", "no comma between two cells", comma("\n  },\n", "\n  }\n"), MISSING),
    case("two-commas", "one comma too many, and one missing",
         comma("\n  },\n", "\n  },,\n").replace(',\n "nbformat_minor"', '\n "nbformat_minor"'), TOO_MANY, MISSING),
    case("keys-twice", "keys that stand twice, with the same values",
         SOLVED.replace(' "nbformat": 4,', ' "nbformat": 4,\n "nbformat": 4,')),
    case("keys-twice-that-differ", "a key of the metadata that stands twice, with two values",
         SOLVED.replace('"cell_type": "markdown",', '"cell_type": "markdown",\n   "id": "another",', 1),
         "took the last value of what stands twice in one place of the file: 'id'"),
    for_a_human("sources-twice", "an answer that stands twice in one cell", TWO_SOURCES,
                "holds two different values of 'source' in one place"),
    # Cuts, and what stands behind the end
    case("cut-behind-the-answers", "an upload that broke off behind the answers", cut(SOLVED, "plot-heatmap", 5),
         "the file ends in the middle, in line"),
    case("cut-in-the-last-tests", "an upload that broke off in the last graded cell",
         cut(SOLVED, '"grade_id": "test_scaled', 3), "the file ends in the middle, in line",
         "test_scaled_dot_product_attention is missing; the exercise was checked all the same"),
    case("cut-in-the-metadata", "an upload that broke off behind all cells", cut(SOLVED, '"kernelspec": {', 9),
         "behind its 31 cells: none of them is lost"),
    case("cut-in-a-character", "an upload that broke off within a character",
         text_of(with_cell(cell("print('注意')"))).encode().rpartition("意".encode())[0] + "意".encode()[:2],
         "the file ends in the middle, in line"),
    for_a_human("cut-in-an-answer", "an upload that broke off in an answer", cut(SOLVED, "def scaled_dot", 40),
                "is damaged: 17 whole cells could be read, without an answer to scaled_dot_product_attention"),
    for_a_human("cut-before-the-answers", "an upload that broke off before the answers",
                cut(SOLVED, '"soft-lookup"', 9),
                "is damaged: what is left of it holds none of the exercises of attention: project_qkv, "),
    for_a_human("quotation-mark", "a quotation mark without its backslash, after an edit of the file as text",
                SOLVED.replace("def project_qkv(", 'print("")\\n", "def project_qkv('),
                f"is damaged: 30 whole cells could be read, without an answer to {PROJECT}"),
    for_a_human("cut-in-the-first-cell", "an upload that broke off in the first cell", SOLVED[:200],
                "ends in the middle, in line"),
    for_a_human("zeros-in-the-middle", "a block of zeros in the middle of an answer",
                SOLVED[:CUT_OUT] + "\0" * 4096 + SOLVED[CUT_OUT + 4096 :],
                f"without an answer to {ATTENTION}"),
    case("zeros-in-an-output", "a block of zeros in the middle of an output",
         text_of(with_cell(PRINTED, place=12)).replace("0.25, 0.25", "\0" * 9 + '"', 1),
         "read its 31 whole cells; what stood between them is lost"),
    case("zeros-at-the-end", "zeros behind the end, after a crash", SOLVED + "\0" * 4096),
    case("older-end", "the end of an older, longer version behind it", SOLVED + '   "source": []\n  }\n ]\n}\n',
         "left out what stands behind the end of the notebook, from line"),
    case("twice-in-one-file", "the notebook twice in one file", SOLVED + SOLVED, "left out what stands behind the end"),
    for_a_human("two-in-one-file", "two notebooks in one file, with different answers", SOLVED + text_of(OTHER),
                DIFFER),
    # Formats and values
    case("format-3", "saved by IPython 2", format_3(solved()), "converted the notebook from format 3"),
    *[case(f"format-4-{minor}", f"format 4.{minor}, without ids", edited(in_format_4(minor))) for minor in (0, 2, 4)],
    case("nan", "NaN and Infinity, which JSON does not know", edited(not_a_number)),
    case("huge-outputs", "50 MB of printed numbers", edited(much_printed)),
    case("widgets", "the state of 500 widgets", edited(widgets)),
    case("null-source", "a cell without a text", edited(without_text)),
    # No notebook at all
    for_a_human("login-page", "a login page of the LMS under this name", LOGIN, "it is a web page, perhaps of a login"),
    for_a_human("python-script", "a Python script under this name", "import torch\n\nx = 1\n", "it is a Python script"),
    for_a_human("colab-script", "Colab's export as .py under this name", SCRIPT,
                "in Colab: File, Download, Download .ipynb"),
    for_a_human("text", "a text under this name", "I could not open it.\n", "is not a notebook: line 1 is not JSON."),
)  # fmt: skip
