"""What an object is, past what its own class says of it: a student's class runs code whenever it is asked."""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _device

# Methods and slots of the base classes: an attribute of the object, or a class put over its own, may hide them.
storage_of = torch.Tensor.untyped_storage
strides_of = torch.Tensor.stride
offset_of = torch.Tensor.storage_offset
count_of = torch.Tensor.numel
item_bytes = torch.Tensor.element_size
is_contiguous = torch.Tensor.is_contiguous
size_of = torch.UntypedStorage.nbytes
memory_of = torch.UntypedStorage.data_ptr
address_of = torch._C.StorageBase._cdata.__get__  # type: ignore[attr-defined]
traceback_of = vars(BaseException)["__traceback__"].__get__

_bases = vars(type)["__mro__"].__get__
_namespace = vars(type)["__dict__"].__get__
_module = vars(type)["__module__"].__get__
_qualified_name = vars(type)["__qualname__"].__get__
_name = vars(type)["__name__"].__get__
_put_class = vars(object)["__class__"].__set__
_default_device = torch._GLOBAL_DEVICE_CONTEXT

_BUILTIN = {id(kind): name for name, kind in vars(builtins).items() if isinstance(kind, type)}


@contextmanager
def undisturbed() -> Iterator[None]:
    """Whatever mode or override a student left behind, torch does in here what torch does."""
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        yield


def type_name(kind: type) -> str:
    """A class's name with its module, such as ``numpy.ndarray``; a builtin's alone."""
    module, name = _module(kind), str.__str__(_qualified_name(kind))
    return name if type(module) is not str or module == "builtins" else f"{module}.{name}"


def short_name(kind: type) -> str:
    """A class's name alone."""
    return str.__str__(_name(kind))


def builtin_bases(kind: type) -> list[str]:
    """Python's own classes that a class descends from, `object` left out."""
    return [_BUILTIN[id(base)] for base in _bases(kind) if base is not object and id(base) in _BUILTIN]


def offers(kind: type, name: str) -> bool:
    """Whether a class has an attribute of that name."""
    return any(name in _namespace(base) for base in _bases(kind))


def make_plain(tensor: torch.Tensor) -> bool:
    """Whether another class was put over a tensor; it is taken off."""
    if type(tensor) is torch.Tensor:
        return False
    _put_class(tensor, torch.Tensor)
    return True


def resolved(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor with its numbers in its bytes: lazy conjugation and negation are flags."""
    if torch.Tensor.is_conj(tensor) or torch.Tensor.is_neg(tensor):
        return torch.Tensor.resolve_neg(torch.Tensor.resolve_conj(tensor))
    return tensor


def span(tensor: torch.Tensor) -> tuple[int, int]:
    """First and last byte, the last one excluded, of a tensor in its storage."""
    count, size, first = count_of(tensor), item_bytes(tensor), offset_of(tensor)
    if count == 0:
        return 0, 0
    end = first + count
    if not is_contiguous(tensor):
        end = first + 1
        for n, k in zip(tensor.shape, strides_of(tensor), strict=True):
            end += (n - 1) * k
    # Rounded down to 16: views of other dtypes into the same storage keep whole offsets.
    return int(first * size // 16 * 16), int(end * size)


def union(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    """The smallest span around two; an empty one adds nothing."""
    if a[0] == a[1] or b[0] == b[1]:
        return b if a[0] == a[1] else a
    return min(a[0], b[0]), max(a[1], b[1])


def length_of(value: Any, kind: type) -> int:
    """How many items a container brings, by the base class's own count."""
    if issubclass(kind, tuple | list):
        return tuple.__len__(value) if issubclass(kind, tuple) else list.__len__(value)
    return 2 * dict.__len__(value) if issubclass(kind, dict) else 0


@dataclass(frozen=True)
class Modes:
    """What looks on at torch's functions, the outermost first, and what torch remembers of the default device."""

    stack: Sequence[Any]
    default_device: Any
    current_device: Any


def modes() -> Modes:
    """The modes as they are now."""
    stack = [torch._C._get_function_stack_at(place) for place in range(torch._C._len_torch_function_stack())]
    return Modes(stack, getattr(_default_device, "device_context", None), _device.CURRENT_DEVICE)


def restore_modes(before: Modes) -> None:
    """Put the modes back as they were: one that was entered and never left would stay for good."""
    # `torch.set_default_device` looks for the mode that it has put into the stack the last time, and fails without it.
    _default_device.device_context = before.default_device
    _device.CURRENT_DEVICE = before.current_device
    now = modes().stack
    if len(now) == len(before.stack) and all(a is b for a, b in zip(now, before.stack, strict=True)):
        return
    for _ in now:
        torch._C._pop_torch_function_stack()
    for mode in before.stack:
        torch._C._push_on_torch_function_stack(mode)
