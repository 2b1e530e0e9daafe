"""Which famous mistake was made: the known mistake that a student's function *equals*.

Equal means: on every recorded call of the exercise, replayed on fresh copies of its inputs, backward passes and
changed inputs included. A function that equals a correct answer on all of them has made no mistake that we know.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from autograder.channel.codec import Decoder
from autograder.channel.proxy import Call
from autograder.channel.replies import Frame, exception, read_gradients, read_reply, weight
from autograder.examiner.patience import says_no_memory
from autograder.suite import Mistake
from autograder.suite._catalogue import Answer
from autograder.worker.calls import Callee

TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-4, torch.complex128: 1e-6, torch.complex64: 1e-4}
REFUSALS = {"ValueError", "AssertionError"}
"""What a function raises where the exercise asks for an error."""

SAID_BYTES = 1 << 10
"""What the smallest answer of a function takes while it is kept."""
COARSE = 3e-2
"""For bfloat16 and float16: a reordered sum differs by that much."""


def find_mistake(
    calls: Sequence[Call], mistakes: Sequence[Mistake], reference: Answer, made_by: Answer | None = None
) -> Mistake | None:
    """The known mistake that equals the function whose calls were recorded, or None.

    Args:
        calls: what was recorded.
        mistakes: the known ones, in the order in which they are looked for.
        reference: a correct answer.
        made_by: one of our own functions, if it is the one whose calls these are: it is not asked the same again.
    """
    return next(find_mistakes(calls, mistakes, reference, made_by), None)


def find_mistakes(
    calls: Sequence[Call], mistakes: Sequence[Mistake], reference: Answer, made_by: Answer | None = None
) -> Iterator[Mistake]:
    """All known mistakes that equal it; none where it equals the reference."""
    recorded = [_Recorded(call, reference) for call in calls]
    if made_by is not None:
        for one in recorded:
            _told.keep(made_by, one.asked, one.said)
    unlike_reference = [one for one in recorded if not _same_call(reference, one)]
    if unlike_reference:
        # Where a function is wrong it is wrong in its own way: the first such call parts nearly all candidates from it.
        telling = [unlike_reference[0], *(one for one in recorded if one is not unlike_reference[0])]
        yield from (mistake for mistake in mistakes if _same_calls(mistake.answer, telling))


def equals(answer: Answer, calls: Sequence[Call], reference: Answer) -> bool:
    """Whether `answer` does on all recorded calls what the student's function did.

    Where an error is due, which is where `reference` raises one, any refusal is as good as any other.
    """
    return _same_calls(answer, [_Recorded(call, reference) for call in calls])


Gradients = list[torch.Tensor | None]


@dataclass(frozen=True)
class _Said:
    """What a call came to.

    Attributes:
        raised: the exception's description, or None.
        restructured: whether the arguments are other objects now.
        content: all that the reply holds.
        backwards: of each backward pass, the gradients, or what it raised.
        size: how much memory this takes, in bytes, roughly.
    """

    raised: dict[str, Any] | None
    restructured: Any
    content: list[Any]
    backwards: tuple[Gradients | dict[str, Any], ...]
    size: int


class _Asked:
    """What a call and its backward passes asked; equal digests ask the same of a function."""

    def __init__(self, call: Call) -> None:
        self.request, self.backwards = call.request, [request for request, _ in call.backwards]
        self.size = sum(len(blob) for _, blob in (self.request, *self.backwards))
        digest = hashlib.blake2b(digest_size=16)
        for header, blob in (self.request, *self.backwards):
            # Not msgspec: it writes NaN as null, which is another argument.
            asked = json.dumps({name: value for name, value in header.items() if name not in _MEANINGLESS})
            digest.update(f"{len(asked)} {len(blob)} {asked}".encode() + bytes(blob))
        self.digest = digest.digest()

    @functools.cached_property
    def inputs(self) -> Decoder:
        """The arguments, decoded once for all replies that refer to them."""
        return Decoder(*self.request)


_MEANINGLESS = ("id", "call", "free", "watch")
"""What stands in a request without a meaning for the function."""


class _Recorded:
    """A recorded call: what was asked, and what the student's function came to, read once for all candidates."""

    def __init__(self, call: Call, reference: Answer) -> None:
        self.asked = _Asked(call)
        self.error_is_due = _refuses(_said(reference, self.asked))
        self.said = _read(call.reply, self.asked, [reply for _, reply in call.backwards])


def _same_calls(answer: Answer, recorded: Sequence[_Recorded]) -> bool:
    return all(_same_call(answer, one) for one in recorded)


def _same_call(answer: Answer, recorded: _Recorded) -> bool:
    ours, theirs = _said(answer, recorded.asked), recorded.said
    if recorded.error_is_due and _refuses(ours) and _refuses(theirs):
        return True
    if ours.raised is not None or theirs.raised is not None:
        return _same_exception(ours.raised, theirs.raised)
    if ours.restructured != theirs.restructured or not _same(ours.content, theirs.content):
        return False
    return all(map(_same_gradients, ours.backwards, theirs.backwards))


