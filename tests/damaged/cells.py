"""Cells that were copied, cut, merged, moved, deleted, edited, or turned into another kind."""

from __future__ import annotations

import json
from typing import Any

from tests.damaged.bank import (
    Case,
    as_code,
    as_text,
    cell_of,
    code_cell,
    edited,
    place_of,
    stub_of,
    text_of,
    with_new_ids,
    without_metadata,
    write,
)
from tests.engine import ATTENTION, course

Document = dict[str, Any]

TEST = f"test_{ATTENTION}"
FOUND = f"the answer to {ATTENTION} was found in cell"
NOT_RUN = f"was not run: it holds {ATTENTION} without the answer"
WRONG = f"def {ATTENTION}(Q, K, V):\n    return V * 0, V * 0"
ONLY_PROJECTION = 4.0
WRONG_SHAPE = "the shape of your output is"


def copied(cell: Document, id: str) -> Document:
    """The same cell once more, as copy and paste makes it: its metadata come along, and its id does not."""
    return json.loads(json.dumps(cell)) | {"id": id}


def copy_all(document: Document) -> None:
    document["cells"] += [copied(cell, f"copy-{number}") for number, cell in enumerate(document["cells"])]


def copy_answer(document: Document) -> None:
    place = place_of(document, ATTENTION)
    document["cells"].insert(place + 1, copied(document["cells"][place], "copy"))


def keep_stub_below(document: Document) -> None:
    copy_answer(document)
    document["cells"][place_of(document, ATTENTION) + 1]["source"] = stub_of(ATTENTION)


def keep_other_answer(document: Document) -> None:
    copy_answer(document)
    document["cells"][place_of(document, ATTENTION) + 1]["source"] = WRONG


def correct_in_a_copy(document: Document) -> None:
    copy_answer(document)
    document["cells"][place_of(document, ATTENTION)]["source"] = WRONG


def split_off_helper(document: Document, with_metadata: bool = False) -> None:
    """The cell cut between a helper and the function; JupyterLab gives both the metadata, others the first alone."""
    helper = "def scores_of(Q, K):\n    return Q @ K.transpose(-2, -1) / math.sqrt(Q.shape[-1])\n"
    function = (
        f"def {ATTENTION}(Q, K, V):\n    weights = scores_of(Q, K).softmax(-1)\n    return weights @ V, weights\n"
    )
    write(document, ATTENTION, helper)
    place = place_of(document, ATTENTION)
    metadata = cell_of(document, ATTENTION)["metadata"] if with_metadata else {}
    document["cells"].insert(place + 1, code_cell(function, "second-half", **metadata))


def split_with_metadata(document: Document) -> None:
    split_off_helper(document, with_metadata=True)


def cut_function(document: Document, pieces: int = 2) -> None:
    """The function itself cut, behind its first lines."""
    lines = text_of(document, ATTENTION).splitlines()
    write(document, ATTENTION, "\n".join(lines[:2]))
    place = place_of(document, ATTENTION)
    rest = ["\n".join(lines[2:])] if pieces == 2 else ["\n".join(lines[2:3]), "\n".join(lines[3:])]
    for number, text in enumerate(rest, start=1):
        document["cells"].insert(place + number, code_cell(text, f"half-{number}"))


def cut_twice(document: Document) -> None:
    cut_function(document, pieces=3)


def cut_docstring(document: Document) -> None:
    """Cut within the docstring, so that neither piece is Python."""
    docstring = stub_of(ATTENTION).split('"""')[1]
    head, body = text_of(document, ATTENTION).split("\n", 1)
    first, second = docstring.split("\n", 1)
    write(document, ATTENTION, f'{head}\n    """{first}')
    place = place_of(document, ATTENTION)
    document["cells"].insert(place + 1, code_cell(f'{second}"""\n{body}', "half"))


def merge_answers(document: Document) -> None:
    write(document, "project_qkv", text_of(document, "project_qkv") + "\n\n" + text_of(document, ATTENTION))
    document["cells"].remove(cell_of(document, ATTENTION))


