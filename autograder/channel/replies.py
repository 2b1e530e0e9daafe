"""What is taken from a worker's replies about a function: known fields of known types, decoded and bounded.

The worker may write anything. What is kept of a reply is what was checked, and no more than is counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from autograder.channel import words
from autograder.channel.codec import Decoder
from autograder.channel.frames import ProtocolError

Frame = tuple[dict[str, Any], bytes | bytearray]

MAX_LINE_NUMBER = 1_000_000
MAX_BASES = 20
CALL_FIELDS = "tensors", "storages", "changed"
"""What is kept as it came of the reply to a call: `read_reply` has refused any other form of them."""
BACKWARD_FIELDS = "tensors", "storages", "grads"
"""The same of a backward pass, by `read_gradients`."""
EXCEPTION_BYTES = 16 << 10
"""What an exception's description takes, at most: four bytes for each character of its texts and names."""


def read_reply(
    reply: Frame, inputs: Sequence[torch.Tensor], storages: Sequence[torch.UntypedStorage]
) -> tuple[Any, Decoder, list[tuple[torch.UntypedStorage, memoryview]]]:
    """Decode a call's reply against the inputs of its request.

    Returns:
        The result (None when the function raised), the decoder, and the changed storages with their new bytes.

    Raises:
        ProtocolError: the reply makes no sense.
    """
    header, blob = reply
    sizes, numbers = header.get("storages"), header.get("changed")
    if not isinstance(sizes, list) or not all(type(size) is int and size >= 0 for size in sizes):
        raise ProtocolError("a reply lacks its storages")
    if not isinstance(numbers, list) or not all(type(number) is int for number in numbers):
        raise ProtocolError("a reply lacks its changed inputs")
    # Before they go into a set: whole numbers can be chosen so that all of them meet in one place.
    if not all(0 <= number < len(storages) for number in numbers):
        raise ProtocolError("a reply changes an input that was never sent")
    if len(set(numbers)) != len(numbers):
        raise ProtocolError("a reply changes an input twice")
    start, view = sum(sizes), memoryview(blob)
    decoder = Decoder(header, view[:start], [tensor.detach() for tensor in inputs], storages)
    changed = []
    for number in numbers:
        size = storages[number].nbytes()
        changed.append((storages[number], view[start : start + size]))
        start += size
    if start != len(view):
        raise ProtocolError("a reply's bytes do not add up")
    if "raised" not in header and "result" not in header:
        raise ProtocolError("a reply holds no result")
    return None if "raised" in header else decoder.value(header["result"]), decoder, changed


def read_gradients(reply: Frame) -> tuple[list[torch.Tensor | None], int]:
    """Decode the reply of a backward pass: the gradients, and how much memory they take beside their storages.

    Raises:
        ProtocolError: the reply makes no sense.
    """
    header, blob = reply
    decoder, trees = Decoder(header, blob), header.get("grads")
    if not isinstance(trees, list):
        raise ProtocolError("a reply holds no gradients")
    found = [decoder.value(tree) for tree in trees]
    if not all(grad is None or isinstance(grad, torch.Tensor) for grad in found):
        raise ProtocolError("a gradient is no tensor")
    return found, decoder.weight


def of_call(reply: Frame, watched: Sequence[str]) -> Frame:
    """What is kept of a call's reply that `read_reply` has read; `watched` are the names that it may say were called.

    Raises:
        ProtocolError: what it says beside its result makes no sense.
    """
    header, blob = reply
    known = _known(header, CALL_FIELDS, watched)
    known["restructured"] = bool(header.get("restructured"))
    known["passes"] = header["passes"] if type(header.get("passes")) is int and header["passes"] >= 0 else 0
    if "raised" not in known:
        known["result"] = header["result"]
    return known, blob


def of_backward(reply: Frame, watched: Sequence[str]) -> Frame:
    """What is kept of a backward pass' reply that `read_gradients` has read.

    Raises:
        ProtocolError: as in `of_call`.
    """
    header, blob = reply
    return _known(header, BACKWARD_FIELDS, watched), blob


def weight(frame: Frame) -> int:
    """How much memory a frame takes that is kept, in bytes, roughly; its values and tables apart."""
    header, blob = frame
    return len(blob) + ("raised" in header) * EXCEPTION_BYTES


def exception(value: Any) -> dict[str, Any] | None:
    """An exception's description in known types and bounded sizes; None where it is none. Nothing is raised."""
    if not isinstance(value, dict):
        return None
    text, line, bases = value.get("text"), value.get("line"), value.get("bases")
    return {
        "type": words.name(value.get("type"), unknown="Exception"),
        "bases": [words.name(base) for base in bases[:MAX_BASES]] if isinstance(bases, list) else [],
        "text": text[: words.MAX_TEXT] if isinstance(text, str) else "",
        "line": _line_number(line),
        "code": words.line(value.get("code")).replace("`", "'"),
        "by_hand": value.get("by_hand") is True,
    }


def _known(header: dict[str, Any], fields: Sequence[str], watched: Sequence[str]) -> dict[str, Any]:
    known = {name: header[name] for name in fields}
    if "forbidden" in header:
        known["forbidden"] = _first_sighting(header["forbidden"], watched)
    if "beside" in header:
        known["beside"] = _names(header["beside"], watched)
    if "raised" in header:
        known["raised"] = exception(header["raised"])
        if known["raised"] is None:
            raise ProtocolError("an exception came without its description")
    return known


def _names(seen: Any, watched: Sequence[str]) -> list[str]:
    if not isinstance(seen, list) or len(seen) > len(watched):
        raise ProtocolError("what was called beside makes no sense")
    return [name for name in watched if name in seen]


def _first_sighting(seen: Any, watched: Sequence[str]) -> tuple[str, int | None]:
    if not isinstance(seen, list) or not seen or not isinstance(seen[0], list) or len(seen[0]) != 2:
        raise ProtocolError("a forbidden call came without its description")
    name, line = seen[0]
    if name not in watched:
        raise ProtocolError("a forbidden call is of what was not asked for")
    return name, _line_number(line)


def _line_number(value: Any) -> int | None:
    return value if type(value) is int and 0 < value < MAX_LINE_NUMBER else None
