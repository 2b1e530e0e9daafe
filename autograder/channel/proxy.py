"""The student's function, as the hidden suites see it: a callable whose every call happens in the other process.

What comes back is decoded into fresh tensors of ours. A changed input is changed here too, and gradients flow through
the border by a `torch.autograd.Function` whose backward pass asks the other side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from autograder.channel import replies
from autograder.channel.codec import DTYPES, Decoder, Encoder, overwrite
from autograder.channel.frames import Buffer, ProtocolError
from autograder.channel.replies import Frame as Frame

MAX_RECORDED = 64 << 20
"""Bytes of an exercise's calls that are kept, roughly."""


class StudentRaised(Exception):
    """The student's function raised.

    Attributes:
        type_name: the exception's class.
        bases: the builtin exceptions that it is one of, such as ``("ValueError", "Exception", "BaseException")``.
        message: its text, at most 2,000 characters.
        line: the line of the student's cell where it came from, or None.
        code: the text of that line.
        by_hand: whether a `raise` statement raised it, as far as the student's process says.
        called_with: the tensors that the function was called with, by name, with shapes and dtypes, for people.
    """

    def __init__(
        self,
        type_name: str,
        bases: tuple[str, ...],
        text: str,
        line: int | None,
        code: str,
        called_with: str,
        by_hand: bool = False,
    ) -> None:
        super().__init__(f"{type_name}: {text}")
        self.type_name, self.bases, self.message = type_name, bases, text
        self.line, self.code, self.called_with, self.by_hand = line, code, called_with, by_hand


@dataclass(frozen=True)
class ForbiddenCall:
    """A finished article that the answer called: its name, and the line of the student's cell if known."""

    name: str
    line: int | None


class ForbiddenCalled(Exception):
    """The student's function called what the exercise forbids."""

    def __init__(self, call: ForbiddenCall) -> None:
        super().__init__(call.name)
        self.call = call


class Endpoint(Protocol):
    """The other side of the border: answers ``call`` and ``backward`` requests."""

    def request(self, header: dict[str, Any], blobs: Sequence[Buffer]) -> Frame:
        """Send one request and return the reply, header and blob."""


@dataclass
class Call:
    """One recorded call, as the frames that crossed the border."""

    request: Frame
    reply: Frame
    backwards: list[tuple[Frame, Frame]] = field(default_factory=list)


