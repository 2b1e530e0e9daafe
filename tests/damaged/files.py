"""What happened to the file: renamed, moved, beside others, or something else under its name."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from autograder.stubs import STOCK_STUB
from tests.damaged.bank import Case, HandIn, cell_of, solved
from tests.engine import ROOT, course

RIGHT, UNANSWERED, WRONG = "right", "unanswered", "wrong"


def whole(answer: str = RIGHT) -> str:
    """The solved notebook, or one in which the larger exercise is unanswered, or wrong."""
    document = solved()
    if answer != RIGHT:
        body = STOCK_STUB.split("\n")[-1] if answer == UNANSWERED else "return V, V"
        cell_of(document, "scaled_dot_product_attention")["source"] = (
            f"def scaled_dot_product_attention(Q, K, V):\n    {body}\n"
        )
    return json.dumps(document, ensure_ascii=False)


def named(contents: dict[str, str]) -> HandIn:
    """Hands in files by their paths within the folder."""

    def hand_in(folder: Path) -> None:
        for name, text in contents.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    return hand_in


def case(id: str, damage: str, contents: dict[str, str] | HandIn, **required: Any) -> Case:
    """A case of this family."""
    return Case(id, "files", damage, named(contents) if isinstance(contents, dict) else contents, **required)


def for_a_human(id: str, damage: str, contents: dict[str, str] | HandIn, says: str) -> Case:
    """A case that nobody can decide."""
    return case(id, damage, contents, score=None, says=says)


def zipped(folder: Path) -> None:
    with zipfile.ZipFile(folder / "attention.ipynb", "w") as archive:
        archive.writestr("attention.ipynb", whole())


def in_a_folder(name: str, then: Callable[[Path], None]) -> HandIn:
    def hand_in(folder: Path) -> None:
        (folder / name).mkdir()
        then(folder / name)

    return hand_in


def linked(folder: Path) -> None:
    (folder / "attention.ipynb").symlink_to(course().source_notebook("attention").parent)


def dangling(folder: Path) -> None:
    (folder / "attention.ipynb").symlink_to("/home/student/attention.ipynb")


def linked_folder(folder: Path) -> None:
    (folder / "attention").symlink_to(course().source_notebook("attention").parent)


def nothing(folder: Path) -> None: ...


LOSS = (ROOT / "release" / "loss" / "loss.ipynb").read_text(encoding="utf-8")
DATA = {"data.csv": "a,b\n", "notes.txt": "mine", "figure.png": "no picture", "helper.py": "x = 1\n"}
MISSING = "attention.ipynb does not exist."

CASES = (
    case("renamed-by-a-browser", "downloaded twice: attention (1).ipynb", {"attention (1).ipynb": whole()}),
    case("renamed-final", "renamed to Attention_final.ipynb", {"Attention_final.ipynb": whole()}),
    case("renamed-in-chinese", "renamed in Chinese, with spaces", {"注意力 作业 王小明.ipynb": whole()}),
    case("renamed-without-a-name", "called Untitled.ipynb", {"Untitled.ipynb": whole()}),
    case("upper-case-extension", "called ATTENTION.IPYNB", {"ATTENTION.IPYNB": whole()}),
    case("capital-letter-beside-another", "called Attention.ipynb, beside scratch.ipynb",
         {"Attention.ipynb": whole(), "scratch.ipynb": whole(WRONG)}),
    case("one-folder-deeper", "unpacked into attention/attention/", {"attention/attention.ipynb": whole()}),
    case("one-folder-deeper-and-renamed", "in a folder with a Chinese name, renamed",
         {"作业 一/attention (2).ipynb": whole()}),
    case("unpacked-on-a-mac", "one folder deeper, beside what a Mac packs",
         {"attention/attention.ipynb": whole(), "__MACOSX/attention/._attention.ipynb": "\0\5\26\7",
          "attention/._attention.ipynb": "\0\5\26\7", ".DS_Store": "x"}),
    case("folder-of-its-name", "a folder named attention.ipynb that holds the notebook",
         {"attention.ipynb/attention.ipynb": whole()}),
    case("checkpoint-beside-it", "an older copy in .ipynb_checkpoints",
         {"attention.ipynb": whole(), ".ipynb_checkpoints/attention-checkpoint.ipynb": whole(UNANSWERED)}),
    case("checkpoint-beside-a-renamed-one", "renamed, and an older copy in .ipynb_checkpoints",
         {"final.ipynb": whole(), ".ipynb_checkpoints/attention-checkpoint.ipynb": whole(UNANSWERED)}),
    for_a_human("checkpoint-alone", "only the older copy was handed in",
                {".ipynb_checkpoints/attention-checkpoint.ipynb": whole(UNANSWERED)}, MISSING),
    case("two-of-which-one-is-named-right", "attention.ipynb, and an older one of another name",
         {"attention.ipynb": whole(), "attention (1).ipynb": whole(WRONG)}),
    case("one-deeper-beside-the-right-one", "attention.ipynb, and an older one in a folder",
         {"attention.ipynb": whole(), "old/attention.ipynb": whole(WRONG)}),
    case("two-copies", "two copies, neither of which is named right, of the same bytes",
         {"attention (1).ipynb": whole(), "attention (2).ipynb": whole()}),
    for_a_human("two-candidates", "two different ones, neither of which is named right",
                {"attention (1).ipynb": whole(), "attention (2).ipynb": whole(UNANSWERED)}, MISSING),
    for_a_human("two-candidates-deeper", "two different ones, each in a folder of its own",
                {"a/attention.ipynb": whole(), "b/attention.ipynb": whole(UNANSWERED)}, MISSING),
    for_a_human("another-assignment", "the notebook of `loss` under this name", {"attention.ipynb": LOSS},
                "holds none of the exercises of attention: project_qkv, scaled_dot_product_attention."),
    for_a_human("zip", "a zip archive under this name", zipped, "is a zip archive"),
    for_a_human("empty-folder-of-its-name", "a folder named attention.ipynb, with nothing in it",
                in_a_folder("attention.ipynb", nothing), "is a folder"),
    for_a_human("link", "a link named attention.ipynb, to the folder of the solution", linked, "attention.ipynb is a"),
    for_a_human("dangling-link", "a link to a file on the student's own machine", dangling, "attention.ipynb"),
    for_a_human("linked-folder", "a link to a folder that holds the solution", linked_folder, MISSING),
    for_a_human("empty-file", "0 bytes", {"attention.ipynb": ""}, "is empty; save the notebook"),
    for_a_human("file-of-zeros", "what a crash of the machine left: zeros alone", {"attention.ipynb": "\0" * 4096},
                "is empty; save the notebook"),
    for_a_human("empty-submission", "a folder with nothing in it", nothing, MISSING),
    for_a_human("no-notebook", "a PDF and a script, and no notebook",
                {"attention.pdf": "%PDF-1.7", "attention.py": "x = 1\n"}, MISSING),
    case("extra-files", "data, notes and a module beside it", {"attention.ipynb": whole(), **DATA}),
    case("extra-files-deeper", "one folder deeper, all files beside it",
         {f"work/{name}": text for name, text in {"attention.ipynb": whole(), **DATA}.items()}),
)  # fmt: skip
