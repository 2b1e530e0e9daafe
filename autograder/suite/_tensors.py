"""What hidden suites say about tensors: each assertion fails with one sentence that leads with what was seen.

Everything here looks at plain tensors of the trusted process; a student's object is never asked for its
opinion. Places are indices as Python counts them, and a few numbers are shown; whole tensors never are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from autograder.channel.codec import Unsupported
from autograder.messages import N_, Message
from autograder.suite._checks import fail

__all__ = [
    "expect_close",
    "expect_dtype",
    "expect_finite",
    "expect_gradients",
    "expect_inputs_unchanged",
    "expect_rows_sum_to_one",
    "expect_shape",
    "results",
]

Text = str | Message
Shape = tuple[int, ...]

TOLERANCES = {torch.float64: (1e-6, 1e-6), torch.float32: (1e-5, 1e-4)}
"""atol and rtol. float64 allows for a root that was taken in float32; other dtypes are coarse."""

SENTENCE = (N_("sentence"),)
"""The name of the only leading axis, where there is one."""


def results(value: Any, **shapes: Shape | None) -> tuple[torch.Tensor, ...]:
    """Unpack what a function with several results returned, and look at the shapes.

    Args:
        value: what the student's function returned.
        shapes: the results that are due, in order, with their shapes, such as ``output=(2, 5, 8),
            weights=(2, 5, 5)``; None where any shape will do.

    Returns:
        The tensors, in the order of `shapes`.
    """
    names = ", ".join(shapes)
    if not isinstance(value, list | tuple):
        _fail_for_no_tuple(value, names, len(shapes))
    if len(value) != len(shapes):
        fail(N_("your function returned {seen} results, expected {count}: ({names})"),
             seen=len(value), count=len(shapes), names=names)  # fmt: skip
    for name, item in zip(shapes, value, strict=True):
        if not isinstance(item, torch.Tensor):
            fail(N_("your {name} is {kind}, expected a tensor"), says_all=True, name=name, kind=_kind(item))
        if item.is_complex():
            fail(N_("your {name} holds complex numbers ({dtype})"), name=name, dtype=_dtype(item.dtype))
    due = {name: shape for name, shape in shapes.items() if shape is not None}
    if len(due) == len(shapes):
        _expect_order(value, due)
    for name, item in zip(shapes, value, strict=True):
        if name in due:
            expect_shape(item, due[name], name)
    return tuple(value)


def expect_shape(actual: torch.Tensor, expected: Shape, what: Text) -> None:
    """The tensor has this shape."""
    if tuple(actual.shape) != tuple(expected):
        fail(N_("the shape of your {what} is {seen}, expected {expected}"),
             what=_text(what), seen=str(tuple(actual.shape)), expected=str(tuple(expected)))  # fmt: skip


def expect_dtype(actual: torch.Tensor, expected: torch.dtype, what: Text) -> None:
    """The tensor has this dtype."""
    if actual.dtype != expected:
        fail(N_("the dtype of your {what} is {seen}, while the inputs are {expected}"),
             what=_text(what), seen=_dtype(actual.dtype), expected=_dtype(expected))  # fmt: skip


def expect_finite(actual: torch.Tensor, what: Text, axes: Sequence[str] = ()) -> None:
    """No entry is NaN or infinite. `axes` names the last axes, for the sentence: ``("query", "key")``."""
    bad = ~torch.isfinite(actual.detach())
    if bad.any():
        first = _unravel(int(bad.flatten().int().argmax()), actual.shape)
        fail(N_("your {what} at {place}: {seen} ({count} of {total} entries are not finite)"),
             what=_text(what), seen=str(float(actual.detach()[first])), place=_place(first, axes),
             count=int(bad.sum()), total=bad.numel())  # fmt: skip


def expect_close(
    actual: torch.Tensor,
    expected: torch.Tensor,
    what: Text,
    axes: Sequence[str] = (),
) -> None:
    """Every entry is within ``atol + rtol * |expected|`` of the expected one, as fits the coarser dtype.

    Shapes are compared first, then NaN and infinity are looked for; dtypes may differ. The sentence tells the
    worst place; `axes` names the last axes, as in `expect_finite`.
    """
    expect_shape(actual, tuple(expected.shape), what)
    expect_finite(actual, what, axes)
    atol, rtol = max(_tolerance(actual), _tolerance(expected))
    seen, wanted = actual.detach().double(), expected.detach().double()
    excess = (seen - wanted).abs() - (atol + rtol * wanted.abs())
    wrong = excess > 0
    if wrong.any():
        worst = _unravel(int(excess.flatten().argmax()), actual.shape)
        shown_seen, shown_wanted = _apart(float(seen[worst]), float(wanted[worst]))
        fail(N_("your {what} at {place}: {seen}, expected {expected} ({count} of {total} entries differ)"),
             what=_text(what), seen=shown_seen, expected=shown_wanted, place=_place(worst, axes),
             count=int(wrong.sum()), total=wrong.numel())  # fmt: skip


def expect_rows_sum_to_one(
    weights: torch.Tensor, what: Text, axes: Sequence[str] = (), *, atol: float | None = None
) -> None:
    """Along the last axis, no entry is negative and the entries sum to 1. `axes` as in `expect_finite`."""
    expect_finite(weights, what, axes)
    atol = _tolerance(weights)[0] if atol is None else atol
    seen = weights.detach().double()
    if (seen < 0).any():
        worst = _unravel(int(seen.flatten().argmin()), seen.shape)
        fail(N_("your {what} at {place}: {seen}, and a weight is never negative"),
             what=_text(what), seen=_number(float(seen[worst])), place=_place(worst, axes))  # fmt: skip
    sums = seen.sum(-1)
    off = (sums - 1).abs()
    if not (off > atol).any():
        return
    # The first bad row, not the worst one: it is the one that a learner prints first.
    row = _unravel(int((off > atol).flatten().int().argmax()), off.shape)
    shown, _ = _apart(float(sums[row]), 1.0)
    place = _place(row, axes[:-1])
    if ((seen.sum(-2) - 1).abs() <= atol).all():
        fail(N_("the row of your {what} at {place} sums to {seen}, expected 1; the columns sum to 1"),
             what=_text(what), place=place, seen=shown)  # fmt: skip
    fail(N_("the row of your {what} at {place} sums to {seen}, expected 1"),
         what=_text(what), place=place, seen=shown)  # fmt: skip


def expect_gradients(
    actual: torch.Tensor,
    expected: torch.Tensor,
    inputs: Mapping[str, torch.Tensor],
    cotangent: torch.Tensor,
    what: Text,
) -> None:
    """The gradients of ``(actual * cotangent).sum()`` are those of ``(expected * cotangent).sum()``.

    Args:
        actual: a result of the student's function.
        expected: the reference's result.
        inputs: the inputs that both were computed from, which require gradients, by name. No gradient (None)
            counts as zero.
        cotangent: the weight of every entry, of the shape of both.
        what: the result's name.
    """
    if not actual.requires_grad:
        fail(
            N_("no gradients flow through your {what}: on the way from the inputs the graph is cut"),
            what=_text(what),
        )
    for name, seen, wanted in zip(
        inputs, _gradients(actual, inputs, cotangent), _gradients(expected, inputs, cotangent), strict=True
    ):
        if not seen.any() and wanted.any():
            fail(N_("no gradient of your {what} arrives at {name}"), what=_text(what), name=name)
        gradient = Message(N_("gradient of {what} with respect to {name}"), {"what": _text(what), "name": name})
        expect_close(seen, wanted, gradient)


def expect_inputs_unchanged(changed: Sequence[str]) -> None:
    """No call of the exercise changed what it was given. `changed` is ``student.changed_inputs``."""
    if changed:
        names = ", ".join(sorted(set(changed)))
        said = N_("your function changes what it is given ({names}): print it before the call and after")
        fail(said, names=names)


def _gradients(result: torch.Tensor, inputs: Mapping[str, torch.Tensor], cotangent: torch.Tensor) -> list[torch.Tensor]:
    tensors = list(inputs.values())
    found = torch.autograd.grad(result, tensors, cotangent.to(result.dtype), retain_graph=True, allow_unused=True)
    return [torch.zeros_like(x) if grad is None else grad for x, grad in zip(tensors, found, strict=True)]


def _fail_for_no_tuple(value: Any, names: str, count: int) -> None:
    if value is None and count == 1:
        fail(N_("your function returned None: does it end with a return?"), says_all=True)
    if value is None:
        fail(
            N_("your function returned None, expected ({names}): does it end with a return?"),
            says_all=True,
            names=names,
        )
    if isinstance(value, torch.Tensor):
        fail(N_("your function returned one tensor of shape {seen}, expected {count} results: ({names})"),
             seen=str(tuple(value.shape)), count=count, names=names)  # fmt: skip
    fail(N_("your function returned {kind}, expected {count} tensors: ({names})"),
         kind=_kind(value), count=count, names=names)  # fmt: skip


def _expect_order(value: Sequence[torch.Tensor], shapes: Mapping[str, Shape]) -> None:
    """Tell two results that changed places by their shapes."""
    names, due, seen = list(shapes), list(shapes.values()), [tuple(item.shape) for item in value]
    if seen == due or sorted(seen) != sorted(due):
        return
    order = [names.pop(next(i for i, name in enumerate(names) if shapes[name] == shape)) for shape in seen]
    fail(N_("your results come in the order ({seen}), expected ({expected})"), says_all=True,
         seen=", ".join(order), expected=", ".join(shapes))  # fmt: skip


_UNSUPPORTED = {
    "numpy": N_("a numpy array"),
    "generator": N_("a generator (does it yield where it should return?)"),
    "sparse": N_("a sparse or nested tensor"),
    "meta": N_("a tensor on the meta device, which holds no numbers"),
    "quantized": N_("a quantized tensor"),
    "subclass": N_("a tensor subclass ({type})"),
    "dtype": N_("a tensor of an unusual dtype"),
    "too_large": N_("an object that is far too large"),
    "too_deep": N_("an object that is nested far too deep"),
}


def _kind(value: Any) -> Message:
    """What a value is, in words."""
    if isinstance(value, Unsupported):
        return Message(_UNSUPPORTED.get(value.reason, N_("an object of type {type}")), {"type": value.type_name})
    if value is None:
        return Message(N_("None"))
    if isinstance(value, bool):
        return Message(N_("a bool"))
    if isinstance(value, int | float):
        return Message(N_("a plain number"))
    if isinstance(value, torch.Tensor):
        return Message(N_("a tensor"))
    return Message(N_("a {type}"), {"type": type(value).__name__})


def _place(index: Sequence[int], axes: Sequence[str]) -> Text:
    """An index in words: "sentence 0, query 2, key 4"; as Python writes it where the axes have no names."""
    leading = len(index) - len(axes)
    if leading == 1 and axes:
        axes = (*SENTENCE, *axes)
    elif leading:
        return str(list(index))
    place: Message | None = None
    for axis, number in zip(axes, index, strict=False):
        word = Message(N_("{axis} {number}"), {"axis": Message(axis), "number": number})
        place = Message(N_("{place}, {next}"), {"place": place, "next": word}) if place else word
    return place or "[]"


def _tolerance(x: torch.Tensor) -> tuple[float, float]:
    return TOLERANCES.get(x.dtype, (1e-2, 1e-2))


def _unravel(flat: int, shape: Sequence[int]) -> tuple[int, ...]:
    index = []
    for size in reversed(shape):
        flat, place = divmod(flat, size)
        index.append(place)
    return tuple(reversed(index))


def _apart(seen: float, wanted: float) -> tuple[str, str]:
    """Both numbers, with as many digits as it takes to tell them apart."""
    for digits in (3, 5, 8, 12):
        if _number(seen, digits) != _number(wanted, digits):
            return _number(seen, digits), _number(wanted, digits)
    return repr(seen), repr(wanted)


def _number(value: float, digits: int = 3) -> str:
    return f"{value:.{digits}g}"


def _dtype(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _text(what: Text) -> Message:
    return what if isinstance(what, Message) else Message(what)