def merge_answer_and_test(document: Document) -> None:
    write(document, ATTENTION, text_of(document, ATTENTION) + "\n\n" + text_of(document, TEST))
    document["cells"].remove(cell_of(document, TEST))


def merge_into_test(document: Document) -> None:
    write(document, TEST, text_of(document, ATTENTION) + "\n\n" + text_of(document, TEST))
    document["cells"].remove(cell_of(document, ATTENTION))


def merge_into_test_and_keep_draft(document: Document) -> None:
    draft = code_cell("# my draft\n" + text_of(document, ATTENTION), "draft")
    merge_into_test(document)
    document["cells"].insert(2, draft)


def answer_in_test_cell(document: Document) -> None:
    """The answer typed above the tests, into the cell of the tests, while its own is still the stub."""
    merged = text_of(document, ATTENTION) + "\n\n" + text_of(document, TEST)
    write(document, TEST, merged)
    write(document, ATTENTION, stub_of(ATTENTION))


def other_answer_in_test_cell(document: Document) -> None:
    write(document, TEST, WRONG + "\n\n" + text_of(document, TEST))


def reverse(document: Document) -> None:
    document["cells"].reverse()


def swap_exercises(document: Document) -> None:
    cells = document["cells"]
    one, other = place_of(document, "project_qkv"), place_of(document, ATTENTION)
    cells[one], cells[other] = cells[other], cells[one]
    one, other = place_of(document, "test_project_qkv"), place_of(document, TEST)
    cells[one], cells[other] = cells[other], cells[one]


def answer_at(place: int | None) -> Any:
    """The answer in a cell of the student's own at that place, and the stub where it was."""

    def move(document: Document) -> None:
        cell = code_cell(text_of(document, ATTENTION))
        write(document, ATTENTION, stub_of(ATTENTION))
        document["cells"].insert(len(document["cells"]) if place is None else place, cell)

    return move


def into_module(document: Document, above: bool) -> None:
    module = f"%%writefile mine.py\nimport math\n\n{text_of(document, ATTENTION)}"
    cells = [code_cell(module, "module"), code_cell(f"from mine import {ATTENTION}", "import")]
    write(document, ATTENTION, stub_of(ATTENTION))
    place = place_of(document, ATTENTION) + (0 if above else 1)
    document["cells"][place:place] = cells


def instead_of_stub(document: Document) -> None:
    """The module above, and the import in the place of the answer."""
    module = f"%%writefile mine.py\nimport math\n\n{text_of(document, ATTENTION)}"
    write(document, ATTENTION, f"from mine import {ATTENTION}")
    document["cells"].insert(place_of(document, ATTENTION), code_cell(module, "module"))


def later_one_is(text: str, first: str | None = None) -> Any:
    """A second definition, in a cell of the student's own behind the first."""

    def add(document: Document) -> None:
        if first is not None:
            write(document, ATTENTION, first)
        document["cells"].append(code_cell(text))

    return add


def delete(*grade_ids: str) -> Any:
    def change(document: Document) -> None:
        for grade_id in grade_ids:
            document["cells"].remove(cell_of(document, grade_id))

    return change


def delete_answer_but_for_a_draft(document: Document) -> None:
    draft = code_cell("# my draft\n" + text_of(document, ATTENTION), "draft")
    document["cells"].insert(place_of(document, "project_qkv"), draft)
    document["cells"].remove(cell_of(document, ATTENTION))


def edit_test(document: Document) -> None:
    write(document, TEST, text_of(document, TEST).replace("assert", "print; assert", 1) + "\nprint('passed')")


def empty_test(document: Document) -> None:
    write(document, TEST, "")


def answer_to_text(document: Document) -> None:
    as_text(cell_of(document, ATTENTION))


def nameless_answer_to_text(document: Document) -> None:
    cell = cell_of(document, ATTENTION)
    as_text(cell)
    cell.update(metadata={}, id="text")


