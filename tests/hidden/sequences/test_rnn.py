"""Proves that an answer is a recurrent network: each state is made from one word and the state before it.

What a step computes, that states remember, that a sentence can be taken up again at any state, that leading axes stay
apart and that gradients come back are asked apart. The last three compare the answer with itself, so that a step
without its tanh is not told again there.

Sizes all differ, so that a mixed-up axis shows; only the first call is square, where nearly every slip runs and
shows which one it is. Most calls are for one sentence, and for a batch of one where the answer takes only batches.
States in an order of their own, laid end to end, or only the last or the first of them, are put right first: that is
paid for by the check of the shape.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from autograder.messages import Message
from autograder.suite import (
    N_,
    CheckFailed,
    Draws,
    Student,
    StudentRaised,
    ask,
    ask_exactly,
    check,
    expect_close,
    expect_dtype,
    expect_finite,
    expect_gradients,
    expect_inputs_unchanged,
    expect_shape,
    fail,
    results,
    with_hint,
)

B, T, D, H = 3, 4, 5, 6
STATES = N_("states")
AXES = (N_("word"), N_("number"))
DTYPES, HUGE = (torch.float32, torch.float64, torch.bfloat16), 10_000
FELT = 1e-3
"""What a change must come to in a state for us to say that it arrived there; in a right answer it is far more."""


class Case(NamedTuple):
    """What a call is made of, in the order of the signature."""

    x: torch.Tensor
    W_xh: torch.Tensor
    W_hh: torch.Tensor
    b: torch.Tensor
    h0: torch.Tensor | None = None

    def of(self, x: torch.Tensor, h0: torch.Tensor | None = None) -> Case:
        """The same network for other words."""
        return self._replace(x=x, h0=h0)

    def to(self, dtype: torch.dtype) -> Case:
        """The same numbers in another dtype."""
        return Case(*(value if value is None else value.to(dtype) for value in self))

    @property
    def due(self) -> tuple[int, ...]:
        """The shape of the states."""
        return *self.x.shape[:-1], self.b.shape[0]


def reference(x: torch.Tensor, W_xh: torch.Tensor, W_hh: torch.Tensor, b: torch.Tensor,
              h0: torch.Tensor | None = None) -> torch.Tensor:  # fmt: skip
    """The states step by step; sums over broadcast products, and tanh by its exponentials."""
    h = torch.zeros_like(b) if h0 is None else h0
    states = []
    for t in range(x.shape[-2]):
        before = (x[..., t, :].unsqueeze(-1) * W_xh).sum(-2) + (h.unsqueeze(-1) * W_hh).sum(-2) + b
        h = 2 / (1 + torch.exp(-2 * before)) - 1
        states.append(h)
    return torch.stack(states, dim=-2)


def draw(rng: Draws, *leading: int, t: int = T, d: int = D, h: int = H) -> Case:
    """A network, not saturated, whose states are felt many words later, and words for it."""
    W_hh = torch.linalg.qr(rng.normal(h, h))[0]  # turns a state, and loses nothing of it
    return Case(rng.normal(*leading, t, d), rng.normal(d, h) / d, W_hh, rng.normal(h) / 2)


def states_of(student: Student, case: Case) -> torch.Tensor:
    """The student's states, of the right shape. Copies are passed: a change does not pile up."""
    value = called(student, case)
    (states,) = results(value if value is None else (value,), states=case.due)
    return states


def called(student: Student, case: Case, call: Callable[..., Any] = ask_exactly) -> Any:
    """What comes back for a case. Where the answer can't do without an h0 it gets zeros: that is paid for with h0."""
    if case.h0 is not None:
        return call(student, *case)
    try:
        return call(student, *case[:-1])  # not even None: the function may not take an h0 yet
    except StudentRaised as raised:
        if not _lacks_h0(raised):
            raise
        try:
            return call(student, *case[:-1], torch.zeros_like(case.b))
        except StudentRaised:
            raise raised from None


def _lacks_h0(raised: StudentRaised) -> bool:
    kinds = not {"TypeError", "AttributeError"}.isdisjoint(raised.bases)
    return kinds and any(word in raised.message for word in ("missing", "NoneType"))


