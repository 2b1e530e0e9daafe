"""Values as bytes: a JSON tree, a table of tensors, and the storages that the tensors look into.

Tensors keep dtype, shape, strides, offset and *aliasing*: one tensor passed three times arrives as one tensor, two
views of one storage arrive as two views of one storage. Decoding trusts nothing: every number is checked against the
bytes that really came. What can't cross arrives as `Unsupported`, with a plain reason.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy
import torch

from autograder.channel.frames import MAX_BLOB, Buffer, ProtocolError

DTYPES: dict[str, torch.dtype] = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
        torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128,
    )
}  # fmt: skip
MAX_DEPTH = 8
MAX_ITEMS = 10_000
MAX_TEXT = 64 << 10
MAX_AXES = 16
MAX_INT_BITS = 256


@dataclass(frozen=True)
class Unsupported:
    """A value that can't cross the border.

    Attributes:
        type_name: what it was, such as ``numpy.ndarray``.
        reason: ``numpy``, ``generator``, ``sparse``, ``meta``, ``quantized``, ``subclass``, ``dtype``,
            ``too_large``, ``too_deep`` or ``other``.
    """

    type_name: str
    reason: str


class Storages:
    """The storages of one side of an exchange, numbered in the order in which they were met."""

    def __init__(self, known: Sequence[torch.UntypedStorage] = ()) -> None:
        self.known = list(known)
        self._numbers = {storage._cdata: number for number, storage in enumerate(self.known)}

    def number(self, storage: torch.UntypedStorage) -> int:
        """The number of a storage; a new one where it was not met before."""
        # `_cdata` is the address of the C++ storage: it tells storages apart even where they are empty.
        number = self._numbers.setdefault(storage._cdata, len(self.known))
        if number == len(self.known):
            self.known.append(storage)
        return number

    def number_of(self, storage: torch.UntypedStorage) -> int | None:
        """The number of a storage, or None where it was not met before."""
        return self._numbers.get(storage._cdata)


class Encoder:
    """Encodes values into one frame; `tensors` and `storages` grow with every value.

    Args:
        tensors: tensors that both sides know already, by number (the inputs, when a reply is encoded).
        storages: their storages; bytes are sent only for storages beyond these.
        whole: send storages whole, so that numbers and places mean the same on both sides (for inputs, which the
            other side may change); else only the bytes that a tensor looks at (for results).
    """

    def __init__(
        self,
        tensors: Sequence[torch.Tensor] = (),
        storages: Sequence[torch.UntypedStorage] = (),
        *,
        whole: bool = False,
    ) -> None:
        self._whole = whole
        self.tensors = list(tensors)
        self.storages = Storages(storages)
        self._shared = len(self.storages.known)
        self._numbers = {id(tensor): number for number, tensor in enumerate(self.tensors)}
        self._originals: list[torch.Tensor] = []  # kept alive: an `id` tells tensors apart only while both exist
        self._first_new = len(self.tensors)
        self._spans: dict[int, tuple[int, int]] = {}  # first and last byte to send, by number of a new storage
        self._items = 0
        self._sent = 0
        self._claimed = 0
        self._text = 0

    def value(self, value: Any, depth: int = 0) -> Any:
        """The JSON tree of a value."""
        self._items += 1
        # A container that is too long is refused whole: a million items would be a million refusals.
        if self._items + _length(value) > MAX_ITEMS:
            return _unsupported(value, "too_large")
        if depth > MAX_DEPTH:
            return _unsupported(value, "too_deep")
        if value is None or type(value) is bool or type(value) is float:
            return value
        if type(value) is int:
            return value if value.bit_length() <= MAX_INT_BITS else _unsupported(value, "too_large")
        if type(value) is str:
            self._text += len(value)
            return value if self._text <= MAX_TEXT else _unsupported(value, "too_large")
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, (numpy.integer, numpy.floating, numpy.bool_)):
            return self.value(value.item(), depth + 1)  # a numpy scalar is as good as a Python number
        if isinstance(value, bool | int | float | str):  # an IntEnum, a str subclass
            plain = int if isinstance(value, int) else float if isinstance(value, float) else str
            return self.value(plain(value), depth + 1)
        if isinstance(value, tuple | list):
            # The base class's own iterator: a subclass may have a mind of its own.
            kind, items = (
                ("tuple", tuple.__iter__(value)) if isinstance(value, tuple) else ("list", list.__iter__(value))
            )
            return {"t": kind, "v": [self.value(item, depth + 1) for item in items]}
        if isinstance(value, dict):
            pairs = dict.items(value)
            return {
                "t": "dict",
                "v": [[self.value(k, depth + 1), self.value(v, depth + 1)] for k, v in pairs],
            }
        return _unsupported(value, _reason(value))

    def tables(self) -> tuple[dict[str, Any], list[Buffer]]:
        """The tables of the new tensors and storages for the frame's header, and its blob in pieces."""
        rows = []
        for tensor in self.tensors[self._first_new :]:
            number = self.storages.number(tensor.untyped_storage())
            start = self._spans[number][0] if number >= self._shared else 0
            rows.append(
                {
                    "s": number,
                    "d": str(tensor.dtype).removeprefix("torch."),
                    "n": list(tensor.shape),
                    "k": list(tensor.stride()),
                    # Where an empty tensor begins says nothing, and may be beyond the bytes that are sent.
                    "o": tensor.storage_offset() - start // tensor.element_size() if tensor.numel() else 0,
                    "g": bool(tensor.requires_grad),
                }
            )
        new = range(self._shared, len(self.storages.known))
        blobs = [storage_bytes(self.storages.known[number])[slice(*self._spans[number])] for number in new]
        return {"tensors": rows, "storages": [len(blob) for blob in blobs]}, list(blobs)

    def _tensor(self, tensor: torch.Tensor) -> Any:
        number = self._numbers.get(id(tensor))
        if number is None:
            why = tensor_reason(tensor)
            if why:
                return _unsupported(tensor, why)
            original, tensor = tensor, _plain(tensor)
            if not self._reserve(tensor):
                return _unsupported(tensor, "too_large")
            number = self._numbers[id(original)] = len(self.tensors)
            self.tensors.append(tensor)
            self._originals.append(original)
        return {"t": "tensor", "i": number}

    def _reserve(self, tensor: torch.Tensor) -> bool:
        """Take a tensor's bytes into the frame, unless it would grow beyond its limit."""
        # The other side counts what tensors claim (an expanded one claims more than it has), the frame what is sent.
        claimed = self._claimed + _extent(tensor.shape) * tensor.element_size()
        storage = tensor.untyped_storage()
        number = self.storages.number_of(storage)
        sent, span = self._sent, (0, 0)
        if number is None or number >= self._shared:
            span = (0, storage.nbytes()) if self._whole else _span(tensor)
            before = self._spans.get(number, (0, 0)) if number is not None else (0, 0)
            span = _union(before, span)
            sent += (span[1] - span[0]) - (before[1] - before[0])
        if max(claimed, sent) > MAX_BLOB:
            return False
        self._claimed, self._sent = claimed, sent
        number = self.storages.number(storage)
        if number >= self._shared:
            self._spans[number] = span
        return True


