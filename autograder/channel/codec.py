"""Values as bytes: a JSON tree, a table of tensors, and the storages that the tensors look into.

Tensors keep dtype, shape, strides, offset and *aliasing*: one tensor passed three times arrives as one tensor, two
views of one storage arrive as two views of one storage. Decoding trusts nothing: every number is checked against the
bytes that really came. What can't cross arrives as `Unsupported`, with a plain reason.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy
import torch

from autograder.channel import raw, words
from autograder.channel.frames import MAX_BLOB, Buffer, ProtocolError

DTYPES: dict[str, torch.dtype] = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
        torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128,
    )
}  # fmt: skip
DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}
ALL_DTYPES = {str(dtype): dtype for dtype in vars(torch).values() if isinstance(dtype, torch.dtype)}
"""Those that may be named, as an argument is; tensors come in the others."""
MAX_DEPTH = 8
MAX_ITEMS = 10_000
MAX_TEXT = 64 << 10
MAX_AXES = 16
MAX_INT_BITS = 256
ITEM_BYTES = 512
"""What a value or a tensor's row takes in Python, at most, apart from texts, axes, and numbers in storages."""
NUMBER_BYTES = 48
"""What a number in a list takes, such as a storage's size."""
REASONS = frozenset(
    ("numpy", "generator", "sparse", "meta", "quantized", "subclass", "dtype", "too_large", "too_deep", "other")
)

_NUMPY_NUMBERS = numpy.integer, numpy.floating, numpy.bool_
_PLAIN = (int, int.__int__), (float, float.__float__), (str, str.__str__)


@dataclass(frozen=True)
class Unsupported:
    """A value that can't cross the border.

    Attributes:
        type_name: what it was, such as ``numpy.ndarray``; it looks like a name, whatever it was.
        reason: one of `REASONS`.
    """

    type_name: str
    reason: str


