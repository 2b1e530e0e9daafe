"""Proves that an answer is multi-head attention with the parameters of `nn.MultiheadAttention`, which is the judge.

The checks are cut so that one slip costs what it is worth, and is told once:

- weights and output have checks of their own: the output is compared with what the answer's *own* weights make of
  the values, so that a wrong scale costs weights, and a forgotten projection costs the output;
- biases are zero wherever weights, output or masks are judged, and stand in a check of their own: they must do what
  the same shift of the projected inputs does;
- where forbidden weights are zero is asked apart from their values; weights that are averaged over the heads, or
  lie in another shape, lose the check on shapes and those that need each head alone;
- zeros at the right places, and rows without a key, are worth something only where words decide about the rest:
  weights that are not the right ones must depend on both queries and keys;
- results in another order are told by their shapes, and paid for once; where no weights come back, masks are judged
  by the output;
- that queries, keys and values may come from two sentences is one check, and that each of them counts, without which
  dtypes and batches say nothing; elsewhere it is self-attention;
- a query with no allowed key has checks of its own, forwards and backwards, and stands in no other; there, a mask
  that is read the other way round is turned round, and one that is misread is left out;
- an answer that can't do without masks gets masks that forbid nothing, except where no mask is the question;
- the last word has `parity`: two sentences, all parameters random, both masks, gradients of everything.

All sizes differ from one another, except where all are equal (nearly every slip runs there), or B = H.
"""

from __future__ import annotations

import contextlib
import functools
import math
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn

from autograder.messages import Message
from autograder.suite import (
    N_,
    CheckFailed,
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
    expect_shape,
    fail,
    largest_change,
    padding,
    results,
    scattered,
)

B, T, TK, H, D = 3, 4, 6, 2, 5
OUTPUT, WEIGHTS = N_("output"), N_("weights")
WEIGHT_AXES = (N_("head"), N_("query"), N_("key"))
OUTPUT_AXES = (N_("query"), N_("column"))
MORE = 10
"""Pads that are added."""

Mask = torch.Tensor | None
Pair = tuple[torch.Tensor, torch.Tensor | None]
"""Output and weights; an answer may have returned none."""


class Case(NamedTuple):
    """The arguments of one call, in their order."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    num_heads: int
    in_proj_weight: torch.Tensor
    in_proj_bias: torch.Tensor
    out_proj_weight: torch.Tensor
    out_proj_bias: torch.Tensor
    key_padding_mask: Mask = None
    attn_mask: Mask = None

    def with_self(self, x: torch.Tensor, **others: Any) -> Case:
        """The same with one tensor as query, key and value."""
        return self._replace(query=x, key=x, value=x, **others)

    def to(self, dtype: torch.dtype) -> Case:
        """The same in another floating dtype."""
        return Case(*(x.to(dtype) if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in self))

    def without_biases(self) -> Case:
        """The same with biases of zero, which `nn.MultiheadAttention` starts from."""
        return self._replace(
            in_proj_bias=torch.zeros_like(self.in_proj_bias), out_proj_bias=torch.zeros_like(self.out_proj_bias)
        )

    def floating(self) -> dict[str, torch.Tensor]:
        """All that gradients are due for, by name."""
        return {name: x for name, x in self._asdict().items() if isinstance(x, torch.Tensor) and x.is_floating_point()}


def reference(case: Case) -> tuple[torch.Tensor, torch.Tensor]:
    """Output and weights of torch's own module with these parameters."""
    parameters = {
        "in_proj_weight": case.in_proj_weight,
        "in_proj_bias": case.in_proj_bias,
        "out_proj.weight": case.out_proj_weight,
        "out_proj.bias": case.out_proj_bias,
    }
    masks = {"key_padding_mask": case.key_padding_mask, "attn_mask": case.attn_mask, "average_attn_weights": False}
    module = _module(case.query.shape[-1], case.num_heads)
    found: tuple[torch.Tensor, torch.Tensor] = torch.func.functional_call(
        module, parameters, (case.query, case.key, case.value), masks
    )
    return found


@functools.cache
def _module(width: int, heads: int) -> nn.Module:
    # It never sees parameters of its own, so that it needs none.
    return nn.MultiheadAttention(width, heads, batch_first=True, dtype=torch.float64, device="meta")


def attended(weights: torch.Tensor, case: Case) -> torch.Tensor:
    """What these weights make of the values, for biases of zero."""
    W_v = case.in_proj_weight.chunk(3)[2]
    width = len(W_v) // case.num_heads
    seen = [weights[:, h] @ (case.value @ W_v[h * width : (h + 1) * width].T) for h in range(case.num_heads)]
    return torch.cat(seen, dim=-1) @ case.out_proj_weight.T


def draw(rng: Draws, b: int = B, t: int = T, heads: int = H, d: int = D) -> Case:
    """Self-attention whose scores are not saturated, with all parameters random."""
    x = rng.normal(b, t, heads * d)
    return Case(x, x, x, heads, *_parameters(rng, heads * d))


def draw_cross(rng: Draws, tk: int = TK) -> Case:
    """The same with keys and values of their own, of another length."""
    case = draw(rng)
    return case._replace(key=rng.normal(B, tk, H * D), value=rng.normal(B, tk, H * D))


def _parameters(rng: Draws, width: int) -> list[torch.Tensor]:
    # The root keeps what is projected as large as what went in.
    return [
        rng.normal(3 * width, width) / math.sqrt(width),
        rng.normal(3 * width),
        rng.normal(width, width) / math.sqrt(width),
        rng.normal(width),
    ]


