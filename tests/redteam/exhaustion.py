"""Hostile submissions that use up time, memory, disk or patience: the right answer beside them keeps its points."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from typing import Any

from tests.engine import ATTENTION, GOOD, attention
from tests.redteam.attempts import ANSWER
from tests.redteam.bank import END, START, Case, code_cell, document, file_of

RIGHT = {ATTENTION: GOOD}


def cell(id: str, tries: str, source: str, *, place: int = START, **required: Any) -> Case:
    """A cell that exhausts something, beside a right answer, which keeps its points."""
    return Case(id, "exhaustion", tries, 16, answers=RIGHT, cells=((place, source),), **required)


def call(id: str, tries: str, body: str, *outcomes: str, before: str = "", score: float = 0, **required: Any) -> Case:
    """An answer that exhausts something whenever it is called."""
    answer = {ATTENTION: attention(body, before)}
    return Case(id, "exhaustion", tries, score, answers=answer, outcomes=(*outcomes, "skipped"), **required)


def document_case(id: str, tries: str, make: Any, *, score: float | None = 16, **required: Any) -> Case:
    """A file that is hard to read."""
    return Case(id, "exhaustion", tries, score, notebook=make, **required)


def many_cells(count: int) -> bytes:
    made = document(answers=RIGHT)
    made["cells"] += [code_cell(f"x_{number} = {number}", f"cell-{number}") for number in range(count)]
    return file_of(made)


def large(megabytes: int) -> bytes:
    """A notebook whose last output holds that much text."""
    made = document(answers=RIGHT)
    made["cells"].append(code_cell("pass", "large"))
    made["cells"][-1]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "PUT IT HERE"}]
    return file_of(made).replace(b"PUT IT HERE", b"x" * (megabytes << 20))


def many_values(megabytes: int, value: str) -> bytes:
    """A notebook whose metadata holds that much of small values, each of which takes far more room than its text."""
    made = document(answers=RIGHT)
    made["metadata"]["many"] = ["PUT THEM HERE"]
    values = ",".join([value] * ((megabytes << 20) // (len(value) + 1)))
    return file_of(made).replace(b'"PUT THEM HERE"', values.encode())


def nested(depth: int) -> bytes:
    """A notebook with brackets in brackets in its metadata, in a cell's and in its outputs."""
    made = document(answers=RIGHT)
    made["cells"].append(code_cell("pass", "nested", deep="PUT IT HERE"))
    made["cells"][-1]["outputs"] = [
        {"output_type": "display_data", "metadata": {}, "data": {"application/json": "PUT IT HERE"}}
    ]
    made["metadata"]["deep"] = "PUT IT HERE"
    return file_of(made).replace(b'"PUT IT HERE"', b'[{"a":' * depth + b"0" + b"}]" * depth)


def nested_attachments() -> bytes:
    """Pictures that unpack to a thousand times their size, attached, shown and embedded."""
    made = document(answers=RIGHT)
    picture = base64.b64encode(bomb()).decode()
    made["cells"].append(
        {
            "cell_type": "markdown",
            "id": "pictures",
            "metadata": {},
            "source": f"![](attachment:bomb.png) <img src='data:image/png;base64,{picture}'>",
            "attachments": {"bomb.png": {"image/png": picture}},
        }
    )
    return file_of(made)


def bomb(side: int = 30_000) -> bytes:
    """A PNG of `side` by `side` pixels, all alike."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    packer = zlib.compressobj(9)
    row = b"\0" * (side // 8 + 1)
    packed = b"".join(packer.compress(row) for _ in range(side)) + packer.flush()
    header = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", packed) + chunk(b"IEND", b"")


def hard_text() -> bytes:
    """Text for which careless patterns take for ever, wherever text stands."""
    hard = (
        "[" * 4_000, "](" * 2_000, "$" * 4_001, "\\(" * 2_000, "<" * 4_000, "<!--" * 1_000, "*a_" * 2_000,
        "`" * 4_001, "&" * 4_000, "> " * 500 + "x", "\n".join("  " * n + "* x" for n in range(60)),
        " " * 8_000 + "x", "a" * 8_000 + "@", "\x1b[" * 4_000, "|a" * 1_000 + "\n" + "|-" * 1_000, "\u202e" * 2_000,
    )  # fmt: skip
    made = document(answers=RIGHT)
    for number, text in enumerate(hard):
        made["cells"].append({"cell_type": "markdown", "id": f"hard-{number}", "metadata": {}, "source": text})
        shown = f"text = {text!r}\nprint(text)\nraise ValueError(text)"
        made["cells"].append(code_cell(shown, f"code-{number}"))
    return file_of(made)


def attribute_chains() -> bytes:
    """A right answer with a branch, never taken, that goes from attribute to attribute."""
    chains = "    if Q is None:\n        x = torch\n" + "        x = x.a\n" * 18_000
    return file_of(document(answers={ATTENTION: GOOD.replace("(Q, K, V):\n", "(Q, K, V):\n" + chains)}))


def long_code(text: str) -> bytes:
    return json.dumps(document(answers={ATTENTION: f"{GOOD}\n{text}\n"})).encode()


FORK = """
import os
import threading
for _ in range(200):
    try:
        os.fork()
    except OSError:
        pass
