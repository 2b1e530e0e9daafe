"""What learners get wrong in projecting to queries, keys and values, each with the check that catches it."""

import math

import torch
import torch.nn.functional as F

from autograder.suite import N_, mistake


@mistake(
    "values-before-keys",
    caught_by="keys",
    says=N_("You return (Q, V, K). The order is (Q, K, V)."),
)
def values_before_keys(x, W_q, W_k, W_v):
    return x @ W_q, x @ W_v, x @ W_k


@mistake(
    "keys-before-queries",
    caught_by="queries",
    says=N_("You return (K, Q, V). The order is (Q, K, V)."),
)
def keys_before_queries(x, W_q, W_k, W_v):
    return x @ W_k, x @ W_q, x @ W_v


@mistake(
    "reversed-order",
    caught_by="queries",
    says=N_("You return (V, K, Q). The order is (Q, K, V)."),
)
def reversed_order(x, W_q, W_k, W_v):
    return x @ W_v, x @ W_k, x @ W_q


@mistake(
    "one-matrix-for-all",
    caught_by="keys",
    says=N_("You use W_q three times, so that queries, keys and values are the same: each has a matrix of its own."),
)
def one_matrix_for_all(x, W_q, W_k, W_v):
    return x @ W_q, x @ W_q, x @ W_q


@mistake(
    "queries-matrix-for-keys",
    caught_by="keys",
    says=N_(
        "Your keys are made with W_q: a word would look for exactly what it offers itself. The keys have a "
        "matrix of their own."
    ),
)
def queries_matrix_for_keys(x, W_q, W_k, W_v):
    return x @ W_q, x @ W_q, x @ W_v


@mistake(
    "keys-matrix-for-values",
    caught_by="values",
    says=N_("Your values are made with W_k. What a word hands over has a matrix of its own."),
)
def keys_matrix_for_values(x, W_q, W_k, W_v):
    return x @ W_q, x @ W_k, x @ W_k


@mistake(
    "chained",
    caught_by="shapes",
    says=N_("You project the queries on to get the keys, and these to get the values. All three are made from x."),
)
def chained(x, W_q, W_k, W_v):
    Q = x @ W_q
    K = Q @ W_k
    return Q, K, K @ W_v


@mistake(
    "matrices-transposed",
    caught_by="shapes",
    says=N_(
        "You multiply by the transposed matrices. nn.Linear keeps its weights that way round; here W has a "
        "row for each of the D numbers of a word, and x @ W fits as it stands."
    ),
)
def matrices_transposed(x, W_q, W_k, W_v):
    return x @ W_q.T, x @ W_k.T, x @ W_v.T


@mistake(
    "matrix-first",
    caught_by="shapes",
    says=N_("You multiply W @ x. The words are the rows of x, so that the matrix stands on the right: x @ W."),
)
def matrix_first(x, W_q, W_k, W_v):
    return W_q @ x, W_k @ x, W_v @ x


@mistake(
    "entry-by-entry",
    caught_by="shapes",
    says=N_("x and W are multiplied entry by entry, as `*` does it. A projection is a matrix product."),
)
def entry_by_entry(x, W_q, W_k, W_v):
    return x * W_q, x * W_k, x * W_v


@mistake(
    "input-as-it-is",
    caught_by="queries",
    says=N_("You return x itself, three times: the matrices are never used."),
)
def input_as_it_is(x, W_q, W_k, W_v):
    return x, x, x


@mistake(
    "values-not-projected",
    caught_by="values",
    says=N_("Your values are x itself. What a word hands over is projected too, with W_v."),
)
def values_not_projected(x, W_q, W_k, W_v):
    return x @ W_q, x @ W_k, x


@mistake(
    "all-scaled",
    caught_by="queries",
    says=N_("You divide by the root of the width already here. The scale belongs to the scores, in the next exercise."),
)
def all_scaled(x, W_q, W_k, W_v):
    return tuple(x @ W / W.shape[-1] ** 0.5 for W in (W_q, W_k, W_v))


@mistake(
    "queries-scaled",
    caught_by="queries",
    says=N_(
        "You divide the queries by √d already here. The scale belongs to the scores, in the next exercise: "
        "it would be applied twice."
    ),
)
def queries_scaled(x, W_q, W_k, W_v):
    return x @ W_q / W_q.shape[-1] ** 0.5, x @ W_k, x @ W_v


@mistake(
    "with-relu",
    caught_by="queries",
    says=N_("Your projections go through a ReLU. They are linear: negative numbers stay."),
)
def with_relu(x, W_q, W_k, W_v):
    return F.relu(x @ W_q), F.relu(x @ W_k), F.relu(x @ W_v)


@mistake(
    "with-softmax",
    caught_by="queries",
    says=N_("Your projections go through a softmax. It comes later, over the scores."),
)
def with_softmax(x, W_q, W_k, W_v):
    return tuple(F.softmax(x @ W, dim=-1) for W in (W_q, W_k, W_v))


@mistake(
    "input-normalised",
    caught_by="queries",
    says=N_("You normalise x first. A layer norm is a step of its own, and not part of the projection."),
)
def input_normalised(x, W_q, W_k, W_v):
    x = F.layer_norm(x, x.shape[-1:])
    return x @ W_q, x @ W_k, x @ W_v


@mistake(
    "bias-of-one",
    caught_by="queries",
    says=N_("You add something to the products: there is no bias here."),
)
def bias_of_one(x, W_q, W_k, W_v):
    return x @ W_q + 1, x @ W_k + 1, x @ W_v + 1


