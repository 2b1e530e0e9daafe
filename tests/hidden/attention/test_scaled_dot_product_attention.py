"""Proves that an answer is scaled dot-product attention: ``softmax(Q Kᵀ / √d) V`` and the weights themselves.

The checks are cut so that one slip costs what it is worth, and is told once:

- the weights are compared for d = 1, where no scale shows, and the scale is looked at alone;
- the output is compared with the answer's *own* weights times V; weights in which queries or keys have no say show
  nothing of that;
- weights and scale see batches of one sentence, repeated: whether sentences mix is a check of its own, as are
  leading axes, where the answer is compared with itself;
- a function that takes one sentence only is asked sentence by sentence, and one that takes float32 only is
  asked in float32: they lose the checks on batches and on dtypes;
- the last word has `gradients`, which compares everything with the reference in float64.

All sizes differ from one another, except in one case where all are equal.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import Any

import torch

from autograder.messages import Message
from autograder.suite import (
    N_,
    Draws,
    Student,
    StudentRaised,
    ask,
    check,
    expect_close,
    expect_dtype,
    expect_finite,
    expect_gradients,
    expect_inputs_unchanged,
    expect_rows_sum_to_one,
    fail,
    results,
)

B, TQ, TK, D, DV = 3, 4, 6, 5, 7
OUTPUT, WEIGHTS = N_("output"), N_("weights")
WEIGHT_AXES = (N_("query"), N_("key"))
OUTPUT_AXES = (N_("query"), N_("value column"))

Pair = tuple[torch.Tensor, torch.Tensor]
Triple = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def reference(Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor) -> Pair:
    """Output and weights, from sums over broadcast products: no matmul, no softmax."""
    scores = (Q.unsqueeze(-2) * K.unsqueeze(-3)).sum(-1) / math.sqrt(Q.shape[-1])
    weights = torch.exp(scores - torch.logsumexp(scores, -1, keepdim=True))
    return weighted(weights, V), weights


def weighted(weights: torch.Tensor, V: torch.Tensor) -> torch.Tensor:
    """For each query the sum of the values, weighted."""
    return (weights.unsqueeze(-1) * V.unsqueeze(-3)).sum(-2)


def draw(
    rng: Draws,
    *leading: int,
    tq: int = TQ,
    tk: int = TK,
    d: int = D,
    dv: int = DV,
    dtype: torch.dtype = torch.float64,
) -> Triple:
    """Queries, keys and values whose scores are not saturated."""
    return (
        rng.normal(*leading, tq, d, dtype=dtype),
        rng.normal(*leading, tk, d, dtype=dtype),
        rng.normal(*leading, tk, dv, dtype=dtype),
    )


def repeated(sentence: Triple) -> Triple:
    """A batch of one sentence becomes a batch of three times that sentence."""
    Q, K, V = (x.repeat(B, 1, 1) for x in sentence)
    return Q, K, V


def attend(student: Student, Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor) -> Pair:
    """The student's output and weights, of the right shapes. Copies are passed: a change does not pile up."""
    return _unpack(ask(student, Q, K, V), Q, K, V)


def _unpack(value: Any, Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor) -> Pair:
    rows = Q.shape[:-1]
    output, weights = results(value, output=(*rows, V.shape[-1]), weights=(*rows, K.shape[-2]))
    return output, weights


def attend_each(student: Student, Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor) -> Pair:
    """As `attend`, for a batch; sentence by sentence where the function can't take a batch."""
    try:
        return attend(student, Q, K, V)
    except StudentRaised as raised:
        try:
            pairs = [attend(student, *sentence) for sentence in zip(Q, K, V, strict=True)]
        except StudentRaised:
            raise raised from None
    return torch.stack([output for output, _ in pairs]), torch.stack([weights for _, weights in pairs])


def attend_exactly(student: Student, Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor) -> Pair:
    """As `attend_each`, for float64; in float32 where the function can't take float64."""
    try:
        return attend_each(student, Q, K, V)
    except StudentRaised as raised:
        try:
            return attend_each(student, Q.float(), K.float(), V.float())
        except StudentRaised:
            raise raised from None


