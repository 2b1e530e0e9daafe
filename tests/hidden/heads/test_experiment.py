"""Proves that the results of an experiment were measured: losses, steps and bytes of models with 1 and with 8 heads.

Who wins is nobody's business here: task, model, optimiser and number of steps are the student's. What is asked is
that the numbers can be what they say they are: gradients were computed, as often as steps are told of, two trainings
end on two losses, and more heads have more bytes. Where no gradient was ever computed, no number was measured. Where
one of the two models is still to be trained, what stands there for the other counts.
"""

from __future__ import annotations

import math
import weakref
from typing import Any, NoReturn

import torch

from autograder.suite import (
    N_,
    Draws,
    Student,
    check,
    described,
    fail,
    shortened,
)

KEYS = ("final_loss", "steps", "bytes")
HEADS = (1, 8)
LARGEST_ITEM = 8
"""Bytes of one number, in float64."""

_asked: weakref.WeakKeyDictionary[Student, Any] = weakref.WeakKeyDictionary()


def value_of(student: Student) -> Any:
    """The student's results, asked for once: they are a value, and stay as they are."""
    if student not in _asked:
        with torch.no_grad():  # a tensor that carries gradients would keep its student alive
            _asked[student] = student()
    return _asked[student]


def results_of(student: Student) -> dict[Any, Any]:
    """The student's dict."""
    value = value_of(student)
    if not isinstance(value, dict):
        fail(N_("your results are {kind}, expected a dict with the keys {keys}"),
             says_all=True, kind=described(value), keys=_listed(KEYS))  # fmt: skip
    return value


def entry(student: Student, key: str, heads: int) -> Any:
    """What stands under a key for a number of heads, or None; also where heads are text, or come before the keys.

    How the dict is built has a check of its own.
    """
    found = results_of(student)
    for outer, inner in ((key, heads), (key, str(heads)), (heads, key), (str(heads), key)):
        within = found.get(outer)
        value = within.get(inner) if isinstance(within, dict) else None
        if value is not None:
            return value
    return None


def filled_in(student: Student, key: str) -> tuple[int, ...]:
    """For which numbers of heads something stands under a key; at least for one."""
    found = tuple(heads for heads in HEADS if entry(student, key, heads) is not None)
    if not found:
        _fail_for_nothing([named(key, heads) for heads in HEADS])
    return found


def named(key: str, heads: int) -> str:
    """An entry, as Python writes it."""
    return f"results[{key!r}][{heads}]"


def number(student: Student, key: str, heads: int) -> int | float:
    """An entry that is one number."""
    return number_in(entry(student, key, heads), key, heads)


def last_number(student: Student, key: str, heads: int) -> int | float:
    """An entry that is one number, or the last one of an entry that is a curve: that it is one has its own check."""
    value = entry(student, key, heads)
    if isinstance(value, list | tuple | torch.Tensor) and len(value := _flat(value)):
        value = value[-1]
    return number_in(value, key, heads)


def _flat(value: Any) -> Any:
    return value.detach().flatten() if isinstance(value, torch.Tensor) else value


def number_in(value: Any, key: str, heads: int) -> int | float:
    """What stands in an entry, if it is one number: an int, a float, a tensor that holds one."""
    if value is None:
        _fail_for_nothing([named(key, heads)])
    if isinstance(value, torch.Tensor) and value.numel() == 1 and not value.is_complex():
        value = value.detach().item()
    if isinstance(value, bool) or not isinstance(value, int | float):
        fail(
            N_("{what} is {kind}, expected one number"),
            hint=N_("Print it, and its type. Which single number should stand there?"),
            what=named(key, heads),
            kind=described(value),
        )
    return value


def whole_number(student: Student, key: str, heads: int) -> int:
    """An entry that is a whole number above 0."""
    value = number(student, key, heads)
    if not math.isfinite(value) or value != int(value) or value <= 0:
        fail(
            N_("{what} is {seen}, expected a whole number above 0"),
            hint=N_("Steps and bytes are counted one by one. What happens to the number on its way into results?"),
            what=named(key, heads),
            seen=f"{value:.6g}",
        )
    return int(value)


def _fail_for_nothing(entries: list[str]) -> NoReturn:
    if len(entries) == 1:
        fail(N_("{what} is not filled in yet"), says_all=True, what=entries[0])
    fail(N_("{what} are not filled in yet"), says_all=True, what=", ".join(entries))