@mistake(
    "random-matrices",
    caught_by="queries",
    says=N_(
        "What you return has nothing to do with the matrices that you are given: for example, it was made with new "
        "random ones (torch.randn, or a fresh nn.Linear)."
    ),
)
def random_matrices(x, W_q, W_k, W_v):
    return tuple(x @ torch.randn(W.shape, dtype=W.dtype) for W in (W_q, W_k, W_v))


@mistake(
    "two-axes-only",
    caught_by="leading_axes",
    says=N_(
        "Your function wants exactly two axes, as torch.mm does: one sentence at a time. x @ W takes any number of "
        "leading axes."
    ),
)
def two_axes_only(x, W_q, W_k, W_v):
    return torch.mm(x, W_q), torch.mm(x, W_k), torch.mm(x, W_v)


@mistake(
    "three-axes-only",
    caught_by="leading_axes",
    says=N_("Your function wants exactly three axes. One sentence alone, or a batch of heads, has two or four."),
)
def three_axes_only(x, W_q, W_k, W_v):
    return tuple(torch.einsum("btd,de->bte", x, W) for W in (W_q, W_k, W_v))


@mistake(
    "squeezed",
    caught_by="leading_axes",
    says=N_(
        "Your results lose every axis of size 1, as squeeze() does: a batch of one sentence, or a sentence of one "
        "word, has an axis too few."
    ),
)
def squeezed(x, W_q, W_k, W_v):
    return (x @ W_q).squeeze(), (x @ W_k).squeeze(), (x @ W_v).squeeze()


@mistake(
    "float32-inside",
    caught_by="dtypes",
    says=N_("Your results are float32 whatever the inputs are. They should have the dtype of the inputs."),
)
def float32_inside(x, W_q, W_k, W_v):
    return tuple(x.float() @ W.float() for W in (W_q, W_k, W_v))


@mistake(
    "detached",
    caught_by="gradients",
    says=N_(
        "What you return is cut off from x and the matrices (for example no_grad, detach or .data), so that they "
        "cannot learn."
    ),
)
def detached(x, W_q, W_k, W_v):
    return tuple((x @ W).detach() for W in (W_q, W_k, W_v))


@mistake(
    "matrices-detached",
    caught_by="gradients",
    says=N_(
        "Gradients reach x, but not the matrices (for example .data, or a fresh nn.Parameter made of them): and it is "
        "the matrices that are to learn."
    ),
)
def matrices_detached(x, W_q, W_k, W_v):
    return x @ W_q.detach(), x @ W_k.detach(), x @ W_v.detach()


@mistake(
    "input-detached",
    caught_by="gradients",
    says=N_("Gradients reach the matrices, but not x (for example detach or .data): the layers below could not learn."),
)
def input_detached(x, W_q, W_k, W_v):
    x = x.detach()
    return x @ W_q, x @ W_k, x @ W_v


@mistake(
    "input-overwritten",
    caught_by="hygiene",
    says=N_(
        "You write the queries into x, which belongs to the caller, and make keys and values from what is then there."
    ),
)
def input_overwritten(x, W_q, W_k, W_v):
    Q, K, V = x @ W_q, x @ W_k, x @ W_v
    x.copy_(Q[..., :1].expand(x.shape))
    return Q, K, V


@mistake(
    "queries-alone",
    caught_by="shapes",
    says=N_("You return the queries alone. Three results are due: (Q, K, V)."),
)
def queries_alone(x, W_q, W_k, W_v):
    return x @ W_q


@mistake(
    "stacked",
    caught_by="shapes",
    says=N_(
        "You stack the three into one tensor. Return three tensors, (Q, K, V): the values may well be of another width."
    ),
)
def stacked(x, W_q, W_k, W_v):
    return torch.stack([x @ W_q, x @ W_k, x @ W_v])


@mistake(
    "in-a-dict",
    caught_by="shapes",
    says=N_("You return a dict. Three results are due, in the order (Q, K, V)."),
)
def in_a_dict(x, W_q, W_k, W_v):
    return {"Q": x @ W_q, "K": x @ W_k, "V": x @ W_v}


@mistake(
    "no-return",
    caught_by="shapes",
    says=N_("Your function returns None: does every way through it end with a `return`?"),
)
def no_return(x, W_q, W_k, W_v):
    Q, K, V = x @ W_q, x @ W_k, x @ W_v  # noqa: F841 - computed, and never returned


@mistake(
    "one-sentence-for-all",
    caught_by="queries",
    says=N_("Every sentence of the batch gets the first sentence's projections."),
)
def one_sentence_for_all(x, W_q, W_k, W_v):
    if x.dim() > 2:
        x = x[:1].expand(x.shape)
    return x @ W_q, x @ W_k, x @ W_v


@mistake(
    "square-matrices-transposed",
    caught_by="queries",
    says=N_("You turn a matrix around whenever it is square. It is x @ W, for every shape of W."),
)
def square_matrices_transposed(x, W_q, W_k, W_v):
    return tuple(x @ (W.mT if W.shape[0] == W.shape[1] else W) for W in (W_q, W_k, W_v))


@mistake(
    "other-formula-in-float32",
    caught_by="dtypes",
    says=N_("In float32 you compute something else than in float64. The formula is the same for every dtype."),
)
def other_formula_in_float32(x, W_q, W_k, W_v):
    shift = 1.0 if x.dtype == torch.float32 else 0.0
    return tuple(x @ W + shift for W in (W_q, W_k, W_v))


@mistake(
    "no-numbers-in-bfloat16",
    caught_by="dtypes",
    says=N_("In bfloat16 your results are no numbers. What is different there?"),
)
def no_numbers_in_bfloat16(x, W_q, W_k, W_v):
    shift = math.nan if x.dtype == torch.bfloat16 else 0.0
    return tuple(x @ W + shift for W in (W_q, W_k, W_v))