def of_any(student: Student, case: Case, call: Callable[..., Any] = ask_exactly) -> torch.Tensor:
    """(..., T, H): the states, in whatever form they come."""
    return put_right(student, called(student, case, call), case)


def of_sentence(student: Student, case: Case, call: Callable[..., Any] = ask_exactly) -> torch.Tensor:
    """(T, H): as `of_any`, for one sentence; for a batch of one where the function takes only batches."""
    try:
        return of_any(student, case, call)
    except (CheckFailed, StudentRaised) as no:
        batch = case.of(case.x.unsqueeze(0), None if case.h0 is None else case.h0.unsqueeze(0))
        try:
            return of_any(student, batch, call)[0]
        except (CheckFailed, StudentRaised):
            raise no from None


def put_right(student: Student, value: Any, case: Case, *, in_order: bool = False) -> torch.Tensor:
    """What a call returned as (..., T, H), where it can be told what it should have been.

    `in_order` leaves the axes as they are: then they have to be right.
    """
    due, step = case.due, case.due[:-2] + case.due[-1:]
    if isinstance(value, list | tuple) and value and all(isinstance(item, torch.Tensor) for item in value):
        if len(value) == due[-2] and all(tuple(item.shape) == step for item in value):
            value = torch.stack(tuple(value), dim=-2)
        elif len(value) == 2:  # with the last state beside them, as PyTorch's recurrent layers have it
            value = value[0]
    (states,) = results(value if value is None else (value,), states=None)
    if not in_order:
        states = _end_to_end(states, due)
    if tuple(states.shape) in (step, (*due[:-2], 1, due[-1])):
        states = _from_pieces(student, states.reshape(step), case)
    if tuple(states.shape) == (*due[:-2], due[-2] + 1, due[-1]):
        states = states[..., 1:, :]  # begun with the state before the first word
    if in_order or sorted(states.shape) != sorted(due) or len(set(due)) < len(due):
        expect_shape(states, due, STATES)
        return states
    return states.permute([states.shape.index(size) for size in due])


def _end_to_end(states: torch.Tensor, due: tuple[int, ...]) -> torch.Tensor:
    """States that were joined along an axis that was there already, each in its place."""
    *leading, t, h = due
    if tuple(states.shape) == (*leading, t * h):
        return states.reshape(due)
    if leading and tuple(states.shape) == (t * leading[0], *leading[1:], h):
        return states.reshape(t, *leading, h).movedim(0, -2)
    return states


def _from_pieces(student: Student, state: torch.Tensor, case: Case) -> torch.Tensor:
    """All states of an answer that returns one of them."""
    if case.x.shape[-2] == 1:
        return state.unsqueeze(-2)
    first = _only_state(student, case._replace(x=case.x[..., :1, :]), state.shape)
    states = [first]
    for t in range(1, case.x.shape[-2]):
        if torch.equal(first, state):  # it is the first one: go on from each
            piece = case.of(case.x[..., t : t + 1, :], states[-1].to(case.x.dtype))
        else:  # it is the last one: read up to each word
            piece = case._replace(x=case.x[..., : t + 1, :])
        states.append(_only_state(student, piece, state.shape))
    return torch.stack(states, dim=-2)


def _only_state(student: Student, case: Case, shape: torch.Size) -> torch.Tensor:
    (state,) = results((called(student, case),), state=None)
    if state.numel() != shape.numel():
        expect_shape(state, tuple(shape), STATES)
    return state.reshape(shape)


def felt(before: torch.Tensor, after: torch.Tensor) -> list[bool]:
    """For each word's state, whether it is another one now."""
    arrived: list[bool] = ((before - after).detach().abs().amax(-1) > FELT).tolist()
    return arrived


def with_another_word(case: Case, place: int) -> Case:
    """The same sentence, but for the word there."""
    x = case.x.clone()
    x[place] *= -1
    return case.of(x)