def _refuses(said: _Said) -> bool:
    # Its words are its author's, and either class will do.
    return said.raised is not None and not REFUSALS.isdisjoint(said.raised.get("bases", ()))


def _same_gradients(ours: Gradients | dict[str, Any], theirs: Gradients | dict[str, Any]) -> bool:
    if isinstance(ours, dict) or isinstance(theirs, dict):
        return _same_exception(ours, theirs)
    return _same(ours, theirs)


MAX_TOLD_BYTES = 256 << 20
"""Of all that is kept, roughly."""
MAX_ASKED_BYTES = 1 << 20
"""Of one request: what a student's results have made large is not asked again."""


class _Told:
    """What our own functions came to: under one seed every submission is asked the same, until its answers differ."""

    def __init__(self) -> None:
        self.said: OrderedDict[tuple[Answer, bytes], _Said] = OrderedDict()
        self.bytes = 0

    def of(self, answer: Answer, asked: _Asked) -> _Said | None:
        key = answer, asked.digest
        if key in self.said:
            self.said.move_to_end(key)
        return self.said.get(key)

    def keep(self, answer: Answer, asked: _Asked, said: _Said) -> None:
        if asked.size > MAX_ASKED_BYTES:
            return
        key = answer, asked.digest
        if key in self.said:
            self.bytes -= self.said.pop(key).size
        self.said[key] = said
        self.bytes += said.size
        while self.bytes > MAX_TOLD_BYTES:
            self.bytes -= self.said.popitem(last=False)[1].size


_told = _Told()


def _said(answer: Answer, asked: _Asked) -> _Said:
    known = _told.of(answer, asked)
    if known is not None:
        return known
    callee, (header, blob) = Callee(), asked.request
    reply = _frame(callee.call(answer, header, blob))
    backwards = [_frame(callee.backward(*request)) for request in asked.backwards]
    for answered, _ in (reply, *backwards):
        _expect_memory(answered.get("raised"))
    said = _read(reply, asked, backwards)
    _told.keep(answer, asked, said)
    return said


def _expect_memory(raised: dict[str, Any] | None) -> None:
    # It is we who have no more memory: that is no mistake, and another time it will not be so.
    if raised is not None and says_no_memory(raised["bases"], raised["text"]):
        raise MemoryError(raised["text"])


def _read(reply: Frame, asked: _Asked, backwards: Sequence[Frame]) -> _Said:
    header, _ = reply
    size = SAID_BYTES + sum(weight(frame) for frame in (reply, *backwards))
    if "raised" in header:
        return _Said(exception(header["raised"]) or {}, None, [], (), size)
    content, more = _content(reply, asked)
    gradients: list[Gradients | dict[str, Any]] = []
    for backward in backwards:
        raised = exception(backward[0].get("raised"))
        found, taken = ([], 0) if raised else read_gradients(backward)
        gradients.append(raised or found)
        more += taken
    return _Said(None, header.get("restructured"), content, tuple(gradients), size + more)


def _same_exception(ours: Any, theirs: Any) -> bool:
    # The text as well: "RuntimeError" alone would make one mistake of everything that does not fit.
    if not isinstance(ours, dict) or not isinstance(theirs, dict):
        return False
    return bool(ours.get("bases") == theirs.get("bases") and ours.get("text") == theirs.get("text"))


def _content(reply: Frame, asked: _Asked) -> tuple[list[Any], int]:
    """All that a reply says, decoded: the result, which of its tensors carry gradients, and the changed inputs.

    How much memory it takes beside its bytes is the second.
    """
    inputs = asked.inputs
    result, decoder, changed = read_reply(reply, inputs.tensors, inputs.storages)
    dtype_of = {row["s"]: row["d"] for row in asked.request[0]["tensors"]}
    numbers = {storage._cdata: number for number, storage in enumerate(inputs.storages)}
    after = [
        [number := numbers[storage._cdata], _as_tensor(data, dtype_of.get(number, "uint8"))]
        for storage, data in changed
    ]
    return [result, sorted(decoder.differentiable), after], decoder.weight


def _as_tensor(data: memoryview, dtype: str) -> torch.Tensor:
    return torch.frombuffer(bytearray(data), dtype=getattr(torch, dtype)) if len(data) else torch.empty(0)


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and _close(a, b)
    if type(a) is not type(b):
        return False
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        return list(a) == list(b) and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, float):
        return a == b or abs(a - b) <= 1e-7 * max(1.0, abs(a)) or (a != a and b != b)
    return bool(a == b)


def _close(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if not (a.is_floating_point() or a.is_complex()):
        return torch.equal(a, b)
    tolerance = TOLERANCE.get(a.dtype, COARSE)
    return torch.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)


def _frame(reply: tuple[dict[str, Any], list[Any]]) -> Frame:
    header, blobs = reply
    return header, b"".join(bytes(blob) for blob in blobs)