def draw_equal(rng: Draws) -> Case:
    """All sizes are 4: nearly every slip runs there."""
    return draw(rng, 4, 4, 4, 4)


def forbidden_by(case: Case) -> torch.Tensor:
    """(B, Tq, Tk), True where a query may not look at a key."""
    forbidden = torch.zeros(*case.query.shape[:2], case.key.shape[1], dtype=torch.bool)
    if case.key_padding_mask is not None:
        forbidden = forbidden | case.key_padding_mask.unsqueeze(1)
    return forbidden if case.attn_mask is None else forbidden | case.attn_mask


def padded(rng: Draws) -> Case:
    """Self-attention under a padding mask, without biases; the longest sentence has a pad, too."""
    return draw(rng).without_biases()._replace(key_padding_mask=padding(rng, 1, 2, 3, keys=T))


def attend(student: Student, case: Case, *, exactly: bool = True, read: Reader | None = None) -> Pair:
    """The student's output, of the right shape, and weights, of any. Copies are passed: a change does not pile up.

    Args:
        exactly: float64 is due, or float32 where the function can't take float64; else what the case holds.
        read: how to look at what came back; `unpack` if None.
    """
    try:
        return as_called(student, case, exactly=exactly, read=read)
    except StudentRaised as raised:
        b, t, tk = forbidden_by(case).shape
        nothing = case._replace(
            key_padding_mask=_or_zeros(case.key_padding_mask, b, tk), attn_mask=_or_zeros(case.attn_mask, t, tk)
        )
        try:
            return as_called(student, nothing, exactly=exactly, read=read)
        except StudentRaised:
            raise raised from None


def attend_as_far(student: Student, case: Case) -> tuple[Case, Pair]:
    """As `attend`, without masks where the function can't take these, which the checks on masks tell.

    Returns:
        The case that was asked in the end, and the results.
    """
    try:
        return case, attend(student, case)
    except StudentRaised:
        case = case._replace(key_padding_mask=None, attn_mask=None)
        return case, attend(student, case)


def _or_zeros(mask: Mask, *shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.bool) if mask is None else mask


def as_called(student: Student, case: Case, *, exactly: bool = True, read: Reader | None = None) -> Pair:
    """As `attend`; masks that are None are left out, also where the function can't do without."""
    return (read or unpack)((ask_exactly if exactly else ask)(student, *arguments(case)), case)


def arguments(case: Case) -> Case | tuple[Any, ...]:
    """Without the masks that are not there at the end."""
    return case if case.attn_mask is not None else case[:9] if case.key_padding_mask is not None else case[:8]


Reader = Callable[[Any, Case], Pair]


def unpack(value: Any, case: Case) -> Pair:
    """The output, wherever it stands, and the first other tensor, if there is one: `in_order` is asked once."""
    parts = list(value) if isinstance(value, list | tuple) else [value]
    tensors = [part for part in parts if isinstance(part, torch.Tensor) and not part.is_complex()]
    outputs = [part for part in tensors if tuple(part.shape) == tuple(case.query.shape)]
    if not outputs:
        return in_order(value, case)
    weights = [part for part in tensors if part is not outputs[0]]
    return outputs[0], weights[0] if weights else None


def in_order(value: Any, case: Case) -> Pair:
    """Two results, the output first. The shape of the weights is another check's business."""
    due = tuple(case.query.shape)
    pair = results(value, output=None, weights=None)
    if tuple(pair[0].shape) != due:
        # Two that changed places are told by both shapes; an output that is wrong is told by its own.
        swapped = tuple(pair[1].shape) == due
        pair = results(value, output=due, weights=tuple(pair[0].shape) if swapped else None)
    return pair[0], pair[1]


def weights_shape(case: Case) -> tuple[int, int, int, int]:
    """(B, H, Tq, Tk)"""
    return len(case.query), case.num_heads, case.query.shape[1], case.key.shape[1]


def heads_of(weights: torch.Tensor | None, case: Case) -> torch.Tensor:
    """(B, H, Tq, Tk), or (B, 1, Tq, Tk) where the heads were averaged or added."""
    b, heads, t, tk = weights_shape(case)
    if weights is None:
        fail(N_("your function returns no weights beside the output"), says_all=True)
    if b != heads and tuple(weights.shape) == (heads, b, t, tk):
        return weights.transpose(0, 1)
    if tuple(weights.shape) == (b, t, tk):
        return weights.unsqueeze(1)
    if tuple(weights.shape) == (b * heads, t, tk):
        return weights.reshape(b, heads, t, tk)
    expect_shape(weights, (b, heads, t, tk), WEIGHTS)
    return weights


def attend_by_head(student: Student, case: Case, *, exactly: bool = True) -> Pair:
    """As `attend`, with weights as `heads_of` has them."""
    return _by_head(attend(student, case, exactly=exactly), case)


def heads_lead(pair: Pair, case: Case) -> bool:
    """Whether weights came back as (H, B, Tq, Tk), which can't be seen where B = H."""
    b, heads, t, tk = weights_shape(case)
    return b != heads and pair[1] is not None and tuple(pair[1].shape) == (heads, b, t, tk)