@check(
    points=0.5,
    title=N_("A state comes back for every word: (..., T, H)"),
    hint=N_("One sentence of 5 words, states of 7 numbers each: which shape have all its states together?"),
)
def test_shape(student: Student, rng: Draws) -> None:
    # With equal sizes nearly every slip runs, and shows which one it is; what is told are sizes that differ.
    with contextlib.suppress(CheckFailed, StudentRaised):
        states_of(student, draw(rng, 4, t=4, d=4, h=4))
    case = draw(rng)
    try:
        states_of(student, case)
    except (CheckFailed, StudentRaised) as no:
        try:
            states_of(student, case.of(case.x.unsqueeze(0)))
        except (CheckFailed, StudentRaised):
            raise no from None


@check(
    points=0.5,
    title=N_("A word is felt in other states than its own: they remember"),
    hint=N_("Change word 1 of a sentence, and compare all states before and after. Which of them should change?"),
)
def test_memory(student: Student, rng: Draws) -> None:
    case, place = draw(rng), 1
    before, after = (of_sentence(student, each) for each in (case, with_another_word(case, place)))
    expect_finite(before, STATES, AXES)
    changed = felt(before, after)
    if not any(changed):
        fail(N_("word {place} of a sentence was changed, and all states are as they were"), place=place)
    if not any(changed[:place] + changed[place + 1 :]):
        fail(N_("word {place} of a sentence was changed, and its own state alone with it: no other state remembers "
                "that word"), place=place)  # fmt: skip


@check(
    points=0.5,
    title=N_("The first state is made from the first word, the bias, and zeros for the state before"),
    hint=N_(
        "For word 0 the state before is all zeros. What is left of the formula then? Compute that line by itself, and "
        "compare it with your first state."
    ),
    needs="memory",
)
def test_first_state(student: Student, rng: Draws) -> None:
    case = draw(rng)
    seen = of_sentence(student, case)
    if _all_the_same(seen):  # which is told below: the first word's own state may be right
        seen = of_sentence(student, case.of(case.x[:1]))
    expect_close(seen[:1], reference(*case)[:1], STATES, AXES)


def _all_the_same(states: torch.Tensor) -> bool:
    return not any(felt(states, states[-1:].expand_as(states)))


@check(
    points=0.5,
    title=N_("Each later state is made from its word and the state before it, in the order of the words"),
    hint=N_(
        "Take your own state of word 0 and compute that of word 1 from it, piece by piece, as the formula has it. "
        "Where does your function part from that?"
    ),
    needs="memory",
)
def test_later_states(student: Student, rng: Draws) -> None:
    case = draw(rng)
    seen = of_sentence(student, case)
    early = felt(seen, of_sentence(student, with_another_word(case, T - 1)))[:-1]
    if _all_the_same(seen):
        fail(N_("your states of all {t} words are the same: each word should leave its own"),
             hint=N_("A list can hold one tensor many times: does each step make a new one?"), t=T)  # fmt: skip
    if any(early) and not any(felt(seen, of_sentence(student, case))):  # else it is noise, which is told elsewhere
        fail(N_("the last word, {last}, was changed, and the state of word {t} with it: states are made in the order "
                "of the words, and that one comes before"), says_all=True, last=T - 1, t=early.index(True))  # fmt: skip
    # From the answer's own state before: another first state was paid for above.
    for t in range(1, T):
        step = reference(*case.of(case.x[t : t + 1], seen[t - 1].detach().double()))
        what = Message(N_("state of word {t}, made from your own of word {before},"), {"t": t, "before": t - 1})
        expect_close(seen[t], step[0], what)


@check(
    points=0.5,
    title=N_("h0 is the state before the first word, as (H,) for all or as (..., H) for each"),
    hint=N_(
        "Read a sentence in two halves: hand the last state of the first half to the second one as h0. Are the states "
        "those of the whole sentence?"
    ),
    needs="memory",
)
def test_h0(student: Student, rng: Draws) -> None:
    case = draw(rng)
    try:
        ask_exactly(student, *case[:-1])
    except StudentRaised as raised:
        if _lacks_h0(raised):
            fail(N_("without h0 your function ends in {error}: the state before the first word is all zeros then"),
                 says_all=True, error=raised.type_name)  # fmt: skip
    whole = of_sentence(student, case).detach()
    rest = of_sentence(student, case.of(case.x[1:], whole[0].double().requires_grad_()))
    expect_close(rest, whole[1:], N_("states of words 1 and on, with your state of word 0 as h0,"))
    _expect_h0_of_a_batch(student, draw(rng, B), rng)
    h0 = rng.normal(H).requires_grad_()
    begun = of_sentence(student, case.of(case.x, h0))
    if not begun.requires_grad or _no_gradient(begun, h0):
        fail(
            N_("no gradient of your states arrives at h0: is it copied to a tensor of its own, or detached?"),
            says_all=True,
        )