def _listed(names: tuple[Any, ...]) -> str:
    return shortened(", ".join(map(repr, names)))


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
                 key=repr(key), kind=described(within))  # fmt: skip
        for heads in HEADS:
            if str(heads) in within:
                fail(N_("under {key} the heads are text, {seen}, expected the numbers 1 and 8"),
                     key=repr(key), seen=_listed(tuple(within)[:4]))  # fmt: skip
    missing = [(key, heads) for key in KEYS for heads in HEADS if found[key].get(heads) is None]
    for heads in HEADS:
        if [key for key, of in missing if of == heads] == list(KEYS) and len(missing) == len(KEYS):
            fail(
                N_("under final_loss, steps and bytes the entry {other} is filled in, and the entry {heads} is not"),
                hint=N_(
                    "Does your loop run for both numbers of heads? And do the lines that fill in results stand inside "
                    "it, so that each run does?"
                ),
                heads=heads,
                other=sum(HEADS) - heads,
            )
    if len(missing) == len(KEYS) * len(HEADS):
        fail(N_("none of the {count} entries of your results is filled in yet"), says_all=True, count=len(missing))
    if missing:
        _fail_for_nothing([named(*one) for one in missing])


@check(
    points=0.5,
    title=N_("A training took place: gradients were computed while the notebook ran"),
    hint=N_(
        "Restart the kernel and run all cells. Does your notebook train both models, with backward(), before it fills "
        "in the results?"
    ),
)
def test_trained(student: Student, rng: Draws) -> None:
    value_of(student)
    if student.backward_passes == 0:
        fail(N_("gradients were computed 0 times while your notebook ran, and without them nothing learns"))


@check(
    points=0.5,
    title=N_("A loss is one number, finite and not below 0"),
    hint=N_("Print results['final_loss']. Each is the loss of that model after its last step: which number is that?"),
    needs="trained",
)
def test_losses(student: Student, rng: Draws) -> None:
    for heads in filled_in(student, "final_loss"):
        loss = number(student, "final_loss", heads)
        if not math.isfinite(loss):
            fail(
                N_("{what} is {seen}, expected a finite number"),
                hint=N_("Print the losses of the first steps: when do they leave all bounds? A smaller lr may help."),
                what=named("final_loss", heads),
                seen=f"{loss:.6g}",
            )
        if loss < 0:
            fail(N_("{what} is {seen}, expected a number not below 0"),
                 what=named("final_loss", heads), seen=f"{loss:.6g}")  # fmt: skip


@check(
    points=0.5,
    title=N_("Two trainings end on two losses"),
    hint=N_(
        "No two trainings of two models end on the very same loss. Was one training used for both, or the same model "
        "trained twice from the same seed? Was the number rounded, or kept from before the loop?"
    ),
    needs="trained",
)
def test_two_losses(student: Student, rng: Draws) -> None:
    one, eight = (last_number(student, "final_loss", heads) for heads in HEADS)
    if one == eight and math.isfinite(one):
        fail(N_("both of your losses are {seen}, to the last digit"), seen=f"{one:.10g}")


@check(
    points=1,
    title=N_("The bytes are those of all heads: whole numbers, and more with 8 heads than with 1"),
    hint=N_(
        "Print the shape of what you measure, in both runs. Which axis is that of the heads, and is it 1 long in one "
        "run, and 8 in the other? It is missing where weights are averaged, as nn.MultiheadAttention does unless it is "
        "told not to, and where one head is picked. It does not grow where the same model is made twice."
    ),
    needs="trained",
)
def test_bytes(student: Student, rng: Draws) -> None:
    one, eight = (whole_number(student, "bytes", heads) for heads in HEADS)
    if eight > one:
        return
    steps = [entry(student, "steps", heads) for heads in HEADS]
    # Whole numbers alone: no object of the student's is to say what it equals.
    if all(type(each) is int for each in steps) and (steps == [one, eight] or steps[0] < steps[1]):
        fail(
            N_("your bytes are {one} with 1 head and {eight} with 8, while your steps are {fewer} and {more}"),
            hint=N_("Which of your lines fills in the bytes, and which the steps? What is it that stands there?"),
            one=one,
            eight=eight,
            fewer=str(steps[0]),
            more=str(steps[1]),
        )
    if max(one, eight) <= LARGEST_ITEM:
        fail(
            N_("your bytes are {one} with 1 head and {eight} with 8"),
            hint=N_("One number of the weights takes that many. How many numbers are there?"),
            one=one,
            eight=eight,
        )
    if eight == one:
        fail(N_("your bytes are {seen} with 1 head and with 8, expected more with 8"), seen=one)
    fail(
        N_("your bytes are {one} with 1 head and {eight} with 8, expected more with 8"),
        hint=N_("Are the two runs told apart, and are their batches of the same size?"),
        one=one,
        eight=eight,
    )


@check(
    points=1,
    title=N_("The steps are counted: whole numbers, and gradients were computed as often"),
    hint=N_(
        "Print results['steps']. A step is one batch and one backward(), however many sentences the batch holds. Runs "
        "from before the kernel was restarted do not count."
    ),
    needs="trained",
)
def test_steps(student: Student, rng: Draws) -> None:
    steps = max(whole_number(student, "steps", heads) for heads in filled_in(student, "steps"))
    if student.backward_passes < steps:
        fail(
            N_(
                "your results tell of {steps} steps, and gradients were computed {passes} times while your notebook ran"
            ),
            steps=steps,
            passes=student.backward_passes,
        )