def expect_pattern(pair: Pair, case: Case, why: str, *, heads_first: bool = False, saturated: bool = False) -> None:
    """Weights are exactly zero at forbidden keys, and at no others. Without weights, the output must be right.

    Args:
        pair: the student's.
        case: what it was made from.
        why: the sentence for a forbidden key that has a weight.
        heads_first: whether the weights of this answer are (H, B, Tq, Tk).
        saturated: an allowed key may be left with nothing.
    """
    output, weights = pair
    if weights is None:
        empty = forbidden_by(case).all(-1, keepdim=True)
        seen, wanted = (x.double().masked_fill(empty, 0) for x in (output, reference(case)[0]))
        expect_close(seen, wanted, N_("output under this mask"), OUTPUT_AXES)
        return
    if heads_first and len(case.query) == case.num_heads:
        weights = weights.transpose(0, 1)
    weights = heads_of(weights, case)
    expect_finite(weights, WEIGHTS, WEIGHT_AXES)
    forbidden = forbidden_by(case).unsqueeze(1).expand(weights.shape)
    leaks, lost = forbidden & (weights != 0), ~forbidden & (weights == 0) & (not saturated)
    for wrong, says in ((leaks, why), (lost, ALLOWED)):
        places = wrong.nonzero()
        if len(places):
            # The largest leak, in the order of places where there are several.
            b, head, query, key = places[int(weights[wrong].argmax())].tolist()
            seen = f"{float(weights[b, head, query, key]):.3g}"
            fail(says, b=b, head=head, query=query, key=key, seen=seen, count=len(places), total=int(forbidden.sum()))


def expect_both_count(student: Student, rng: Draws, pair: Pair, case: Case, given: Case | None = None) -> None:
    """Weights that are not the right ones depend on what the words hold, as queries and as keys.

    Args:
        pair: the student's, for scores that are not saturated.
        case: self-attention, where every query that may look at a key at all may look at word 0.
        given: what the pair was made from, if other masks were given than are due.
    """
    weights = None if pair[1] is None else heads_of(pair[1], case).detach().double()
    if weights is None:
        return  # the output was judged instead
    forbidden = forbidden_by(case)
    right = reference(case)[1].masked_fill(forbidden.all(-1, keepdim=True).unsqueeze(1), 0)
    if torch.allclose(weights, right, rtol=1e-5, atol=1e-5):
        return
    _expect_queries_differ(weights, forbidden)
    case, x = given or case, case.query
    other = case.with_self(torch.cat([rng.normal(len(x), 1, x.shape[-1]), x[:, 1:]], dim=1))
    found = heads_of(attend(student, other)[1], other)
    # The other queries are as they were: only what they look at has changed.
    if not _apart(found[:, :, 1:], weights[:, :, 1:]):
        fail(N_("other numbers in word 0 do not change your weights at the other queries, though they may look at it"))


def _expect_queries_differ(weights: torch.Tensor, forbidden: torch.Tensor) -> None:
    """Not all queries weigh the keys that two of them may see in the same proportions."""
    allowed = ~forbidden.unsqueeze(1)
    common = allowed.unsqueeze(-2) & allowed.unsqueeze(-3)
    one, two = weights.unsqueeze(-2) * common, weights.unsqueeze(-3) * common
    if not _apart(one * two.sum(-1, keepdim=True), two * one.sum(-1, keepdim=True)):
        fail(N_("all queries of a sentence share their attention out in the same way among the keys that they may "
                "look at: what a query holds has no say"))  # fmt: skip


def _apart(a: torch.Tensor, b: torch.Tensor) -> bool:
    return not torch.allclose(a.detach().double(), b.detach().double(), rtol=1e-6, atol=1e-6, equal_nan=True)


ALLOWED = N_(
    "your weights at sentence {b}, head {head}, query {query}, key {key}: 0, though the query may look at this key"
)
PADDED = N_(
    "your weights at sentence {b}, head {head}, query {query}, key {key}: {seen}, expected exactly 0, since the key is "
    "padding ({count} of {total} forbidden weights are not 0)"
)
HIDDEN = N_(
    "your weights at sentence {b}, head {head}, query {query}, key {key}: {seen}, expected exactly 0, since attn_mask "
    "forbids it ({count} of {total} forbidden weights are not 0)"
)
EITHER = N_(
    "your weights at sentence {b}, head {head}, query {query}, key {key}: {seen}, expected exactly 0, since one of the "
    "two masks forbids it ({count} of {total} forbidden weights are not 0)"
)
EMPTY = N_(
    "your weights at sentence {b}, head {head}, query {query}, key {key}: {seen}, expected exactly 0 "
    "({count} of {total} forbidden weights are not 0; some queries may look at no key at all)"
)


@check(
    points=0.5,
    title=N_("An output of the shape of the query comes back: (B, Tq, E)"),
    hint=N_(
        "Print the shape after each step: project, split, attend, merge, project. Where does it stop being what you "
        "expect?"
    ),
)
def test_shapes(student: Student, rng: Draws) -> None:
    # With equal sizes nearly every slip runs, and shows which one it is; what is told are sizes that differ.
    with contextlib.suppress(CheckFailed, StudentRaised):
        attend(student, draw_equal(rng))
    attend(student, draw(rng))


@check(
    points=1,
    title=N_("Two results come back: the output first, the weights second"),
    hint=N_("Look at your last line: what does it hand over, and in which order?"),
    needs="shapes",
)
def test_results(student: Student, rng: Draws) -> None:
    attend(student, draw(rng), read=in_order)


