"""Notices calls of the finished article while the student's function runs, by whatever name it was reached."""

from __future__ import annotations

import ast
import importlib
import inspect
import linecache
import sys
import textwrap
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial, reduce
from types import CodeType, FunctionType
from typing import Any

import torch
import torch.fx
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode

KERNELS = {
    "scaled_dot_product_attention": "scaled_dot_product_",
    "MultiheadAttention": "native_multi_head_attention",
    "multi_head_attention_forward": "native_multi_head_attention",
    "attention": "attention_23",
    "to_padded_tensor": "jagged_to_padded_dense",
}
"""What torch's own fused kernels for a finished article begin with, where that is not the article's name."""

OPERATORS = {
    "scaled_dot_product_attention": ("CompositeImplicitAutograd", "FuncTorchVmapMode"),
    "_scaled_dot_product_attention_math": ("CompositeImplicitAutograd", "FuncTorchVmapMode"),
    "_scaled_dot_product_flash_attention_for_cpu": ("CPU",),
    "_native_multi_head_attention": ("CPU",),
    "cross_entropy_loss": ("CompositeImplicitAutograd", "FuncTorchBatched"),
    "nll_loss": ("FuncTorchBatched",),
    "nll_loss2d": ("FuncTorchBatched",),
    "nll_loss_nd": ("FuncTorchBatched",),
    "nll_loss_forward": ("CPU",),
    "nll_loss_forward.output": ("CPU",),
    "nll_loss2d_forward": ("CPU",),
    "nll_loss2d_forward.output": ("CPU",),
    "rnn_tanh.input": ("CompositeImplicitAutograd",),
    "rnn_tanh.data": ("CompositeImplicitAutograd",),
    "rnn_tanh_cell": ("CompositeImplicitAutograd",),
    "pad_sequence": ("CompositeImplicitAutograd",),
    "_nested_tensor_from_tensor_list": ("CPU",),
    "to_padded_tensor": ("NestedTensorCPU",),
    "_jagged_to_padded_dense_forward": ("CPU",),
}
"""The operators that are watched below Python too, each with where its kernels are registered.

Every negative log-likelihood of class indices ends in a kernel of ``nll_loss_forward`` or ``nll_loss2d_forward``; one
of class probabilities goes no further than ``cross_entropy_loss``. `torch.vmap` has kernels of its own.
"""

ARTICLES = {
    "torch.nn.functional.multi_head_attention_forward": "multi_head_attention_forward",
    "torch.nn.functional.linear_cross_entropy": "linear_cross_entropy",
    "torch.nn.modules.linear_cross_entropy._linear_cross_entropy_batch_chunked._init_fn": "linear_cross_entropy",
    "torch.nn.modules.linear_cross_entropy._linear_cross_entropy_batch_chunked_no_reduction._init_fn": (
        "linear_cross_entropy"
    ),
    "torch.ao.nn.quantizable.modules.activation.MultiheadAttention._forward_impl": "MultiheadAttention",
    "torch._higher_order_ops.flex_attention._math_attention_inner": "flex_attention",
    "torch.onnx.ops._impl.attention_23._init_fn": "attention_23",
    "torch._decomp.decompositions._nll_loss_forward": "nll_loss",
    "torch._refs.nn.functional._nll_loss_nd": "nll_loss",
}
"""The functions that are watched below their names too, since torch wrote them in Python: what each is noted as."""

SCRIPTED = "torch.nn.functional.multi_head_attention_forward"
"""The one of them that `torch.jit.script` compiles to nothing that is watched."""

NAMESPACES = ("torch._ops.aten", "torch._ops.prim", "torch._ops.quantized", "torch._ops.onnx", "torch._ops.inductor")
"""What the modules of torch's own operators begin with; those of others are named as their authors like."""

Sighting = tuple[str, int | None]


