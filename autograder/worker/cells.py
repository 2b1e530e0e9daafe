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

from autograder.worker.calls import describe_exception

MAX_OUTPUTS = 500
MAX_TRACEBACK_LINE = 20_000
CELL_NAME = "<cell {}>"


class Cells:
    """A shell and the outputs of the cell that runs in it.

    Args:
        cap: how many characters of output a cell may leave; what comes after is dropped, and a line says so.
    """

    def __init__(self, cap: int = 1 << 20) -> None:
        self.cap = cap
        self.outputs: list[dict[str, Any]] = []
        self._left = 0
        self._names: set[str] = set()
        config = Config()
        config.HistoryManager.enabled = False
        config.InteractiveShell.colors = "nocolor"
        config.InteractiveShell.cache_size = 0
        config.InteractiveShell.xmode = "Context"
        self.shell: InteractiveShell = _Shell(
            config=config, displayhook_class=_Hook, display_pub_class=_Publisher, compiler_class=_Compiler
        )
        self.shell.cells = self
        # `get_ipython` and `display` look for the one instance.
        InteractiveShell._instance = self.shell
        _Shell._instance = self.shell  # type: ignore[assignment]

    def attach(self) -> None:
        """Let Python's own streams write into the cell's outputs."""
        sys.stdout, sys.stderr = _Stream(self, "stdout"), _Stream(self, "stderr")
        builtins.input = _no_input
        sys.stdin = io.StringIO()

    def run(self, source: str, number: int) -> dict[str, Any]:
        """Run one cell.

        Returns:
            ``ok``, the nbformat ``outputs``, and ``error``: a description of what was raised, or None.
        """
        self.outputs, self._left = [], self.cap
        self.shell.compile.cell_number = number
        self._names.add(CELL_NAME.format(number))
        result = self.shell.run_cell(source, store_history=True)
        error = result.error_before_exec or result.error_in_exec
        for output in self.outputs:
            if output["output_type"] == "stream":
                output["text"] = "".join(output["text"])
        shown, self.outputs, self._left = self.outputs, [], 0
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
        if self._left <= 0 or not text:
            return
        if len(text) > self._left:
            text = text[: self._left] + "\n[the rest of this cell's output was dropped]\n"
        self._left -= len(text)
        last = self.outputs[-1] if self.outputs else None
        if last is not None and last.get("name") == name:
            last["text"].append(text)
        elif len(self.outputs) < MAX_OUTPUTS:
            self.outputs.append({"output_type": "stream", "name": name, "text": [text]})

    def add(self, output: dict[str, Any]) -> None:
        """Take a result or a display, if it still fits."""
        size = len(json.dumps(output, default=str))
        if size > self._left or len(self.outputs) >= MAX_OUTPUTS:
            self.write("stderr", "[a large output of this cell was dropped]\n")
            return
        self._left -= size
        self.outputs.append(output)


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
        self.shell.cells.outputs.clear()


class _Shell(InteractiveShell):
    cells: Cells

    def _showtraceback(self, etype: Any, evalue: Any, stb: list[str]) -> None:
        self.cells.add(
            {
                "output_type": "error",
                "ename": str(getattr(etype, "__name__", etype)),
                "evalue": str(evalue)[:2000],
                "traceback": [str(line)[:MAX_TRACEBACK_LINE] for line in stb],
            }
        )

    def system(self, cmd: str) -> None:
        print(f"[shell commands are not run here: {cmd.strip()[:200]}]")
        self.user_ns["_exit_code"] = 1

    system_raw = system_piped = system

    def getoutput(self, cmd: str, split: bool = True, depth: int = 0) -> Any:
        self.system(cmd)
        return []

    def enable_gui(self, gui: Any = None) -> None:
        pass


def _as_text(data: dict[str, Any]) -> dict[str, Any]:
    return {kind: base64.b64encode(v).decode() if isinstance(v, bytes) else v for kind, v in data.items()}


def _no_input(prompt: object = "") -> NoReturn:
    raise EOFError("input() can't be answered here: nobody sits at the keyboard while a notebook is checked")
