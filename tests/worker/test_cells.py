"""Cells run as in a notebook: their outputs are nbformat's, bounded, and nothing reaches the process's own streams."""

# ruff: noqa: E501 - a cell reads best on one line

from __future__ import annotations

import base64
import builtins
import functools
import gc
import json
import os
import pdb
import struct
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import nbformat
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg

from autograder.channel.proxy import ForbiddenCalled, Student
from autograder.errors import ConfinementUnavailable
from autograder.examiner.zygotes import Zygote
from autograder.grading import Grader
from autograder.worker import missing
from autograder.worker.cells import DROPPED, Cells, closing_new_figures
from tests.engine import ATTENTION, GOOD, SEED, answered, exercise, with_cell
from tests.worker.test_serve import SDPA, Conversation

CAP = 1 << 16

Run = Callable[..., dict[str, Any]]

pytestmark = [
    pytest.mark.filterwarnings("ignore:To exit"),
    pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated"),
    pytest.mark.filterwarnings("ignore:w$"),  # a cell's own
    pytest.mark.filterwarnings("ignore:InlineBackend._figure_format_changed is deprecated"),
]


@pytest.fixture(scope="module")
def cells() -> Iterator[Cells]:
    """One shell for all tests; while they run, its namespace is the main module."""
    main = sys.modules["__main__"]
    gc.freeze()  # each fresh namespace collects garbage, which takes long among all that is loaded
    yield Cells()
    gc.unfreeze()
    sys.modules["__main__"] = main


@pytest.fixture
def run(cells: Cells, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Run cells, one after the other, in a fresh namespace; the last one's reply comes back."""
    monkeypatch.chdir(tmp_path)
    matplotlib.use("Agg")
    streams = sys.stdin, sys.stdout, sys.stderr
    given = builtins.input
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", sys.dont_write_bytecode)
    monkeypatch.setattr(os, "system", os.system)
    monkeypatch.setattr(torch, "compile", torch.compile)
    cells.attach()
    cells.shell.reset(new_session=True)
    cells.shell.execution_count = 1
    number = 0

    def run(*sources: str, cap: int = CAP) -> dict[str, Any]:
        nonlocal number
        cells.cap = cap
        for source in sources:
            number += 1
            reply = json.loads(json.dumps(cells.run(source, number)))
        return reply

    yield run
    sys.stdin, sys.stdout, sys.stderr = streams
    builtins.input = given


def kinds(reply: dict[str, Any]) -> list[str]:
    return [output["output_type"] for output in reply["outputs"]]


def text(reply: dict[str, Any], name: str = "stdout") -> str:
    return "".join(output["text"] for output in reply["outputs"] if output.get("name") == name)


def result(reply: dict[str, Any]) -> str:
    return str(reply["outputs"][-1]["data"]["text/plain"])


def size(reply: dict[str, Any]) -> int:
    return len(json.dumps(reply))


# Outputs


def test_every_kind_of_output_is_what_nbformat_expects(run: Run) -> None:
    source = "import sys\nprint('a')\nprint('b', file=sys.stderr)\ndisplay(1)\n2"
    shown = [*run(source)["outputs"], *run("1 / 0")["outputs"]]
    assert [output["output_type"] for output in shown] == [
        "stream",
        "stream",
        "display_data",
        "execute_result",
        "error",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("x", outputs=shown)])
    nbformat.validate(notebook)


def test_prints_that_follow_one_another_are_one_stream(run: Run) -> None:
    assert run("for i in range(100): print(i)")["outputs"] == [
        {"output_type": "stream", "name": "stdout", "text": "".join(f"{i}\n" for i in range(100))}
    ]


def test_a_result_carries_the_cells_count(run: Run) -> None:
    assert run("1", "2")["outputs"][0]["execution_count"] == 2


def test_the_last_results_go_by_the_names_that_a_notebook_knows(run: Run) -> None:
    assert result(run("'a'", "'b'", "'c'", "_, __, ___")) == "('c', 'b', 'a')"
    assert result(run("_4[0], Out[4][1]")) == "('c', 'b')"