@dataclass
class Seen:
    """What was seen of forbidden names.

    Attributes:
        calls: the answer's own calls, with their lines.
        beside: what was called by threads that ran before the watch began: their own work, perhaps, or the answer's.
    """

    calls: list[Sighting] = field(default_factory=list)
    beside: list[str] = field(default_factory=list)

    def taken(self) -> tuple[list[Sighting], list[str]]:
        """What was seen so far, once; another thread may go on to add to it."""
        calls, self.calls = self.calls, []
        beside, self.beside = self.beside, []
        return calls, beside


_dispatcher = torch.library.Library("aten", "IMPL")
_marks = torch.library.Library("autograder", "FRAGMENT")
# Conservative: it is not left out of a graph for having no result.
_marks.define("note(str called) -> ()", alias_analysis="CONSERVATIVE")
_watch: _Watch | None = None
"""The one that looks on now. A process makes one call at a time."""


@contextmanager
def watching(names: Sequence[str], is_cell: Callable[[str], bool]) -> Iterator[Seen]:
    """Collect the calls of forbidden functions and modules inside the block.

    Args:
        names: dotted names, such as ``torch.nn.functional.scaled_dot_product_attention``.
        is_cell: whether a file name is that of a cell, for the line of the call.
    """
    if not names:
        yield Seen()
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
    errors stay those of torch wherever the operator is allowed. So is the code of what torch wrote in Python.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a kernel is replaced, which is the point
        for operator, keys in OPERATORS.items():
            for key in keys:
                # By the key that looks it up: an alias such as CompositeImplicitAutograd has no kernels of its own.
                kernel = torch.library.get_kernel(f"aten::{operator}", "CPU" if key.startswith("Composite") else key)
                _dispatcher.impl(operator, partial(_noted, operator, kernel), key, with_keyset=True)
    for path, called in ARTICLES.items():
        _watch_function(_import(path), called, scripted=path == SCRIPTED)


def _noted(operator: str, kernel: Any, keys: Any, *args: Any, **kwargs: Any) -> Any:
    _note(operator)
    return kernel.call_boxed(keys, *args, **kwargs)


def _note(called: str) -> None:
    if _is_recorded():
        torch.ops.autograder.note(called)  # what is recorded now has to note it whenever it is run
    elif (watch := _watch) is not None:
        watch.note_call(called)


def _is_recorded() -> bool:
    """Whether torch writes a graph of the operators that run: `torch.jit.trace`, `make_fx`, `torch.export`."""
    from torch.fx.experimental.proxy_tensor import get_proxy_mode  # takes long, and the examiner has no need of it

    return torch._C._get_tracing_state() is not None or get_proxy_mode() is not None


def _note_recorded(called: str) -> None:
    if (watch := _watch) is not None:
        watch.note_call(called)


_marks.impl("note", _note_recorded, "CompositeExplicitAutograd")
torch.fx.node.has_side_effect(torch.ops.autograder.note.default)


def _watch_function(function: FunctionType, called: str, *, scripted: bool) -> None:
    """Note every call of a function, which goes on as before.

    It keeps its identity, and its code is exchanged: no alias, copy or code object of it leads around that.
    """
    article = _copy(function, function.__code__)
    entry = _entry(article, called)
    if scripted:
        # What a script compiles is the source: it is made to call Python.
        noting = _copy(function, entry)
        noting.__annotations__ = function.__annotations__
        name = f"_noting_{function.__name__}"
        function.__globals__[name] = torch.jit.ignore(noting)
        text = _source_that_calls(name, function)
        filename = f"<watched {called}>"
        linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
        entry = entry.replace(co_filename=filename, co_firstlineno=1)
    function.__code__ = entry


def _copy(function: FunctionType, code: CodeType) -> FunctionType:
    copy = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def _entry(article: FunctionType, called: str) -> CodeType:
    """Code with the signature of `article` that notes the call and goes on with it.

    What it calls are constants of the code, where no name leads to them.
    """
    plain = inspect.signature(article)
    bare = [one.replace(default=one.empty, annotation=one.empty) for one in plain.parameters.values()]
    parameters = inspect.Signature([*bare])
    source = f"def {article.__name__}{parameters}:\n    'note'('called')\n    return 'article'({_passed_on(plain)})"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a text is called, in whose place a function is put
        module = compile(source, article.__code__.co_filename, "exec")
    (code,) = (constant for constant in module.co_consts if isinstance(constant, CodeType))
    meant = {"note": _note, "called": called, "article": article}
    return code.replace(
        co_consts=tuple(meant.get(one, one) if isinstance(one, str) else one for one in code.co_consts),
        co_firstlineno=article.__code__.co_firstlineno,
        co_freevars=article.__code__.co_freevars,
        co_qualname=article.__code__.co_qualname,
    )