@check(
    points=2,
    title=N_("The output and the weights come back, in this order and of the right shapes"),
    hint=N_(
        "Write the shape beside each step on paper: which axis disappears in Q Kᵀ, and which one in the product with V?"
    ),
)
def test_shapes(student: Student, rng: Draws) -> None:
    # Equal sizes first: there nearly every slip runs, and shows which one it is.
    attend_each(student, *draw(rng, B, tq=4, tk=4, d=4, dv=4, dtype=torch.float32))
    attend_each(student, *draw(rng, B, dtype=torch.float32))


@check(
    points=2,
    title=N_("Each query's weights sum to 1"),
    hint=N_(
        "Add up each row and each column of your weights. Which of them should be 1, if one query shares out "
        "its attention among the keys?"
    ),
    needs="shapes",
)
def test_rows_sum_to_one(student: Student, rng: Draws) -> None:
    Q, K, V = draw(rng, B, dtype=torch.float32)
    _, weights = attend_each(student, Q, K, V)
    with contextlib.suppress(StudentRaised):
        # Only recorded: with the numbers of axes 2 and 3 seen, the axis of a wrong softmax can be told.
        student(Q[0], K[0], V[0])
    expect_rows_sum_to_one(weights, WEIGHTS, WEIGHT_AXES)


@check(
    points=3,
    title=N_("The weights are the softmax of the dot products, whatever these are divided by"),
    hint=N_("Take two queries and three keys of one number each, and work out by hand which query looks at which key."),
    needs="rows_sum_to_one",
)
def test_weights(student: Student, rng: Draws) -> None:
    Q, K, V = repeated(draw(rng, 1, d=1))
    _, weights = attend_exactly(student, Q, K, V)
    if _divisor(weights, Q, K) is None:  # the scale has a check of its own
        expect_close(weights, reference(Q, K, V)[1], WEIGHTS, WEIGHT_AXES)


@check(
    points=2,
    title=N_("The output is the average of the values under the weights"),
    hint=N_(
        "Row i of the output belongs to query i: it adds up the rows of V, each times the weight that you "
        "return for it."
    ),
    needs="shapes",
)
def test_output(student: Student, rng: Draws) -> None:
    Q, K, V = draw(rng, B)
    output, weights = attend_exactly(student, Q, K, V)
    expect_finite(output, OUTPUT, OUTPUT_AXES)
    if torch.allclose(output.double(), reference(Q, K, V)[0], rtol=1e-5, atol=1e-5):
        return
    # Weights that are wrong were paid for elsewhere: what counts here is what is done with them.
    expect_finite(weights, WEIGHTS, WEIGHT_AXES)
    own = weights.double()
    _expect_both_count(student, rng, own, (Q, K, V))
    expected = weighted(own, V)
    expect_close(output, expected, N_("output (against your own weights times V)"), OUTPUT_AXES)


def _expect_both_count(student: Student, rng: Draws, weights: torch.Tensor, inputs: Triple) -> None:
    """The student's weights for these inputs depend on what the queries hold, and on what the keys hold."""
    Q, K, V = inputs
    if torch.allclose(weights, weights.flatten()[0]):
        fail(N_("all your weights are equal, so that nothing can be seen of how they meet the values"))
    if torch.allclose(weights, weights[..., :1, :].expand_as(weights), rtol=1e-6, atol=1e-6):
        fail(N_("all queries of a sentence have the same weights: what a query holds has no say"))
    _, other = attend_exactly(student, Q, rng.normal(*K.shape), V)
    if torch.allclose(other.double(), weights, rtol=1e-6, atol=1e-6):
        fail(N_("other numbers in K do not change your weights"))


