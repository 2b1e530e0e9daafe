"""Proves that the results of an experiment were measured: losses, steps and bytes of models with 1 and with 8 heads.

Who wins is nobody's business here: task, model, optimiser and number of steps are the student's. What is asked is
that the numbers can be what they say they are: gradients were computed, as often as steps are told of, two trainings
end on two losses, and more heads have more bytes. Where no gradient was ever computed, no number was measured.
"""

from __future__ import annotations

import math
import weakref
from typing import Any

import torch

from autograder.messages import Message
from autograder.suite import N_, Draws, Student, Unsupported, check, fail

KEYS = ("final_loss", "steps", "bytes")
HEADS = (1, 8)

_asked: weakref.WeakKeyDictionary[Student, Any] = weakref.WeakKeyDictionary()


def results_of(student: Student) -> dict[Any, Any]:
    """The student's dict, asked for once: it is a value, and stays as it is."""
    if student not in _asked:
        with torch.no_grad():  # a tensor that carries gradients would keep its student alive
            _asked[student] = student()
    value = _asked[student]
    if not isinstance(value, dict):
        fail(N_("your results are {kind}, expected a dict with the keys {keys}"), kind=_kind(value), keys=_listed(KEYS))
    return value


def entry(student: Student, key: str, heads: int) -> Any:
    """What stands under a key for a number of heads, also where the heads are text, or come before the keys.

    How the dict is built has a check of its own.
    """
    found = results_of(student)
    for outer, inner in ((key, heads), (key, str(heads)), (heads, key), (str(heads), key)):
        within = found.get(outer)
        value = within.get(inner) if isinstance(within, dict) else None
        if value is not None:
            break
    else:
        fail(N_("{what} is not filled in yet"), what=named(key, heads))
    return value


def named(key: str, heads: int) -> str:
    """An entry, as Python writes it."""
    return f"results[{key!r}][{heads}]"


def number(student: Student, key: str, heads: int) -> int | float:
    """An entry that is one number: an int, a float, a tensor that holds one."""
    value = entry(student, key, heads)
    if isinstance(value, torch.Tensor) and value.numel() == 1 and not value.is_complex():
        value = value.detach().item()
    if isinstance(value, bool) or not isinstance(value, int | float):
        fail(N_("{what} is {kind}, expected one number"), what=named(key, heads), kind=_kind(value))
    return value


def whole_number(student: Student, key: str, heads: int) -> int:
    """An entry that is a whole number above 0."""
    value = number(student, key, heads)
    if not math.isfinite(value) or value != int(value) or value <= 0:
        fail(N_("{what} is {seen}, expected a whole number above 0"), what=named(key, heads), seen=f"{value:.6g}")
    return int(value)


def _kind(value: Any) -> Message | str:
    if value is None:
        return Message(N_("None"))
    if isinstance(value, list | tuple):
        return Message(N_("a {type} of {count} entries"), {"type": type(value).__name__, "count": len(value)})
    if isinstance(value, torch.Tensor):
        return Message(N_("a tensor of shape {shape}"), {"shape": str(tuple(value.shape))})
    if isinstance(value, Unsupported):
        return Message(N_("an object of type {type}"), {"type": value.type_name})
    return Message(N_("a value of type {type}"), {"type": type(value).__name__})


def _listed(names: tuple[Any, ...]) -> str:
    return ", ".join(map(repr, names))


@check(
    points=0.5,
    title=N_("The dict is filled in: final_loss, steps and bytes, each for 1 and for 8 heads"),
    hint=N_("Print results. Each of the three keys holds a dict of its own, whose keys are the numbers 1 and 8."),
)
def test_filled_in(student: Student, rng: Draws) -> None:
    found = results_of(student)
    if any(isinstance(found.get(heads, found.get(str(heads))), dict) for heads in HEADS):
        fail(N_("your results are sorted by heads first, expected by {keys} first"), keys=_listed(KEYS))
    for key in KEYS:
        if key not in found:
            fail(N_("your results have no key {key}; they have {seen}"),
                 key=repr(key), seen=_listed(tuple(found)[:6]) or "{}")  # fmt: skip
        within = found[key]
        if not isinstance(within, dict):
            fail(N_("under {key} stands {kind}, expected a dict with the keys 1 and 8"),
                 key=repr(key), kind=_kind(within))  # fmt: skip
        for heads in HEADS:
            if str(heads) in within:
                fail(N_("under {key} the heads are text, {seen}, expected the numbers 1 and 8"),
                     key=repr(key), seen=_listed(tuple(within)[:4]))  # fmt: skip
            if within.get(heads) is None:
                fail(N_("{what} is not filled in yet"), what=named(key, heads))


@check(
    points=0.5,
    title=N_("A training took place: gradients were computed while the notebook ran"),
    hint=N_(
        "Restart the kernel and run all cells. Does your notebook train both models, with backward(), before it fills "
        "in the results?"
    ),
)
def test_trained(student: Student, rng: Draws) -> None:
    results_of(student)
    if student.backward_passes == 0:
        fail(N_("gradients were computed 0 times while your notebook ran, and without them nothing learns"))


@check(
    points=1,
    title=N_("Two trainings end on two losses, finite numbers"),
    hint=N_(
        "Print results['final_loss']. Each is the loss of that model after its last step, one number with all its "
        "digits; no two trainings end on the very same."
    ),
    needs="trained",
)
def test_losses(student: Student, rng: Draws) -> None:
    losses = [number(student, "final_loss", heads) for heads in HEADS]
    for heads, loss in zip(HEADS, losses, strict=True):
        if not math.isfinite(loss) or loss < 0:
            fail(N_("{what} is {seen}, expected a finite number, not below 0"),
                 what=named("final_loss", heads), seen=f"{loss:.6g}")  # fmt: skip
    if losses[0] == losses[1]:
        fail(
            N_("both of your losses are {seen}, to the last digit: was one training used for both, or was a number "
               "rounded?"),
            seen=f"{losses[0]:.10g}",
        )  # fmt: skip


@check(
    points=1,
    title=N_("The bytes are those of all heads: whole numbers, and more with 8 heads than with 1"),
    hint=N_(
        "Print the shape of the weights that you measure, for one batch. Is there an axis for the heads? "
        "nn.MultiheadAttention averages it away unless it is told not to."
    ),
    needs="trained",
)
def test_bytes(student: Student, rng: Draws) -> None:
    one, eight = (whole_number(student, "bytes", heads) for heads in HEADS)
    if eight == one:
        fail(N_("your bytes are {seen} with 1 head and with 8: averaged weights take as much as those of a single "
                "head"), seen=one)  # fmt: skip
    if eight < one:
        fail(N_("your bytes are {one} with 1 head and {eight} with 8: more heads have more weights"),
             one=one, eight=eight)  # fmt: skip


@check(
    points=1,
    title=N_("The steps are counted: whole numbers, and gradients were computed as often"),
    hint=N_(
        "Print results['steps']. How often did your training loop change the weights of each model? Examples don't "
        "count, nor do runs from before the kernel was restarted."
    ),
    needs="trained",
)
def test_steps(student: Student, rng: Draws) -> None:
    steps = max(whole_number(student, "steps", heads) for heads in HEADS)
    if student.backward_passes < steps:
        fail(
            N_(
                "your results tell of {steps} steps, and gradients were computed {passes} times while your notebook ran"
            ),
            steps=steps,
            passes=student.backward_passes,
        )
