"""Answers calls of a function: arguments in, results, changed inputs and gradients out.

The worker serves the student's functions through this; the examiner runs known mistakes through the same code, so
that both are seen in the same way.
"""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch

from autograder.channel.codec import Decoder, Encoder, storage_bytes
from autograder.channel.frames import Buffer

MAX_EXCEPTION_TEXT = 2_000
MAX_LINE = 100

Reply = tuple[dict[str, Any], list[Buffer]]


class Callee:
    """Calls functions for the other side, and keeps the graph of each call until it is freed."""

    def __init__(self, cell_of: Callable[[str], bool] = lambda filename: False) -> None:
        self._graphs: dict[int, tuple[list[torch.Tensor], list[torch.Tensor]]] = {}
        self._is_cell = cell_of

    def call(self, function: Callable[..., Any], header: dict[str, Any], blob: Buffer) -> Reply:
        """Run one call; what the function raises is part of the reply."""
        received = Decoder(header, blob)
        for number in received.differentiable:
            received.tensors[number].requires_grad_()
        before = [bytes(storage_bytes(storage)) for storage in received.storages]
        args, kwargs = received.value(header["args"]), received.value(header["kwargs"])
        # A random answer is repeatable for us, and differs from call to call. (`torch.manual_seed` would look for
        # every kind of accelerator first, which takes longer than most calls.)
        torch.default_generator.manual_seed(header["seed"])
        reply: dict[str, Any] = {}
        result = None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                result = function(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001 - SystemExit and the like are answers too
                reply["raised"] = describe_exception(error, self._is_cell)
        encoder = _reply_encoder(received, header)
        known = list(encoder.tensors)
        # Lists and dicts that were passed in may have been changed as well as tensors.
        inputs = {"args": encoder.value(args), "kwargs": encoder.value(kwargs)}
        reply["restructured"] = inputs != {"args": header["args"], "kwargs": header["kwargs"]} or any(
            ours is not theirs for ours, theirs in zip(known, received.tensors, strict=True)
        )
        if "raised" not in reply:
            reply["result"] = encoder.value(result)
        outputs = encoder.tensors[len(received.tensors) :]
        tables, blobs = encoder.tables()
        reply.update(tables)
        reply["changed"] = []
        for number, data in enumerate(before):
            now = storage_bytes(received.storages[number])
            if len(now) == len(data) and now != data:
                reply["changed"].append(number)
                blobs.append(now)
        self._graphs[header["id"]] = received.tensors, [*received.tensors, *outputs]
        return reply, blobs

    def backward(self, header: dict[str, Any], blob: Buffer) -> Reply:
        """Gradients of an earlier call's inputs, for given gradients of its results."""
        inputs, known = self._graphs[header["call"]]
        received = Decoder(header, blob)
        leaves = [(number, tensor) for number, tensor in enumerate(inputs) if tensor.requires_grad]
        reply: dict[str, Any] = {}
        found: Sequence[torch.Tensor | None] = ()
        try:
            found = torch.autograd.grad(
                [known[number] for number in header["outputs"]],
                [tensor for _, tensor in leaves],
                received.tensors,
                allow_unused=True,
                retain_graph=True,
            )
        except BaseException as error:  # noqa: BLE001 - the backward pass is the student's code as well
            reply["raised"] = describe_exception(error, self._is_cell)
        encoder = Encoder()
        grads: list[Any] = [None] * len(inputs)
        for (number, _), grad in zip(leaves, found, strict=False):
            grads[number] = None if grad is None else encoder.value(grad.detach())
        tables, blobs = encoder.tables()
        return {**reply, **tables, "grads": grads}, blobs

    def free(self, calls: Sequence[int]) -> None:
        """Let go of the graphs of calls that are no longer needed."""
        for call in calls:
            self._graphs.pop(call, None)


def _reply_encoder(received: Decoder, header: dict[str, Any]) -> Encoder:
    """An encoder that refers to inputs by number, but for those that look elsewhere now (`x.data = …`, `x.t_()`).

    Such a one is sent anew where it is part of the result: the other side's copy is not what it is any more.
    """
    numbers = {storage._cdata: number for number, storage in enumerate(received.storages)}
    tensors = []
    for tensor, row in zip(received.tensors, header["tensors"], strict=True):
        same = numbers.get(tensor.untyped_storage()._cdata) == row["s"] and _layout(tensor) == _row_layout(row)
        tensors.append(tensor if same else tensor.detach())
    return Encoder(tensors, received.storages)


def describe_exception(error: BaseException, is_cell: Callable[[str], bool]) -> dict[str, Any]:
    """An exception as plain values: type, builtin bases, text, and the student's last line in its way, with number."""
    kind, text = type(error), text_of(error)
    bases = [base.__name__ for base in kind.__mro__ if base.__module__ == "builtins" and base is not object]
    line, code = None, ""
    for frame in traceback.extract_tb(error.__traceback__):
        if is_cell(frame.filename):
            line, code = frame.lineno, frame.line or ""
    if isinstance(error, SyntaxError) and is_cell(str(error.filename)):
        line, code, text = error.lineno, str(error.text or ""), str(error.msg)  # its text repeats the cell's name
    return {"type": kind.__name__[:200], "bases": bases, "text": text, "line": line, "code": code.strip()[:MAX_LINE]}


def text_of(error: BaseException) -> str:
    """An exception's text, at most 2,000 characters; empty where its own ``__str__`` fails."""
    try:
        return "".join(str(error))[:MAX_EXCEPTION_TEXT]  # a plain str, also of a subclass
    except BaseException:  # noqa: BLE001 - it is the student's code
        return ""


def _layout(tensor: torch.Tensor) -> Any:
    return list(tensor.shape), list(tensor.stride()), tensor.storage_offset(), tensor.requires_grad


def _row_layout(row: dict[str, Any]) -> Any:
    return row["n"], row["k"], row["o"], row["g"]