class Decoder:
    """Decodes what an `Encoder` on the other side made of its values.

    Args:
        tables: the frame's header, with ``tensors`` and ``storages``.
        blob: the frame's blob.
        tensors, storages: what both sides know already, as in `Encoder`.

    Raises:
        ProtocolError: the tables do not fit the bytes.
    """

    def __init__(
        self,
        tables: dict[str, Any],
        blob: Buffer,
        tensors: Sequence[torch.Tensor] = (),
        storages: Sequence[torch.UntypedStorage] = (),
    ) -> None:
        sizes = tables.get("storages")
        rows = tables.get("tensors")
        if not isinstance(sizes, list) or not isinstance(rows, list):
            raise ProtocolError("a frame lacks its tables")
        if max(len(rows), len(sizes)) > MAX_ITEMS:
            raise ProtocolError("a frame's tables are too long")
        if not all(_is_count(size) for size in sizes) or sum(sizes) != len(blob):
            raise ProtocolError("the storages do not add up to the bytes that came")
        self.storages = list(storages)
        start = 0
        for size in sizes:
            self.storages.append(_storage(memoryview(blob)[start : start + size]))
            start += size
        self.tensors = list(tensors)
        self._bytes = 0
        self.differentiable: set[int] = set()
        """Numbers of the tensors that required gradients on the other side; here none does, until it is asked to."""
        for row in rows:
            tensor = self._tensor(row)
            if row.get("g") is True and (tensor.is_floating_point() or tensor.is_complex()):
                self.differentiable.add(len(self.tensors))
            self.tensors.append(tensor)

    def value(self, tree: Any, depth: int = 0) -> Any:
        """The value of a JSON tree."""
        if tree is None or isinstance(tree, bool | int | float | str):
            if type(tree) is int and tree.bit_length() > MAX_INT_BITS:  # no float holds it
                raise ProtocolError("a whole number is too large")
            return tree
        if depth > MAX_DEPTH + 1 or not isinstance(tree, dict):
            raise ProtocolError("a value has an unknown form")
        kind, content = tree.get("t"), tree.get("v")
        if kind == "tensor":
            number = tree.get("i")
            if not _is_count(number) or number >= len(self.tensors):
                raise ProtocolError("a value names a tensor that did not come")
            return self.tensors[number]
        if kind == "other":
            return Unsupported(_text(tree.get("type")), _text(tree.get("why")))
        if not isinstance(content, list):
            raise ProtocolError("a container has no list of items")
        if kind in ("list", "tuple"):
            items = [self.value(item, depth + 1) for item in content]
            return items if kind == "list" else tuple(items)
        if kind == "dict":
            return self._dict(content, depth)
        raise ProtocolError("a value has an unknown kind")

    def _dict(self, pairs: list[Any], depth: int) -> dict[Any, Any]:
        decoded = {}
        for pair in pairs:
            if not isinstance(pair, list) or len(pair) != 2:
                raise ProtocolError("a dict's item is no pair")
            key = self.value(pair[0], depth + 1)
            if not isinstance(key, bool | int | float | str | tuple | None):
                key = Unsupported(type(key).__name__, "other")
            try:
                decoded[key] = self.value(pair[1], depth + 1)
            except TypeError:  # a tuple that holds a list
                raise ProtocolError("a dict's key can't be one") from None
        return decoded

    def _tensor(self, row: Any) -> torch.Tensor:
        if not isinstance(row, dict):
            raise ProtocolError("a tensor's row is no object")
        dtype, number, offset = DTYPES.get(str(row.get("d"))), row.get("s"), row.get("o")
        shape, strides = row.get("n"), row.get("k")
        if (
            dtype is None or not _is_count(number) or number >= len(self.storages) or not _is_count(offset)
            or not isinstance(shape, list) or not isinstance(strides, list) or len(shape) != len(strides)
            or len(shape) > MAX_AXES or not all(_is_count(n) for n in shape + strides)
        ):  # fmt: skip
            raise ProtocolError("a tensor's row does not describe a tensor")
        storage, elements = self.storages[number], math.prod(shape)
        last = offset + sum((n - 1) * k for n, k in zip(shape, strides, strict=True)) if elements else offset - 1
        self._bytes += _extent(shape) * dtype.itemsize
        # An expanded tensor needs few bytes and can still claim billions of elements: the claim is what costs us.
        if (last + 1) * dtype.itemsize > storage.nbytes() or self._bytes > MAX_BLOB:
            raise ProtocolError("a tensor claims more than the bytes that came")
        tensor = torch.empty(0, dtype=dtype).set_(storage, offset, shape, strides)
        _check_bools(tensor)
        return tensor

    def check_bools(self) -> None:
        """Check once more that bool tensors hold nothing but 0 and 1, after bytes have been put into storages."""
        for tensor in self.tensors:
            _check_bools(tensor)


