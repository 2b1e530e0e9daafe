"""Proves that an answer is attention that may not look everywhere: a padded key, a future place, or both.

The checks are cut so that one slip costs what it is worth, and is told once:

- where weights are exactly zero and where they are not is asked apart from their values, for each mask and for
  both together;
- that rows sum to 1 is asked apart from both; the output is compared with the answer's *own* weights times V;
- what more padding, huge scores, other batches, and dtypes do is compared with the answer itself where that says
  enough, so that a wrong scale is paid for once;
- zeros at the right places are worth something only where queries and keys decide about the rest: weights that are
  not the right ones must depend on both;
- rows with no allowed key stand in checks of their own, forwards and backwards, and in none of the others;
- an answer that takes float32 only, or is NaN in float64 alone, is asked in float32, and loses the check on dtypes;
- the last word has `gradients`, which compares everything with the reference in float64.

All sizes differ from one another, except where all are equal (a mask along the wrong axis runs there), or B = Tq.
Masks are ragged: each row forbids another number of keys.
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
    ask_exactly,
    causal,
    check,
    expect_close,
    expect_dtype,
    expect_finite,
    expect_gradients,
    expect_inputs_unchanged,
    expect_rows_sum_to_one,
    fail,
    largest_change,
    padding,
    results,
    scattered,
)

B, TQ, TK, D, DV = 3, 4, 6, 5, 7
OUTPUT, WEIGHTS = N_("output"), N_("weights")
WEIGHT_AXES = (N_("query"), N_("key"))
OUTPUT_AXES = (N_("query"), N_("value column"))
MORE = 10
"""Pads that are added."""

Mask = torch.Tensor | None
Pair = tuple[torch.Tensor, torch.Tensor]
Triple = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
Inputs = tuple[torch.Tensor, torch.Tensor, torch.Tensor, Mask, Mask]


def forbidden_by(Q: torch.Tensor, K: torch.Tensor, padding: Mask = None, attn: Mask = None) -> torch.Tensor:
    """(B, Tq, Tk), True where a query may not look at a key."""
    forbidden = torch.zeros(*Q.shape[:-1], K.shape[-2], dtype=torch.bool)
    if padding is not None:
        forbidden = forbidden | padding.unsqueeze(1)
    return forbidden if attn is None else forbidden | attn


def reference(Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, padding: Mask = None, attn: Mask = None) -> Pair:
    """Output and weights: each allowed exponential as a share of their sum; no matmul, no softmax."""
    scores = (Q.unsqueeze(-2) * K.unsqueeze(-3)).sum(-1) / math.sqrt(Q.shape[-1])
    forbidden = forbidden_by(Q, K, padding, attn)
    nothing = forbidden.all(-1, keepdim=True)
    # A row's own largest score is taken from it: any other number would do, so that no gradient need pass there.
    largest = scores.detach().masked_fill(forbidden, -math.inf).amax(-1, keepdim=True).masked_fill(nothing, 0)
    parts = (scores - largest).masked_fill(forbidden, -math.inf).exp()
    weights = parts / parts.sum(-1, keepdim=True).masked_fill(nothing, 1)
    return weighted(weights, V), weights


def weighted(weights: torch.Tensor, V: torch.Tensor) -> torch.Tensor:
    """For each query the sum of the values, weighted."""
    return (weights.unsqueeze(-1) * V.unsqueeze(-3)).sum(-2)


def draw(
    rng: Draws, b: int = B, tq: int = TQ, tk: int = TK, d: int = D, dv: int = DV, dtype: torch.dtype = torch.float64
) -> Triple:
    """Queries, keys and values whose scores are not saturated."""
    return rng.normal(b, tq, d, dtype=dtype), rng.normal(b, tk, d, dtype=dtype), rng.normal(b, tk, dv, dtype=dtype)


def draw_equal(rng: Draws) -> Triple:
    """All sizes are 4: nearly every slip runs there."""
    return draw(rng, 4, 4, 4, 4, 4)


def both(rng: Draws) -> Inputs:
    """Sizes that all differ, and both masks; each row has an allowed key, and each mask something of its own."""
    return *draw(rng), padding(rng, 2, 3, 5, keys=TK), scattered(rng, TQ, TK)


def only_padding(rng: Draws) -> Inputs:
    """Sizes that all differ, and a padding mask."""
    return *draw(rng), padding(rng, 2, 3, 5, keys=TK), None


def only_attn(rng: Draws) -> Inputs:
    """Sizes that all differ, and a mask for pairs."""
    return *draw(rng), None, scattered(rng, TQ, TK)


def attend(
    student: Student, Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, padding: Mask = None, attn: Mask = None
) -> Pair:
    """The student's output and weights, of the right shapes. Copies are passed: a change does not pile up."""
    return _unpack(ask(student, Q, K, V, *_masks(padding, attn)), Q, K, V)


