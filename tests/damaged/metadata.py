"""Metadata that editors and services drop, students copy, and tools rewrite."""

from __future__ import annotations

from typing import Any

from tests.damaged.bank import (
    Case,
    cell_of,
    code_cell,
    edited,
    place_of,
    solved,
    text_of,
    with_new_ids,
    without_metadata,
    write,
)
from tests.engine import ATTENTION

Document = dict[str, Any]

TEST = f"test_{ATTENTION}"
ONLY_PROJECTION = 4.0
GRADED = ("setup", "sentence", "project_qkv", "test_project_qkv", ATTENTION, TEST)
ANSWERS = ("project_qkv", ATTENTION)


def found(name: str, how: str) -> str:
    """The line about a cell that was found by something else than its grade_id."""
    what = f"the answer to {name}" if name in ANSWERS else f"the course's cell {name}"
    return f"{what} was found in cell {place_of(solved(), name) + 1} by {how}"


BY_ID = tuple(found(name, "the cell's id") for name in GRADED)
BY_LOOKS = tuple(found(name, "what it defines" if name in ANSWERS else "its text") for name in GRADED)
"""A line for each of the course's cells, in their order."""


def nbgrader_of(document: Document, grade_id: str) -> Document:
    found: Document = cell_of(document, grade_id)["metadata"]["nbgrader"]
    return found


def each_nbgrader(document: Document) -> list[Document]:
    return [cell["metadata"]["nbgrader"] for cell in document["cells"] if "nbgrader" in cell["metadata"]]


def pasted(document: Document) -> None:
    """What is left after copy and paste into a new notebook."""
    without_metadata(document)
    with_new_ids(document)
    document["metadata"] = {}


def in_colab(document: Document) -> None:
    """As Colab writes it: its own metadata and ids, no format minor above 0."""
    pasted(document)
    document.update(nbformat_minor=0, metadata={"colab": {"provenance": []}, "accelerator": "GPU"})
    for number, cell in enumerate(document["cells"]):
        del cell["id"]
        cell["metadata"] = {"id": f"aB{number:02}xY", "colab": {"base_uri": "https://localhost:8080/"}}


def in_an_editor(document: Document) -> None:
    """As VS Code writes one that was pasted there."""
    pasted(document)
    document["metadata"] = {"language_info": {"name": "python"}, "orig_nbformat": 4}
    for cell in document["cells"]:
        cell["metadata"] = {"vscode": {"languageId": "python"}}


def without_ids(document: Document) -> None:
    for cell in document["cells"]:
        del cell["id"]
    document["nbformat_minor"] = 4


def unknown(document: Document) -> None:
    for number, nbgrader in enumerate(each_nbgrader(document)):
        nbgrader["grade_id"] = f"cell-{number:016x}"


def spaced(document: Document) -> None:
    for nbgrader in each_nbgrader(document):
        nbgrader["grade_id"] += " "


def all_the_same(document: Document) -> None:
    for nbgrader in each_nbgrader(document):
        nbgrader["grade_id"] = ATTENTION


def swapped(one: str, other: str, with_ids: bool = False) -> Any:
    """Two cells with each other's metadata."""

    def swap(document: Document) -> None:
        first, second = cell_of(document, one), cell_of(document, other)
        for key in ("metadata", "id") if with_ids else ("metadata",):
            first[key], second[key] = second[key], first[key]

    return swap


def shifted(document: Document) -> None:
    """Each cell with the metadata of the one above it, as after a merge by hand."""
    above: Document = {}
    for cell in document["cells"]:
        cell["metadata"], above = above, cell["metadata"]
    with_new_ids(document)


def older_with_ids(document: Document) -> None:
    write(document, "setup", "import torch\nprint(torch.__version__)")
    write(document, TEST, "assert callable(project_qkv)")
    without_metadata(document)


def broken_and_bare(document: Document) -> None:
    write(document, ATTENTION, text_of(document, ATTENTION).replace("(Q, K, V):", "(Q, K, V)\uff1a"))
    pasted(document)


def on_notes_too(document: Document) -> None:
    """The answer's metadata on a cell of notes as well."""
    note = code_cell("# my notes: rows are queries", "notes", **cell_of(document, ATTENTION)["metadata"])
    document["cells"].insert(place_of(document, ATTENTION) + 1, note)


def tampered(document: Document) -> None:
    for nbgrader in each_nbgrader(document):
        nbgrader.update(points=1000)
    nbgrader_of(document, TEST).update(points=-3)


def flipped(document: Document) -> None:
    for nbgrader in each_nbgrader(document):
        nbgrader.update({flag: not nbgrader[flag] for flag in ("solution", "grade", "locked")})


def emptied(document: Document) -> None:
    for cell in [cell_of(document, name) for name in GRADED]:
        cell["metadata"]["nbgrader"] = None if cell["id"] == "setup" else {}


def of_schema(version: int) -> Any:
    def change(document: Document) -> None:
        for nbgrader in each_nbgrader(document):
            nbgrader["schema_version"] = version
            for key in ("task", "cell_type", "checksum"):
                nbgrader.pop(key, None)

    return change


