"""Which famous mistake was made: the known mistake that a student's function *equals*.

Equal means: on every recorded call of the exercise, replayed on fresh copies of its inputs, backward passes and
changed inputs included. A function that equals a correct answer on all of them has made no mistake that we know.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from autograder.channel.codec import Decoder
from autograder.channel.proxy import Call, Frame, read_gradients, read_reply
from autograder.suite import Mistake
from autograder.suite._catalogue import Answer
from autograder.worker.calls import Callee

TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-4, torch.complex128: 1e-6, torch.complex64: 1e-4}
COARSE = 3e-2
"""For bfloat16 and float16: a reordered sum differs by that much."""


def find_mistake(calls: Sequence[Call], mistakes: Sequence[Mistake], reference: Answer) -> Mistake | None:
    """The known mistake that equals the function whose calls were recorded, or None."""
    if not calls:
        return None
    for mistake in mistakes:
        if equals(mistake.answer, calls):
            return None if equals(reference, calls) else mistake
    return None


def equals(answer: Answer, calls: Sequence[Call]) -> bool:
    """Whether `answer` does on all recorded calls what the student's function did."""
    callee = Callee()
    # The last calls are the most demanding ones: most candidates part from the student's function there.
    return all(_same_call(answer, callee, call) for call in reversed(calls))


def _same_call(answer: Answer, callee: Callee, call: Call) -> bool:
    header, blob = call.request
    ours = _frame(callee.call(answer, header, blob))
    if not _same_reply(ours, call.reply, call.request):
        return False
    for request, reply in call.backwards:
        try:
            replayed = _frame(callee.backward(*request))
        except (RuntimeError, IndexError):  # there is no such output, or it carries no gradients
            return False
        if "raised" in replayed[0] or "raised" in reply[0]:
            return bool(replayed[0].get("raised") == reply[0].get("raised"))
        if not _same(read_gradients(replayed), read_gradients(reply)):
            return False
    callee.free([header["id"]])
    return True


def _same_reply(ours: Frame, theirs: Frame, request: Frame) -> bool:
    if "raised" in ours[0] or "raised" in theirs[0]:
        return _same_exception(ours[0].get("raised"), theirs[0].get("raised"))
    if ours[0]["restructured"] != theirs[0].get("restructured"):
        return False
    return _same(_content(ours, request), _content(theirs, request))


def _same_exception(ours: Any, theirs: Any) -> bool:
    # The text as well: "RuntimeError" alone would make one mistake of everything that does not fit.
    if not isinstance(ours, dict) or not isinstance(theirs, dict):
        return False
    return bool(ours["bases"] == theirs.get("bases") and ours["text"] == theirs.get("text"))


def _content(reply: Frame, request: Frame) -> list[Any]:
    """All that a reply says, decoded: the result, which of its tensors carry gradients, and the changed inputs."""
    inputs = Decoder(*request)
    result, decoder, changed = read_reply(reply, inputs.tensors, inputs.storages)
    dtype_of = {row["s"]: row["d"] for row in request[0]["tensors"]}
    numbers = {storage._cdata: number for number, storage in enumerate(inputs.storages)}
    after = [
        [number := numbers[storage._cdata], _as_tensor(data, dtype_of.get(number, "uint8"))]
        for storage, data in changed
    ]
    return [result, sorted(decoder.differentiable), after]


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