def _no_gradient(states: torch.Tensor, h0: torch.Tensor) -> bool:
    (gradient,) = torch.autograd.grad(states.sum(), h0, allow_unused=True)
    return gradient is None or not gradient.any()


def _reads_batches(student: Student, case: Case) -> bool:
    """Whether, without any h0, a batch gives what its last sentence gives alone, or its last batch."""
    try:
        expect_close(of_any(student, case)[-1], of_sentence(student, case.of(case.x[-1])), STATES)
    except (CheckFailed, StudentRaised):
        return False
    return True


def _expect_h0_of_a_batch(student: Student, case: Case, rng: Draws) -> None:
    """Begun with one state for all, or with one for each, a batch gives what its sentences give one by one."""
    if not _reads_batches(student, case):
        return  # which is asked for elsewhere
    starts = rng.normal(B, H)
    alone = [of_sentence(student, case.of(x, h0)) for x, h0 in zip(case.x, starts, strict=True)]
    for_each = of_any(student, case.of(case.x, starts))
    expect_close(for_each, torch.stack(alone), N_("states of a batch, with an h0 for each sentence,"), AXES)
    for_all = of_any(student, case.of(case.x, starts[1]))
    expect_close(for_all[1], alone[1], N_("states of a batch's sentence 1, with one h0 for all,"), AXES)
    pairs = case.of(torch.stack([case.x, case.x.flip(0)]))
    if not _reads_batches(student, pairs):
        return
    for_each = of_any(student, pairs._replace(h0=torch.stack([starts, starts.flip(0)])))
    alone_in_pairs = torch.stack([torch.stack(alone), torch.stack(alone).flip(0)])
    expect_close(for_each, alone_in_pairs, N_("states for x of shape (2, B, T, D), with h0 of shape (2, B, H),"))
    for_all = of_any(student, pairs._replace(h0=starts[1]))
    expect_close(for_all[0, 1], alone[1], N_("states for x of shape (2, B, T, D), with h0 of shape (H,),"))


@check(
    points=0.5,
    title=N_("Any leading axes will do: one sentence, a batch, a batch of batches, one word"),
    hint=N_(
        "Put three sentences in one by one, and then as a batch: are the states the same? Which of your steps counts "
        "axes from the front?"
    ),
    needs="memory",
)
def test_leading_axes(student: Student, rng: Draws) -> None:
    case = draw(rng, B)
    value = called(student, case)
    # What comes back in another form for every x was told with the shape.
    as_due = isinstance(value, torch.Tensor) and value.dim() == case.x.dim() and value.shape[-2] in (B, T)
    states = states_of if as_due else of_any
    batch = put_right(student, value, case, in_order=as_due)
    alone = torch.stack([of_sentence(student, case.of(x)) for x in case.x])
    expect_close(batch, alone, N_("states of a batch, compared with those of its sentences one by one,"), AXES)
    of_any(student, case.of(case.x[0]))
    for x, expected in (
        (torch.stack([case.x, case.x.flip(0)]), torch.stack([alone, alone.flip(0)])),
        (case.x[1:2].mT.contiguous().mT, alone[1:2]),
    ):
        what = Message(N_("states for x of shape {shape}"), {"shape": str(tuple(x.shape))})
        expect_close(states(student, case.of(x)), expected, what)
    if as_due:  # of sizes that are equal nobody can tell which is which
        states(student, case.of(case.x[:, :1]))
        states(student, case.of(case.x[:1, :1]))