def old_answer_as_text(document: Document) -> None:
    """An earlier try kept as text, above the answer that counts."""
    cell = code_cell(WRONG, "old")
    as_text(cell)
    document["cells"].insert(place_of(document, ATTENTION), cell)


def texts_to_code(document: Document) -> None:
    for id in ("exercise-project", "root-d"):
        as_code(next(cell for cell in document["cells"] if cell["id"] == id))


def test_to_raw(document: Document) -> None:
    as_text(cell_of(document, TEST), "raw")


def setup_to_text(document: Document) -> None:
    as_text(cell_of(document, "setup"))


def raise_in_front(document: Document) -> None:
    document["cells"][:0] = [
        code_cell(text, f"front-{text[:4]}") for text in ("1 / 0", "undefined", "def f(:", "%nope")
    ]


def older(document: Document) -> None:
    """The texts of an earlier release: the course's own cells had other lines."""
    write(document, "setup", text_of(document, "setup").replace("# Run this first.", "# First of all, run this."))
    for grade_id in ("test_project_qkv", TEST):
        write(document, grade_id, text_of(document, grade_id).replace("# A few examples", "# Some examples"))


def older_and_bare(document: Document) -> None:
    older(document)
    without_metadata(document)
    with_new_ids(document)


def another_lesson(document: Document, in_front: bool) -> None:
    other = json.loads(course().release_notebook("masking").read_text(encoding="utf-8"))["cells"]
    document["cells"] = other + document["cells"] if in_front else document["cells"] + other


def import_in_setup(document: Document) -> None:
    """An import added to the course's first cell, which not every editor keeps from being edited."""
    write(document, "setup", "import numpy as np\nfrom math import sqrt as root\n" + text_of(document, "setup"))
    write(document, ATTENTION, text_of(document, ATTENTION).replace("math.sqrt", "np.sqrt"))


HELPERS = """\
from math import sqrt as root

NEG = -1e9
LARGE, SMALL = -NEG, 0
UNUSED = 1


class Scale:
    by = staticmethod(root)


def scores_of(Q, K):
    return (Q @ K.transpose(-2, -1) / Scale.by(Q.shape[-1])).clamp(NEG, LARGE)
"""
WITH_HELPERS = f"def {ATTENTION}(Q, K, V):\n    w = scores_of(Q, K).softmax(-1)\n    return w @ V, w\n"
KEPT = "kept root, NEG, LARGE, Scale, scores_of of the changed cell"


def helpers_in(grade_id: str) -> Any:
    """What the answer needs, typed into a cell of the course."""

    def change(document: Document) -> None:
        write(document, grade_id, text_of(document, grade_id) + "\n" + HELPERS)
        write(document, ATTENTION, WITH_HELPERS)

    return change


def helpers_in_both(document: Document) -> None:
    """One part in the course's first cell, the other in the cell of the tests, before them."""
    first, second = HELPERS.split("class")
    write(document, "setup", first + text_of(document, "setup"))
    write(document, TEST, f"class{second}\n" + text_of(document, TEST))
    write(document, ATTENTION, WITH_HELPERS)


def played_with_the_tests(document: Document) -> None:
    """Tries in the cell of the tests whose names the answer has for its own."""
    tries = "Q = K = V = torch.ones(1, 2, 3)\nweights, _ = scaled_dot_product_attention(Q, K, V)\nprint(weights)\n"
    write(document, TEST, tries + text_of(document, TEST))


def reversed_with_helpers(document: Document) -> None:
    helpers_in("setup")(document)
    reverse(document)


def all_in_one(document: Document) -> None:
    """The code of the whole notebook in one cell, and nothing else."""
    text = "\n\n\n".join("".join(cell["source"]) for cell in document["cells"] if cell["cell_type"] == "code")
    document["cells"] = [code_cell(text)]


def answers_alone(document: Document) -> None:
    texts = [text_of(document, grade_id) for grade_id in ("project_qkv", ATTENTION)]
    document["cells"] = [code_cell("import math, torch", "imports"), *map(code_cell, texts, ("one", "two"))]