def test_an_underscore_of_the_notebooks_own_is_left_alone(run: Run) -> None:
    assert result(run("_ = 7", "1", "_")) == "7"


def test_only_a_few_results_are_kept_alive_and_no_word_is_lost_on_it(run: Run) -> None:
    run("import weakref\nseen = weakref.WeakSet()\nclass Large: pass")
    for number in range(30):
        reply = run("large = Large()\nseen.add(large)\nlarge")
        assert kinds(reply) == ["execute_result"], number
    run("del large")
    assert 3 <= int(result(run("len(seen)"))) <= 8


def test_a_semicolon_hides_the_result(run: Run) -> None:
    assert run("2;")["outputs"] == []


def test_a_rich_result_keeps_its_forms(run: Run) -> None:
    data = run("from IPython.display import HTML\nHTML('<b>x</b>')")["outputs"][0]["data"]
    assert data["text/html"] == "<b>x</b>"


def test_bytes_of_a_display_arrive_as_base64(run: Run) -> None:
    assert run("display({'image/png': b'x'}, raw=True)")["outputs"][0]["data"] == {"image/png": "eA=="}


def test_clear_output_drops_what_was_shown(run: Run) -> None:
    source = "from IPython.display import clear_output\nprint('a')\nclear_output()\nprint('b')"
    assert text(run(source)) == "b\n"


def test_a_progress_bar_that_clears_its_output_does_not_use_up_the_cell(run: Run) -> None:
    source = (
        "from IPython.display import clear_output\nfor i in range(50):\n    clear_output()\n    print(i, 'x' * 10_000)"
    )
    reply = run(source)
    assert text(reply).startswith("49 x")
    assert text(reply, "stderr") == ""


def test_figures_are_shown(run: Run) -> None:
    reply = run(
        "%matplotlib inline\nimport matplotlib.pyplot as plt\nplt.figure(figsize=(1, 1))\nplt.plot([1, 2])\nplt.show()"
    )
    assert reply["ok"]
    assert reply["outputs"][-1]["data"]["image/png"].startswith("iVBOR")


@pytest.mark.parametrize(
    "display",
    [
        "{'application/json': object()}",
        "{'application/json': {(1, 2): 3, 'a': {1, 2}}}",
        "{'application/json': loop}",
        "{'text/plain': float('nan'), 7: None}",
    ],
)
def test_a_display_of_no_json_is_shown_somehow(run: Run, display: str) -> None:
    reply = run(f"loop = []\nloop.append(loop)\ndisplay({display}, raw=True)")
    assert reply["ok"]
    assert kinds(reply) == ["display_data"]


# Errors


def test_an_exception_is_an_output_and_a_description(run: Run) -> None:
    reply = run("x = 1\nraise ValueError('no')")
    assert not reply["ok"]
    assert (reply["outputs"][0]["ename"], reply["outputs"][0]["evalue"]) == ("ValueError", "no")
    assert reply["error"]["bases"] == ["ValueError", "Exception", "BaseException"]
    assert (reply["error"]["type"], reply["error"]["text"], reply["error"]["line"]) == ("ValueError", "no", 2)
    assert any("----> 2 raise ValueError" in line for line in reply["outputs"][0]["traceback"])


def test_a_syntax_error_is_told_with_its_line(run: Run) -> None:
    error = run("x = 1\ny = (")["error"]
    assert error["type"] == "SyntaxError"
    assert error["line"] == 2
    assert "<cell" not in error["text"]


@pytest.mark.parametrize("source", ["raise SystemExit", "exit()", "quit()", "import sys\nsys.exit(3)"])
def test_a_cell_that_exits_ends_itself_alone(run: Run, source: str) -> None:
    assert run(source)["error"]["type"] == "SystemExit"
    assert result(run("1 + 1")) == "2"