@check(
    points=0.5,
    title=N_("The weights come back for each head, unaveraged: (B, H, Tq, Tk)"),
    hint=N_(
        "Two heads looked at the sentence: how many pictures should there be? (The library's own module hands out "
        "their mean unless it is asked not to.)"
    ),
    needs="shapes",
)
def test_weights_shape(student: Student, rng: Draws) -> None:
    case = draw(rng)
    _, weights = attend(student, case)
    weights = weights if weights is not None else heads_of(None, case)
    expect_shape(weights, weights_shape(case), WEIGHTS)
    if torch.allclose(weights, weights[:, :1].expand_as(weights)):
        fail(N_("the weights of all heads are the same, though each head has queries and keys of its own"))


@check(
    points=1.5,
    title=N_("The weights of each head are right, without masks and biases"),
    hint=N_(
        "How many products does a score of one head add up, and what is it divided by? Which rows of in_proj_weight "
        "make the queries, and which of them belong to head 0?"
    ),
    needs="weights_shape",
)
def test_weights(student: Student, rng: Draws) -> None:
    for case in (draw_equal(rng), draw(rng), draw(rng, heads=1, d=6)):
        case = case.without_biases()
        what = Message(N_("weights (E = {width}, {heads} heads)"),
                       {"width": case.query.shape[-1], "heads": case.num_heads})  # fmt: skip
        expect_close(heads_of(as_called(student, case)[1], case), reference(case)[1], what, WEIGHT_AXES)


@check(
    points=0.5,
    title=N_("In each head, each query's weights sum to 1, under masks too"),
    hint=N_("Add up each row of each head's picture. Which axis does your softmax run over, and when do masks come?"),
    needs="shapes",
)
def test_rows_sum_to_one(student: Student, rng: Draws) -> None:
    for case in (draw(rng), padded(rng)._replace(attn_mask=causal(T))):
        case, (_, weights) = attend_as_far(student, case)
        expect_rows_sum_to_one(heads_of(weights, case), WEIGHTS, WEIGHT_AXES)


@check(
    points=1,
    title=N_("The output is what your weights make of the values, put side by side and projected"),
    hint=N_(
        "Take the weights that you return as given. Which rows of in_proj_weight make the values, how do the heads "
        "come together again, and what is done last?"
    ),
    needs="shapes",
)
def test_output(student: Student, rng: Draws) -> None:
    for case in (draw_equal(rng).without_biases(), padded(rng)):
        case, (output, weights) = attend_as_far(student, case)
        expect_finite(output, OUTPUT, OUTPUT_AXES)
        expected = reference(case)[0]
        # Weights that are wrong were paid for elsewhere: what counts here is what is done with them.
        if not torch.allclose(output.double(), expected, rtol=1e-5, atol=1e-5):
            what = OUTPUT
            if _can_judge(weights, case):
                assert weights is not None
                what, expected = N_("output (against your own weights)"), attended(weights.double(), case)
            expect_close(output, expected, what, OUTPUT_AXES)


def _can_judge(weights: torch.Tensor | None, case: Case) -> bool:
    """Whether the output can be compared with what these weights make."""
    if weights is None or tuple(weights.shape) != weights_shape(case):
        return False
    return bool(weights.isfinite().all() and weights.any())


@check(
    points=1,
    title=N_("Both biases count: that of the projections in, and that of the projection out"),
    hint=N_(
        "Fill in_proj_bias with ones and see whether anything changes; then out_proj_bias. In a module that is fresh "
        "from its constructor both are zero, which hides a good deal."
    ),
    needs="shapes",
)
def test_biases(student: Student, rng: Draws) -> None:
    case = draw(rng)
    mirror = _mirror(rng, H * D)
    # For a matrix that is its own inverse and its own transpose, a bias b and a shift of x by its image are the same,
    # however an answer uses the matrix.
    bias = rng.normal(H * D)
    plain = case._replace(in_proj_weight=torch.cat([mirror] * 3)).without_biases()
    shifted = plain.with_self(plain.query + bias @ mirror)
    wanted = attend(student, shifted)
    found = attend(student, plain._replace(in_proj_bias=bias.repeat(3)))
    _expect_pair(found, wanted, N_("{name} with in_proj_bias"))
    output, _ = attend(student, shifted._replace(out_proj_bias=case.out_proj_bias))
    expected = wanted[0] + case.out_proj_bias.to(output.dtype)
    expect_close(output, expected, N_("output with out_proj_bias"), OUTPUT_AXES)


def _mirror(rng: Draws, width: int) -> torch.Tensor:
    """A reflection: symmetric, and its own inverse."""
    u = nn.functional.normalize(rng.normal(width), dim=0)
    return torch.eye(width, dtype=u.dtype) - 2 * torch.outer(u, u)


def _expect_pair(found: Pair, expected: Pair, says: str, **args: Any) -> None:
    for name, axes, seen, wanted in zip(
        (WEIGHTS, OUTPUT), (WEIGHT_AXES, OUTPUT_AXES), reversed(found), reversed(expected), strict=True
    ):
        if seen is None or wanted is None:
            continue
        axes = axes if seen.dim() == len(axes) + 1 else ()
        expect_close(seen, wanted.detach(), Message(says, {"name": Message(name), **args}), axes)