class Storages:
    """The storages of one side of an exchange, numbered in the order in which they were met."""

    def __init__(self, known: Sequence[torch.UntypedStorage] = ()) -> None:
        self.known = list(known)
        self._numbers = {raw.address_of(storage): number for number, storage in enumerate(self.known)}

    def number(self, storage: torch.UntypedStorage) -> int:
        """The number of a storage; a new one where it was not met before."""
        # The address of the C++ storage tells storages apart even where they are empty.
        number = self._numbers.setdefault(raw.address_of(storage), len(self.known))
        if number == len(self.known):
            self.known.append(storage)
        return number

    def number_of(self, storage: torch.UntypedStorage) -> int | None:
        """The number of a storage, or None where it was not met before."""
        return self._numbers.get(raw.address_of(storage))


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
        """The JSON tree of a value. Nothing that its class defines is asked."""
        kind = type(value)
        if depth > MAX_DEPTH:
            return _unsupported(kind, "too_deep")
        # A container that is too long is refused whole: a million items would be a million refusals.
        items = self._items + raw.length_of(value, kind) + (depth == 0)
        if items > MAX_ITEMS:
            return _unsupported(kind, "too_large")
        self._items = items
        if value is None or kind is bool:
            return value
        if kind is float:
            return value if math.isfinite(value) else {"t": "float", "v": str(value)}  # JSON has no such numbers
        if kind is int:
            return value if value.bit_length() <= MAX_INT_BITS else _unsupported(kind, "too_large")
        if kind is str:
            self._text += len(value)
            return value if self._text <= MAX_TEXT else _unsupported(kind, "too_large")
        if issubclass(kind, torch.Tensor):
            return self._tensor(value, kind)
        if kind is torch.dtype:
            return {"t": "dtype", "v": str(value)}
        if issubclass(kind, tuple | list):
            name, of = ("tuple", tuple.__iter__) if issubclass(kind, tuple) else ("list", list.__iter__)
            return {"t": name, "v": [self.value(item, depth + 1) for item in of(value)]}
        if issubclass(kind, dict):
            pairs = dict.items(value)
            return {
                "t": "dict",
                "v": [[self.value(k, depth + 1), self.value(v, depth + 1)] for k, v in pairs],
            }
        if issubclass(kind, _NUMPY_NUMBERS):
            return self.value(numpy.generic.item(value), depth + 1)  # as good as a Python number
        for base, plain in _PLAIN:  # an IntEnum, a str subclass
            if issubclass(kind, base):
                return self.value(plain(value), depth + 1)
        return _unsupported(kind, _reason(kind))

    def tables(self) -> tuple[dict[str, Any], list[Buffer]]:
        """The tables of the new tensors and storages for the frame's header, and its blob in pieces."""
        rows = []
        for tensor in self.tensors[self._first_new :]:
            number = self.storages.number(raw.storage_of(tensor))
            start = self._spans[number][0] if number >= self._shared else 0
            rows.append(
                {
                    "s": number,
                    "d": DTYPE_NAMES[tensor.dtype],
                    "n": list(tensor.shape),
                    "k": list(raw.strides_of(tensor)),
                    # Where an empty tensor begins says nothing, and may be beyond the bytes that are sent.
                    "o": raw.offset_of(tensor) - start // raw.item_bytes(tensor) if raw.count_of(tensor) else 0,
                    "g": tensor.requires_grad,
                }
            )
        new = range(self._shared, len(self.storages.known))
        blobs: list[Buffer] = [storage_bytes(self.storages.known[number], self._spans[number]) for number in new]
        return {"tensors": rows, "storages": [len(blob) for blob in blobs]}, blobs

    @property
    def weight(self) -> int:
        """How much memory the tables and the trees take, in bytes, roughly; the blob apart."""
        return _weight(self._text, self._items, self.tensors, self.storages.known)

    def _tensor(self, tensor: torch.Tensor, kind: type) -> Any:
        number = self._numbers.get(id(tensor))
        if number is None:
            try:
                why = tensor_reason(tensor)
                original, tensor = tensor, tensor if why else raw.resolved(tensor)
                if not why and not self._reserve(tensor):
                    why = "too_large"
            except (RuntimeError, NotImplementedError):  # one that `vmap` left behind, and the like: no bytes to send
                why = "other"
            if why:
                return _unsupported(kind, why)
            number = self._numbers[id(original)] = len(self.tensors)
            self.tensors.append(tensor)
            self._originals.append(original)
        return {"t": "tensor", "i": number}

    def _reserve(self, tensor: torch.Tensor) -> bool:
        """Take a tensor's bytes into the frame, unless it would grow beyond its limit."""
        # The other side counts what tensors claim (an expanded one claims more than it has), the frame what is sent.
        claimed = self._claimed + _extent(tensor.shape) * raw.item_bytes(tensor)
        storage = raw.storage_of(tensor)
        number = self.storages.number_of(storage)
        sent, span = self._sent, (0, 0)
        if number is None or number >= self._shared:
            span = (0, raw.size_of(storage)) if self._whole else raw.span(tensor)
            before = self._spans.get(number, (0, 0)) if number is not None else (0, 0)
            span = raw.union(before, span)
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
        self._bytes = self._items = self._text = 0
        self.differentiable: set[int] = set()
        """Numbers of the tensors that required gradients on the other side; here none does, until it is asked to."""
        for row in rows:
            tensor = self._tensor(row)
            if row["g"] and (tensor.is_floating_point() or tensor.is_complex()):
                self.differentiable.add(len(self.tensors))
            self.tensors.append(tensor)

    def value(self, tree: Any, depth: int = 0) -> Any:
        """The value of a JSON tree."""
        self._items += 1
        if self._items > MAX_ITEMS:
            raise ProtocolError("a frame holds too many values")
        if tree is None or isinstance(tree, bool | int | float):
            if type(tree) is int and tree.bit_length() > MAX_INT_BITS:  # no float holds it
                raise ProtocolError("a whole number is too large")
            return tree
        if isinstance(tree, str):
            return self._counted(tree)
        if depth > MAX_DEPTH + 1 or not isinstance(tree, dict) or len(tree) != 2 + (tree.get("t") == "other"):
            raise ProtocolError("a value has an unknown form")
        kind, content = tree.get("t"), tree.get("v")
        if kind == "tensor":
            number = tree.get("i")
            if not _is_count(number) or number >= len(self.tensors):
                raise ProtocolError("a value names a tensor that did not come")
            return self.tensors[number]
        if kind == "other":
            name, why = tree.get("type"), tree.get("why")
            if not isinstance(name, str) or not isinstance(why, str):
                raise ProtocolError("a value that can't cross came without its type or reason")
            return Unsupported(words.name(self._counted(name)), why if self._counted(why) in REASONS else "other")
        if kind == "dtype" and isinstance(content, str) and content in ALL_DTYPES:
            return ALL_DTYPES[content]
        if kind == "float" and content in ("nan", "inf", "-inf"):
            return float(content)
        if not isinstance(content, list):
            raise ProtocolError("a container has no list of items")
        if kind in ("list", "tuple"):
            items = [self.value(item, depth + 1) for item in content]
            return items if kind == "list" else tuple(items)
        if kind == "dict":
            return self._dict(content, depth)
        raise ProtocolError("a value has an unknown kind")

    @property
    def weight(self) -> int:
        """How much memory the tables and the values take, in bytes, roughly; the storages apart."""
        return _weight(self._text, self._items, self.tensors, self.storages)

    def _counted(self, text: str) -> str:
        self._text += len(text)
        if self._text > MAX_TEXT:
            raise ProtocolError("a frame holds too much text")
        return text

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
        if not isinstance(row, dict) or len(row) != 6 or type(row.get("g")) is not bool:
            raise ProtocolError("a tensor's row is no object of the known form")
        dtype_name, number, offset = row.get("d"), row.get("s"), row.get("o")
        dtype = DTYPES.get(dtype_name) if isinstance(dtype_name, str) else None
        shape, strides = row.get("n"), row.get("k")
        if (
            dtype is None or not _is_count(number) or number >= len(self.storages) or not _is_count(offset)
            or not isinstance(shape, list) or not isinstance(strides, list) or len(shape) != len(strides)
            or len(shape) > MAX_AXES
        ):  # fmt: skip
            raise ProtocolError("a tensor's row does not describe a tensor")
        storage, end = self.storages[number], offset + 1
        for n, k in zip(shape, strides, strict=True):
            if not _is_count(n) or not _is_count(k):
                raise ProtocolError("a tensor's row does not describe a tensor")
            end += (n - 1) * k
        if 0 in shape:
            end = offset
        self._bytes += _extent(shape) * dtype.itemsize
        # An expanded tensor needs few bytes and can still claim billions of elements: the claim is what costs us.
        if end * dtype.itemsize > raw.size_of(storage) or self._bytes > MAX_BLOB:
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