def kernel(name: str, language: str, display: str) -> Any:
    def change(document: Document) -> None:
        document["metadata"] = {
            "kernelspec": {"name": name, "language": language, "display_name": display},
            "language_info": {"name": language, "version": "2.7.18"},
        }

    return change


def no_kernel(document: Document) -> None:
    document["metadata"] = {}


def tagged(*tags: str) -> Any:
    def change(document: Document) -> None:
        for cell in document["cells"]:
            cell["metadata"]["tags"] = [*tags]

    return change


def folded(document: Document) -> None:
    for cell in document["cells"]:
        cell["metadata"].update(
            collapsed=True, scrolled=True, jupyter={"source_hidden": True, "outputs_hidden": True}, hidden=True
        )


def attached(document: Document) -> None:
    picture = {"image.png": {"image/png": "iVBORw0KGgo="}}
    for cell in document["cells"]:
        if cell["cell_type"] == "markdown":
            cell["attachments"] = picture


def timed(document: Document) -> None:
    for number, cell in enumerate(document["cells"]):
        cell["metadata"]["execution"] = {"iopub.execute_input": "2026-12-01T00:00:00Z"}
        if cell["cell_type"] == "code":
            cell["execution_count"] = 100 - number


def of_wrong_types(document: Document) -> None:
    nbgrader_of(document, TEST).update(points="16", grade="yes", locked=1)
    document["metadata"] = []
    for cell, odd in zip(document["cells"], (None, [], "text", 5), strict=False):
        if cell["cell_type"] == "markdown":
            cell["metadata"] = odd


def case(id: str, damage: str, change: Any, *repairs: str, **required: Any) -> Case:
    return Case(id, "metadata", damage, edited(change), repairs=repairs, **required)


CASES = (
    case("gone", "no cell has metadata", without_metadata, *BY_ID),
    case("pasted", "the cells were pasted into a new notebook", pasted, *BY_LOOKS),
    case("colab", "it was pasted into Colab", in_colab, *BY_LOOKS),
    case("vscode", "it was pasted in VS Code", in_an_editor, *BY_LOOKS),
    case("ids-gone", "no cell has an id", without_ids),
    case("ids-new", "all cells have other ids", with_new_ids),
    case("emptied", "nbgrader's metadata are empty", emptied, *BY_ID),
    case("unknown", "no grade_id is one of the course's", unknown, *BY_ID),
    case("spaced", "all grade_ids have a space behind them", spaced, *BY_ID),
    case("all-the-same", "all grade_ids are that of one answer", all_the_same,
         *(line for line in BY_LOOKS if f" {ATTENTION} " not in line)),
    case("answers-swapped", "the answers have each other's metadata", swapped("project_qkv", ATTENTION),
         *BY_LOOKS[2:3], *BY_LOOKS[4:5]),
    case("answers-swapped-ids", "the answers have each other's metadata and ids",
         swapped("project_qkv", ATTENTION, with_ids=True), *BY_LOOKS[2:3], *BY_LOOKS[4:5]),
    case("answer-and-test-swapped", "answer and tests have each other's metadata", swapped(ATTENTION, TEST),
         *BY_LOOKS[4:]),
    case("answer-and-setup-swapped", "the answer and the course's first cell have each other's metadata",
         swapped(ATTENTION, "setup", with_ids=True), *BY_LOOKS[:1], *BY_LOOKS[4:5]),
    case("shifted", "each cell has the metadata of the one above it", shifted, *BY_LOOKS),
    case("older-ids-kept", "the metadata are gone from an older release, whose cells were quite others",
         older_with_ids, *BY_ID, "own cell setup", f"own cell {TEST}"),
    case("broken-bare", "the metadata are gone, and the answer is no Python", broken_and_bare, *BY_LOOKS,
         score=ONLY_PROJECTION, says="invalid character"),
    case("on-notes-too", "a cell of notes carries the answer's metadata too", on_notes_too),
    case("points", "the points were tampered with", tampered),
    case("flags", "all flags were flipped", flipped),
    case("schema-1", "the metadata are of nbgrader's first schema", of_schema(1)),
    case("schema-99", "the metadata are of a schema to come", of_schema(99)),
    case("no-kernel", "it names no kernel", no_kernel),
    case("kernel-r", "it names a kernel for R", kernel("ir", "R", "R")),
    case("kernel-python2", "it names a kernel for Python 2", kernel("python2", "python", "Python 2")),
    case("kernel-conda", "it names a kernel of a student's own", kernel("conda-env-dl-py", "python", "深度学习")),
    case("skip-execution", "all cells are tagged to be skipped", tagged("skip-execution", "remove-cell")),
    case("illustration", "all cells are tagged as illustrations", tagged("illustration")),
    case("folded", "all cells are folded and hidden", folded),
    case("attachments", "pictures are attached to the texts", attached),
    case("timed", "the cells carry times, and counts from another order", timed),
    case("wrong-types", "there are values of wrong types in the metadata", of_wrong_types),
)  # fmt: skip