def _masks(padding: Mask, attn: Mask) -> list[Mask]:
    """Only those that are there: a function may not know of masks yet."""
    return [padding, attn] if attn is not None else [padding] if padding is not None else []


def _unpack(value: Any, Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor) -> Pair:
    rows = Q.shape[:-1]
    output, weights = results(value, output=(*rows, V.shape[-1]), weights=(*rows, K.shape[-2]))
    return output, weights


def attend_exactly(
    student: Student, Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, padding: Mask = None, attn: Mask = None
) -> Pair:
    """As `attend`, for float64; in float32 where the function can't take float64, or gives numbers in float32 alone."""
    return _exactly(student, (Q, K, V), *_masks(padding, attn))


def _exactly(student: Student, inputs: Triple, *masks: Mask, **named: Mask) -> Pair:
    found = _unpack(ask_exactly(student, *inputs, *masks, **named), *inputs)
    if not _finite(found):
        # What overflows in float64 alone is paid for once, by the check on dtypes.
        Q, K, V = (x.float() for x in inputs)
        with contextlib.suppress(StudentRaised):
            narrow = _unpack(ask(student, Q, K, V, *masks, **named), Q, K, V)
            return narrow if _finite(narrow) else found
    return found


def _finite(pair: Pair) -> bool:
    return all(bool(x.isfinite().all()) for x in pair)


def expect_pattern(weights: torch.Tensor, forbidden: torch.Tensor, why: str) -> None:
    """Weights are exactly zero at forbidden keys, and at no others.

    Args:
        weights: the student's, (B, Tq, Tk), for scores that are not saturated.
        forbidden: of the same shape.
        why: the sentence for a forbidden key that has a weight.
    """
    expect_finite(weights, WEIGHTS, WEIGHT_AXES)
    leaks, lost = forbidden & (weights != 0), ~forbidden & (weights == 0)
    for wrong, says in ((leaks, why), (lost, ALLOWED)):
        places = wrong.nonzero()
        if len(places):
            b, query, key = places[0].tolist()
            seen = f"{float(weights[b, query, key]):.3g}"
            fail(says, b=b, query=query, key=key, seen=seen, count=len(places), total=int(forbidden.sum()))


def expect_both_count(student: Student, rng: Draws, weights: torch.Tensor, inputs: Inputs) -> None:
    """Weights that are not the right ones depend on what the queries hold, and on what the keys hold.

    Args:
        weights: the student's for these inputs, for scores that are not saturated.
        inputs: those of a call; every query may look at key 0.
    """
    Q, K, V, *masks = inputs
    if torch.allclose(weights.double(), reference(*inputs)[1], rtol=1e-5, atol=1e-5):
        return
    if _shared_alike(weights.detach().double(), ~forbidden_by(Q, K, *masks)):
        fail(N_("all queries of a sentence share their attention out in the same way among the keys that they may "
                "look at: what a query holds has no say"))  # fmt: skip
    other = torch.cat([rng.normal(len(K), 1, K.shape[-1]), K[:, 1:]], dim=1)
    _, found = attend_exactly(student, Q, other, V, *masks)
    if torch.allclose(found.double(), weights.double(), rtol=1e-6, atol=1e-6):
        fail(N_("other numbers in key 0 do not change your weights, though each query may look at it"))