@check(
    points=0.5,
    title=N_("Query, key and value each have their own part, and may come from two sentences"),
    hint=N_(
        "Call it with a query of 2 words and another sentence of 3 words as key and value. Which of the three decides "
        "who is looked at, and which one what is taken away?"
    ),
    needs="shapes",
)
def test_cross_attention(student: Student, rng: Draws) -> None:
    case = draw_cross(rng)
    output, weights = attend_by_head(student, case)
    expect_finite(output, OUTPUT, OUTPUT_AXES)
    if weights is not None:
        _expect_queries_differ(weights.double(), forbidden_by(case))
    other_output, other_weights = attend_by_head(student, case._replace(value=rng.normal(*case.value.shape)))
    if weights is not None and other_weights is not None and _apart(weights, other_weights):
        fail(N_("other numbers in value change your weights, though it is query and key that decide them"))
    if not _apart(output, other_output):
        fail(N_("other numbers in value do not change your output, though it is made of them"))
    for name in ("query", "key"):
        other = rng.normal(*getattr(case, name).shape)
        other_output, other_weights = attend_by_head(student, case._replace(**{name: other}))
        if weights is not None and other_weights is not None:
            if not _apart(weights, other_weights):
                fail(N_("other numbers in {name} do not change your weights"), name=name)
        elif not _apart(output, other_output):
            fail(N_("other numbers in {name} do not change your output"), name=name)


@check(
    points=1,
    title=N_("Padded keys get a weight of exactly 0 in every head, the others do not"),
    hint=N_(
        "The scores are (B, H, Tq, Tk), the mask is (B, Tk): which of the four axes are the mask's two, and where "
        "does it need an axis of size 1?"
    ),
    needs="shapes",
)
def test_padded_keys(student: Student, rng: Draws) -> None:
    case = draw(rng, t=TK).without_biases()._replace(key_padding_mask=scattered(rng, B, TK).roll(1, 0))  # with gaps
    pair = attend(student, case)
    loud = _below_minus_100(rng)
    expect_pattern(attend(student, loud), loud, PADDED, heads_first=heads_lead(pair, case), saturated=True)
    expect_pattern(pair, case, PADDED)
    expect_both_count(student, rng, pair, case)


def _below_minus_100(rng: Draws) -> Case:
    """All sizes are 4, and some query likes none of its allowed keys: for a score of -100, that padding wins."""
    while True:
        case = draw_equal(rng)._replace(key_padding_mask=padding(rng, 1, 2, 3, 4, keys=4)).without_biases()
        scores = _scores(case)
        factor = 300 / float(scores.abs().max())
        best = (scores * factor).masked_fill(forbidden_by(case).unsqueeze(1), -math.inf).amax(-1)
        if (best < -110).any():
            return _sharper(case, factor)


def _scores(case: Case) -> torch.Tensor:
    """(B, H, Tq, Tk), for biases of zero."""
    projections = zip((case.query, case.key), case.in_proj_weight.chunk(3)[:2], strict=True)
    query, key = ((x @ W.T).unflatten(-1, (case.num_heads, -1)).transpose(1, 2) for x, W in projections)
    return query @ key.mT / math.sqrt(query.shape[-1])


def _sharper(case: Case, factor: float) -> Case:
    """The same with all scores times a factor."""
    W_q, W_k, W_v = case.in_proj_weight.chunk(3)
    return case._replace(in_proj_weight=torch.cat([W_q * factor, W_k, W_v]))


@check(
    points=1,
    title=N_("What attn_mask forbids gets a weight of exactly 0 in every head, the rest does not"),
    hint=N_("Give it a causal mask for 3 words, and print the weights of one head. Which triangle should be 0?"),
    needs="shapes",
)
def test_attn_mask(student: Student, rng: Draws) -> None:
    case = draw(rng).without_biases()._replace(attn_mask=scattered(rng, T, T))
    pair = attend(student, case)
    expect_pattern(pair, case, HIDDEN)
    equal = draw_equal(rng).without_biases()._replace(attn_mask=causal(4))
    expect_pattern(attend(student, equal), equal, HIDDEN, heads_first=heads_lead(pair, case))
    expect_both_count(student, rng, pair, case)


@check(
    points=0.5,
    title=N_("With both masks, a key is out as soon as either of them says so; names will do as well as places"),
    hint=N_(
        "A key is padding, but lies in the past: may a query look at it? A key lies in the future, but is a real "
        "word: and at this one?"
    ),
    needs=("padded_keys", "attn_mask"),
)
def test_both_masks(student: Student, rng: Draws) -> None:
    case = draw(rng, t=5)._replace(key_padding_mask=padding(rng, 2, 3, 4, keys=5), attn_mask=scattered(rng, 5, 5))
    names = {"attn_mask": case.attn_mask, "key_padding_mask": case.key_padding_mask}
    by_name = unpack(ask_exactly(student, *case[:8], **names), case)
    expect_pattern(by_name, case, EITHER)
    equal = draw_equal(rng)._replace(key_padding_mask=padding(rng, 1, 2, 3, 4, keys=4), attn_mask=causal(4))
    expect_pattern(attend(student, equal), equal, EITHER, heads_first=heads_lead(by_name, case))


@check(
    points=0.5,
    title=N_("What stands in the padding changes nothing, and neither do ten more pads"),
    hint=N_(
        "Put other numbers into x where the padding is, and compare the outputs at the words to the last digit. Which "
        "step still sees them?"
    ),
    needs="padded_keys",
)
def test_more_padding(student: Student, rng: Draws) -> None:
    case = padded(rng)
    x, pads = case.query, case.key_padding_mask
    assert pads is not None
    before = output, _ = attend_by_head(student, case)
    limit = largest_change(output, reference(case)[0])
    # Keys of the usual size: huge scores are another check's business. Large values, to see the smallest leak.
    empty = pads.unsqueeze(-1)
    other = case._replace(
        key=torch.where(empty, rng.normal(*x.shape), x), value=torch.where(empty, 1e6 * rng.normal(*x.shape), x)
    )
    _expect_words_equal(attend_by_head(student, other), before, pads, limit, OTHER_CONTENTS)
    longer = torch.cat([pads, torch.ones(B, MORE, dtype=torch.bool)], dim=1)
    more = case.with_self(torch.cat([x, rng.normal(B, MORE, x.shape[-1])], dim=1), key_padding_mask=longer)
    output, weights = attend_by_head(student, more)
    kept = output[:, :T], None if weights is None else weights[..., :T, :T]
    _expect_words_equal(kept, before, pads, limit, TEN_MORE)