def storage_bytes(storage: torch.UntypedStorage, span: tuple[int, int] | None = None) -> bytes:
    """A copy of a storage's bytes; `span`: the first one that is wanted, and the one behind the last."""
    start, end = (0, raw.size_of(storage)) if span is None else span
    # A tensor over the storage takes ten times as long to make.
    return ctypes.string_at(raw.memory_of(storage) + start, end - start)


def overwrite(storage: torch.UntypedStorage, data: Buffer) -> None:
    """Put `data` into a storage of the same size, behind autograd's back."""
    torch.empty(0, dtype=torch.uint8).set_(storage).numpy().data[:] = data


def tensor_reason(tensor: torch.Tensor) -> str | None:
    """Why a tensor can't cross the border, or None when it can."""
    if type(tensor) is not torch.Tensor and type(tensor) is not torch.nn.Parameter:
        return "subclass"
    if tensor.is_quantized:
        return "quantized"
    if tensor.layout is not torch.strided or tensor.is_nested:
        return "sparse"
    if tensor.is_meta:
        return "meta"
    if not tensor.is_cpu:
        return "other"
    if raw.span(tensor)[1] > raw.size_of(raw.storage_of(tensor)):  # what a `resize_` that failed leaves behind
        return "other"
    return None if tensor.dtype in DTYPE_NAMES else "dtype"


def _weight(text: int, items: int, tensors: Sequence[torch.Tensor], storages: Sequence[torch.UntypedStorage]) -> int:
    axes = sum(tensor.dim() for tensor in tensors)
    return text * 4 + (items + len(tensors)) * ITEM_BYTES + (2 * axes + len(storages)) * NUMBER_BYTES


def _extent(shape: Sequence[int]) -> int:
    """How many elements a shape has, or would have without its empty axes: sums over those are as large."""
    return math.prod([n or 1 for n in shape])


def _storage(data: memoryview) -> torch.UntypedStorage:
    if not len(data):
        storage = torch.UntypedStorage(0)
        torch.empty(0, dtype=torch.uint8).set_(storage).numpy()  # from now on it can't be resized, as no other can
        return storage
    return torch.frombuffer(bytearray(data), dtype=torch.uint8).untyped_storage()


def _unsupported(kind: type, reason: str) -> dict[str, Any]:
    return {"t": "other", "type": words.name(raw.type_name(kind)), "why": reason}


def _reason(kind: type) -> str:
    if issubclass(kind, numpy.ndarray):
        return "numpy"
    return "generator" if raw.offers(kind, "__next__") else "other"


def _is_count(value: Any) -> TypeGuard[int]:
    return type(value) is int and 0 <= value < 1 << 62
