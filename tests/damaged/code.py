"""Code that only runs where the student wrote it, or does not run at all: in cells of its own, and beside answers."""

from __future__ import annotations

from typing import Any

from tests.damaged.bank import Case, code_cell, edited, place_of, text_of, write
from tests.engine import ATTENTION

Document = dict[str, Any]

ONLY_PROJECTION = 4.0
FULL_WIDTH = str.maketrans("(),:", "\uff08\uff09\uff0c\uff1a")
INVISIBLE = "was run without its invisible characters"
LEFT_OUT = "what can't run here and what no answer uses: "


def beside(*texts: str) -> Any:
    """These as cells of their own, in front, before the answer, and at the end."""

    def add(document: Document) -> None:
        for number, text in enumerate(texts):
            for where, place in (("front", 0), ("before", place_of(document, ATTENTION)), ("end", 10**6)):
                document["cells"].insert(place, code_cell(text, f"{where}-{number}"))

    return add


def above(text: str) -> Any:
    """This above the answer, in its cell."""

    def change(document: Document) -> None:
        write(document, ATTENTION, f"{text}\n{text_of(document, ATTENTION)}")

    return change


def below(text: str) -> Any:
    """This below the answer, in its cell."""

    def change(document: Document) -> None:
        write(document, ATTENTION, f"{text_of(document, ATTENTION)}\n{text}\n")

    return change


def within(old: str, new: str) -> Any:
    """A piece of the answer in other words."""

    def change(document: Document) -> None:
        text = text_of(document, ATTENTION)
        assert old in text
        write(document, ATTENTION, text.replace(old, new))

    return change


def with_tabs(document: Document) -> None:
    """Tabs in one answer, spaces in the other: each is right by itself."""
    write(document, ATTENTION, text_of(document, ATTENTION).replace("    ", "\t"))


def with_tabs_in_one_line(document: Document) -> None:
    write(document, ATTENTION, text_of(document, ATTENTION).replace("    weights", "\tweights"))


def case(id: str, damage: str, change: Any, *repairs: str, **required: Any) -> Case:
    return Case(id, "code", damage, edited(change), repairs=repairs, **required)


COLAB = "from google.colab import drive\ndrive.mount('/content/drive')"
UPLOAD = "from google.colab import files\nuploaded = files.upload()"
SCREEN = "from tkinter import Y\nfrom turtle import color"

CASES = (
    case("input", "cells ask for input", beside("name = input('Your name? ')")),
    case("pip", "cells install packages", beside("!pip install torch", "%pip install einops", "!pip3 -q install d2l")),
    case("matplotlib-widget", "cells ask for widgets", beside("%matplotlib widget")),
    case("matplotlib-notebook", "cells ask for another way to draw",
         beside("%matplotlib notebook", "%matplotlib inline")),
    case("load-ext", "cells load extensions", beside("%load_ext autoreload\n%autoreload 2", "%load_ext nosuch")),
    case("colab", "cells mount a drive and upload files", beside(COLAB, UPLOAD)),
    case("ide-imports", "an editor has put imports into cells", beside(SCREEN)),
    case("raising", "cells that have nothing to do with the exercises raise", beside("1 / 0", "raise SystemExit")),
    case("exit-late", "the last cell leaves", lambda document: document["cells"].append(code_cell("exit()"))),
    case("quit-early", "cells leave", beside("quit()", "import sys; sys.exit(1)")),
    case("shell", "cells list the folder", beside("!ls", "files = !ls", "%ls", "!nvidia-smi")),
    case("help", "cells ask for help", beside("torch.softmax?", "?print", "help(print)")),
    case("show", "cells show figures and wait",
         beside("import matplotlib.pyplot as plt\nplt.plot([1])\nplt.show(block=True)")),
    case("no-such-file", "cells read files that are not there", beside("open('data/text.txt').read()", "%run mine.py")),
    case("no-such-package", "cells import what is not installed here",
         beside("import d2l", "from mindspore import nn")),
    case("gpu", "cells want a GPU",
         beside("device = torch.device('cuda')\ntorch.ones(2).to(device)", "x = torch.ones(2).cuda()")),
    case("chinese-comment", "a comment has Chinese punctuation",
         within("scores =", "# \uff08先算分数\uff0c再除以√d。\uff09\n    scores =")),
    case("bom-in-cell", "the answer begins with a byte order mark", lambda document: write(
        document, ATTENTION, "\ufeff" + text_of(document, ATTENTION)), INVISIBLE),
    case("no-break-spaces", "the answer was copied from a web page, with spaces that do not break", within(
        "    scores = ", "    scores\u00a0=\u00a0"), INVISIBLE),
    case("invisible-in-text", "a text of the answer's cell has characters that nobody sees",
         above("TITLE = '注\u200b意'")),
    case("full-width", "the answer has full-width characters in its code",
         within("(Q, K, V):", "(Q, K, V):".translate(FULL_WIDTH)),
         score=ONLY_PROJECTION, says="invalid character"),
    case("tabs", "one answer has tabs, the other spaces", with_tabs),
    case("tabs-and-spaces", "tabs and spaces are mixed in one function", with_tabs_in_one_line,
         score=ONLY_PROJECTION, says="inconsistent use of tabs"),
    case("returns-in-cell", "the answer has lines that end as on an old Mac", lambda document: write(
        document, ATTENTION, text_of(document, ATTENTION).replace("\n", "\r"))),
    case("returns-and-ide-imports", "the same, and an editor has put imports above", lambda document: write(
        document, ATTENTION, f"{SCREEN}\n{text_of(document, ATTENTION)}".replace("\n", "\r")),
        LEFT_OUT + "from tkinter import Y · from turtle import color"),
    case("pip-above", "the answer's cell installs a package first", above("!pip install einops\n%pip install d2l")),
    case("widget-above", "the answer's cell asks for widgets first", above("%matplotlib widget")),
    case("load-ext-above", "the answer's cell loads an extension first", above("%load_ext nosuch"),
         LEFT_OUT + "%load_ext"),
    case("time-above", "the answer's cell is timed", above("%%time")),
    case("help-above", "the answer's cell asks for help first", above("torch.softmax?")),
    case("colab-above", "the answer's cell mounts a drive first", above(COLAB),
         LEFT_OUT + "from google.colab import drive · drive.mount("),
    case("upload-above", "the answer's cell asks for a file first", above(UPLOAD), LEFT_OUT),
    case("ide-imports-above", "an editor has put imports above the answer", above(SCREEN),
         LEFT_OUT + "from tkinter import Y · from turtle import color"),
    case("star-import-above", "an editor has put a whole module above the answer", above("from turtle import *"),
         LEFT_OUT),
    case("no-such-package-above", "the answer's cell imports what is not here, and does not use it",
         above("from d2l import torch as d2l"), LEFT_OUT + "from d2l import"),
    case("input-above", "the answer's cell asks for input first", above("n = int(input())"), LEFT_OUT + "n = int("),
    case("used-import-above", "the answer uses a package that is not here", lambda document: write(
        document, ATTENTION, "import d2l\n" + text_of(document, ATTENTION).replace("math.sqrt", "d2l.sqrt")),
        score=ONLY_PROJECTION, says="No module named 'd2l'"),
    case("input-below", "the answer's cell asks for input behind it", below("input()"), LEFT_OUT + "input()"),
    case("raising-below", "the answer's cell raises behind it", below("1 / 0")),
    case("exit-below", "the answer's cell leaves behind it", below("exit()")),
)  # fmt: skip
