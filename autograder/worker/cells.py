"""Runs notebook cells with IPython's own shell, without a kernel, and keeps their outputs as nbformat dicts."""

from __future__ import annotations

import base64
import builtins
import contextlib
import functools
import inspect
import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import matplotlib.pyplot as plt
import torch
from IPython.core.compilerop import CachingCompiler
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.formatters import DisplayFormatter
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magics._table import configured_script_magics
from matplotlib.backends import backend_agg
from matplotlib.figure import Figure
from traitlets.config import Config

from autograder.worker import missing
from autograder.worker.calls import describe_exception, text_of

MAX_OUTPUTS = 500
MAX_TRACEBACK = 50_000
"""Characters of a traceback; there is room for one even where the cell's output is used up."""
MAX_FRAMES = 30
MAX_FIGURES = 50
"""How many figures of a cell are drawn: each takes some 50 ms, whether or not there is room for its picture."""
MAX_PIXELS = 1 << 24
"""Of a figure that is shown, as drawn: with whatever stands outside of its frame."""
MAX_RESULTS = 5
"""How many earlier results a notebook finds again, as `_1` or in `Out`: each may hold a lot of memory."""
DROPPED = "[some of this cell's output was dropped: it was too much]\n"
CELL_NAME = "<cell {}>"


class Cells:
    """A shell and the outputs of the cell that runs in it.

    Args:
        cap: how many characters of output, as JSON, a cell may leave; what comes after is dropped, and a line says
            so.
    """

    def __init__(self, cap: int = 1 << 20) -> None:
        self.cap = cap
        self.outputs: list[dict[str, Any]] = []
        self._left = 0
        self._dropped = False
        self._figures = 0
        self._names: set[str] = set()
        config = Config()
        config.HistoryManager.enabled = False
        config.InteractiveShell.colors = "nocolor"
        config.InteractiveShell.cache_size = MAX_RESULTS
        config.InteractiveShell.xmode = "Context"
        self.shell: Any = _Shell(  # type: ignore[no-untyped-call]
            config=config, displayhook_class=_Hook, display_pub_class=_Publisher, compiler_class=_Compiler
        )
        self.shell.cells = self
        # `get_ipython` and `display` look for the one instance.
        InteractiveShell._instance = self.shell  # type: ignore[assignment]
        _Shell._instance = self.shell  # type: ignore[assignment]

    def attach(self) -> None:
        """Make this process a notebook's: its streams, its folder, and what there is none of here."""
        self._attach_streams()
        builtins.input = missing.no_input
        sys.stdin = io.StringIO()
        os.system = missing.system
        torch.compile = _compile
        # As in a kernel, the working folder comes first. Whatever is ours has been imported by then.
        sys.path[:] = ["", *(path for path in sys.path if path)]
        # It would outlive a module that is written anew within the same second.
        sys.dont_write_bytecode = True

    def run(self, source: str, number: int) -> dict[str, Any]:
        """Run one cell.

        Returns:
            ``ok``, the nbformat ``outputs``, and ``error``: a description of what was raised, or None.
        """
        self._attach_streams()  # whatever the cell before has put there, None included
        self.outputs, self._left, self._dropped, self._figures = [], self.cap, False, 0
        self.shell.compile.cell_number = number
        self._names.add(CELL_NAME.format(number))
        _look_for_modules_anew()
        ok, error = self._run(source)
        shown, self.outputs, self._left = self.outputs, [], 0
        for output in shown:
            if output["output_type"] == "stream":
                output["text"] = "".join(output["text"])
        if self._dropped:
            shown.append({"output_type": "stream", "name": "stderr", "text": DROPPED})
        return {
            "ok": ok,
            "outputs": shown,
            "count": self.shell.execution_count - 1,
            "error": None if error is None else describe_exception(error, self.is_cell),
        }

    def _run(self, source: str) -> tuple[bool, BaseException | None]:
        try:
            result = self.shell.run_cell(source, store_history=True)
        except RecursionError as error:  # the compiler's, from which IPython does not expect it
            return False, error
        return bool(result.success), result.error_before_exec or result.error_in_exec

    def is_cell(self, filename: str) -> bool:
        """Whether a code object's file name is that of a cell."""
        return filename in self._names

    def write(self, name: str, text: str) -> None:
        """Take what was printed; outside of a cell, and beyond its cap, it is dropped."""
        text, cut = _fitting(text, self._left)
        self._dropped |= cut
        if not text:
            return
        last = self.outputs[-1] if self.outputs else None
        if last is not None and last.get("name") == name:
            last["text"].append(text)
        elif len(self.outputs) < MAX_OUTPUTS:
            self.outputs.append({"output_type": "stream", "name": name, "text": [text]})
        else:
            self._dropped = True
            return
        self._left -= _size(text)

    def add(self, output: dict[str, Any]) -> None:
        """Take a result, a display or an error, if it still fits."""
        output, size = _as_json(output)
        extra = output["output_type"] == "error"
        if size > self._left + extra * 2 * MAX_TRACEBACK or len(self.outputs) >= MAX_OUTPUTS + extra:
            self._dropped = True
            return
        self._left -= size
        self.outputs.append(output)

    def clear(self) -> None:
        """Drop what the cell has shown so far, and give its room back."""
        self.outputs, self._left, self._figures = [], self.cap, 0

    def takes_figure(self) -> bool:
        """Whether one more figure is worth drawing; outside of a cell none is."""
        if self._left <= 0 or len(self.outputs) >= MAX_OUTPUTS or self._figures >= MAX_FIGURES:
            self._dropped = True
            return False
        self._figures += 1
        return True

    def _attach_streams(self) -> None:
        sys.stdout, sys.stderr = _Stream(self, "stdout"), _Stream(self, "stderr")