"""
THREADS = """
import threading
def busy():
    while True:
        pass
try:
    for _ in range(5000):
        threading.Thread(target=busy, daemon=True).start()
except RuntimeError:
    pass
"""
DISK = """
import os
for number in range(4000):
    try:
        with open(f"redteam-{number}", "wb") as file:
            file.write(os.urandom(1 << 20))
    except OSError:
        break
"""
DEEP_DISK = """
import os
import time
CAME_THROUGH, WRITTEN = [], 0
here = os.open(".", os.O_RDONLY)
for _ in range(64):
    os.mkdir("d" * 200, dir_fd=here)
    below = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
    os.close(here)
    here = below
time.sleep(0.5)
for number in range(250):
    try:
        with open(f"redteam-{number}", "wb") as file:
            WRITTEN += file.write(os.urandom(1 << 20))
    except OSError:
        break
    time.sleep(0.005)
if WRITTEN > 150 << 20:
    CAME_THROUGH.append(f"{WRITTEN} bytes")
"""
FILES = """
import os
try:
    for number in range(200_000):
        open(f"redteam-{number}", "wb").close()
except OSError:
    pass
"""
DISPLAY = """
from IPython.display import HTML, display
for _ in range(200_000):
    display(HTML("<b>16 of 16</b>"))
"""
FIGURES = """
import matplotlib.pyplot as plt
for _ in range(1000):
    plt.figure()
plt.show()
plt.figure(figsize=(40_000, 40_000)).text(0.5, 0.5, "x" * 100_000)
plt.show()
"""
CHAIN = """
error = None
for number in range(20_000):
    one = ValueError("x" * 1000)
    one.__cause__ = error
    error = one
raise error
"""
TEXT_OF_ERROR = """
class Endless(Exception):
    def __str__(self):
        return "x" * (1 << 29)
raise Endless
"""
SELF_DESCRIBING = """
class Endless:
    def __repr__(self):
        return "x" * (1 << 28)
    _repr_html_ = _repr_latex_ = _repr_markdown_ = __repr__
[Endless() for _ in range(3)]
Endless()
"""
NUMBERS = """
import sys
sys.set_int_max_str_digits(0)
print(10 ** (10 ** 8))
"""
IMAGE = f"""
import base64
from IPython.display import Image, display
display(Image(base64.b64decode({base64.b64encode(bomb(20_000)).decode()!r})))
display(Image(b"\\x89PNG" + b"x" * (1 << 28)))
"""
ALARMS = """
import signal
def ring(number, frame):
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, ring)
signal.setitimer(signal.ITIMER_REAL, 0.05, 0.001)
"""
STUBBORN = """
import signal, time
for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
while True:
    try:
        time.sleep(60)
    except BaseException:
        pass
"""
OVERFLOW = """
import sys
sys.setrecursionlimit(10**9)
def deeper(n):
    return [deeper(n + 1)]
deeper(0)
"""
NATIVE_OVERFLOW = """
import copy, sys
sys.setrecursionlimit(10**9)
nest = []
for _ in range(1_000_000):
    nest = [nest]