def _check_bools(tensor: torch.Tensor) -> None:
    # torch reads any other byte as undefined behaviour of C++.
    if tensor.dtype is torch.bool and tensor.numel() and int(tensor.view(torch.uint8).max()) > 1:
        raise ProtocolError("a bool tensor holds bytes that are neither 0 nor 1")


def storage_bytes(storage: torch.UntypedStorage) -> memoryview:
    """A storage's bytes, without a copy."""
    return torch.empty(0, dtype=torch.uint8).set_(storage).numpy().data


def overwrite(storage: torch.UntypedStorage, data: Buffer) -> None:
    """Put `data` into a storage of the same size, behind autograd's back."""
    storage_bytes(storage)[:] = data


def tensor_reason(tensor: torch.Tensor) -> str | None:
    """Why a tensor can't cross the border, or None when it can."""
    if type(tensor) is not torch.Tensor and type(tensor) is not torch.nn.Parameter:
        return "subclass"
    if tensor.is_quantized:
        return "quantized"
    if tensor.layout is not torch.strided or tensor.is_nested:
        return "sparse"
    if tensor.device.type == "meta":
        return "meta"
    if tensor.device.type != "cpu":
        return "other"
    if _span(tensor)[1] > tensor.untyped_storage().nbytes():  # what a `resize_` that failed leaves behind
        return "other"
    return None if str(tensor.dtype).removeprefix("torch.") in DTYPES else "dtype"


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    # Lazy conjugation and negation are flags, not bytes. Everything else keeps its strides.
    if tensor.is_conj() or tensor.is_neg():
        return tensor.resolve_conj().resolve_neg()
    return tensor


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """First and last byte, the last one excluded, of a tensor in its storage."""
    if tensor.numel() == 0:
        return 0, 0
    size, first = tensor.element_size(), tensor.storage_offset()
    last = first + sum((n - 1) * k for n, k in zip(tensor.shape, tensor.stride(), strict=True))
    # Rounded down to 16: views of other dtypes into the same storage keep whole offsets.
    return int(first * size // 16 * 16), int((last + 1) * size)


def _extent(shape: Sequence[int]) -> int:
    """How many elements a shape has, or would have without its empty axes: sums over those are as large."""
    return math.prod(max(n, 1) for n in shape)


def _union(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    """The smallest span around two; an empty one adds nothing."""
    if a[0] == a[1] or b[0] == b[1]:
        return b if a[0] == a[1] else a
    return min(a[0], b[0]), max(a[1], b[1])


def _length(value: Any) -> int:
    """How many items a container brings, by the base class's own count."""
    if isinstance(value, tuple | list):
        return tuple.__len__(value) if isinstance(value, tuple) else list.__len__(value)
    return 2 * dict.__len__(value) if isinstance(value, dict) else 0


def _storage(data: memoryview) -> torch.UntypedStorage:
    if not len(data):
        return torch.UntypedStorage(0)
    return torch.frombuffer(bytearray(data), dtype=torch.uint8).untyped_storage()


def _unsupported(value: Any, reason: str) -> dict[str, Any]:
    kind = type(value)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return {"t": "other", "type": f"{module}{kind.__qualname__}"[:200], "why": reason}


def _reason(value: Any) -> str:
    if isinstance(value, numpy.ndarray):
        return "numpy"
    return "generator" if hasattr(type(value), "__next__") else "other"


def _is_count(value: Any) -> TypeGuard[int]:
    return type(value) is int and 0 <= value < 1 << 62


def _text(value: Any) -> str:
    return value[:200] if isinstance(value, str) else "?"