@check(
    points=2,
    title=N_("The dot products are divided by √d, whatever d is"),
    hint=N_(
        "How does the spread of a dot product grow with the number of terms in it? Print the largest weight "
        "for d = 4 and for d = 1024."
    ),
    needs="weights",
)
def test_scale(student: Student, rng: Draws) -> None:
    for sizes in (
        {"tq": 4, "tk": 6, "d": 3, "dv": 5},
        {"tq": 3, "tk": 5, "d": 1, "dv": 2},
        {"tq": 4, "tk": 4, "d": 4, "dv": 4},
        {"tq": 5, "tk": 2, "d": 16, "dv": 7},
        {"tq": 2, "tk": 7, "d": 64, "dv": 3},
    ):
        Q, K, V = repeated(draw(rng, 1, **sizes))
        _, weights = attend_exactly(student, Q, K, V)
        _expect_divisor(weights, Q, K)
        what = Message(N_("weights for d = {d}"), {"d": sizes["d"]})
        expect_close(weights, reference(Q, K, V)[1], what, WEIGHT_AXES)


def _expect_divisor(weights: torch.Tensor, Q: torch.Tensor, K: torch.Tensor) -> None:
    """Where the weights are the softmax of the dot products divided by anything, it is √d."""
    seen, due = _divisor(weights, Q, K), math.sqrt(Q.shape[-1])
    if seen is not None and abs(due / seen - 1) > 1e-3:
        fail(N_("for d = {d} your dot products are divided by {seen}, expected √{d} = {expected}"),
             d=Q.shape[-1], seen=f"{seen:.3g}", expected=f"{due:.3g}")  # fmt: skip


def _divisor(weights: torch.Tensor, Q: torch.Tensor, K: torch.Tensor) -> float | None:
    """What the dot products were divided by before their softmax, or None where the weights are no such softmax.

    ``log(weights)`` is the dot products divided by it, up to a constant for each query, so that it can be
    read off by least squares.
    """
    if not bool((weights > 0).all()) or weights.shape[-1] < 2:
        return None
    logs, dots = weights.detach().double().log(), (Q.unsqueeze(-2) * K.unsqueeze(-3)).sum(-1)
    logs, dots = logs - logs.mean(-1, keepdim=True), dots - dots.mean(-1, keepdim=True)
    slope = float((logs * dots).sum() / dots.square().sum())
    explained = torch.allclose(logs, slope * dots, rtol=1e-4, atol=1e-4)
    # Equal weights have a slope of 0, give or take the rounding.
    return 1 / slope if explained and slope > 1e-6 else None


@check(
    points=1,
    title=N_("Each sentence of a batch is on its own"),
    hint=N_(
        "Feed one sentence alone, then the same sentence inside a batch. Which of your steps looks across "
        "the batch axis?"
    ),
    needs="weights",
)
def test_batch_independence(student: Student, rng: Draws) -> None:
    Q, K, V = draw(rng, B, dtype=torch.float32)
    output, weights = attend(student, Q, K, V)
    for b in range(B):
        one = slice(b, b + 1)
        alone_output, alone_weights = attend(student, Q[one], K[one], V[one])
        which = {"b": b}
        alone = Message(N_("weights for sentence {b} of a batch, when it is fed alone,"), which)
        expect_close(alone_weights[0], weights[b], alone, WEIGHT_AXES)
        alone = Message(N_("output for sentence {b} of a batch, when it is fed alone,"), which)
        expect_close(alone_output[0], output[b], alone, OUTPUT_AXES)
    moved_output, moved_weights = attend(student, Q.roll(1, 0), K.roll(1, 0), V.roll(1, 0))
    expect_close(moved_weights, weights.roll(1, 0), N_("weights for the batch in another order"), WEIGHT_AXES)
    expect_close(moved_output, output.roll(1, 0), N_("output for the batch in another order"), OUTPUT_AXES)


