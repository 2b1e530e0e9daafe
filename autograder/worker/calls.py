"""Answers calls of a function: arguments in, results, changed inputs and gradients out.

The worker serves the student's functions through this; the examiner runs known mistakes through the same code, so
that both are seen in the same way.
"""

from __future__ import annotations

import dis
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from autograder.channel import raw, words
from autograder.channel.codec import Decoder, Encoder, storage_bytes
from autograder.channel.frames import Buffer
from autograder.worker.passes import count_passes, passes_since, so_far

MAX_LINE = 100

_SYNTAX_ERROR = tuple(vars(SyntaxError)[name] for name in ("filename", "lineno", "text", "msg"))
_RAISE = dis.opmap["RAISE_VARARGS"]

Reply = tuple[dict[str, Any], list[Buffer]]


@dataclass(frozen=True)
class _Kept:
    """What a call's backward passes need: what was received, and all tensors by number, results included."""

    received: Decoder
    rows: Sequence[dict[str, Any]]
    tensors: Sequence[torch.Tensor]


class Callee:
    """Calls functions for the other side, and keeps the graph of each call until it is freed.

    A reply says as well how many backward passes (``passes``) there were in this process since the callee was made.
    """

    def __init__(self, cell_of: Callable[[str], bool] = lambda filename: False) -> None:
        self._graphs: dict[int, _Kept] = {}
        self._is_cell = cell_of
        count_passes()
        self._made = so_far()

    def call(self, function: Callable[..., Any], header: dict[str, Any], blob: Buffer) -> Reply:
        """Run one call; what the function raises is part of the reply."""
        with raw.undisturbed():
            received = Decoder(header, blob)
            for number in received.differentiable:
                received.tensors[number].requires_grad_()
            before = [storage_bytes(storage) for storage in received.storages]
            args, kwargs = received.value(header["args"]), received.value(header["kwargs"])
            graded = torch.is_grad_enabled()  # a cell may have switched it off
            torch.set_grad_enabled(True)
        # A random answer is repeatable for us, and differs from call to call. (`torch.manual_seed` would look for
        # every kind of accelerator first, which takes longer than most calls.)
        torch.default_generator.manual_seed(header["seed"])
        reply: dict[str, Any] = {}
        result = None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            modes = raw.modes()
            try:
                result = function(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001 - SystemExit and the like are answers too
                reply["raised"] = describe_exception(error, self._is_cell)
            raw.restore_modes(modes)
        with raw.undisturbed():
            torch.set_grad_enabled(graded)
            blobs, tensors = _encode(reply, (args, kwargs, result), received, header)
            reply["passes"] = passes_since(self._made)
            _add_changes(reply, blobs, received, before)
        self._graphs[header["id"]] = _Kept(received, header["tensors"], tensors)
        return reply, blobs

    def backward(self, header: dict[str, Any], blob: Buffer) -> Reply:
        """Gradients of an earlier call's inputs, for given gradients of its results."""
        kept = self._graphs[header["call"]]
        inputs = kept.received.tensors
        with raw.undisturbed():
            grads = Decoder(header, blob).tensors
        leaves = [(number, tensor) for number, tensor in enumerate(inputs) if tensor.requires_grad]
        reply: dict[str, Any] = {}
        found: list[torch.Tensor | None] = [None] * len(inputs)
        modes = raw.modes()
        try:
            outputs = [kept.tensors[number] for number in header["outputs"]]
            wanted = [tensor for _, tensor in leaves]
            seen = torch.autograd.grad(outputs, wanted, grads, allow_unused=True, retain_graph=True)
            for (number, _), grad in zip(leaves, seen, strict=True):
                found[number] = None if grad is None else _as_it_came(kept, number, grad)
        except BaseException as error:  # noqa: BLE001 - the backward pass is the student's code as well
            reply["raised"], found = describe_exception(error, self._is_cell), []
        raw.restore_modes(modes)
        encoder = Encoder()
        with raw.undisturbed():
            reply["grads"] = [encoder.value(grad) for grad in found]
            tables, blobs = encoder.tables()
        return {**reply, **tables}, blobs

    def free(self, calls: Sequence[int]) -> None:
        """Let go of the graphs of calls that are no longer needed."""
        for call in calls:
            self._graphs.pop(call, None)


def _encode(
    reply: dict[str, Any], values: tuple[Any, Any, Any], received: Decoder, header: dict[str, Any]
) -> tuple[list[Buffer], list[torch.Tensor]]:
    """Put what a call has left into the reply; its bytes, and all tensors by number."""
    args, kwargs, result = values
    disguised = [raw.make_plain(tensor) for tensor in received.tensors]
    encoder = _reply_encoder(received, header)
    known = list(encoder.tensors)
    # Lists and dicts that were passed in may have been changed as well as tensors.
    inputs = {"args": encoder.value(args), "kwargs": encoder.value(kwargs)}
    reply["restructured"] = (
        any(disguised)
        or inputs != {"args": header["args"], "kwargs": header["kwargs"]}
        or any(ours is not theirs for ours, theirs in zip(known, received.tensors, strict=True))
    )
    if "raised" not in reply:
        reply["result"] = encoder.value(result)
    tables, blobs = encoder.tables()
    reply.update(tables)
    return blobs, [*received.tensors, *encoder.tensors[len(received.tensors) :]]


def _add_changes(reply: dict[str, Any], blobs: list[Buffer], received: Decoder, before: Sequence[bytes]) -> None:
    """Add the storages of the inputs that hold other bytes than before."""
    reply["changed"] = []
    for number, data in enumerate(before):
        now = storage_bytes(received.storages[number])
        if len(now) != len(data):
            reply["restructured"] = True
        elif now != data:
            reply["changed"].append(number)
            blobs.append(now)


def _reply_encoder(received: Decoder, header: dict[str, Any]) -> Encoder:
    """An encoder that refers to inputs by number, but for those that look elsewhere now (`x.data = …`, `x.t_()`).

    Such a one is sent anew where it is part of the result: the other side's copy is not what it is any more.
    """
    places = {raw.address_of(storage): number for number, storage in enumerate(received.storages)}
    tensors = []
    for tensor, row in zip(received.tensors, header["tensors"], strict=True):
        same = places.get(raw.address_of(raw.storage_of(tensor))) == row["s"] and _layout(tensor) == _row_layout(row)
        tensors.append(tensor if same else torch.Tensor.detach(tensor))
    return Encoder(tensors, received.storages)


def _as_it_came(kept: _Kept, number: int, grad: torch.Tensor) -> torch.Tensor | None:
    """The gradient of an input in the input's own layout, which its function may have changed (`x.t_()`).

    None where the input looks into other memory by now: what came in has no influence then.
    """
    if type(grad) is not torch.Tensor:
        raise TypeError(f"the gradient of an input is a {raw.short_name(type(grad))}, no plain tensor")
    tensor, row = kept.received.tensors[number], kept.rows[number]
    with raw.undisturbed():
        grad = torch.Tensor.detach(grad)
        if grad.layout is not torch.strided:
            grad = torch.Tensor.to_dense(grad)
        if _layout(tensor) == _row_layout(row):
            return grad
        storage = kept.received.storages[row["s"]]
        if raw.address_of(raw.storage_of(tensor)) != raw.address_of(storage):
            return None
        places = torch.zeros(raw.size_of(storage) // grad.element_size(), dtype=grad.dtype)
        places.as_strided(tensor.shape, raw.strides_of(tensor), raw.offset_of(tensor)).copy_(grad)
        return places.as_strided(row["n"], row["k"], row["o"])


def describe_exception(error: BaseException, is_cell: Callable[[str], bool]) -> dict[str, Any]:
    """An exception as plain values: type, builtin bases, text, and the student's last line in its way, with number."""
    kind, text = type(error), text_of(error)
    line, code = None, ""
    for frame in _frames(error):
        if is_cell(frame.filename):
            line, code = frame.lineno, frame.line or ""
    if issubclass(kind, SyntaxError):
        filename, place, source, said = (slot.__get__(error) for slot in _SYNTAX_ERROR)
        if is_cell(_text(filename)):  # its own text repeats the cell's name
            line, code, text = place, _text(source), _text(said)[: words.MAX_TEXT]
    return {
        "type": words.name(raw.short_name(kind), unknown="Exception"),
        "bases": raw.builtin_bases(kind),
        "text": text,
        "line": line if type(line) is int else None,
        "code": code.strip()[:MAX_LINE],
        "by_hand": _raised_by_hand(error),
    }


def text_of(error: BaseException) -> str:
    """An exception's text, at most 2,000 characters; empty where its own ``__str__`` fails."""
    try:
        return str.__str__(str(error))[: words.MAX_TEXT]  # a plain str, also of a subclass
    except BaseException:  # noqa: BLE001 - it is the student's code
        return ""


def _text(value: Any) -> str:
    return str.__str__(value) if issubclass(type(value), str) else ""


def _frames(error: BaseException) -> Iterator[traceback.FrameSummary]:
    try:
        yield from traceback.extract_tb(raw.traceback_of(error))
    except Exception:  # noqa: BLE001 - a module's own loader is asked for its source
        return


def _raised_by_hand(error: BaseException) -> bool:
    """Whether a `raise` statement of Python's raised it, and not what Python, torch or numpy found wrong by itself."""
    trace = raw.traceback_of(error)
    if trace is None:
        return False
    while trace.tb_next is not None:
        trace = trace.tb_next
    code, place = trace.tb_frame.f_code.co_code, trace.tb_lasti
    return bool(0 <= place < len(code) and code[place] == _RAISE)


def _layout(tensor: torch.Tensor) -> Any:
    return list(tensor.shape), list(raw.strides_of(tensor)), raw.offset_of(tensor), tensor.requires_grad


def _row_layout(row: dict[str, Any]) -> Any:
    return row["n"], row["k"], row["o"], row["g"]