@contextlib.contextmanager
def closing_new_figures() -> Iterator[None]:
    """Close the figures that are opened meanwhile: outside of a cell nobody sees them, and the next would show them."""
    before = plt.get_fignums()
    try:
        yield
    finally:
        for number in set(plt.get_fignums()).difference(before):
            plt.close(number)


def _fitting(text: str, room: int) -> tuple[str, bool]:
    """As much of a text as there is room for, and whether something is missing."""
    fitting = text[: max(room, 0)]
    while _size(fitting) > room and fitting:
        fitting = fitting[: len(fitting) // 2]
    return fitting, len(fitting) < len(text)


def _size(value: Any) -> int:
    """Characters of a value as JSON: no less than what crosses the channel, for an emoji is twelve of them."""
    return len(json.dumps(value))


def _as_json(output: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """An output in plain JSON values, and its size; a notebook's own objects may hold anything."""
    try:
        text = json.dumps(output, default=str, skipkeys=True)
    except (ValueError, RecursionError):  # it contains itself
        text = json.dumps({**output, "data": {"text/plain": "[an output that contains itself]"}, "metadata": {}})
    return json.loads(text), len(text)


class _Stream(io.TextIOBase):
    encoding = "utf-8"
    errors = "replace"

    def __init__(self, cells: Cells, name: str) -> None:
        super().__init__()
        self._cells, self.name = cells, name

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        self._cells.write(self.name, text)
        return len(text)


class _Compiler(CachingCompiler):
    cell_number = 0

    def get_code_name(self, raw_code: str, transformed_code: str, number: int) -> str:
        return CELL_NAME.format(self.cell_number)


class _Hook(DisplayHook):
    shell: _Shell

    def write_output_prompt(self) -> None:
        pass

    def write_format_data(self, format_dict: dict[str, Any], md_dict: dict[str, Any] | None = None) -> None:
        self.shell.cells.add(
            {
                "output_type": "execute_result",
                "execution_count": self.prompt_count,
                "data": _as_text(format_dict),
                "metadata": md_dict or {},
            }
        )

    def finish_displayhook(self) -> None:
        pass

    def cull_cache(self) -> None:
        # The stock one warns, and leaves what it forgets in the hidden names.
        results = self.shell.user_ns["_oh"]
        oldest = min(results)
        for names in (self.shell.user_ns, self.shell.user_ns_hidden):
            names.pop(f"_{oldest}", None)
        del results[oldest]


class _Publisher(DisplayPublisher):
    def publish(
        self, data: dict[str, Any], metadata: dict[str, Any] | None = None, source: Any = None, **_: Any
    ) -> None:
        self.shell.cells.add({"output_type": "display_data", "data": _as_text(data), "metadata": metadata or {}})

    def clear_output(self, wait: bool = False) -> None:
        self.shell.cells.clear()


class _Renderer(backend_agg.RendererAgg):
    refused = ""

    def __init__(self, width: float, height: float, dpi: float) -> None:
        if not width * height <= MAX_PIXELS:
            _Renderer.refused = f"[a figure of {width:.0f} × {height:.0f} pixels is too large to be shown]"
            raise NotImplementedError  # IPython then shows its text alone, without a traceback
        super().__init__(width, height, dpi)  # type: ignore[no-untyped-call]


class _Formatter(DisplayFormatter):
    def format(self, obj: Any, include: Any = None, exclude: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        stock: Any = super().format
        if not isinstance(obj, Figure):
            shown: tuple[dict[str, Any], dict[str, Any]] = stock(obj, include, exclude)
            return shown
        shell: Any = self.parent
        if not shell.cells.takes_figure():
            return {}, {}
        # Only here: a figure that is saved to a file may be as large as its author likes.
        backend: Any = backend_agg
        backend.RendererAgg, _Renderer.refused = _Renderer, ""
        try:
            data, metadata = stock(obj, include, exclude)
        finally:
            backend.RendererAgg = _Renderer.__base__
        return ({**data, "text/plain": _Renderer.refused} if _Renderer.refused else data), metadata


class _Shell(InteractiveShell):
    cells: Cells

    def init_display_formatter(self) -> None:
        self.display_formatter = _Formatter(parent=self)
        self.configurables.append(self.display_formatter)  # type: ignore[arg-type]

    def enable_matplotlib(self, gui: str | None = None) -> tuple[Any, Any]:
        """Figures come inline, as in a kernel, whatever window or widget is asked for: there is nobody to see one."""
        if gui not in (None, "auto", "inline", "agg"):
            print(f"[figures are shown inline here, not by {str(gui)[:50]}]")
        stock: Any = super().enable_matplotlib
        enabled: tuple[Any, Any] = stock("agg" if gui == "agg" else "inline")
        # After each cell pyplot would redraw all windows: each figure once more, and those that are not shown too.
        plt.draw_all = _redraw_nothing
        return enabled

    def _get_exc_info(self, exc_tuple: Any = None) -> Any:
        # IPython reads the source around every frame: of a thousand, for a recursion without end, for a minute.
        kind, error, trace = super()._get_exc_info(exc_tuple)  # type: ignore[no-untyped-call]
        _shorten(error)
        missing.explain(error)
        return kind, error, trace

    def _showtraceback(self, etype: Any, evalue: Any, stb: list[str]) -> None:
        text = "\n".join(map(str, stb))
        if len(text) > MAX_TRACEBACK:
            text = text[: MAX_TRACEBACK // 2] + "\n[…]\n" + text[-MAX_TRACEBACK // 2 :]
        self.cells.add(
            {
                "output_type": "error",
                "ename": str(getattr(etype, "__name__", etype))[:200],
                "evalue": text_of(evalue),
                "traceback": text.split("\n"),
            }
        )

    def ask_exit(self) -> NoReturn:
        raise SystemExit  # `exit` and `quit` end the cell

    def system(self, cmd: str) -> None:
        missing.no_shell(cmd)
        self.user_ns["_exit_code"] = 1

    system_raw = system_piped = system

    def getoutput(self, cmd: str, split: bool = True, depth: int = 0) -> Any:
        self.system(cmd)
        return []

    def run_cell_magic(self, magic_name: str, line: str, cell: str) -> Any:
        if magic_name in ("script", *configured_script_magics(self.config)):
            self.system(f"%%{magic_name} {line}")
            return None
        return super().run_cell_magic(magic_name, line, cell)  # type: ignore[no-untyped-call]

    def enable_gui(self, gui: Any = None) -> None:
        pass


def _shorten(error: BaseException | None) -> None:
    """Cut the middle out of long tracebacks, also of what an exception came from."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        frames = []
        trace = error.__traceback__
        while trace is not None:
            frames.append(trace)
            trace = trace.tb_next
        if len(frames) > MAX_FRAMES:
            frames[MAX_FRAMES // 2].tb_next = frames[-MAX_FRAMES // 2]
        error = error.__cause__ or error.__context__


def _redraw_nothing(force: bool = False) -> None:
    pass


def _as_text(data: dict[str, Any]) -> dict[str, Any]:
    return {kind: base64.b64encode(v).decode() if isinstance(v, bytes) else v for kind, v in data.items()}


def _look_for_modules_anew() -> None:
    """Forget what the working folder held: a file that is written at once after that would not be found."""
    with contextlib.suppress(OSError):  # there is no such folder any more
        sys.path_importer_cache.pop(os.getcwd(), None)


_stock_compile: Any = torch.compile
_compile_signature = inspect.signature(_stock_compile)


@functools.wraps(_stock_compile)
def _compile(*args: Any, **kwargs: Any) -> Callable[..., Any]:
    """Take a function or a module as it is: the real one would write programs and start a compiler."""
    model: Any = _compile_signature.bind(*args, **kwargs).arguments.get("model")
    return (lambda model: model) if model is None else model