@pytest.mark.parametrize("name", ["KeyboardInterrupt", "GeneratorExit", "MemoryError"])
def test_other_exceptions_that_end_programs_end_a_cell(run: Run, name: str) -> None:
    assert run(f"raise {name}")["error"]["type"] == name
    assert run("1")["ok"]


def test_an_exception_that_cannot_be_spoken_is_told_by_its_name(run: Run) -> None:
    reply = run("class E(Exception):\n    def __str__(self):\n        raise RuntimeError('no')\nraise E")
    assert reply["outputs"][0]["ename"] == "E"
    assert run("1")["ok"]


def test_an_exceptions_huge_text_is_cut(run: Run) -> None:
    reply = run("raise ValueError('x' * 10_000_000)", cap=1 << 20)
    assert len(reply["outputs"][0]["evalue"]) == 2_000
    assert size(reply) < 120_000


def test_a_recursion_without_end_is_told_in_seconds(run: Run) -> None:
    started = time.monotonic()
    reply = run("def f(n):\n    return f(n + 1)\nf(0)")
    assert reply["error"]["type"] == "RecursionError"
    assert reply["error"]["line"] == 2
    assert size(reply) < 60_000
    assert time.monotonic() - started < 10  # some tens of seconds, if every frame is looked at


def test_what_is_too_deep_for_the_compiler_is_told_too(run: Run) -> None:
    reply = run("x = " + "+".join(["1"] * 20_000))
    assert not reply["ok"]
    assert reply["error"]["type"] == "RecursionError"
    assert run("1 + 1")["ok"]


def test_what_cannot_be_shown_is_an_error_and_the_cell_goes_on(run: Run) -> None:
    reply = run("class R:\n    def __repr__(self):\n        raise ValueError\nR()")
    assert kinds(reply) == ["error"]
    assert reply["ok"]


@pytest.mark.parametrize("source", ["\x00", "x = '\ud800'", "(" * 300, "def f():\n\treturn 1\n        return 2"])
def test_text_that_is_no_program_is_an_error(run: Run, source: str) -> None:
    assert run(source)["error"] is not None
    assert run("1")["ok"]


# Caps


@pytest.mark.parametrize(
    "source",
    [
        "print('x' * 5_000_000)",
        "for _ in range(100_000): print('x')",
        "print('\\U0001f600' * 1_000_000)",
        "print('\\0' * 1_000_000)",
        "for _ in range(50_000): print('\\U0001f600', end='')",
        "for i in range(800): display(i)",
        "display('x' * 1_000_000)",
        "for _ in range(100): display('x' * 20_000)",
        "import sys\nfor _ in range(800):\n    print('o')\n    print('e', file=sys.stderr)",
        "'x' * 1_000_000",
        "class R:\n    def __repr__(self):\n        raise ValueError('x' * 100_000)\nfor _ in range(20): display(R())",
    ],
)
def test_no_cell_leaves_more_than_its_cap_and_a_line_says_so(run: Run, source: str) -> None:
    reply = run(source)
    assert size(reply) < CAP + 150_000
    assert len(reply["outputs"]) <= 502
    assert text(reply, "stderr").endswith(DROPPED)


def test_output_within_the_cap_is_whole(run: Run) -> None:
    reply = run("print('注' * 1000)\nprint('x' * 50_000)")
    assert text(reply) == "注" * 1000 + "\n" + "x" * 50_000 + "\n"


def test_the_error_is_shown_even_where_the_output_is_used_up(run: Run) -> None:
    reply = run("while True:\n    print('x' * 1000)\n    n = globals().get('n', 0) + 1\n    if n > 200: 1 / 0")
    assert reply["outputs"][-2]["ename"] == "ZeroDivisionError"
    assert reply["outputs"][-1]["text"] == DROPPED


def test_each_cell_has_its_own_cap(run: Run) -> None:
    assert text(run("print('x' * 1_000_000)", "print('y')")) == "y\n"


# Magics


def test_timeit_and_time_work(run: Run) -> None:
    assert "per loop" in text(run("%timeit -n1 -r1 1 + 1"))
    assert "Wall time" in text(run("%%time\n1 + 1"))