def _shared_alike(weights: torch.Tensor, allowed: torch.Tensor) -> bool:
    """Whether any two queries of a sentence weigh the keys that both may see in the same proportions."""
    common = allowed.unsqueeze(-2) & allowed.unsqueeze(-3)
    one, two = weights.unsqueeze(-2) * common, weights.unsqueeze(-3) * common
    return torch.allclose(one * two.sum(-1, keepdim=True), two * one.sum(-1, keepdim=True), rtol=1e-6, atol=1e-6)


ALLOWED = N_("your weights at sentence {b}, query {query}, key {key}: 0, though the query may look at this key")
PADDED = N_(
    "your weights at sentence {b}, query {query}, key {key}: {seen}, expected exactly 0, since the key is padding "
    "({count} of {total} forbidden weights are not 0)"
)
HIDDEN = N_(
    "your weights at sentence {b}, query {query}, key {key}: {seen}, expected exactly 0, since attn_mask forbids it "
    "({count} of {total} forbidden weights are not 0)"
)
EITHER = N_(
    "your weights at sentence {b}, query {query}, key {key}: {seen}, expected exactly 0, since one of the two masks "
    "forbids it ({count} of {total} forbidden weights are not 0)"
)
EMPTY = N_(
    "your weights at sentence {b}, query {query}, key {key}: {seen}, expected exactly 0 "
    "({count} of {total} forbidden weights are not 0; some queries may look at no key at all)"
)


@check(
    points=0.5,
    title=N_("The output and the weights come back, in this order and of the right shapes"),
    hint=N_("Without masks this is attention as you know it: which two results are due, and what shape has each?"),
)
def test_shapes(student: Student, rng: Draws) -> None:
    # Equal sizes first: there nearly every slip runs, and shows which one it is.
    _attend_anyhow(student, *draw_equal(rng))
    _attend_anyhow(student, *draw(rng))


def _attend_anyhow(student: Student, Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor) -> None:
    """Without masks; with masks that forbid nothing where the function can't do without."""
    try:
        attend_exactly(student, Q, K, V)
    except StudentRaised as raised:
        nothing = (
            torch.zeros(len(Q), K.shape[1], dtype=torch.bool),
            torch.zeros(Q.shape[1], K.shape[1], dtype=torch.bool),
        )
        try:
            attend_exactly(student, Q, K, V, *nothing)
        except StudentRaised:
            raise raised from None


@check(
    points=1,
    title=N_("Without masks it is scaled dot-product attention"),
    hint=N_(
        "Leave both masks out, and compare with your attention of the last lesson, step by step: the scores as they "
        "come to the softmax, then the weights. Which step is the first to differ?"
    ),
    needs="shapes",
)
def test_unmasked(student: Student, rng: Draws) -> None:
    for Q, K, V in (draw_equal(rng), draw(rng, tq=5, tk=2, d=16)):
        _, weights = attend_exactly(student, Q, K, V)
        expect_close(weights, reference(Q, K, V)[1], N_("weights without masks"), WEIGHT_AXES)


@check(
    points=1.5,
    title=N_("Padded keys get a weight of exactly 0, the others do not"),
    hint=N_(
        "Take a batch of two sentences, of 1 and 3 words, and print the scores as they come to the softmax, and the "
        "weights. Which columns should have changed, in which sentence, and what stands there?"
    ),
    needs="shapes",
)
def test_padded_keys(student: Student, rng: Draws) -> None:
    for Q, K, V, mask in (
        (*draw_equal(rng), padding(rng, 1, 2, 3, 4, keys=4)),
        (*draw(rng), scattered(rng, B, TK).roll(1, 0)),  # gaps inside
    ):
        _, weights = attend_exactly(student, Q, K, V, mask)
        expect_pattern(weights, forbidden_by(Q, K, mask), PADDED)
    expect_both_count(student, rng, weights, (Q, K, V, mask, None))


