"""Notices calls of the finished article while the student's function runs, by whatever name it was reached."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode

KERNELS = {
    "scaled_dot_product_attention": "scaled_dot_product_",
    "MultiheadAttention": "native_multi_head_attention",
    "multi_head_attention_forward": "native_multi_head_attention",
}
"""What torch's own fused kernels for a finished article begin with, where that is not the article's name."""

ATTENTION = "scaled_dot_product_attention"

Sighting = tuple[str, int | None]

_dispatcher = torch.library.Library("aten", "IMPL")
_watch: _Watch | None = None
"""The one that looks on now. A process makes one call at a time."""


@contextmanager
def watching(names: Sequence[str], is_cell: Callable[[str], bool]) -> Iterator[list[Sighting]]:
    """Collect the calls of forbidden functions and modules inside the block.

    Args:
        names: dotted names, such as ``torch.nn.functional.scaled_dot_product_attention``.
        is_cell: whether a file name is that of a cell, for the line of the call.
    """
    if not names:
        yield []
        return
    global _watch
    mode = _watch = _Watch(names, is_cell)
    hook = register_module_forward_pre_hook(mode.before_module)
    try:
        with mode:
            yield mode.seen
    finally:
        _watch = None
        hook.remove()


def watch_dispatcher() -> None:
    """Notice calls below Python too, in this process for good: from scripted code, other threads, a disabled mode.

    The operator's own kernel is replaced by one that notes the call and goes on with torch's plain formula.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a kernel is replaced, which is the point
        _dispatcher.impl(ATTENTION, _noted_attention, "CompositeImplicitAutograd")


def _noted_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    if _watch is not None:
        _watch.note_operator(ATTENTION)
    plain = torch.ops.aten._scaled_dot_product_attention_math
    output: torch.Tensor = plain(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
    )[0]
    return output


class _Watch(TorchFunctionMode):
    def __init__(self, names: Sequence[str], is_cell: Callable[[str], bool]) -> None:
        super().__init__()
        self.seen: list[Sighting] = []
        self._is_cell = is_cell
        # Private builtins (`torch._scaled_dot_product_attention_math`, `torch.ops.aten…`) share the stem.
        last = {name.rpartition(".")[2]: name for name in names}
        self._stems = last | {KERNELS[stem]: name for stem, name in last.items() if stem in KERNELS}
        self._classes = {target: name for name in names if isinstance(target := _resolve(name), type)}

    def note_operator(self, operator: str) -> None:
        """An operator is called, by whomever."""
        if operator in self._stems:
            self._note(self._stems[operator])

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        called = str(getattr(func, "__name__", "")).partition(".")[0].lstrip("_")
        for stem, name in self._stems.items():
            if called.startswith(stem):
                self._note(name)
                break
        return func(*args, **(kwargs or {}))

    def before_module(self, module: torch.nn.Module, args: Any) -> None:
        for target, name in self._classes.items():
            if isinstance(module, target):
                self._note(name)

    def _note(self, name: str) -> None:
        if len(self.seen) < 10:
            self.seen.append((name, self._line()))

    def _line(self) -> int | None:
        """The answer's own line that led here: that of the outermost frame of a cell."""
        line = None
        frame = sys._getframe()
        while frame is not None:
            if self._is_cell(frame.f_code.co_filename):
                line = frame.f_lineno
            frame = frame.f_back  # type: ignore[assignment]
        return line


def _resolve(name: str) -> Any:
    """What stands under a dotted name, if its module is loaded: what is not was not called either."""
    module, _, attribute = name.rpartition(".")
    return getattr(sys.modules.get(module), attribute, None)