def case(id: str, damage: str, change: Any, *repairs: str, **required: Any) -> Case:
    return Case(id, "cells", damage, edited(change), repairs=repairs, **required)


CASES = (
    case("copied", "every cell is there twice", copy_all),
    case("answer-copied", "the answer's cell was copied, metadata and all", copy_answer),
    case("stub-kept-below", "a copy of the stub was kept below the answer", keep_stub_below, NOT_RUN),
    case("two-answers-claim", "the answer's cell was copied, and the copy below is wrong: the last one counts",
         keep_other_answer, f"all answer {ATTENTION}; the last one counts", score=ONLY_PROJECTION, says=WRONG_SHAPE),
    case("corrected-in-a-copy", "the answer's cell was copied, and the mistake corrected in the copy below",
         correct_in_a_copy, f"all answer {ATTENTION}; the last one counts"),
    case("helper-split-off", "the answer's cell was cut between a helper and the function", split_off_helper, FOUND),
    case("helper-split-off-metadata", "the same, and both halves claim to be the answer", split_with_metadata),
    case("function-cut", "the function itself was cut in two cells", cut_function, "were joined"),
    case("function-cut-twice", "the function was cut in three", cut_twice, "were joined"),
    case("docstring-cut", "the function was cut within its docstring", cut_docstring, "were joined"),
    case("answers-merged", "both answers stand in one cell", merge_answers, FOUND),
    case("answer-and-test-merged", "answer and tests stand in the answer's cell", merge_answer_and_test,
         f"the cell {TEST} is missing; the exercise was checked all the same"),
    case("merged-into-test", "answer and tests stand in the tests' cell", merge_into_test, FOUND,
         f"the cell {TEST} is missing"),
    case("merged-into-test-and-draft", "answer and tests stand in the tests' cell, and a draft of it elsewhere",
         merge_into_test_and_keep_draft, FOUND + " 3 ", f"own cell {TEST}"),
    case("answer-in-test-cell", "the answer was typed into the tests' cell", answer_in_test_cell, FOUND,
         f"the cell {TEST} is missing"),
    case("other-answer-in-test-cell", "another answer was typed into the tests' cell", other_answer_in_test_cell,
         score=None, says=f"gives another answer to {ATTENTION}"),
    case("reversed", "the cells stand in reverse order", reverse, "moved the cell setup", "moved the cell sentence"),
    case("exercises-swapped", "the second exercise stands before the first", swap_exercises),
    case("answer-at-the-end", "the answer stands in a new cell at the end", answer_at(None), FOUND),
    case("answer-in-front", "the answer stands in a new cell in front", answer_at(3), FOUND, NOT_RUN),
    case("module-above", "the answer was written into a module, and imported above the stub",
         lambda document: into_module(document, above=True), FOUND, NOT_RUN),
    case("module-below", "the answer was written into a module, and imported below the stub",
         lambda document: into_module(document, above=False), FOUND),
    case("module-instead", "the answer is imported from a module that another cell writes", instead_of_stub),
    case("later-is-right", "a wrong answer is defined again, rightly, in a later cell",
         lambda document: later_one_is(text_of(document, ATTENTION), WRONG)(document),
         f"cells 18, 32 all answer {ATTENTION}; the last one counts"),
    case("later-is-wrong", "a right answer is defined again, wrongly, in a later cell: the later one counts",
         later_one_is(WRONG), f"cells 18, 32 all answer {ATTENTION}; the last one counts", score=ONLY_PROJECTION,
         says=WRONG_SHAPE),
    case("later-is-the-same", "a right answer is defined again, with another comment, in a later cell",
         lambda document: later_one_is("# once more\n" + text_of(document, ATTENTION))(document)),
    case("test-deleted", "the tests' cell was deleted", delete(TEST), f"the cell {TEST} is missing"),
    case("all-of-the-course-s-deleted", "all cells of the course but the answers were deleted",
         delete("setup", "sentence", "test_project_qkv", TEST), "added the cell setup", "added the cell sentence",
         "the cell test_project_qkv is missing", f"the cell {TEST} is missing"),
    case("test-edited", "the tests' cell was edited", edit_test, f"put the course's own cell {TEST}"),
    case("test-emptied", "the tests' cell was emptied", empty_test, f"put the course's own cell {TEST}"),
    case("answer-deleted-draft-kept", "the answer's cell was deleted, and a draft of it stands elsewhere",
         delete_answer_but_for_a_draft, FOUND),
    case("answer-deleted", "the answer's cell was deleted, and nothing like it is left", delete(ATTENTION),
         f"the cell {ATTENTION} is missing, and no other cell answers it", score=ONLY_PROJECTION,
         says=f"there is no function {ATTENTION}"),
    case("answer-to-text", "the answer's cell was turned into a text cell", answer_to_text, "is no code cell"),
    case("nameless-answer-to-text", "the same, and its metadata are gone", nameless_answer_to_text, FOUND,
         "is no code cell"),
    case("answer-to-raw", "the answer's cell was turned into a raw cell",
         lambda document: as_text(cell_of(document, ATTENTION), "raw"), "is no code cell"),
    case("old-answer-as-text", "an earlier try was kept as a text cell", old_answer_as_text),
    case("texts-to-code", "the course's texts were turned into code", texts_to_code,
         "was a text cell of the course", "was a text cell of the course"),
    case("test-to-raw", "the tests' cell was turned into a raw cell", test_to_raw, f"put the course's own cell {TEST}"),
    case("setup-to-text", "the course's first cell was turned into text", setup_to_text, "own cell setup"),
    case("raising-in-front", "cells that raise stand in front", raise_in_front),
    case("older-release", "it is an older release: the course's cells have other texts", older,
         "own cell setup", "own cell test_project_qkv", f"own cell {TEST}"),
    case("older-release-bare", "the same, without ids and metadata", older_and_bare,
         "the course's cell setup was found in cell 2 by its text", "cell sentence was found",
         "the answer to project_qkv was found in cell 10 by what it defines", "cell test_project_qkv was found",
         FOUND, f"cell {TEST} was found", "own cell setup", "own cell test_project_qkv", f"own cell {TEST}"),
    case("another-lesson-in-front", "the cells of another lesson stand in front",
         lambda document: another_lesson(document, in_front=True)),
    case("another-lesson-behind", "the cells of another lesson stand behind",
         lambda document: another_lesson(document, in_front=False)),
    case("import-in-setup", "the answer uses what was imported in the course's own first cell", import_in_setup,
         "own cell setup", "kept np of the changed cell setup"),
    case("helpers-in-setup", "the answer uses helpers and constants that were typed into the course's own first cell",
         helpers_in("setup"), "own cell setup", KEPT + " setup"),
    case("helpers-in-test", "the same, typed into the cell of the tests", helpers_in(TEST), f"own cell {TEST}",
         f"{KEPT} {TEST}"),
    case("helpers-in-both", "the same, one part in each", helpers_in_both, "own cell setup",
         "kept root, NEG, LARGE of the changed cell setup", f"own cell {TEST}", "kept Scale, scores_of of the changed"),
    case("helpers-in-setup-reversed", "helpers in the course's own first cell, which stands last",
         reversed_with_helpers, "own cell setup", KEPT, "moved the cell setup", "moved the cell sentence"),
    case("tries-in-test", "tries in the cell of the tests, whose names the answer has for its own",
         played_with_the_tests, f"own cell {TEST}"),
    case("all-in-one", "all code was pasted into one cell", all_in_one, "the answer to project_qkv was found", FOUND,
         "added the cell setup", "added the cell sentence", "the cell test_project_qkv is missing",
         f"the cell {TEST} is missing"),
    case("answers-alone", "the answers were pasted into a new notebook", answers_alone,
         "the answer to project_qkv was found", FOUND, "added the cell setup", "added the cell sentence",
         "the cell test_project_qkv is missing", f"the cell {TEST} is missing"),
)  # fmt: skip