@check(
    points=1.5,
    title=N_("What attn_mask forbids gets a weight of exactly 0, the rest does not"),
    hint=N_(
        "Give it a causal mask for 3 words, and print the scores as they come to the softmax, and the weights. Which "
        "triangle should have changed, and what stands there? Is it so in every sentence?"
    ),
    needs="shapes",
)
def test_attn_mask(student: Student, rng: Draws) -> None:
    for Q, K, V, mask in (
        (*draw_equal(rng), causal(4)),
        (*draw(rng), scattered(rng, TQ, TK)),
    ):
        _, weights = attend_exactly(student, Q, K, V, None, mask)
        expect_pattern(weights, forbidden_by(Q, K, None, mask), HIDDEN)
    expect_both_count(student, rng, weights, (Q, K, V, None, mask))


@check(
    points=1,
    title=N_("With both masks, a key is forbidden as soon as either of them says so"),
    hint=N_(
        "A key is padding, but lies in the past: may a query look at it? A key lies in the future, but is a real "
        "word: and at this one?"
    ),
    needs=("padded_keys", "attn_mask"),
)
def test_both_masks(student: Student, rng: Draws) -> None:
    equal = (*draw_equal(rng), padding(rng, 1, 2, 3, 4, keys=4), causal(4))
    _, weights = attend_exactly(student, *equal)
    expect_pattern(weights, forbidden_by(equal[0], equal[1], *equal[3:]), EITHER)
    Q, K, V, pads, attn = both(rng)
    by_name = _by_name(student, Q, K, V, attn_mask=attn, key_padding_mask=pads)
    expect_pattern(by_name[1], forbidden_by(Q, K, pads, attn), EITHER)
    by_name = _by_name(student, Q, K, V, attn_mask=attn)
    expect_pattern(by_name[1], forbidden_by(Q, K, None, attn), HIDDEN)


def _by_name(student: Student, Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, **masks: torch.Tensor) -> Pair:
    """As `attend_exactly`, with the masks as keyword arguments."""
    return _exactly(student, (Q, K, V), **masks)


@check(
    points=1,
    title=N_("Each query's weights sum to 1, under masks too"),
    hint=N_(
        "Print a row of weights as it leaves the softmax, and as you return it. Which keys have a share in the first, "
        "which in the second, and what is the sum of each?"
    ),
    needs="shapes",
)
def test_rows_sum_to_one(student: Student, rng: Draws) -> None:
    for inputs in ((*draw(rng), None, None), both(rng)):
        _, weights = attend_exactly(student, *inputs)
        expect_rows_sum_to_one(weights, WEIGHTS, WEIGHT_AXES)


@check(
    points=1,
    title=N_("The output is the average of the values under the weights that you return"),
    hint=N_(
        "Multiply the weights that you return by V yourself. Is that your output? If not: do the weights change once "
        "more after the output is made?"
    ),
    needs="shapes",
)
def test_output(student: Student, rng: Draws) -> None:
    for inputs in ((*draw(rng), None, None), both(rng)):
        output, weights = attend_exactly(student, *inputs)
        expect_finite(output, OUTPUT, OUTPUT_AXES)
        if torch.allclose(output.double(), reference(*inputs)[0], rtol=1e-5, atol=1e-5):
            continue
        # Weights that are wrong were paid for elsewhere: what counts here is what is done with them.
        expect_finite(weights, WEIGHTS, WEIGHT_AXES)
        expected = weighted(weights.double(), inputs[2])
        expect_close(output, expected, N_("output (against your own weights times V)"), OUTPUT_AXES)


@check(
    points=1,
    title=N_("The allowed keys share as if the others were not there"),
    hint=N_(
        "Take the forbidden keys out of the sentence altogether and compute its weights: what should the weights "
        "with the mask have in common with these?"
    ),
    needs=("unmasked", "both_masks", "rows_sum_to_one"),
)
def test_weights(student: Student, rng: Draws) -> None:
    for inputs in (only_padding(rng), only_attn(rng), both(rng)):
        _, weights = attend_exactly(student, *inputs)
        expect_close(weights, reference(*inputs)[1], WEIGHTS, WEIGHT_AXES)