def _passed_on(signature: inspect.Signature) -> str:
    """The arguments of a call that passes on what came in."""
    ways: dict[Any, str] = {
        inspect.Parameter.VAR_POSITIONAL: "*{0}",
        inspect.Parameter.VAR_KEYWORD: "**{0}",
        inspect.Parameter.KEYWORD_ONLY: "{0}={0}",
    }
    return ", ".join(ways.get(one.kind, "{0}").format(one.name) for one in signature.parameters.values())


def _source_that_calls(name: str, function: FunctionType) -> str:
    """The source of a function, with its annotations, that only calls the one of that name."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(definition, ast.FunctionDef)
    definition.body = ast.parse(f"return {name}({_passed_on(inspect.signature(function))})", mode="exec").body
    return ast.unparse(definition)


def _import(path: str) -> Any:
    """What stands under a dotted path, whose modules are imported."""
    parts = path.split(".")
    for length in range(len(parts) - 1, 0, -1):
        try:
            module = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        return reduce(getattr, parts[length:], module)
    raise ModuleNotFoundError(path)


class _Watch(TorchFunctionMode):
    def __init__(self, names: Sequence[str], is_cell: Callable[[str], bool]) -> None:
        super().__init__()
        self.seen = Seen()
        self._is_cell = is_cell
        # What another cell left running goes on with its own work, as far as we know. A number of the system's is not
        # given twice soon.
        self._others = {one.native_id for one in threading.enumerate()} - {threading.get_native_id()}
        # Private builtins (`torch._scaled_dot_product_attention_math`, `torch.ops.aten…`) share the stem.
        last = {name.rpartition(".")[2]: name for name in names}
        self._stems = last | {KERNELS[stem]: name for stem, name in last.items() if stem in KERNELS}
        self._known: dict[str, str | None] = {}  # what the names that have been called stand for
        self._classes = {target: name for name in names if isinstance(target := _resolve(name), type)}

    def note_call(self, called: str) -> None:
        """A function or an operator of that name is called, by whomever."""
        if called not in self._known:
            plain = called.lstrip("_")
            stem = max((stem for stem in self._stems if plain.startswith(stem)), key=len, default=None)
            self._known[called] = None if stem is None else self._stems[stem]
        name = self._known[called]
        if name is not None:
            self._note(name)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if _is_torchs(func):
            self.note_call(str(getattr(func, "__name__", "")))
        return func(*args, **(kwargs or {}))

    def before_module(self, module: torch.nn.Module, args: Any) -> None:
        for target, name in self._classes.items():
            if isinstance(module, target):
                self._note(name)

    def _note(self, name: str) -> None:
        if threading.get_native_id() in self._others:
            if name not in self.seen.beside:
                self.seen.beside.append(name)
        elif len(self.seen.calls) < 10:
            self.seen.calls.append((name, self._line()))

    def _line(self) -> int | None:
        """The answer's own line that led here: that of the outermost frame of a cell."""
        line = None
        frame = sys._getframe()
        while frame is not None:
            if self._is_cell(frame.f_code.co_filename):
                line = frame.f_lineno
            frame = frame.f_back  # type: ignore[assignment]
        return line


def _is_torchs(function: Any) -> bool:
    """Whether a function that torch has called is one of its own; a builtin may have no module."""
    module = getattr(function, "__module__", None)
    return not isinstance(module, str) or not module.startswith("torch._ops.") or module.startswith(NAMESPACES)


def _resolve(name: str) -> Any:
    """What stands under a dotted name, if its module is loaded: what is not was not called either."""
    module, _, attribute = name.rpartition(".")
    return getattr(sys.modules.get(module), attribute, None)