repr(nest), copy.deepcopy(nest)
"""
KEEP = """\
KEPT.append((Q, K, V, torch.ones(1 << 19)))
weights = torch.softmax(Q @ K.mT / Q.shape[-1] ** 0.5, -1)
return weights @ V, weights"""

CASES = [
    cell("endless-cell", "never ends, in a cell", "while True:\n    pass"),
    cell("stubborn-sleep", "sleeps for ever and hears no signal", STUBBORN),
    cell("endless-pattern", "never ends within one call of C, where Python hears no signal",
         "import re\nre.match('(a|a)+$', 'a' * 60 + 'b')"),
    Case("many-endless-cells", "exhaustion", "has five cells that never end: fresh starts run out", 0, answers=RIGHT,
         cells=((START, "while True:\n    pass"),) * 5, others_full=False, seconds=40),
    call("endless-call", "never ends when it is called", "while True:\n    pass", "timeout"),
    call("endless-matrix", "never ends within torch", "torch.linalg.matrix_exp(torch.ones(6000, 6000))", "timeout"),
    cell("deep-recursion", "calls itself without end, in a cell", "def deeper():\n    deeper()\ndeeper()"),
    call("deep-recursion-in-a-call", "calls itself without end when it is called",
         f"return {ATTENTION}(Q, K, V)", "error"),
    cell("overflow", "overflows the stack by Python calls", OVERFLOW),
    cell("native-overflow", "overflows the stack within C", NATIVE_OVERFLOW),
    cell("memory", "takes all memory, bit by bit", "kept = []\nwhile True:\n    kept.append(bytearray(1 << 26))"),
    call("memory-in-a-call", "takes all memory when it is called", "torch.ones(1 << 40)", "error", "out_of_memory"),
    call("memory-bit-by-bit", "takes all memory, bit by bit, when it is called",
         "kept = []\nwhile True:\n    kept.append(b'x' * (1 << 26))", "error", "out_of_memory", "timeout"),
    call("results-kept", "keeps two megabytes of each call, and every argument", KEEP, before="KEPT = []", score=16),
    cell("threads", "starts thousands of threads that never rest", THREADS, place=END),
    cell("fork-bomb", "forks, and the forks fork", FORK),
    cell("disk", "fills the disk with gigabytes", DISK),
    Case("disk-behind-deep-folders", "exhaustion", "fills the disk once whoever measures has met too long a path",
         16, answers={ATTENTION: "CAME_THROUGH = globals().get('CAME_THROUGH', [])" + ANSWER},
         cells=((START, DEEP_DISK),)),
    cell("many-files", "fills the disk with two hundred thousand empty files", FILES),
    cell("output-by-stream", "prints half a gigabyte, at once, in lines and past Python",
         "import os\nprint('x' * (1 << 28))\nfor _ in range(300_000):\n    print('x' * 1000)\n"
         "os.write(1, b'x' * (1 << 26)); os.write(2, b'x' * (1 << 26))"),
    cell("output-by-display", "displays two hundred thousand things", DISPLAY),
    cell("output-by-error", "raises an error with a text of half a gigabyte", TEXT_OF_ERROR),
    cell("output-by-causes", "raises an error with twenty thousand causes", CHAIN),
    cell("output-by-html", "shows a page of a quarter of a gigabyte",
         "from IPython.display import HTML\nHTML('<div>' * (1 << 26))"),
    cell("output-by-description", "has results that describe themselves at length, in four formats", SELF_DESCRIBING),
    call("error-text-in-a-call", "raises an error with a text of half a gigabyte when it is called",
         "raise ValueError('x' * (1 << 29))", "error"),
    cell("large-numbers", "prints a number of a hundred million digits", NUMBERS),
    call("large-number-as-result", "returns a number of a hundred million digits", "return 1 << (1 << 28), V", "failed",
         "crashed", "error"),
    call("many-results", "returns a million tensors", "return [torch.zeros(1)] * 1_000_000", "failed", "crashed",
         "error"),
    call("large-view", "returns a view of four thousand billion numbers",
         "return V.new_zeros(1).expand(1 << 21, 1 << 21), V", "failed", "crashed", "error"),
    call("nested-result", "returns lists in lists, a hundred thousand deep",
         "nest = []\nfor _ in range(100_000):\n    nest = [nest]\nreturn nest, V", "failed", "crashed", "error"),
    cell("figures", "opens a thousand figures and one of a million pixels a side", FIGURES),
    cell("alarms", "has an alarm ring every millisecond, in the middle of everything", ALARMS, place=END),
    cell("image-bomb", "shows pictures that are far larger than their files", IMAGE),
    document_case("attached-bomb", "attaches pictures that unpack to a thousand times their size", nested_attachments),
    document_case("many-cells", "has 1,900 cells", lambda: many_cells(1_900)),
    document_case("ten-thousand-cells", "has ten thousand cells", lambda: many_cells(10_000), score=None,
                  status="unusable"),
    document_case("large-notebook", "hands in 200 MB", lambda: large(200), score=None, status="unusable"),
    document_case("large-output", "hands in 90 MB, one text", lambda: large(90), memory_mb=700),
    document_case("many-small-values", "hands in 40 MB of empty lists, each of them twenty times as large in memory",
                  lambda: many_values(40, "[]"), score=None, status="unusable"),
    document_case("nested-json", "has brackets in brackets, half as deep as Python may recurse", lambda: nested(200)),
    document_case("nested-json-without-end", "has brackets in brackets, a hundred thousand deep",
                  lambda: nested(100_000), score=None, status="unusable"),
    document_case("hard-text", "has text for which careless patterns take for ever", hard_text),
    document_case("attribute-chains", "has 300 KB of attribute chains in its answer", attribute_chains),
    document_case("aliases", "has ten thousand names for one another in its answer",
                  lambda: long_code("\n".join(f"a{n + 1} = a{n}" for n in range(-1, 10_000)).replace("a-1", "torch"))),
    cell("deep-code", "has a sum of thousands of terms, and brackets in brackets",
         "x = " + "+".join(["1"] * 20_000) + "\ny = " + "(" * 150 + ")" * 150),
    document_case("two-megabytes-of-code", "has two megabytes of code", lambda: long_code("#" * (2 << 20)), score=None,
                  status="unusable"),
]  # fmt: skip