@check(
    points=0.5,
    title=N_("What stands in the padding changes nothing, and neither do ten more pads"),
    hint=N_(
        "Put other numbers into K and V where the padding is, and compare the outputs to the last digit. Which step "
        "still sees them?"
    ),
    needs=("padded_keys", "output"),
)
def test_more_padding(student: Student, rng: Draws) -> None:
    Q, K, V, pads, _ = inputs = only_padding(rng)
    output, weights = attend_exactly(student, *inputs)
    limit = largest_change(output, reference(*inputs)[0])
    empty = pads.unsqueeze(-1)
    other_K = torch.where(empty, rng.normal(*K.shape), K)
    other_V = torch.where(empty, 1e3 * rng.normal(*V.shape), V)
    found = attend_exactly(student, Q, other_K, other_V, pads)
    _expect_equal(found, (output, weights), limit, OTHER_CONTENTS)
    longer = torch.cat([pads, torch.ones(B, MORE, dtype=torch.bool)], dim=1)
    more_K, more_V = (torch.cat([x, rng.normal(B, MORE, x.shape[-1])], dim=1) for x in (K, V))
    more_output, more_weights = attend_exactly(student, Q, more_K, more_V, longer)
    _expect_equal((more_output, more_weights[..., :TK]), (output, weights), limit, TEN_MORE)


OTHER_CONTENTS = N_("other numbers in the padding change your {what} by {by}, expected no change")
TEN_MORE = N_("ten more pads change your {what} by {by}, expected no change")


def _expect_equal(found: Pair, before: Pair, limit: float, says: str) -> None:
    for name, axes, seen, wanted in zip(
        (WEIGHTS, OUTPUT), (WEIGHT_AXES, OUTPUT_AXES), reversed(found), reversed(before), strict=True
    ):
        expect_finite(seen, name, axes)
        by = float((seen.detach().double() - wanted.detach().double()).abs().max())
        if by > limit:
            fail(says, what=Message(name), by=f"{by:.2g}")


@check(
    points=1,
    title=N_("A query with no allowed key gets zero weights and zero output, never NaN"),
    hint=N_(
        "Forbid one query all of its keys, and print its scores as they come to the softmax, its weights after each "
        "step, and its output. Which step is the first whose result you do not want?"
    ),
    needs=("padded_keys", "attn_mask", "output"),
)
def test_fully_masked(student: Student, rng: Draws) -> None:
    for inputs in _with_empty_rows(rng):
        forbidden = forbidden_by(inputs[0], inputs[1], *inputs[3:])
        output, weights = attend_exactly(student, *inputs)
        expect_pattern(weights, forbidden, EMPTY)
        expect_finite(output, OUTPUT, OUTPUT_AXES)
        leaks = (forbidden.all(-1) & (output != 0).any(-1)).nonzero()
        if len(leaks):
            b, query = leaks[0].tolist()
            seen = f"{float(output[b, query].abs().max()):.3g}"
            fail(N_("your output at sentence {b}, query {query} is not 0 (its largest entry is {seen} in size), though "
                    "the query may look at no key"), b=b, query=query, seen=seen)  # fmt: skip


def _with_empty_rows(rng: Draws) -> list[Inputs]:
    """Some queries with no allowed key, beside others: by padding, by the other mask, by both together."""
    queries, pads, attn = int(rng.normal(TQ).argmax()), padding(rng, 2, 3, 5, keys=TK), scattered(rng, TQ, TK)
    all_padding = pads.clone()
    all_padding[int(rng.normal(B).argmax())] = True
    all_hidden = attn.clone()
    all_hidden[queries] = True
    # What the shortest sentence has is what one query may not see: only together they leave it nothing.
    together = attn.clone()
    together[queries] = torch.arange(TK) < 2
    return [
        (*draw(rng), all_padding, None),
        (*draw(rng), None, all_hidden),
        (*draw(rng), pads, together),
        (*draw(rng, b=2), torch.ones(2, TK, dtype=torch.bool), None),
    ]


