"""Runs notebook cells with IPython's own shell, without a kernel, and keeps their outputs as nbformat dicts."""

from __future__ import annotations

import base64
import builtins
import io
import json
import sys
from typing import Any, NoReturn

from IPython.core.compilerop import CachingCompiler
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from autograder.worker.calls import describe_exception, text_of

MAX_OUTPUTS = 500
MAX_TRACEBACK = 50_000
"""Characters of a traceback; there is room for one even where the cell's output is used up."""
MAX_FRAMES = 30
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
        self._names: set[str] = set()
        config = Config()
        config.HistoryManager.enabled = False
        config.InteractiveShell.colors = "nocolor"
        config.InteractiveShell.cache_size = 0
        config.InteractiveShell.xmode = "Context"
        self.shell: Any = _Shell(  # type: ignore[no-untyped-call]
            config=config, displayhook_class=_Hook, display_pub_class=_Publisher, compiler_class=_Compiler
        )
        self.shell.cells = self
        # `get_ipython` and `display` look for the one instance.
        InteractiveShell._instance = self.shell  # type: ignore[assignment]
        _Shell._instance = self.shell  # type: ignore[assignment]

    def attach(self) -> None:
        """Let Python's own streams write into the cell's outputs."""
        self._attach_streams()
        builtins.input = _no_input
        sys.stdin = io.StringIO()

    def run(self, source: str, number: int) -> dict[str, Any]:
        """Run one cell.

        Returns:
            ``ok``, the nbformat ``outputs``, and ``error``: a description of what was raised, or None.
        """
        self._attach_streams()  # whatever the cell before has put there, None included
        self.outputs, self._left, self._dropped = [], self.cap, False
        self.shell.compile.cell_number = number
        self._names.add(CELL_NAME.format(number))
        result = self.shell.run_cell(source, store_history=True)
        error = result.error_before_exec or result.error_in_exec
        shown, self.outputs, self._left = self.outputs, [], 0
        for output in shown:
            if output["output_type"] == "stream":
                output["text"] = "".join(output["text"])
        if self._dropped:
            shown.append({"output_type": "stream", "name": "stderr", "text": DROPPED})
        return {
            "ok": bool(result.success),
            "outputs": shown,
            "count": self.shell.execution_count - 1,
            "error": None if error is None else describe_exception(error, self.is_cell),
        }

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
        self.outputs, self._left = [], self.cap

    def _attach_streams(self) -> None:
        sys.stdout, sys.stderr = _Stream(self, "stdout"), _Stream(self, "stderr")


def _fitting(text: str, room: int) -> tuple[str, bool]:
    """As much of a text as there is room for, and whether something is missing."""
    fitting = text[: max(room, 0)]
    while _size(fitting) > room and fitting:
        fitting = fitting[: len(fitting) // 2]
    return fitting, len(fitting) < len(text)


def _size(value: Any) -> int:
    """Characters of a value as JSON: that is what crosses the channel, and an emoji is twelve of them."""
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


class _Publisher(DisplayPublisher):
    def publish(
        self, data: dict[str, Any], metadata: dict[str, Any] | None = None, source: Any = None, **_: Any
    ) -> None:
        self.shell.cells.add({"output_type": "display_data", "data": _as_text(data), "metadata": metadata or {}})

    def clear_output(self, wait: bool = False) -> None:
        self.shell.cells.clear()


class _Shell(InteractiveShell):
    cells: Cells

    def _get_exc_info(self, exc_tuple: Any = None) -> Any:
        # IPython reads the source around every frame: of a thousand, for a recursion without end, for a minute.
        kind, error, trace = super()._get_exc_info(exc_tuple)  # type: ignore[no-untyped-call]
        _shorten(error)
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
        print(f"[shell commands are not run here: {cmd.strip()[:200]}]")
        self.user_ns["_exit_code"] = 1

    system_raw = system_piped = system

    def getoutput(self, cmd: str, split: bool = True, depth: int = 0) -> Any:
        self.system(cmd)
        return []

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


def _as_text(data: dict[str, Any]) -> dict[str, Any]:
    return {kind: base64.b64encode(v).decode() if isinstance(v, bytes) else v for kind, v in data.items()}


def _no_input(prompt: object = "") -> NoReturn:
    raise EOFError("input() can't be answered here: nobody sits at the keyboard while a notebook is checked")