class Student:
    """A function of the student's. Calling it sends the arguments over and returns what came back.

    Args:
        name: the function's name.
        endpoint: the other side.
        watch: forbidden names for the other side to look out for.
        parameters: what the exercise calls its arguments, in their order; "argument 1" where it is not known.
        value: whether it is no function but a value, which a call without arguments returns.

    Attributes:
        calls: every call so far, recorded for the search of known mistakes; none when they were too large.
        changed_inputs: the names of the arguments that a call has changed, over all calls so far.
        called_beside: the forbidden names that threads of other cells have called while a call was under way.
        backward_passes: how often gradients were computed in the student's process before the last call and in it, as
            far as that process says.
    """

    def __init__(
        self,
        name: str,
        endpoint: Endpoint,
        watch: Sequence[str] = (),
        parameters: Sequence[str] = (),
        value: bool = False,
    ) -> None:
        self.name, self._value = name, value
        self.calls: list[Call] = []
        self.changed_inputs: list[str] = []
        self.called_beside: set[str] = set()
        self.backward_passes = 0
        self._endpoint = endpoint
        self._watch, self._parameters = list(watch), list(parameters)
        self._freed: list[int] = []
        self._number = 0
        self._room = MAX_RECORDED

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the student's function.

        Returns:
            What it returned: tensors, numbers, strings, None, lists, tuples and dicts; `Unsupported` for the rest.

        Raises:
            StudentRaised: the function raised.
            ForbiddenCalled: it called what the exercise forbids.
            ProtocolError: the other side's answer makes no sense.
        """
        encoder = Encoder(whole=True)
        number = self._number
        self._number += 1
        header = {
            "op": "call",
            "id": number,
            "name": self.name,
            "value": self._value,
            "seed": 1000 + number,
            "watch": self._watch,
            "free": self._take_freed(),
            "args": encoder.value(args),
            "kwargs": encoder.value(kwargs),
        }
        tables, blobs = encoder.tables()
        header.update(tables)
        request = header, b"".join(blobs)
        reply = self._endpoint.request(header, [request[1]])
        call = Call(request, reply)
        graph = _Graph(self, call)
        result, decoder, changed = replies.read_reply(reply, encoder.tensors, encoder.storages.known)
        call.reply = reply = replies.of_call(reply, self._watch)
        self.backward_passes = reply[0]["passes"]
        for storage, data in changed:
            overwrite(storage, data)
        decoder.check_bools()
        self._record(self.calls, call, encoder.weight + decoder.weight, request, reply)
        self._note_changes(self._labelled(args, kwargs), changed, reply[0])
        self._raise_what_was_raised(reply[0], call)
        outputs = _differentiable_outputs(result, decoder, encoder.tensors)
        if torch.is_grad_enabled() and outputs:
            tensors = [decoder.tensors[number] for number in outputs]
            bridged = _Bridge.apply(graph, outputs, tensors, *encoder.tensors)  # type: ignore[no-untyped-call]
            swap = {id(tensor): bridge for tensor, bridge in zip(tensors, bridged, strict=True)}
            return _map_tensors(result, lambda tensor: swap.get(id(tensor), tensor))
        return result

    def backward(self, call: Call, outputs: Sequence[int], grads: Sequence[torch.Tensor]) -> list[torch.Tensor | None]:
        """Gradients of a call's inputs for given gradients of some of its results (tensor numbers).

        Raises:
            StudentRaised, ForbiddenCalled, ProtocolError: as a call does.
        """
        encoder = Encoder()
        header: dict[str, Any] = {"op": "backward", "call": call.request[0]["id"], "outputs": list(outputs)}
        header["watch"] = self._watch
        for grad in grads:
            # One entry for each gradient, even where autograd hands the same object twice.
            encoder.value(grad.detach())
        tables, blobs = encoder.tables()
        header.update(tables)
        request = header, b"".join(blobs)
        reply = self._endpoint.request(header, [request[1]])
        found, weight = replies.read_gradients(reply)
        reply, weight = replies.of_backward(reply, self._watch), encoder.weight + weight
        if "raised" in reply[0]:
            self._record(call.backwards, (request, reply), weight, request, reply)
        self._raise_what_was_raised(reply[0], call)
        inputs = call.request[0]["tensors"]
        if len(found) != len(inputs):
            raise ProtocolError("the gradients are not those of the inputs")
        for ours, row in zip(found, inputs, strict=True):
            if ours is not None and (list(ours.shape), ours.dtype) != (row["n"], DTYPES[row["d"]]):
                raise ProtocolError("a gradient has another shape or dtype than its input")
        self._record(call.backwards, (request, reply), weight, request, reply)
        return found

    def _record(self, record: list[Any], item: Any, weight: int, *frames: Frame) -> None:
        """Keep what made sense, as long as it is not too much: a student may return megabytes at every call."""
        self._room -= weight + sum(replies.weight(frame) for frame in frames)
        if self._room < 0:
            self.calls.clear()  # half a record would name mistakes that were not made
        else:
            record.append(item)

    def _raise_what_was_raised(self, header: dict[str, Any], call: Call) -> None:
        self.called_beside.update(header.get("beside", ()))
        if "forbidden" in header:
            raise ForbiddenCalled(ForbiddenCall(*header["forbidden"]))
        if "raised" in header:
            raise _raised(header["raised"], self._described(call.request[0]))

    def _note_changes(self, arguments: Iterator[tuple[str, Any]], changed: list[Any], header: dict[str, Any]) -> None:
        touched = {storage._cdata for storage, _ in changed}
        for label, value in arguments:
            if any(tensor.untyped_storage()._cdata in touched for tensor in _tensors(value)):
                self.changed_inputs.append(label)
        if header.get("restructured") and not touched:
            self.changed_inputs.append("the shape of an argument")

    def _labelled(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """Arguments with their names."""
        for place, value in enumerate(args):
            yield self._parameters[place] if place < len(self._parameters) else f"argument {place + 1}", value
        yield from kwargs.items()

    def _described(self, request: dict[str, Any]) -> str:
        """The tensors of a request, as a person would write them: "Q (3, 4, 5), K (3, 6, 5) in float64"."""
        rows = request["tensors"]
        shapes = [
            f"{label} {tuple(rows[number]['n'])}"
            for label, tree in self._labelled(request["args"]["v"], dict(request["kwargs"]["v"]))
            for number in _numbers(tree)
        ]
        dtypes = ", ".join(dict.fromkeys(row["d"] for row in rows))
        return f"{', '.join(shapes)} in {dtypes}" if rows else ""

    def _take_freed(self) -> list[int]:
        freed, self._freed = self._freed, []
        return freed


def _differentiable_outputs(result: Any, decoder: Decoder, inputs: Sequence[torch.Tensor]) -> list[int]:
    """Numbers of the result's tensors that carry gradients; an input that is handed back carries its own."""
    shown = {id(tensor) for tensor in _tensors(result)}
    carrying = decoder.differentiable | {number for number, tensor in enumerate(inputs) if tensor.requires_grad}
    return sorted(number for number in carrying if id(decoder.tensors[number]) in shown)


class _Graph:
    """Holds a call's graph on the other side for as long as a result of ours needs it (not at all, mostly)."""

    def __init__(self, student: Student, call: Call) -> None:
        self.student, self.call = student, call

    def __del__(self) -> None:
        self.student._freed.append(self.call.request[0]["id"])


class _Bridge(torch.autograd.Function):
    """Ties the results of a remote call to its inputs in our graph."""

    @staticmethod
    def forward(ctx: Any, graph: _Graph, numbers: list[int], outputs: list[torch.Tensor], *inputs: torch.Tensor) -> Any:
        ctx.graph, ctx.numbers = graph, numbers
        ctx.set_materialize_grads(False)
        # Fresh views: a result may be an input itself, which autograd would otherwise treat as unchanged.
        return tuple(output.view_as(output) for output in outputs)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: torch.Tensor | None) -> Any:
        graph: _Graph = ctx.graph
        wanted = [(n, g) for n, g in zip(ctx.numbers, grads, strict=True) if g is not None]
        found = graph.student.backward(graph.call, [n for n, _ in wanted], [g for _, g in wanted])
        return None, None, None, *found


def _raised(raised: dict[str, Any], called_with: str) -> StudentRaised:
    return StudentRaised(
        raised["type"],
        tuple(raised["bases"]),
        raised["text"],
        raised["line"],
        raised["code"],
        called_with,
        raised["by_hand"],
    )


def _numbers(tree: Any) -> Iterator[int]:
    """The numbers of the tensors in a value's tree (see `Encoder.value`)."""
    if isinstance(tree, list):
        for item in tree:
            yield from _numbers(item)
    elif isinstance(tree, dict) and tree["t"] == "tensor":
        yield tree["i"]
    elif isinstance(tree, dict):
        yield from _numbers(tree.get("v", []))


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))


def _map_tensors(value: Any, function: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, list | tuple):
        return type(value)(_map_tensors(item, function) for item in value)
    if isinstance(value, dict):
        return {key: _map_tensors(item, function) for key, item in value.items()}
    return value