OTHER_CONTENTS = N_("other numbers in the padding change your {what} at a word by {by}, expected no change")
TEN_MORE = N_("ten more pads change your {what} at a word by {by}, expected no change")


def _expect_words_equal(found: Pair, before: Pair, pads: torch.Tensor, limit: float, says: str) -> None:
    """At the queries that are words; what a padded query sees is nobody's business."""
    for name, seen, wanted in zip((OUTPUT, WEIGHTS), found, before, strict=True):
        if seen is None or wanted is None:
            continue
        expect_finite(seen, name)
        by = (seen.detach().double() - wanted.detach().double()).abs().amax(-1)
        by = by.amax(1) if name == WEIGHTS else by
        worst = float(by[~pads].max())
        if worst > limit:
            fail(says, what=Message(name), by=f"{worst:.2g}")


@check(
    points=1,
    title=N_("A query with no allowed key gets zero weights, and the output bias for its output, never NaN"),
    hint=N_(
        "Forbid one query all of its keys. What does the softmax make of its row? And if all of its weights are 0, "
        "what is left after the projection out?"
    ),
    needs="shapes",
)
def test_empty_rows(student: Student, rng: Draws) -> None:
    due = None
    for case, given in _as_read(student, rng, _with_empty_rows(rng)):
        output, weights = attend(student, given)
        expect_finite(output, OUTPUT, OUTPUT_AXES)
        expect_pattern((output, weights), case, EMPTY)
        if due is None:
            expect_both_count(student, rng, (output, weights), case, given)
        due = _output_of_nothing(student, case) if due is None else due
        off = (output.double() - due).detach().abs().amax(-1) > 1e-5
        places = (off & forbidden_by(case).all(-1)).nonzero()
        if len(places):
            b, query = places[0].tolist()
            fail(N_("your output at sentence {b}, query {query} starts with {seen}, expected the output bias, which "
                    "starts with {expected}: the query may look at no key"), b=b, query=query,
                 seen=f"{float(output[b, query, 0]):.3g}", expected=f"{float(due[0]):.3g}")  # fmt: skip


def _as_read(student: Student, rng: Draws, cases: list[Case]) -> list[tuple[Case, Case]]:
    """The cases whose masks the answer can read, each with the same as this answer reads it."""
    masks = {"key_padding_mask": padding(rng, 1, 2, 3, keys=T), "attn_mask": scattered(rng, T, T)}
    turned = {name: turn for name, mask in masks.items() if (turn := _turn(student, draw(rng), name, mask)) is not None}
    found = []
    for case in cases:
        due = {name: mask for name in masks if (mask := getattr(case, name)) is not None}
        if due.keys() <= turned.keys():
            found.append((case, case._replace(**{name: mask ^ turned[name] for name, mask in due.items()})))
    if not found:
        fail(N_("this can't be asked yet: in your function neither of the two masks does what it says"), says_all=True)
    return found


def _turn(student: Student, case: Case, name: str, mask: torch.Tensor) -> bool | None:
    """Whether the answer reads this mask the other way round; None if it reads something else."""
    case = case.without_biases()._replace(**{name: mask})
    for turn in (False, True):
        with contextlib.suppress(CheckFailed, StudentRaised):
            output, weights = attend(student, case._replace(**{name: mask ^ turn}))
            # Whether a forbidden weight is 0 to the last digit is asked elsewhere.
            expect_pattern((output, weights if weights is None else weights.round(decimals=9)), case, EMPTY)
            return turn
    return None


def _output_of_nothing(student: Student, case: Case) -> torch.Tensor:
    """What the answer returns where everything is zero: the output bias, unless it was forgotten."""
    silent = case.with_self(
        torch.zeros_like(case.query),
        in_proj_bias=torch.zeros_like(case.in_proj_bias),
        key_padding_mask=None,
        attn_mask=None,
    )
    output, _ = attend(student, silent)
    expect_finite(output, N_("output for inputs of zero"), OUTPUT_AXES)
    return output[0, 0].detach().double()


def _with_empty_rows(rng: Draws) -> list[Case]:
    """Some queries with no allowed key, beside others: by padding, by the other mask, by both together."""
    query, pads, attn = int(rng.integers(T)), padding(rng, 1, 2, 3, keys=T), scattered(rng, T, T)
    all_padding = pads.clone()
    all_padding[int(rng.integers(B))] = True
    all_hidden = attn.clone()
    all_hidden[query] = True
    # What the shortest sentences have is what one query may not see: only together they leave it nothing.
    together = attn.clone()
    together[query] = torch.arange(T) < 2
    case = draw(rng)
    return [
        case._replace(key_padding_mask=all_padding),
        case._replace(attn_mask=all_hidden),
        case._replace(key_padding_mask=pads, attn_mask=together),
    ]