@check(
    points=1,
    title=N_("A query with no allowed key sends no NaN back: its gradients are zero, those of the others finite"),
    hint=N_(
        "Call backward() on the sum of the squared output, and print Q.grad. The way back passes every step, even one "
        "whose result you replaced afterwards: does one of them hold NaN, or multiply by infinity?"
    ),
    needs="fully_masked",
)
def test_fully_masked_gradients(student: Student, rng: Draws) -> None:
    for Q, K, V, pads, attn in _with_empty_rows(rng)[1:]:
        inputs = {name: x.requires_grad_() for name, x in zip("QKV", (Q, K, V), strict=True)}
        for what, result in zip((OUTPUT, WEIGHTS), attend_exactly(student, Q, K, V, pads, attn), strict=True):
            if not result.requires_grad:
                if what == WEIGHTS:
                    continue  # what a loss on the weights does is another check's business
                fail(N_("no gradients flow through your output: on the way from the inputs the graph is cut"))
            _expect_quiet(result, inputs, forbidden_by(Q, K, pads, attn), rng, what)


def _expect_quiet(
    result: torch.Tensor, inputs: dict[str, torch.Tensor], forbidden: torch.Tensor, rng: Draws, what: str
) -> None:
    """Gradients are finite, and zero for a query with no allowed key, and for the keys that only such queries ask."""
    cotangent = rng.normal(*result.shape).to(result.dtype)
    gradients = torch.autograd.grad(result, list(inputs.values()), cotangent, retain_graph=True, allow_unused=True)
    for name, gradient in zip(inputs, gradients, strict=True):
        if gradient is None:
            continue
        axes = (N_("query") if name == "Q" else N_("key"), N_("column"))
        where = {"what": Message(what), "name": name}
        expect_finite(gradient, Message(N_("gradient of {what} with respect to {name}"), where), axes)
        # A mask that comes after the softmax leaves rounding errors.
        loud = (gradient.abs() > 1e-6).any(-1)
        leaks = (loud & (forbidden.all(-1) if name == "Q" else forbidden.all(-1).all(-1, keepdim=True))).nonzero()
        if len(leaks):
            b, row = leaks[0].tolist()
            says = N_(
                "your gradient of {what} with respect to {name} at sentence {b}, row {row} is not 0, though no key is "
                "allowed there"
            )
            fail(says, **where, b=b, row=row)


@check(
    points=0.5,
    title=N_("Huge scores still give proper weights, and finite gradients, at padded keys too"),
    hint=N_(
        "Give a padded key the largest score by far, and print the row as it comes to the softmax: does its largest "
        "entry belong to an allowed key, and is e to that power still a number? If the gradients alone are NaN: which "
        "step multiplies by infinity?"
    ),
    needs="weights",
)
def test_huge_logits(student: Student, rng: Draws) -> None:
    *tensors, mask = _huge(rng, largest=1e4)
    output, weights = _differentiably(student, *tensors, mask)
    expect_close(weights, reference(*tensors, mask)[1], N_("weights for huge scores"), WEIGHT_AXES)
    expect_finite(output, N_("output for huge scores"), OUTPUT_AXES)
    *narrow, narrow_mask = _huge(rng, largest=1e3)
    narrow_output, narrow_weights = attend(student, *(x.float() for x in narrow), narrow_mask)
    expect_rows_sum_to_one(narrow_weights, N_("weights for huge scores in float32"), WEIGHT_AXES, atol=1e-3)
    expect_finite(narrow_output, N_("output for huge scores in float32"), OUTPUT_AXES)
    if output.requires_grad:  # whether it does is another check's business
        gradients = torch.autograd.grad(output.sum(), tensors, allow_unused=True)
        for name, gradient in zip("QKV", gradients, strict=True):
            if gradient is not None:
                expect_finite(gradient, Message(N_("gradient with respect to {name} for huge scores"), {"name": name}))


def _differentiably(student: Student, Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, mask: torch.Tensor) -> Pair:
    """As `attend_exactly`, with inputs that require gradients where the function can take such."""
    for x in (Q, K, V):
        x.requires_grad_()
    with contextlib.suppress(StudentRaised):
        return attend_exactly(student, Q, K, V, mask)
    return attend_exactly(student, Q.detach(), K.detach(), V.detach(), mask)