@check(
    points=1,
    title=N_("Any leading axes and any lengths will do: one sentence, a batch, a batch of heads, one word"),
    hint=N_(
        "Which of your steps counts axes from the front, or writes down a size that it could ask for? The "
        "last two axes are the last two in every case."
    ),
    needs="batch_independence",
)
def test_leading_axes(student: Student, rng: Draws) -> None:
    Q, K, V = draw(rng, B, dtype=torch.float32)
    output, weights = attend(student, Q, K, V)
    # Two heads: the batch as it is, and the batch in another order, so that every slice is known.
    order = [1, 2, 0]
    heads = [torch.stack([x, x[order]], dim=1) for x in (Q, K, V, output, weights)]
    _expect_same(student, heads[:3], heads[3:])
    # The same as it comes out of splitting heads: the head axis lies behind the words in memory.
    split = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in heads[:3]]
    _expect_same(student, split, heads[3:])
    _expect_same(student, [x.unsqueeze(2) for x in heads[:3]], [x.unsqueeze(2) for x in heads[3:]])
    for b in range(B):
        _expect_same(student, [Q[b], K[b], V[b]], [output[b], weights[b]])
    # Stored column by column.
    _expect_same(student, [x.mT.contiguous().mT for x in (Q, K, V)], [output, weights])
    # Sizes of one: a query, a value column, a key (which gets all the weight), everything.
    _expect_same(student, [Q[:, :1], K, V], [output[:, :1], weights[:, :1]])
    _expect_same(student, [Q, K, V[..., :1]], [output[..., :1], weights])
    key = Q, K[:, :1], V[:, :1]
    for inputs in (key, [x[:1, :1] for x in key], [x[0, :1, :1] for x in key]):
        _expect_same(student, inputs, [None, torch.ones(*inputs[0].shape[:-1], 1)])


def _expect_same(student: Student, inputs: Sequence[torch.Tensor], expected: Sequence[torch.Tensor | None]) -> None:
    found = attend(student, *inputs)
    shapes = {name: str(tuple(x.shape)) for name, x in zip("QKV", inputs, strict=True)}
    for name, seen, wanted in zip((OUTPUT, WEIGHTS), found, expected, strict=True):
        what = Message(N_("{name} for Q {Q}, K {K}, V {V}"), {"name": Message(name), **shapes})
        expect_finite(seen, what)
        if wanted is not None:
            expect_close(seen, wanted, what)


@check(
    points=0.5,
    title=N_("float32, float64 and bfloat16 go in, and the same comes out"),
    hint=N_("Does one of your steps make a new tensor? Which dtype does it get?"),
    needs="shapes",
)
def test_dtypes(student: Student, rng: Draws) -> None:
    inputs = draw(rng, B)
    found = {}
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        Q, K, V = (x.to(dtype) for x in inputs)
        found[dtype] = output, weights = attend_each(student, Q, K, V)
        expect_dtype(output, dtype, OUTPUT)
        expect_dtype(weights, dtype, WEIGHTS)
        expect_finite(output, OUTPUT, OUTPUT_AXES)
        expect_finite(weights, WEIGHTS, WEIGHT_AXES)
    (output, weights), (exact_output, exact_weights) = found[torch.float32], found[torch.float64]
    expect_close(output, exact_output, N_("output in float32"), OUTPUT_AXES)
    expect_close(weights, exact_weights, N_("weights in float32"), WEIGHT_AXES)


@check(
    points=1,
    title=N_("Huge scores still give proper weights, and finite gradients"),
    hint=N_("What is exp(1000)? And what happens to a softmax when the same number is taken from all scores of a row?"),
    needs="weights",
)
def test_huge_logits(student: Student, rng: Draws) -> None:
    Q, K, V = _huge(rng, largest=1e4)
    output, weights = attend_each(student, Q, K, V)
    expect_close(weights, reference(Q, K, V)[1], N_("weights for huge scores"), WEIGHT_AXES)
    expect_finite(output, N_("output for huge scores"), OUTPUT_AXES)
    for largest in (1e3, 1e4):
        output, weights = attend_each(student, *(x.float() for x in _huge(rng, largest)))
        expect_finite(weights, N_("weights for huge scores in float32"), WEIGHT_AXES)
        expect_finite(output, N_("output for huge scores in float32"), OUTPUT_AXES)
        if largest == 1e3:  # beyond it, float32 itself is too coarse for a logsumexp
            expect_rows_sum_to_one(weights, N_("weights for huge scores in float32"), WEIGHT_AXES, atol=1e-3)
    _expect_finite_gradients(student, *(x.requires_grad_() for x in _huge(rng, largest=1e4)))