@check(
    points=0.5,
    title=N_("A query with no allowed key sends no NaN back"),
    hint=N_(
        "Call backward() on the sum of the squared output, and print the gradients. A NaN that is replaced afterwards "
        "is still there on the way back: keep it from arising."
    ),
    needs="empty_rows",
)
def test_empty_rows_gradients(student: Student, rng: Draws) -> None:
    for _, case in _as_read(student, rng, _with_empty_rows(rng))[:2]:
        inputs = {name: x.detach().clone().requires_grad_() for name, x in case.floating().items()}
        case = case._replace(**inputs)
        for what, result in zip((OUTPUT, WEIGHTS), attend(student, case), strict=True):
            if result is None or not result.requires_grad:
                if what == WEIGHTS:
                    continue  # what a loss on the weights does is another check's business
                fail(N_("no gradients flow through your output: on the way from the inputs the graph is cut"))
            cotangent = rng.normal(*result.shape).to(result.dtype)
            gradients = torch.autograd.grad(
                result, list(inputs.values()), cotangent, retain_graph=True, allow_unused=True
            )
            for name, gradient in zip(inputs, gradients, strict=True):
                if gradient is not None:
                    where = {"what": Message(what), "name": name}
                    expect_finite(gradient, Message(N_("gradient of {what} with respect to {name}"), where))


@check(
    points=0.5,
    title=N_("Huge scores still give proper weights, at padded keys too"),
    hint=N_(
        "Give a padded key the largest score by far. What is left for the allowed keys, if the mask comes after the "
        "softmax? And how large is exp(1000)?"
    ),
    needs=("weights", "padded_keys"),
)
def test_huge_logits(student: Student, rng: Draws) -> None:
    case, clear = _huge(rng)
    output, weights = attend(student, case)
    weights = heads_of(weights, case)
    expect_finite(weights, N_("weights for huge scores"), WEIGHT_AXES)
    expect_finite(output, N_("output for huge scores"), OUTPUT_AXES)
    expected = reference(case)[1]
    seen = torch.where(clear.unsqueeze(-1), weights.double(), expected)
    expect_close(seen, expected, N_("weights for huge scores"), WEIGHT_AXES)
    output, weights = attend(student, case.to(torch.float32), exactly=False)
    expect_finite(output, N_("output for huge scores in float32"), OUTPUT_AXES)
    weights = heads_of(weights, case)
    expect_rows_sum_to_one(weights, N_("weights for huge scores in float32"), WEIGHT_AXES, atol=1e-3)


def _huge(rng: Draws, largest: float = 1e4) -> tuple[Case, torch.Tensor]:
    """A case whose largest score is `largest`, and where (B, H, Tq) one key wins clearly.

    The largest score stands at a padded key, so far above the allowed ones of its row that nothing is left for them.
    Where two keys tie, the rounding of √d to float32 alone would show.
    """
    while True:
        case = padded(rng)
        scores = _scores(case)
        factor = largest / float(scores.abs().max())
        scores = scores * factor
        allowed = scores.masked_fill(forbidden_by(case).unsqueeze(1), -math.inf)
        best = allowed.topk(2, -1).values
        lost = scores.amax(-1) - best[..., 0]
        clear = best[..., 0] - best[..., 1] > largest / 250
        # Negative, so that lowering the padded score by `largest` would not be enough.
        beaten = (lost > largest / 5) & (best[..., 0] < -largest / 250) & (scores.amax(-1) > 0.999 * largest)
        if (beaten & clear).any():
            return _sharper(case, factor), clear


@check(
    points=1,
    title=N_("All together it is nn.MultiheadAttention with the same parameters, forwards and backwards"),
    hint=N_(
        "Build nn.MultiheadAttention(E, H, batch_first=True), put your four parameters into it, biases too, and "
        "compare output, weights and the gradients of everything that went in."
    ),
    needs=("results", "weights", "output", "biases", "cross_attention", "both_masks"),
)
def test_parity(student: Student, rng: Draws) -> None:
    alone = draw(rng)._replace(key_padding_mask=padding(rng, 2, 3, 4, keys=T), attn_mask=causal(T))
    # One tensor three times: its gradient is the sum of all three.
    x = alone.query.requires_grad_()
    parameters = {name: p.requires_grad_() for name, p in alone.floating().items() if name.endswith(("weight", "bias"))}
    _expect_parity(student, alone.with_self(x, **parameters), {"x": x, **parameters}, rng)
    cross = draw_cross(rng)._replace(key_padding_mask=padding(rng, 2, 3, 5, keys=TK), attn_mask=scattered(rng, T, TK))
    inputs = {name: x.requires_grad_() for name, x in cross.floating().items()}
    _expect_parity(student, cross, inputs, rng)


def _expect_parity(student: Student, case: Case, inputs: dict[str, torch.Tensor], rng: Draws) -> None:
    output, weights = attend(student, case)
    weights = heads_of(weights, case)
    expected_output, expected_weights = reference(case)
    expect_close(weights, expected_weights, WEIGHTS, WEIGHT_AXES)
    expect_close(output, expected_output, OUTPUT, OUTPUT_AXES)
    # Small cotangents, so that a softmax in float32, which is no mistake, stays within the bounds for gradients.
    expect_gradients(output, expected_output, inputs, 0.1 * rng.normal(*output.shape), OUTPUT)
    expect_gradients(weights, expected_weights, inputs, 0.1 * rng.normal(*weights.shape), WEIGHTS)