@check(
    points=0.5,
    title=N_("Gradients reach every word, both matrices and the bias, through all the steps"),
    hint=N_(
        "Call backward() on the last state alone, and print x.grad: does the first word have a gradient? Which of your "
        "steps leaves the graph?"
    ),
    needs="memory",
)
def test_gradients(student: Student, rng: Draws) -> None:
    case = Case(*(value.requires_grad_() for value in draw(rng)[:-1]))
    found, expected = of_sentence(student, case), reference(*case)
    if not found.requires_grad:
        fail(N_("no gradients flow through your states: on the way from the inputs the graph is cut"))
    try:
        if _is_right(found, expected):
            inputs = dict(zip(Case._fields, case[:-1], strict=False))
            expect_gradients(found[-1], expected[-1], inputs, rng.normal(H), N_("last state"))
            expect_gradients(found, expected, inputs, rng.normal(T, H), STATES)
        else:
            _expect_gradients_of_what_is_felt(student, case, found)
    except StudentRaised as raised:
        if OVERWRITTEN in raised.message:
            fail(N_("backward() stops: a tensor that a step has read was written into afterwards, and its gradient "
                    "needs the numbers that stood there. Make the state of each step a tensor of its own"),
                 says_all=True)  # fmt: skip
        raise


OVERWRITTEN = "modified by an inplace operation"
"""What torch says of a tensor that was changed before its gradient was computed."""


def _is_right(found: torch.Tensor, expected: torch.Tensor) -> bool:
    return torch.allclose(found.detach().double(), expected.detach(), rtol=1e-4, atol=1e-5)


def _expect_gradients_of_what_is_felt(student: Student, case: Case, states: torch.Tensor) -> None:
    """Whatever the last state is made from, its gradient arrives there, though the state be a wrong one."""
    gradients = torch.autograd.grad(states[-1].sum(), case[:-1], allow_unused=True)
    of_words = torch.zeros_like(case.x) if gradients[0] is None else gradients[0]
    plain = Case(*(value.detach() for value in case[:-1]))
    for t in range(T):
        if not of_words[t].any() and felt(states, of_sentence(student, with_another_word(plain, t)))[-1]:
            fail(N_("no gradient of your last state arrives at word {t}"), t=t)
    for place, name in enumerate(Case._fields[1:-1], start=1):
        other = plain._replace(**{name: -plain[place]})
        arrives = gradients[place] is not None and gradients[place].any()
        if not arrives and felt(states, of_sentence(student, other))[-1]:
            fail(N_("no gradient of your last state arrives at {name}"), name=name)


@check(
    points=0.5,
    title=N_("The states have the dtype of x and are finite for huge words, and what was given stays as it was"),
    hint=N_("Call it in float64, and print the dtype of every tensor that you make yourself."),
    needs="memory",
)
def test_as_given(student: Student, rng: Draws) -> None:
    case = draw(rng)
    first, again = of_sentence(student, case), of_sentence(student, case)
    with_hint(
        N_("Call it twice with the same inputs. What is left over from the first call, or drawn anew?"),
        expect_close, again, first, N_("states of the second call with the same inputs"), AXES,
    )  # fmt: skip
    with contextlib.suppress(CheckFailed, StudentRaised):  # that it takes h0 is asked above
        of_sentence(student, case.of(case.x, rng.normal(H)))
    with_hint(
        N_("Which of your lines writes into a tensor, or gives it other axes in place? Is that tensor yours?"),
        expect_inputs_unchanged, student.changed_inputs,
    )  # fmt: skip
    found = {dtype: of_sentence(student, case.to(dtype), ask) for dtype in DTYPES}
    for dtype, states in found.items():
        expect_dtype(states, dtype, STATES)
        expect_finite(states, STATES, AXES)
    # Whether the numbers are right is asked above: here, that they are the same.
    expect_close(found[torch.float32], found[torch.float64], N_("states in float32"), AXES)
    huge = of_sentence(student, case.of(case.x * HUGE).to(torch.float32))
    with_hint(
        N_("What is tanh of 10000? Compute each piece of your own way to it for such a number, and print it."),
        expect_finite, huge, Message(N_("states for words with numbers around {size}"), {"size": HUGE}), AXES,
    )  # fmt: skip