def _expect_finite_gradients(student: Student, Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor) -> None:
    """Where there are gradients at all, which is another check's business."""
    try:
        output, _ = attend_each(student, Q, K, V)
    except StudentRaised:
        return
    if output.requires_grad:
        grads = torch.autograd.grad(output.sum(), (Q, K, V), allow_unused=True)
        for name, grad in zip("QKV", grads, strict=True):
            if grad is not None:
                what = Message(N_("gradient with respect to {name} for huge scores"), {"name": name})
                expect_finite(grad, what)


def _huge(rng: Draws, largest: float) -> Triple:
    """Inputs whose largest score is `largest`, while other queries' scores are far smaller.

    Each query's best key wins clearly: where two keys tie, the rounding of √d to float32 alone would show.
    """
    while True:
        Q, K, V = draw(rng, 1)
        Q = Q * torch.linspace(1.0, 0.3, TQ, dtype=torch.float64).unsqueeze(-1)
        scores = (Q.unsqueeze(-2) * K.unsqueeze(-3)).sum(-1) / math.sqrt(D)
        factor = largest / scores.max()
        best = (scores * factor).topk(2, -1).values
        if (best[..., 0] - best[..., 1]).min() > largest / 20 and scores.max() == scores.abs().max():
            return repeated((Q * factor, K, V))


@check(
    points=1,
    title=N_("Gradients reach Q, K and V from the output, and Q and K from the weights"),
    hint=N_(
        "Call backward() on the sum of each result, and print Q.grad, K.grad and V.grad. Which of your steps "
        "leaves the graph?"
    ),
    needs=("output", "scale"),
)
def test_gradients(student: Student, rng: Draws) -> None:
    Q, K, V = (x.requires_grad_() for x in draw(rng, B))
    inputs = {"Q": Q, "K": K, "V": V}
    output, weights = attend_each(student, Q, K, V)
    expected_output, expected_weights = reference(Q, K, V)
    expect_close(weights, expected_weights, WEIGHTS, WEIGHT_AXES)
    expect_close(output, expected_output, OUTPUT, OUTPUT_AXES)
    expect_gradients(output, expected_output, inputs, rng.normal(B, TQ, DV), OUTPUT)
    expect_gradients(weights, expected_weights, inputs, rng.normal(B, TQ, TK), WEIGHTS)


@check(
    points=0.5,
    title=N_("Q, K and V stay as they were, and the same call gives the same again"),
    hint=N_(
        "Print Q before and after the call. Which of your steps writes into a tensor that it was given, or "
        "draws random numbers?"
    ),
    needs="shapes",
)
def test_hygiene(student: Student, rng: Draws) -> None:
    Q, K, V = draw(rng, B, dtype=torch.float32)
    output, weights = attend_each(student, Q, K, V)
    attend_each(student, *draw(rng, 2, tq=2, tk=3, d=2, dv=4, dtype=torch.float32))
    again_output, again_weights = attend_each(student, Q, K, V)
    expect_inputs_unchanged(student.changed_inputs)
    expect_close(again_weights, weights, N_("weights of the second call with the same inputs"), WEIGHT_AXES)
    expect_close(again_output, output, N_("output of the second call with the same inputs"), OUTPUT_AXES)
    x = rng.normal(B, D, D, dtype=torch.float32)
    expected_output, expected_weights = attend_each(student, x, x, x)
    output, weights = _self_attention(student, x)
    expect_close(weights, expected_weights, N_("weights for one tensor as Q, K and V"), WEIGHT_AXES)
    expect_close(output, expected_output, N_("output for one tensor as Q, K and V"), OUTPUT_AXES)
    expect_inputs_unchanged(student.changed_inputs)


def _self_attention(student: Student, x: torch.Tensor) -> Pair:
    """Q, K and V are one and the same tensor, not three equal ones."""
    try:
        return _unpack(student(x, x, x), x, x, x)
    except StudentRaised:
        pairs = [_unpack(student(one, one, one), one, one, one) for one in x]
    return torch.stack([output for output, _ in pairs]), torch.stack([weights for _, weights in pairs])