@check(
    points=0.5,
    title=N_("float32, float64 and bfloat16 go in, and the same comes out"),
    hint=N_("Print the dtype after each step. Which one makes a new tensor, or converts one, and to what?"),
    needs="cross_attention",
)
def test_dtypes(student: Student, rng: Draws) -> None:
    case, exact = attend_as_far(student, padded(rng)._replace(attn_mask=causal(T)))
    found = {torch.float64: exact} if exact[0].dtype == torch.float64 else {}
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        if dtype not in found:
            found[dtype] = attend(student, case.to(dtype), exactly=False)
        output, weights = found[dtype]
        expect_dtype(output, dtype, OUTPUT)
        expect_finite(output, OUTPUT, OUTPUT_AXES)
        if weights is not None:
            expect_dtype(weights, dtype, WEIGHTS)
            expect_finite(weights, WEIGHTS)
    # Whether the numbers are right is said above: here, that they are the same.
    _expect_pair(found[torch.float32], exact, N_("{name} in float32"))


@check(
    points=0.5,
    title=N_("Each sentence of a batch is on its own, and a batch of one or a word alone will do"),
    hint=N_(
        "Feed one sentence alone, with its own row of the mask, then the same sentence inside a batch. Which of your "
        "steps looks across the batch axis, or loses an axis of size 1?"
    ),
    needs="cross_attention",
)
def test_batches(student: Student, rng: Draws) -> None:
    case, found = attend_as_far(student, padded(rng).to(torch.float32))
    x, pads, whole = case.query, case.key_padding_mask, _by_head(found, case)
    b = int(rng.integers(B))
    one = slice(b, b + 1)
    alone = case.with_self(x[one], key_padding_mask=None if pads is None else pads[one])
    _expect_same(student, alone, _part(whole, operator.itemgetter(one)), N_("{name} for sentence {b} fed alone"), b=b)
    moved = case.with_self(x.roll(1, 0), key_padding_mask=None if pads is None else pads.roll(1, 0))
    _expect_same(
        student, moved, _part(whole, lambda result: result.roll(1, 0)), N_("{name} for the batch in another order")
    )
    by_column = Case(*(v.mT.contiguous().mT if isinstance(v, torch.Tensor) and v.dim() > 1 else v for v in case))
    _expect_same(student, by_column, whole, N_("{name} for inputs that are stored column by column"))
    words = case.with_self(x[:, :1], key_padding_mask=None)
    first = _part(attend_by_head(student, words, exactly=False), lambda result: result[:1])
    _expect_same(student, words.with_self(x[:1, :1]), first, N_("{name} for one sentence of one word"))


def _by_head(pair: Pair, case: Case) -> Pair:
    output, weights = pair
    return output, None if weights is None else heads_of(weights, case)


def _part(pair: Pair, cut: Callable[[torch.Tensor], torch.Tensor]) -> Pair:
    output, weights = pair
    return cut(output), None if weights is None else cut(weights)


def _expect_same(student: Student, case: Case, expected: Pair, says: str, **args: Any) -> None:
    _expect_pair(attend_by_head(student, case, exactly=False), expected, says, **args)


@check(
    points=0.5,
    title=N_("Inputs, parameters and masks stay as they were, and the same call gives the same again"),
    hint=N_(
        "Print x, the parameters and the masks before and after the call. Which of your steps writes into a tensor "
        "that it was given, or draws random numbers?"
    ),
    needs="cross_attention",
)
def test_hygiene(student: Student, rng: Draws) -> None:
    case = draw(rng).to(torch.float32)
    # Three tensors, so that it can be told which one is changed.
    case = case._replace(key=case.query.clone(), value=case.query.clone())
    masked = case._replace(key_padding_mask=padding(rng, 1, 2, 3, keys=T), attn_mask=scattered(rng, T, T))
    case, _ = attend_as_far(student, masked)
    first = _direct(student, case)
    attend(student, draw(rng, 2, 3, 2, 2).to(torch.float32), exactly=False)
    _expect_unchanged(student)
    _expect_pair(_direct(student, case), first, N_("{name} of the second call with the same inputs"))
    with contextlib.suppress(StudentRaised):
        student(*arguments(_with_empty_rows(rng)[2].to(torch.float32)))  # whether that works is asked elsewhere
    # One tensor three times, and one row of padding for all sentences, which lies in memory only once.
    pads = padding(rng, 1, 2, 3, keys=T)[:1].expand(B, T)
    same = draw(rng)._replace(key_padding_mask=pads, attn_mask=causal(T)).to(torch.float32)
    same = same.with_self(same.query)
    same, expected = attend_as_far(student, same)  # copies
    _expect_pair(_direct(student, same), expected, N_("{name} for one tensor three times, and an expanded mask"))
    _expect_unchanged(student)


def _direct(student: Student, case: Case) -> Pair:
    """As `attend`, with the tensors themselves."""
    try:
        found = unpack(student(*arguments(case)), case)
    except StudentRaised as raised:
        b, t, tk = forbidden_by(case).shape
        masks = _or_zeros(case.key_padding_mask, b, tk), _or_zeros(case.attn_mask, t, tk)
        try:
            found = unpack(student(*case[:8], *masks), case)
        except StudentRaised:
            raise raised from None
    # What comes back may be an input, which the next call changes.
    return _part(found, lambda result: result.detach().clone())


def _expect_unchanged(student: Student) -> None:
    """Over all calls of the exercise so far, those with empty rows among them."""
    expect_inputs_unchanged(student.changed_inputs)
