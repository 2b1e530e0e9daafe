"""A stand-in for the channel: the student's function called in this process, with the border's manners.

The function gets leaf copies with the caller's strides and aliasing, and changes to them are carried back;
gradients pass through a `torch.autograd.Function`; every call is recorded, so that another function can be put
through the same.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy
import torch

from autograder.channel.codec import Unsupported
from autograder.suite import StudentRaised

Answer = Callable[..., Any]


@dataclass
class LocalCall:
    """One call: copies of what went in, and everything that was seen of it."""

    seed: int
    inputs: list[torch.Tensor]
    places: list[int]
    seen: list[Any]
    backwards: list[tuple[list[torch.Tensor | None], list[Any]]] = field(default_factory=list)


class LocalStudent:
    """Calls `answer` as `autograder.channel.proxy.Student` would, for positional tensors."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.calls: list[LocalCall] = []
        self.changed_inputs: list[str] = []

    def __call__(self, *args: torch.Tensor) -> Any:
        inputs, places = _distinct(args)
        seed = 1000 + len(self.calls)
        kept = [_copy(x) for x in inputs]
        run = Run(self.answer, inputs, places, seed)
        call = LocalCall(seed, kept, places, run.seen())
        self.calls.append(call)
        for number, (theirs, ours) in enumerate(zip(run.leaves, inputs, strict=True)):
            if not _same(theirs, ours):
                with torch.no_grad():
                    ours.copy_(theirs)
                changed = [place for place, n in enumerate(places) if n == number]
                self.changed_inputs += [f"argument {place + 1}" for place in changed]
        if run.raised:
            raise StudentRaised(*run.raised, None)
        bridged = _Bridge.apply(run, call, *inputs) if run.outputs else ()  # type: ignore[no-untyped-call]
        return run.result_with(bridged)


def explains(answer: Answer, calls: Sequence[LocalCall]) -> bool:
    """Whether `answer`, put through recorded calls, gives the same results, errors, changes and gradients."""
    for call in calls:
        run = Run(answer, call.inputs, call.places, call.seed)
        if not _equal(run.seen(), call.seen):
            return False
        for grads, seen in call.backwards:
            if not _equal(run.backward(grads), seen):
                return False
    return True


class Run:
    """One call of a function on fresh copies."""

    def __init__(
        self, answer: Answer, inputs: Sequence[torch.Tensor], places: Sequence[int], seed: int
    ) -> None:
        self.leaves = [_copy(x) for x in inputs]
        self.value: Any = None
        self.raised: tuple[str, tuple[str, ...], str] | None = None
        with torch.random.fork_rng(), warnings.catch_warnings(), torch.enable_grad():
            warnings.simplefilter("ignore")
            torch.manual_seed(seed)
            try:
                self.value = answer(*(self.leaves[place] for place in places))
            except Exception as error:  # noqa: BLE001 - whatever an answer raises is an outcome
                bases = tuple(base.__name__ for base in type(error).__mro__ if base.__module__ == "builtins")
                self.raised = type(error).__name__, bases, str(error)
        self.outputs = [x for x in _tensors(self.value) if x.requires_grad]

    def seen(self) -> list[Any]:
        if self.raised:
            return ["raised", self.raised[0], self.raised[2]]
        value = self.result_with([x.detach() for x in self.outputs])
        differentiable = [x.requires_grad for x in _tensors(self.value)]
        return ["returned", value, differentiable, [_copy(x) for x in self.leaves]]

    def result_with(self, bridged: Sequence[torch.Tensor]) -> Any:
        swap = {id(own): outer for own, outer in zip(self.outputs, bridged, strict=True)}
        return _received(self.value, swap)

    def backward(self, grads: Sequence[torch.Tensor | None]) -> list[Any]:
        wanted = [(x, g) for x, g in zip(self.outputs, grads, strict=False) if g is not None]
        leaves = [x for x in self.leaves if x.requires_grad]
        try:
            outputs, cotangents = [x for x, _ in wanted], [g for _, g in wanted]
            return list(
                torch.autograd.grad(outputs, leaves, cotangents, retain_graph=True, allow_unused=True)
            )
        except RuntimeError as error:
            return ["raised", str(error)]


class _Bridge(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, run: Run, call: LocalCall, *inputs: torch.Tensor) -> Any:
        ctx.run, ctx.call, ctx.needs = run, call, [x.requires_grad for x in inputs]
        ctx.set_materialize_grads(False)
        return tuple(x.detach().clone() for x in run.outputs)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: torch.Tensor | None) -> Any:
        found = ctx.run.backward(grads)
        ctx.call.backwards.append((list(grads), found))
        if found and isinstance(found[0], str):
            raise StudentRaised("RuntimeError", ("RuntimeError", "Exception"), found[1], None)
        answers = iter(found)
        return None, None, *(next(answers) if needs else None for needs in ctx.needs)


def _distinct(args: Sequence[torch.Tensor]) -> tuple[list[torch.Tensor], list[int]]:
    inputs: list[torch.Tensor] = []
    places = []
    for arg in args:
        number = next((n for n, known in enumerate(inputs) if known is arg), len(inputs))
        if number == len(inputs):
            inputs.append(arg)
        places.append(number)
    return inputs, places


def _copy(x: torch.Tensor) -> torch.Tensor:
    copy = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype)
    return copy.copy_(x.detach()).requires_grad_(x.requires_grad)


def _received(value: Any, swap: dict[int, torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        return swap.get(id(value), value.detach().clone())
    if isinstance(value, list | tuple):
        items = [_received(item, swap) for item in value]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, dict):
        return {key: _received(item, swap) for key, item in value.items()}
    if isinstance(value, numpy.ndarray):
        return Unsupported("numpy.ndarray", "numpy")
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return Unsupported(type(value).__name__, "generator" if hasattr(type(value), "__next__") else "other")


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [tensor for item in value for tensor in _tensors(item)]
    return []


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.equal(a.detach(), b.detach())


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        if a.shape != b.shape or a.dtype != b.dtype or a.requires_grad != b.requires_grad:
            return False
        tolerance = 1e-6 if a.dtype == torch.float64 else 1e-2 if a.dtype == torch.bfloat16 else 1e-4
        return torch.allclose(a.detach(), b.detach(), rtol=tolerance, atol=tolerance, equal_nan=True)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(_equal, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return _equal(list(a.items()), list(b.items()))
    return type(a) is type(b) and bool(a == b)
