"""Notices calls of the finished article while the student's function runs, by whatever name it was reached."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
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

OPERATORS = {
    "scaled_dot_product_attention": "CompositeImplicitAutograd",
    "cross_entropy_loss": "CompositeImplicitAutograd",
    "nll_loss_forward": "CPU",
    "nll_loss2d_forward": "CPU",
}
"""The operators that are watched below Python too, each with where its kernel is registered.

Every negative log-likelihood of class indices ends in one of the last two; one of class probabilities goes no further
than ``cross_entropy_loss``.
"""

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

    An operator's own kernel is replaced by one that notes the call and goes on with it, so that results, gradients and
    errors stay those of torch wherever the operator is allowed.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a kernel is replaced, which is the point
        for operator, key in OPERATORS.items():
            # By the key that looks it up: an alias such as CompositeImplicitAutograd has no kernels of its own.
            kernel = torch.library.get_kernel(f"aten::{operator}", "CPU")
            _dispatcher.impl(operator, partial(_noted, operator, kernel), key, with_keyset=True)


def _noted(operator: str, kernel: Any, keys: Any, *args: Any, **kwargs: Any) -> Any:
    if (watch := _watch) is not None:
        watch.note_call(operator)
    return kernel.call_boxed(keys, *args, **kwargs)


class _Watch(TorchFunctionMode):
    def __init__(self, names: Sequence[str], is_cell: Callable[[str], bool]) -> None:
        super().__init__()
        self.seen: list[Sighting] = []
        self._is_cell = is_cell
        # Private builtins (`torch._scaled_dot_product_attention_math`, `torch.ops.aten…`) share the stem.
        last = {name.rpartition(".")[2]: name for name in names}
        self._stems = last | {KERNELS[stem]: name for stem, name in last.items() if stem in KERNELS}
        self._known: dict[str, str | None] = {}  # what the names that have been called stand for
        self._classes = {target: name for name in names if isinstance(target := _resolve(name), type)}

    def note_call(self, called: str) -> None:
        """A function or an operator of that name is called, by whomever."""
        if called not in self._known:
            plain = called.lstrip("_")
            self._known[called] = next((name for stem, name in self._stems.items() if plain.startswith(stem)), None)
        name = self._known[called]
        if name is not None:
            self._note(name)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.note_call(str(getattr(func, "__name__", "")))
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