def _huge(rng: Draws, largest: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Inputs whose largest score is `largest`, at a padded key of a query that likes no allowed key.

    Each query's best allowed key wins clearly: where two keys tie, the rounding of √d to float32 alone would show.
    """
    while True:
        Q, K, V = draw(rng)
        mask = padding(rng, 2, 3, 5, keys=TK)
        # The first query of the first sentence is loud; it likes its pads and none of its words.
        Q[0, 0] *= 2
        likes = (K[0] * Q[0, 0]).sum(-1)
        turned = torch.where(mask[0], likes.sign(), -likes.sign())
        K = torch.cat([(K[0] * turned.unsqueeze(-1)).unsqueeze(0), K[1:]])
        scores = (Q.unsqueeze(-2) * K.unsqueeze(-3)).sum(-1) / math.sqrt(D)
        pads = scores[0, 0][mask[0]]
        factor = largest / pads.max()
        scores = scores * factor
        best = scores.masked_fill(mask.unsqueeze(1), -math.inf).topk(2, -1).values
        clear = (best[..., 0] - best[..., 1]).min() > largest / 250 and best[0, 0, 0] < -largest / 250
        if clear and scores.abs().max() == pads.max() * factor:
            return Q * factor, K, V, mask


@check(
    points=1,
    title=N_("Gradients reach Q, K and V from the output, and Q and K from the weights"),
    hint=N_(
        "Call backward() on the sum of each result, and print Q.grad, K.grad and V.grad. None or 0: which step leaves "
        "the graph, or makes a new tensor? NaN: which step multiplies by infinity?"
    ),
    needs=("output", "weights"),
)
def test_gradients(student: Student, rng: Draws) -> None:
    for drawn in ((*draw(rng), None, None), both(rng)):
        Q, K, V = (x.requires_grad_() for x in drawn[:3])
        inputs = {"Q": Q, "K": K, "V": V}
        output, weights = attend_exactly(student, *drawn)
        expected_output, expected_weights = reference(*drawn)
        expect_close(weights, expected_weights, WEIGHTS, WEIGHT_AXES)
        expect_close(output, expected_output, OUTPUT, OUTPUT_AXES)
        expect_gradients(output, expected_output, inputs, rng.normal(B, TQ, DV), OUTPUT)
        expect_gradients(weights, expected_weights, inputs, rng.normal(B, TQ, TK), WEIGHTS)


@check(
    points=0.5,
    title=N_("float32, float64 and bfloat16 go in, and the same comes out"),
    hint=N_(
        "Print the dtype of each tensor that your steps make, and the scores as they come to the softmax, in each of "
        "the three. Which tensor, or which number that you write, suits one of them alone?"
    ),
    needs=("padded_keys", "attn_mask"),
)
def test_dtypes(student: Student, rng: Draws) -> None:
    *inputs, pads, attn = both(rng)
    found = {}
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        Q, K, V = (x.to(dtype) for x in inputs)
        found[dtype] = output, weights = attend(student, Q, K, V, pads, attn)
        expect_dtype(output, dtype, OUTPUT)
        expect_dtype(weights, dtype, WEIGHTS)
        expect_finite(output, OUTPUT, OUTPUT_AXES)
        expect_finite(weights, WEIGHTS, WEIGHT_AXES)
    (output, weights), (exact_output, exact_weights) = found[torch.float32], found[torch.float64]
    expect_close(output, exact_output, N_("output in float32"), OUTPUT_AXES)
    expect_close(weights, exact_weights, N_("weights in float32"), WEIGHT_AXES)


@check(
    points=0.5,
    title=N_("Each sentence of a batch is on its own, and any size will do"),
    hint=N_(
        "Try one sentence alone, then one query, then one key, and compare with the same inside a larger batch. Which "
        "of your steps looks at other sentences, uses a size that should not matter, or loses an axis of size 1?"
    ),
    needs=("padded_keys", "attn_mask"),
)
def test_batches(student: Student, rng: Draws) -> None:
    Q, K, V, pads, attn = inputs = _float(both(rng))
    found = attend(student, *inputs)
    b = int(rng.integers(B))
    one = slice(b, b + 1)
    alone = Q[one], K[one], V[one], pads[one], attn
    _expect_same(student, alone, (found[0][one], found[1][one]), N_("{name} for sentence {b} fed alone"), b=b)
    moved = *(x.roll(1, 0) for x in (Q, K, V, pads)), attn
    _expect_same(student, moved, tuple(x.roll(1, 0) for x in found), N_("{name} for the batch in another order"))
    # Stored column by column.
    by_column = (*(x.mT.contiguous().mT for x in (Q, K, V, pads, attn)),)
    _expect_same(student, by_column, found, N_("{name} for inputs that are stored column by column"))
    # Sizes of one: a query, a value column, a key, everything.
    query = Q[:, :1], K, V, pads, attn[:1]
    _expect_same(student, query, (found[0][:, :1], found[1][:, :1]), N_("{name} for one query"))
    column = Q, K, V[..., :1], pads, attn
    _expect_same(student, column, (found[0][..., :1], found[1]), N_("{name} for one value column"))
    free = torch.zeros(B, TQ, dtype=torch.bool)
    key = Q, K[:, :1], V[:, :1], free[:, :1], free[0].unsqueeze(1)
    ones = torch.ones(B, TQ, 1)
    _expect_same(student, key, (ones @ V[:, :1], ones), N_("{name} for one key"))
    word = *(x[:1, :1] for x in (Q, K, V)), free[:1, :1], free[:1, :1]
    _expect_same(student, word, (V[:1, :1], ones[:1, :1]), N_("{name} for one sentence of one word"))


def _float(inputs: Inputs) -> Any:
    Q, K, V, *masks = inputs
    return Q.float(), K.float(), V.float(), *masks


def _expect_same(
    student: Student, inputs: Sequence[Any], expected: Sequence[torch.Tensor], says: str, **args: Any
) -> None:
    _expect_pair(attend(student, *inputs), expected, says, **args)


def _expect_pair(found: Sequence[torch.Tensor], expected: Sequence[torch.Tensor], says: str, **args: Any) -> None:
    for name, axes, seen, wanted in zip(
        (WEIGHTS, OUTPUT), (WEIGHT_AXES, OUTPUT_AXES), reversed(found), reversed(expected), strict=True
    ):
        expect_close(seen, wanted, Message(says, {"name": Message(name), **args}), axes)


@check(
    points=0.5,
    title=N_("The inputs and the masks stay as they were, and the same call gives the same again"),
    hint=N_(
        "Print Q, V and the masks before and after the call. Which of your steps writes into a tensor that it was "
        "given, or draws random numbers?"
    ),
    needs=("padded_keys", "attn_mask"),
)
def test_hygiene(student: Student, rng: Draws) -> None:
    inputs = _float(both(rng))
    first = _unpack(student(*inputs), *inputs[:3])
    attend(student, *(x.float() for x in draw(rng, 2, 2, 3, 2, 4)))
    _expect_unchanged(student)
    again = _unpack(student(*inputs), *inputs[:3])
    _expect_pair(again, first, N_("{name} of the second call with the same inputs"))
    for empty in _with_empty_rows(rng)[2:]:
        with contextlib.suppress(StudentRaised):
            student(*_float(empty))  # whether that works is asked elsewhere; what it changes, here
    _expect_unchanged(student)
    # One tensor three times, and one row of padding for all sentences, which lies in memory only once.
    x, pads = rng.normal(B, TK, TK, dtype=torch.float32), padding(rng, 2, 3, 5, keys=TK)[:1].expand(B, TK)
    expected = attend(student, x, x, x, pads.contiguous(), causal(TK))
    found = _unpack(student(x, x, x, pads, causal(TK)), x, x, x)
    _expect_pair(found, expected, N_("{name} for one tensor three times, and an expanded mask"))
    _expect_unchanged(student)


def _expect_unchanged(student: Student) -> None:
    """Over all calls of the exercise so far, those with empty rows among them."""
    expect_inputs_unchanged(student.changed_inputs)