def test_writefile_writes_into_the_present_folder(run: Run, tmp_path: Path) -> None:
    assert run("%%writefile notes.txt\nhello")["ok"]
    assert (tmp_path / "notes.txt").read_text() == "hello\n"


@pytest.mark.parametrize("source", ["!touch made", "files = !touch made", "%pip install nothing", "%system touch made"])
def test_shell_commands_are_not_run_and_do_not_stop_the_cell(run: Run, tmp_path: Path, source: str) -> None:
    reply = run(f"{source}\nprint('on')")
    assert reply["ok"]
    assert "shell commands are not run here" in text(reply)
    assert text(reply).endswith("on\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("magic", ["bash", "sh", "script bash", "python3", "perl", "!", "sx"])
def test_cells_of_other_programs_are_not_run_either(run: Run, tmp_path: Path, magic: str) -> None:
    reply = run(f"%%{magic}\ntouch made")
    assert (reply["ok"], kinds(reply)[0]) == (True, "stream")
    assert "shell commands are not run here" in text(reply)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("status", [-1, 127 << 8])
def test_a_shell_that_could_not_be_started_is_told_of(run: Run, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(missing, "_stock_system", lambda command: status)
    reply = run("import os\nos.system('touch made')")
    assert text(reply) == "[shell commands are not run here: touch made]\n"
    assert result(reply) == str(status)


def test_a_shell_that_was_started_is_not_spoken_of(run: Run) -> None:
    assert kinds(run("import os\nos.system('exit 7')")) == ["execute_result"]


def test_a_magic_that_does_not_exist_is_an_error(run: Run) -> None:
    assert run("%nothing_like_this")["error"]["type"] == "UsageError"


def test_pages_of_help_do_not_wait_for_a_key(run: Run) -> None:
    assert "Prints the values" in text(run("print?"))


def test_autoreload_does_no_harm(run: Run) -> None:
    assert run("%load_ext autoreload\n%autoreload 2", "1 + 1")["ok"]


# Input and output by other ways


def test_input_is_an_error_that_says_why(run: Run) -> None:
    error = run("name = input('Your name? ')")["error"]
    assert error["type"] == "EOFError"
    assert "keyboard" in error["text"]


def test_the_standard_input_is_empty(run: Run) -> None:
    assert result(run("import sys\nsys.stdin.read()")) == "''"


@pytest.mark.parametrize("source", ["breakpoint()", "import pdb\npdb.Pdb().set_trace()", "%debug"])
def test_debuggers_do_not_wait(run: Run, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pdb.set_trace", lambda **_: pdb.Pdb().set_trace())  # pytest has put its own there
    monkeypatch.setattr("sys.breakpointhook", sys.__breakpointhook__)
    run("1 / 0", source)
    assert run("1")["ok"]


def test_await_works_at_the_top_level(run: Run) -> None:
    source = "import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    return 3\nawait f()"
    assert result(run(source)) == "3"


@pytest.mark.parametrize(
    "source",
    [
        "sys.stdout = None",
        "sys.stdout = sys.stderr = None",
        "sys.stdout = 5",
        "sys.stdout.close()",
        "sys.stderr.close()",
        "del sys.stdout",
    ],
)
def test_a_cell_that_breaks_its_streams_does_not_break_the_next(run: Run, source: str) -> None:
    run(f"import sys\n{source}")
    assert text(run("print('on')")) == "on\n"
    assert run("1 / 0")["error"]["type"] == "ZeroDivisionError"


def test_output_can_be_redirected(run: Run) -> None:
    source = "import io, contextlib\nwith contextlib.redirect_stdout(io.StringIO()) as f:\n    print('x')\nf.getvalue()"
    assert result(run(source)) == "'x\\n'"


def test_nothing_reaches_the_processs_own_output(run: Run, capfd: pytest.CaptureFixture[str]) -> None:
    run(
        "import sys\nprint('a')\nprint('b', file=sys.stderr)\nsys.stdout.write('c')\n5",
        "1 / 0",
        "x = (",
        "raise SystemExit",
    )
    run(
        "import warnings\nwarnings.warn('w')",
        "%timeit -n1 -r1 1",
        "raise ExceptionGroup('g', [ValueError()])",
        "%nothing",
    )
    assert capfd.readouterr() == ("", "")


def test_a_thread_that_prints_later_prints_into_the_cell_that_runs_then(run: Run) -> None:
    source = "import threading\ngo = threading.Event()\ndef late():\n    go.wait(5)\n    print('late')\nt = threading.Thread(target=late)\nt.start()"
    assert run(source)["outputs"] == []
    assert text(run("go.set()\nt.join()")) == "late\n"


def test_what_is_printed_between_cells_is_dropped(run: Run) -> None:
    run("1")
    print("between")
    assert run("2")["outputs"][0]["output_type"] == "execute_result"


# The notebook's world


def test_the_source_of_a_cells_function_can_be_read(run: Run) -> None:
    assert (
        result(run("def f(x):\n    return x\nimport inspect\ninspect.getsource(f)")) == "'def f(x):\\n    return x\\n'"
    )


def test_torch_can_compile_a_cells_function_to_torchscript(run: Run) -> None:
    assert (
        result(run("import torch\n@torch.jit.script\ndef f(x):\n    return x * 2\nf(torch.ones(1))")) == "tensor([2.])"
    )


COMPILED = {
    "call": "def f(x):\n    return x * 2\nf = torch.compile(f)",
    "decorator": "@torch.compile\ndef f(x):\n    return x * 2",
    "decorator with options": "@torch.compile(mode='max-autotune', fullgraph=True)\ndef f(x):\n    return x * 2",
    "keyword": "f = torch.compile(model=lambda x: x * 2, backend='inductor')",
    "imported": "from torch import compile\nf = compile(lambda x: x * 2, dynamic=True)",
    "of torch.compiler": "f = torch.compiler.compile(lambda x: x * 2)",
    "module": "class M(torch.nn.Module):\n    def forward(self, x):\n        return x * 2\nf = torch.compile(M())",
    "method of a module": "class M(torch.nn.Module):\n    def forward(self, x):\n        return x * 2\nf = M()\nf.compile(mode='default')",
}


@pytest.mark.parametrize("source", COMPILED.values(), ids=[*COMPILED])
def test_torch_compile_takes_a_function_as_it_is(run: Run, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch._inductor.compile_fx", None)  # the real one would need it
    assert result(run(f"import torch\n{source}\nf(torch.ones(1))")) == "tensor([2.])"


def test_torch_compile_keeps_its_signature_and_refuses_what_it_does_not_know(run: Run) -> None:
    assert result(run("import inspect, torch\n'fullgraph' in inspect.signature(torch.compile).parameters")) == "True"
    assert run("torch.compile(lambda x: x, fast=True)")["error"]["type"] == "TypeError"


def test_a_module_that_a_cell_writes_can_be_imported(run: Run) -> None:
    reply = run("import not_yet", "%%writefile not_yet.py\ndef f():\n    return 5", "from not_yet import f\nf()")
    assert result(reply) == "5"


def test_a_module_that_is_written_anew_can_be_loaded_anew_at_once(run: Run) -> None:
    reply = run("%%writefile rewritten.py\nX = 1", "import rewritten", "%%writefile rewritten.py\nX = 2")
    assert reply["ok"]
    assert result(run("import importlib\nimportlib.reload(rewritten).X")) == "2"


def test_the_working_folder_comes_first_as_in_a_kernel_and_once(run: Run, cells: Cells) -> None:
    cells.attach()
    assert (sys.path[0], sys.path.count("")) == ("", 1)


def test_a_working_folder_that_is_gone_ends_no_cell(run: Run) -> None:
    reply = run("import os\nos.mkdir('gone')\nos.chdir('gone')\nos.rmdir('../gone')", "1 + 1")
    assert result(reply) == "2"


def test_the_shell_is_there(run: Run) -> None:
    assert "_Shell" in result(run("get_ipython()"))
    assert text(run("_ = get_ipython().run_cell('print(5)')")) == "5\n"


def test_names_live_on_and_the_main_module_holds_them(run: Run) -> None:
    assert result(run("x = 5", "import __main__\n__main__.x, __name__")) == "(5, '__main__')"


def test_a_cell_knows_its_own_file_names_alone(run: Run, cells: Cells) -> None:
    run("x = 1")
    assert cells.is_cell("<cell 1>")
    assert not cells.is_cell(os.__file__)
    assert not cells.is_cell("<cell 99999>")


# Figures

BACKENDS = ["inline", "widget", "notebook", "tk", "qt", "'inline'", "no_such_backend", ""]


@pytest.fixture
def draw(run: Run, cells: Cells) -> Iterator[Run]:
    """Run cells where figures are shown as in a worker."""
    redraw, interactive = plt.draw_all, plt.isinteractive()
    cells.shell.enable_matplotlib()
    run("import matplotlib.pyplot as plt")
    yield run
    plt.close("all")
    plt.draw_all = redraw
    matplotlib.use("Agg")
    matplotlib.interactive(interactive)


def pictures(reply: dict[str, Any]) -> list[bytes]:
    shown = [output.get("data", {}).get("image/png") for output in reply["outputs"]]
    return [base64.b64decode(picture, validate=True) for picture in shown if picture]


def pixels(png: bytes) -> tuple[int, int]:
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", png[16:24])
    return width, height


@pytest.mark.parametrize("source", ["plt.plot([1, 2]);", "plt.plot([1, 2])\nplt.show()", "fig, ax = plt.subplots()"])
def test_a_figure_is_shown_once_without_a_magic(draw: Run, source: str) -> None:
    reply = draw(source)
    assert kinds(reply) == ["display_data"]
    [picture] = pictures(reply)
    assert 300 < pixels(picture)[0] < 1000


def test_figures_are_shown_in_the_order_of_what_is_printed(draw: Run) -> None:
    reply = draw("plt.plot([1])\nplt.show()\nprint('between')\nplt.plot([2]);")
    assert kinds(reply) == ["display_data", "stream", "display_data"]


def test_a_figure_is_closed_after_its_cell_and_can_be_shown_again(draw: Run) -> None:
    reply = draw("figure, axes = plt.subplots()", "print(plt.get_fignums())\nfigure")
    assert text(reply) == "[]\n"
    assert kinds(reply) == ["stream", "execute_result"]
    assert len(pictures(reply)) == 1


def test_a_figure_drawn_before_an_error_is_shown(draw: Run) -> None:
    reply = draw("plt.plot([1, 2])\n1 / 0")
    assert reply["error"]["type"] == "ZeroDivisionError"
    assert len(pictures(reply)) == 1


def test_a_figure_that_cannot_be_drawn_is_an_error_and_the_next_cell_runs(draw: Run) -> None:
    reply = draw("plt.title(r'$\\frac{1$')\nplt.plot([1]);")
    assert "error" in kinds(reply)
    assert len(pictures(draw("plt.plot([1]);"))) == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_whatever_the_magic_asks_for_figures_are_shown(draw: Run, backend: str) -> None:
    reply = draw(f"%matplotlib {backend}\nplt.plot([1, 2]);")
    assert reply["ok"]
    assert len(pictures(reply)) == 1


def test_a_magic_that_cannot_be_followed_says_so(draw: Run) -> None:
    assert text(draw("%matplotlib widget")) == "[figures are shown inline here, not by widget]\n"
    assert draw("%matplotlib inline")["outputs"] == []


@pytest.mark.parametrize("choice", ["import matplotlib\nmatplotlib.use('Agg')", "%matplotlib agg"])
def test_who_draws_into_files_alone_gets_files_alone(draw: Run, tmp_path: Path, choice: str) -> None:
    reply = draw(f"{choice}\nplt.plot([1, 2])\nplt.savefig('plot.png')")
    assert (reply["ok"], reply["outputs"]) == (True, [])
    assert pixels((tmp_path / "plot.png").read_bytes()) == (640, 480)


def test_a_figure_can_be_saved_and_shown_and_the_file_be_larger_than_what_is_shown(draw: Run, tmp_path: Path) -> None:
    reply = draw("figure = plt.figure(figsize=(60, 50))\nplt.plot([1]);")
    assert reply["outputs"][-1]["data"]["text/plain"].endswith("pixels is too large to be shown]")
    assert draw("figure.savefig('plot.png', dpi=100)")["ok"]
    assert pixels((tmp_path / "plot.png").read_bytes()) == (6000, 5000)


def test_interactive_mode_can_be_switched_off_and_on(draw: Run) -> None:
    assert draw("plt.ioff();\nplt.plot([1]);")["outputs"] == []
    assert len(pictures(draw("plt.show()"))) == 1
    assert len(pictures(draw("plt.ion();\nplt.plot([1]);"))) == 1


def test_other_formats_can_be_asked_for(draw: Run) -> None:
    try:
        reply = draw("%config InlineBackend.figure_format = 'svg'\nplt.plot([1]);")
        assert reply["outputs"][0]["data"]["image/svg+xml"].startswith("<?xml")
    finally:
        draw("%config InlineBackend.figure_format = 'png'")


@pytest.mark.parametrize(
    "source",
    [
        "plt.figure(figsize=(300, 300))\nplt.plot([1]);",
        "plt.plot([0, 1])\nplt.text(1_000_000, 0.5, 'far outside of the frame');",
    ],
)
def test_a_huge_figure_is_told_of_instead_of_being_drawn(draw: Run, source: str) -> None:
    reply = draw(source)
    assert reply["ok"]
    [output] = reply["outputs"]
    assert list(output["data"]) == ["text/plain"]
    assert "is too large to be shown" in output["data"]["text/plain"]


def test_of_many_figures_the_first_are_drawn_and_the_others_closed(draw: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autograder.worker.cells.MAX_FIGURES", 3)
    drawn = drawings(monkeypatch)
    reply = draw("for i in range(10):\n    plt.figure(figsize=(1, 1))\n    plt.plot([i])")
    assert len(pictures(reply)) == len(set(drawn)) == 3
    assert text(reply, "stderr") == DROPPED
    assert text(draw("print(plt.get_fignums())")) == "[]\n"


def test_figures_that_are_cleared_do_not_count(draw: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autograder.worker.cells.MAX_FIGURES", 3)
    source = (
        "from IPython.display import clear_output\n"
        "for i in range(5):\n    clear_output(wait=True)\n    plt.figure(figsize=(1, 1))\n    plt.plot([i])\n    plt.show()"
    )
    reply = draw(source)
    assert kinds(reply) == ["display_data"]
    assert len(pictures(reply)) == 1


def test_a_figure_that_does_not_fit_is_dropped_and_a_line_says_so(draw: Run) -> None:
    reply = draw("plt.plot([1, 2]);", cap=5_000)
    assert (pictures(reply), text(reply, "stderr")) == ([], DROPPED)


def test_outside_of_a_cell_no_figure_is_drawn_and_none_is_left_for_the_next(
    draw: Run, cells: Cells, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw("plt.ioff();\nplt.figure(7)\ndef heatmap():\n    plt.figure()\n    plt.imshow([[1]])\n    plt.show()")
    draw("plt.ion()\ndef unseen():\n    plt.figure()\n    plt.plot([1])")
    drawn = drawings(monkeypatch)
    with closing_new_figures():
        cells.shell.user_ns["unseen"]()
    assert plt.get_fignums() == [7]
    cells.shell.user_ns["heatmap"]()
    assert drawn == []
    assert draw("1;")["outputs"] == []


def drawings(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The figures whose pictures are made from now on."""
    drawn: list[Any] = []
    stock = FigureCanvasAgg.print_png

    @functools.wraps(stock)
    def print_png(canvas: Any, *args: Any, **kwargs: Any) -> Any:
        drawn.append(canvas)
        return stock(canvas, *args, **kwargs)

    monkeypatch.setattr(FigureCanvasAgg, "print_png", print_png)
    return drawn


# In a worker


@pytest.fixture(scope="module", params=["A", "B", "C"])
def worker(request: pytest.FixtureRequest) -> Iterator[Conversation]:
    """A worker as it really is, of each tier that there is here."""
    try:
        zygote = Zygote.start((request.param,))
    except ConfinementUnavailable as reason:
        pytest.skip(str(reason))
    with zygote, zygote.spawn() as worker:
        worker.sock.settimeout(60)
        yield Conversation(worker, worker.sock)


def test_a_worker_imports_what_a_cell_has_written(worker: Conversation) -> None:
    worker.cell("%%writefile mine.py\ndef f(x):\n    return x * 2")
    assert result(worker.cell("from mine import f\nf(4)")) == "8"
    assert Student("f", worker)(torch.ones(2)).tolist() == [2, 2]


def test_modules_of_the_notebooks_own_do_not_break_the_workers(worker: Conversation) -> None:
    names = ["json", "random", "inspect", "traceback", "linecache", "torch", "numpy", "IPython", "autograder"]
    worker.cell("def g(x):\n    return torch.softmax(x, -1)\ndef h(x):\n    raise ValueError('seen')\nimport torch")
    try:
        for name in names:
            assert worker.cell(f"%%writefile {name}.py\nraise SystemExit('the wrong one')")["ok"]
        x = torch.ones(2, requires_grad=True)
        out = Student("g", worker, [SDPA])(x)
        assert torch.autograd.grad(out[0], x)[0].tolist() == [0.25, -0.25]
        with pytest.raises(Exception, match="seen"):
            Student("h", worker, [SDPA])(x)
        assert worker.cell("1 / 0")["error"]["type"] == "ZeroDivisionError"
        assert worker.cell("import json, matplotlib.pyplot as plt\nplt.plot([1])\nplt.show()")["ok"]
    finally:
        worker.cell(f"import os\nfor name in {names}: os.remove(name + '.py')")


def test_a_compiled_function_is_watched_as_any_other(worker: Conversation) -> None:
    worker.cell(
        "import torch\n@torch.compile\ndef f(q):\n    return torch.nn.functional.scaled_dot_product_attention(q, q, q)"
    )
    with pytest.raises(ForbiddenCalled):
        Student("f", worker, [SDPA])(torch.ones(1, 2, 2))


def test_a_worker_says_that_it_starts_no_other_processes(worker: Conversation) -> None:
    if worker.process.confinement == "none":
        pytest.skip("it does, where code is trusted")
    reply = worker.cell("import os\nos.system('true')")
    assert text(reply) == "[shell commands are not run here: true]\n"
    loader = "torch.utils.data.DataLoader(torch.ones(4), num_workers=1)"
    for source in ("import subprocess\nsubprocess.run(['true'])", f"import torch\nlist({loader})"):
        reply = worker.cell(source)
        assert reply["error"]["text"] == "[Errno 1] shell commands and other processes are not run here"
        assert "other processes are not run here" in reply["outputs"][-1]["traceback"][-1]


@pytest.mark.parametrize(
    ("before", "answer"),
    [
        ("1;", GOOD.replace("def ", "@torch.compile\ndef ")),
        ("%%writefile mine.py\n" + GOOD, f"from mine import {ATTENTION}"),
    ],
    ids=["compiled", "imported"],
)
def test_a_right_answer_earns_full_marks_by_that_way(grader: Grader, before: str, answer: str) -> None:
    report = grader.grade(with_cell(answered(**{ATTENTION: answer}), 1, before), "attention", SEED).report
    assert exercise(report).score == exercise(report).max_score == 16
