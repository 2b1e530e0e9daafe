"""What learners get wrong in multi-head attention, each with the check that catches it."""

import torch
import torch.nn.functional as F

from autograder.suite import N_, mistake


def project(query, key, value, weight, bias):
    W_q, W_k, W_v = weight.chunk(3)
    b_q, b_k, b_v = bias.chunk(3)
    return query @ W_q.T + b_q, key @ W_k.T + b_k, value @ W_v.T + b_v


def split(x, num_heads):
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def merge(x):
    return x.transpose(1, 2).flatten(2)


def scaled_scores(q, k):
    return q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5


def union(scores, key_padding_mask, attn_mask):
    forbidden = torch.zeros_like(scores, dtype=torch.bool)
    if key_padding_mask is not None:
        forbidden = forbidden | key_padding_mask[:, None, None, :]
    if attn_mask is not None:
        forbidden = forbidden | attn_mask
    return forbidden


def masked_softmax(scores, forbidden):
    weights = F.softmax(scores.masked_fill(forbidden, torch.finfo(scores.dtype).min), dim=-1)
    return weights.masked_fill(forbidden, 0.0)


def attend(q, k, v, key_padding_mask, attn_mask):
    scores = scaled_scores(q, k)
    weights = masked_softmax(scores, union(scores, key_padding_mask, attn_mask))
    return weights @ v, weights


# The projections in


@mistake(
    "keys-before-queries",
    caught_by="weights",
    says=N_("You take the rows of in_proj_weight in the order keys, queries, values. The queries come first."),
)
def keys_before_queries(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    W_k, W_q, W_v = W_in.chunk(3)
    b_k, b_q, b_v = b_in.chunk(3)
    q, k, v = query @ W_q.T + b_q, key @ W_k.T + b_k, value @ W_v.T + b_v
    q, k, v = (split(x, num_heads) for x in (q, k, v))
    mixed, weights = attend(q, k, v, key_padding_mask, attn_mask)
    return merge(mixed) @ W_out.T + b_out, weights


@mistake(
    "values-before-keys",
    caught_by="weights",
    says=N_("You take the rows of in_proj_weight in the order queries, values, keys. The values come last."),
)
def values_before_keys(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    W_q, W_v, W_k = W_in.chunk(3)
    b_q, b_v, b_k = b_in.chunk(3)
    q, k, v = query @ W_q.T + b_q, key @ W_k.T + b_k, value @ W_v.T + b_v
    q, k, v = (split(x, num_heads) for x in (q, k, v))
    mixed, weights = attend(q, k, v, key_padding_mask, attn_mask)
    return merge(mixed) @ W_out.T + b_out, weights


@mistake(
    "weights-not-transposed",
    caught_by="weights",
    says=N_(
        "You use all four matrices as x @ W. They lie as nn.Linear keeps them, (out, in), so that a row of W "
        "belongs to one output: x @ W.T. With square matrices no error tells you."
    ),
)
def weights_not_transposed(
    query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None
):
    q, k, v = (x @ W + b for x, W, b in zip((query, key, value), W_in.chunk(3), b_in.chunk(3), strict=True))
    q, k, v = (split(x, num_heads) for x in (q, k, v))
    mixed, weights = attend(q, k, v, key_padding_mask, attn_mask)
    return merge(mixed) @ W_out + b_out, weights


@mistake(
    "in-proj-not-transposed",
    caught_by="weights",
    says=N_(
        "You use the three matrices of in_proj_weight as x @ W, and out_proj_weight the right way round. They lie"
        " as nn.Linear keeps them, (out, in), so that a row of W belongs to one output: x @ W.T. With square "
        "matrices no error tells you."
    ),
)
def in_proj_not_transposed(
    query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None
):
    q, k, v = (x @ W + b for x, W, b in zip((query, key, value), W_in.chunk(3), b_in.chunk(3), strict=True))
    q, k, v = (split(x, num_heads) for x in (q, k, v))
    mixed, weights = attend(q, k, v, key_padding_mask, attn_mask)
    return merge(mixed) @ W_out.T + b_out, weights


@mistake(
    "out-proj-not-transposed",
    caught_by="output",
    says=N_(
        "You use out_proj_weight as x @ W. It lies as nn.Linear keeps it, (out, in), so that a row of W belongs to "
        "one output: x @ W.T. With a square matrix no error tells you."
    ),
)
def out_proj_not_transposed(
    query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None
):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    mixed, weights = attend(q, k, v, key_padding_mask, attn_mask)
    return merge(mixed) @ W_out + b_out, weights


@mistake(
    "parts-of-each-head",
    caught_by="weights",
    says=N_(
        "You project to 3E numbers, give each head its share, and cut that into query, key and value. Some models "
        "lie like that; here all queries come first, then all keys, then all values: cut in three before you split "
        "into heads."
    ),
)
def parts_of_each_head(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    W, b = W_in.unflatten(0, (num_heads, 3, -1)), b_in.unflatten(0, (num_heads, 3, -1))
    q, k, v = (
        split(x @ W[:, i].flatten(0, 1).T + b[:, i].flatten(), num_heads) for i, x in enumerate((query, key, value))
    )
    mixed, weights = attend(q, k, v, key_padding_mask, attn_mask)
    return merge(mixed) @ W_out.T + b_out, weights


@mistake(
    "one-projection-for-all",
    caught_by="weights",
    says=N_(
        "Queries, keys and values all go through the first E rows of in_proj_weight. Each of the three has a "
        "projection of its own."
    ),
)
def one_projection_for_all(
    query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None
):
    W = W_in[: query.shape[-1]]
    q, k, v = (split(x @ W.T + b, num_heads) for x, b in zip((query, key, value), b_in.chunk(3), strict=True))
    mixed, weights = attend(q, k, v, key_padding_mask, attn_mask)
    return merge(mixed) @ W_out.T + b_out, weights


@mistake(
    "no-projection-in",
    caught_by="weights",
    says=N_("Your heads look at the inputs as they are: in_proj_weight and in_proj_bias are never used."),
)
def no_projection_in(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    q, k, v = (split(x, num_heads) for x in (query, key, value))
    mixed, weights = attend(q, k, v, key_padding_mask, attn_mask)
    return merge(mixed) @ W_out.T + b_out, weights


@mistake(
    "every-third-row",
    caught_by="weights",
    says=N_(
        "The rows of in_proj_weight are dealt out in turn: query, key, value, query, … For example, a reshape to "
        "(E, 3, E). They lie in three blocks: E rows for the queries, then E for the keys, then E for the values."
    ),
)
def every_third_row(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    W_q, W_k, W_v = W_in.unflatten(0, (-1, 3)).unbind(1)
    b_q, b_k, b_v = b_in.chunk(3)
    q, k, v = query @ W_q.T + b_q, key @ W_k.T + b_k, value @ W_v.T + b_v
    q, k, v = (split(x, num_heads) for x in (q, k, v))
    mixed, weights = attend(q, k, v, key_padding_mask, attn_mask)
    return merge(mixed) @ W_out.T + b_out, weights


@mistake(
    "all-from-query",
    caught_by="cross_attention",
    says=N_(
        "You project the query alone, and take keys and values from it too. That is right as long as a sentence "
        "looks at itself: key and value may be another one."
    ),
)
def all_from_query(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    q, k, v = (split(x, num_heads) for x in project(query, query, query, W_in, b_in))
    mixed, weights = attend(q, k, v, key_padding_mask, attn_mask)
    return merge(mixed) @ W_out.T + b_out, weights


@mistake(
    "values-from-key",
    caught_by="cross_attention",
    says=N_(
        "You project `key` where `value` is meant: the keys decide who is looked at, the values are what is taken away."
    ),
)
def values_from_key(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    q, k, v = (split(x, num_heads) for x in project(query, key, key, W_in, b_in))
    mixed, weights = attend(q, k, v, key_padding_mask, attn_mask)
    return merge(mixed) @ W_out.T + b_out, weights


# Biases


@mistake(
    "no-biases",
    caught_by="biases",
    says=N_(
        "You use neither in_proj_bias nor out_proj_bias. A module that is fresh from its constructor has zeros in "
        "both, which hides it; trained ones have not."
    ),
)
def no_biases(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    biases = torch.zeros_like(b_in)
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, biases))
    mixed, weights = attend(q, k, v, key_padding_mask, attn_mask)
    return merge(mixed) @ W_out.T, weights


@mistake(
    "no-biases-in",
    caught_by="biases",
    says=N_(
        "You never use in_proj_bias (or only its part for the keys, which changes nothing: it adds the same to all "
        "scores of a query)."
    ),
)
def no_biases_in(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    biases = torch.zeros_like(b_in)
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, biases))
    mixed, weights = attend(q, k, v, key_padding_mask, attn_mask)
    return merge(mixed) @ W_out.T + b_out, weights


@mistake(
    "no-bias-out",
    caught_by="biases",
    says=N_("You never use out_proj_bias: the last projection has a bias, too."),
)
def no_bias_out(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    mixed, weights = attend(q, k, v, key_padding_mask, attn_mask)
    return merge(mixed) @ W_out.T, weights


@mistake(
    "no-bias-for-queries",
    caught_by="biases",
    says=N_("Your queries get no bias: the first third of in_proj_bias is theirs."),
)
def no_bias_for_queries(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    W_q, W_k, W_v = W_in.chunk(3)
    _, b_k, b_v = b_in.chunk(3)
    q, k, v = query @ W_q.T, key @ W_k.T + b_k, value @ W_v.T + b_v
    q, k, v = (split(x, num_heads) for x in (q, k, v))
    mixed, weights = attend(q, k, v, key_padding_mask, attn_mask)
    return merge(mixed) @ W_out.T + b_out, weights


@mistake(
    "biases-of-keys-and-values-exchanged",
    caught_by="parity",
    says=N_(
        "Your values get the bias of the keys (and the keys that of the values, which changes nothing). "
        "in_proj_bias is cut in the same order as in_proj_weight: queries, keys, values."
    ),
)
def biases_of_keys_and_values_exchanged(
    query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None
):
    W_q, W_k, W_v = W_in.chunk(3)
    b_q, b_v, b_k = b_in.chunk(3)
    q, k, v = query @ W_q.T + b_q, key @ W_k.T + b_k, value @ W_v.T + b_v
    q, k, v = (split(x, num_heads) for x in (q, k, v))
    mixed, weights = attend(q, k, v, key_padding_mask, attn_mask)
    return merge(mixed) @ W_out.T + b_out, weights


@mistake(
    "bias-before-the-projection-out",
    caught_by="biases",
    says=N_(
        "You add out_proj_bias before you multiply by out_proj_weight, so that the bias is projected too. It is "
        "added last, to what the projection gives."
    ),
)
def bias_before_the_projection_out(
    query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None
):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    mixed, weights = attend(q, k, v, key_padding_mask, attn_mask)
    return (merge(mixed) + b_out) @ W_out.T, weights


@mistake(
    "keys-mixed",
    caught_by="output",
    says=N_(
        "Your output is made of the keys: weights @ keys. The keys decide who is looked at, the values are what "
        "is taken away."
    ),
)
def keys_mixed(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    _, weights = attend(q, k, v, key_padding_mask, attn_mask)
    return merge(weights @ k) @ W_out.T + b_out, weights


# Splitting and merging


@mistake(
    "view-without-transposing",
    caught_by="weights",
    says=N_(
        "You cut (B, T, E) straight into (B, H, T, d), or (B·H, T, d). The shape is right, but head 0 then holds "
        "the first words instead of the first features of every word: cut the last axis alone, and exchange two "
        "axes."
    ),
)
def view_without_transposing(
    query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None
):
    q, k, v = project(query, key, value, W_in, b_in)
    q, k, v = (x.reshape(len(x), num_heads, x.shape[1], -1) for x in (q, k, v))
    mixed, weights = attend(q, k, v, key_padding_mask, attn_mask)
    return merge(mixed) @ W_out.T + b_out, weights


@mistake(
    "view-there-and-back",
    caught_by="weights",
    says=N_(
        "You cut (B, T, E) straight into (B, H, T, d), or (B·H, T, d), and put it together in the same way. Shapes "
        "are right, but head 0 then holds the first words instead of the first features of every word: heads and "
        "words have to change places, before and after."
    ),
)
def view_there_and_back(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    q, k, v = project(query, key, value, W_in, b_in)
    q, k, v = (x.reshape(len(x), num_heads, x.shape[1], -1) for x in (q, k, v))
    mixed, weights = attend(q, k, v, key_padding_mask, attn_mask)
    return mixed.reshape(query.shape) @ W_out.T + b_out, weights


@mistake(
    "interleaved-heads",
    caught_by="weights",
    says=N_(
        "You deal the features out to the heads like cards: each head gets every H-th one. A head is a block of d "
        "neighbours."
    ),
)
def interleaved_heads(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    q, k, v = project(query, key, value, W_in, b_in)
    q, k, v = (x.unflatten(-1, (-1, num_heads)).permute(0, 3, 1, 2) for x in (q, k, v))
    mixed, weights = attend(q, k, v, key_padding_mask, attn_mask)
    mixed = mixed.permute(0, 2, 3, 1).flatten(2)
    return mixed @ W_out.T + b_out, weights


@mistake(
    "interleaved-heads-merged-as-blocks",
    caught_by="weights",
    says=N_(
        "Each of your heads gets every H-th feature, like cards that are dealt, for example by a cut into (d, H) "
        "instead of (H, d); they are then merged as blocks. A head is a block of d neighbours."
    ),
)
def interleaved_heads_merged_as_blocks(
    query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None
):
    q, k, v = project(query, key, value, W_in, b_in)
    q, k, v = (x.unflatten(-1, (-1, num_heads)).permute(0, 3, 1, 2) for x in (q, k, v))
    mixed, weights = attend(q, k, v, key_padding_mask, attn_mask)
    return merge(mixed) @ W_out.T + b_out, weights


@mistake(
    "attention-over-heads",
    caught_by="weights_shape",
    says=N_(
        "Your scores are (B, T, H, H): at each word, heads look at heads. Bring the heads in front of the words "
        "first, so that words look at words."
    ),
)
def attention_over_heads(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    q, k, v = project(query, key, value, W_in, b_in)
    q, k, v = (x.unflatten(-1, (num_heads, -1)) for x in (q, k, v))
    weights = F.softmax(scaled_scores(q, k), dim=-1)
    return (weights @ v).flatten(2) @ W_out.T + b_out, weights


@mistake(
    "merged-without-transposing",
    caught_by="output",
    says=N_(
        "You turn (B, H, T, d) straight into (B, T, E). The shape is right, but a row then holds several words of "
        "one head: heads and words have to change places first."
    ),
)
def merged_without_transposing(
    query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None
):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    mixed, weights = attend(q, k, v, key_padding_mask, attn_mask)
    return mixed.reshape(query.shape) @ W_out.T + b_out, weights


@mistake(
    "one-head-for-the-projection",
    caught_by="shapes",
    says=N_(
        "Only d numbers for each word reach the projection out: heads are added, averaged, or all but one are "
        "dropped. They stand side by side there, E numbers."
    ),
)
def one_head_for_the_projection(
    query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None
):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    mixed, weights = attend(q, k, v, key_padding_mask, attn_mask)
    return mixed.sum(1) @ W_out.T + b_out, weights


@mistake(
    "not-merged",
    caught_by="shapes",
    says=N_(
        "What you multiply by out_proj_weight is d numbers wide, not E. For example, the heads go in one by one, "
        "or one below the other. They are put side by side first: (B, T, E)."
    ),
)
def not_merged(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    mixed, weights = attend(q, k, v, key_padding_mask, attn_mask)
    return mixed @ W_out.T + b_out, weights


@mistake(
    "no-projection-out",
    caught_by="output",
    says=N_(
        "You return the heads side by side as they are: out_proj_weight and out_proj_bias are never used. The last "
        "projection mixes what the heads have found."
    ),
)
def no_projection_out(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    mixed, weights = attend(q, k, v, key_padding_mask, attn_mask)
    return merge(mixed), weights


# The weights that come back


@mistake(
    "first-head-for-all",
    caught_by="weights_shape",
    says=N_(
        "All heads look with the queries and keys of head 0, so that they see the same picture; only their values are "
        "their own. Does your step for one head know which head it is?"
    ),
)
def first_head_for_all(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    q, k = (x[:, :1].expand(-1, num_heads, -1, -1) for x in (q, k))
    mixed, weights = attend(q, k, v, key_padding_mask, attn_mask)
    return merge(mixed) @ W_out.T + b_out, weights


@mistake(
    "weights-averaged",
    caught_by="weights_shape",
    says=N_(
        "You average the weights over the heads, as nn.MultiheadAttention does by default. Here each head's own are "
        "due: two questions, two pictures."
    ),
)
def weights_averaged(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    mixed, weights = attend(q, k, v, key_padding_mask, attn_mask)
    return merge(mixed) @ W_out.T + b_out, weights.mean(1)


@mistake(
    "mixed-by-columns",
    caught_by="output",
    says=N_(
        "Your output is made with the weights turned round: each key collects from the queries. The rows of the "
        "weights belong to the queries, so weights @ values takes them as they are."
    ),
)
def mixed_by_columns(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    _, weights = attend(q, k, v, key_padding_mask, attn_mask)
    return merge(weights.mT @ v) @ W_out.T + b_out, weights


@mistake(
    "weights-with-batch-and-heads-in-one",
    caught_by="weights_shape",
    says=N_(
        "Your weights are (B·H, Tq, Tk): sentences and heads share one axis. Here each has its own: (B, H, Tq, Tk)."
    ),
)
def weights_with_batch_and_heads_in_one(
    query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None
):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    mixed, weights = attend(q, k, v, key_padding_mask, attn_mask)
    return merge(mixed) @ W_out.T + b_out, weights.flatten(0, 1)


@mistake(
    "weights-with-heads-first",
    caught_by="weights_shape",
    says=N_(
        "Your weights are (H, B, Tq, Tk): the heads stand before the sentences. For example, torch.stack puts the"
        " new axis in front unless it is told where. The batch comes first: (B, H, Tq, Tk)."
    ),
)
def weights_with_heads_first(
    query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None
):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    mixed, weights = attend(q, k, v, key_padding_mask, attn_mask)
    return merge(mixed) @ W_out.T + b_out, weights.transpose(0, 1)


@mistake(
    "output-alone",
    caught_by="results",
    says=N_("You return the output alone. The weights are due as well: (output, weights)."),
)
def output_alone(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    mixed, _ = attend(q, k, v, key_padding_mask, attn_mask)
    return merge(mixed) @ W_out.T + b_out


@mistake(
    "results-swapped",
    caught_by="results",
    says=N_("You return (weights, output). The order is (output, weights)."),
)
def results_swapped(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    mixed, weights = attend(q, k, v, key_padding_mask, attn_mask)
    return weights, merge(mixed) @ W_out.T + b_out


@mistake(
    "no-return",
    caught_by="shapes",
    says=N_("Your function computes something and returns nothing: `return` is missing, so that it returns None."),
)
def no_return(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    mixed, _ = attend(q, k, v, key_padding_mask, attn_mask)
    output = merge(mixed) @ W_out.T + b_out  # noqa: F841 - computed, and never returned


# Scale and softmax


@mistake(
    "no-scale",
    caught_by="weights",
    says=N_("You don't scale the scores. They are divided by the root of a head's width."),
)
def no_scale(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    scores = q @ k.mT
    weights = masked_softmax(scores, union(scores, key_padding_mask, attn_mask))
    return merge(weights @ v) @ W_out.T + b_out, weights


@mistake(
    "scale-by-embedding",
    caught_by="weights",
    says=N_(
        "You divide the scores by √E. A score of one head adds up only d = E/H products: √d. (With one head it is "
        "the same.)"
    ),
)
def scale_by_embedding(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    scores = q @ k.mT / query.shape[-1] ** 0.5
    weights = masked_softmax(scores, union(scores, key_padding_mask, attn_mask))
    return merge(weights @ v) @ W_out.T + b_out, weights


@mistake(
    "scale-by-number-of-heads",
    caught_by="weights",
    says=N_(
        "You divide the scores by the root of the number of heads. It is the root of a head's width; where both are "
        "equal, as with E = 16 and 4 heads, nobody notices."
    ),
)
def scale_by_number_of_heads(
    query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None
):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    scores = q @ k.mT / num_heads**0.5
    weights = masked_softmax(scores, union(scores, key_padding_mask, attn_mask))
    return merge(weights @ v) @ W_out.T + b_out, weights


@mistake(
    "scale-without-root",
    caught_by="weights",
    says=N_("You divide the scores by a head's width, not by its root: your weights are too flat."),
)
def scale_without_root(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    scores = q @ k.mT / q.shape[-1]
    weights = masked_softmax(scores, union(scores, key_padding_mask, attn_mask))
    return merge(weights @ v) @ W_out.T + b_out, weights


@mistake(
    "softmax-over-heads",
    caught_by="rows_sum_to_one",
    says=N_(
        "Your softmax runs over the heads: for each pair of words they share 1 among themselves. Each head shares "
        "out its own attention, over the keys."
    ),
)
def softmax_over_heads(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    scores = scaled_scores(q, k)
    forbidden = union(scores, key_padding_mask, attn_mask)
    weights = F.softmax(scores.masked_fill(forbidden, -1e9), dim=1).masked_fill(forbidden, 0.0)
    return merge(weights @ v) @ W_out.T + b_out, weights


@mistake(
    "softmax-over-queries",
    caught_by="rows_sum_to_one",
    says=N_(
        "Your softmax runs over the queries: each key is shared out among them. It is each query that shares out "
        "its attention, over the keys."
    ),
)
def softmax_over_queries(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    scores = scaled_scores(q, k)
    forbidden = union(scores, key_padding_mask, attn_mask)
    weights = F.softmax(scores.masked_fill(forbidden, -1e9), dim=2).masked_fill(forbidden, 0.0)
    return merge(weights @ v) @ W_out.T + b_out, weights


@mistake(
    "naive-exp",
    caught_by="huge_logits",
    says=N_(
        "Your softmax takes exp of the scores as they are. Above a score of 709 (88 in float32), exp is infinite, "
        "and infinity divided by infinity is NaN."
    ),
)
def naive_exp(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    scores = scaled_scores(q, k)
    powers = torch.exp(scores).masked_fill(union(scores, key_padding_mask, attn_mask), 0.0)
    weights = powers / powers.sum(-1, keepdim=True).clamp(min=1e-20)
    return merge(weights @ v) @ W_out.T + b_out, weights


# Masks


@mistake(
    "masks-inverted",
    caught_by="padded_keys",
    says=N_(
        'You read both masks the other way round: your queries look only where they may not. Here True means "not '
        'allowed"; F.scaled_dot_product_attention has it the other way.'
    ),
)
def masks_inverted(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    scores = scaled_scores(q, k)
    padding = None if key_padding_mask is None else ~key_padding_mask
    attn = None if attn_mask is None else ~attn_mask
    weights = masked_softmax(scores, union(scores, padding, attn))
    return merge(weights @ v) @ W_out.T + b_out, weights


@mistake(
    "padding-inverted",
    caught_by="padded_keys",
    says=N_("You read key_padding_mask the other way round: True stands at the padding, not at the words."),
)
def padding_inverted(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    scores = scaled_scores(q, k)
    padding = None if key_padding_mask is None else ~key_padding_mask
    weights = masked_softmax(scores, union(scores, padding, attn_mask))
    return merge(weights @ v) @ W_out.T + b_out, weights


@mistake(
    "attn-mask-inverted",
    caught_by="attn_mask",
    says=N_("You read attn_mask the other way round: True stands where a query may not look."),
)
def attn_mask_inverted(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    scores = scaled_scores(q, k)
    weights = masked_softmax(scores, union(scores, key_padding_mask, None if attn_mask is None else ~attn_mask))
    return merge(weights @ v) @ W_out.T + b_out, weights


@mistake(
    "masks-ignored",
    caught_by="padded_keys",
    says=N_("You use neither of the two masks: every query looks at every key."),
)
def masks_ignored(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    mixed, weights = attend(q, k, v, None, None)
    return merge(mixed) @ W_out.T + b_out, weights


@mistake(
    "padding-ignored",
    caught_by="padded_keys",
    says=N_("You never use key_padding_mask: only what attn_mask forbids is masked."),
)
def padding_ignored(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    scores = scaled_scores(q, k)
    weights = masked_softmax(scores, union(scores, None, attn_mask))
    return merge(weights @ v) @ W_out.T + b_out, weights


@mistake(
    "attn-mask-ignored",
    caught_by="attn_mask",
    says=N_("You never use attn_mask: only the padding is masked."),
)
def attn_mask_ignored(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    scores = scaled_scores(q, k)
    weights = masked_softmax(scores, union(scores, key_padding_mask, None))
    return merge(weights @ v) @ W_out.T + b_out, weights


@mistake(
    "and-instead-of-or",
    caught_by="both_masks",
    says=N_(
        "With both masks, you forbid only what both of them forbid (&). A key is out as soon as either says so (|)."
    ),
)
def and_instead_of_or(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    scores = scaled_scores(q, k)
    forbidden = union(scores, key_padding_mask, attn_mask)
    if key_padding_mask is not None and attn_mask is not None:
        forbidden = (key_padding_mask[:, None, None, :] & attn_mask).expand(scores.shape)
    weights = masked_softmax(scores, forbidden)
    return merge(weights @ v) @ W_out.T + b_out, weights


@mistake(
    "and-with-nothing",
    caught_by="attn_mask",
    says=N_(
        "attn_mask forbids only what the padding forbids too (&), and nothing at all where there is no "
        "key_padding_mask. A key is out as soon as either mask says so (|)."
    ),
)
def and_with_nothing(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    scores = scaled_scores(q, k)
    forbidden = union(scores, key_padding_mask, None)
    if attn_mask is not None:
        forbidden = forbidden & attn_mask
    weights = masked_softmax(scores, forbidden)
    return merge(weights @ v) @ W_out.T + b_out, weights


@mistake(
    "padding-along-queries",
    caught_by="padded_keys",
    says=N_(
        "You lay key_padding_mask along the queries' axis: padded queries are stopped from looking, and the words "
        "still look at the padding. It belongs along the last axis."
    ),
)
def padding_along_queries(
    query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None
):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    scores = scaled_scores(q, k)
    forbidden = union(scores, None, attn_mask)
    if key_padding_mask is not None:
        forbidden = forbidden | key_padding_mask[:, None, :, None]
    weights = masked_softmax(scores, forbidden)
    return merge(weights @ v) @ W_out.T + b_out, weights


@mistake(
    "padding-without-new-axes",
    caught_by="padded_keys",
    says=N_(
        "You put the (B, Tk) mask on (B, H, Tq, Tk) scores as it is. Axes are matched from the right, so that "
        "sentence b's row lands on query b: it needs two axes of size 1 in the middle."
    ),
)
def padding_without_new_axes(
    query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None
):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    scores = scaled_scores(q, k)
    forbidden = union(scores, None, attn_mask)
    if key_padding_mask is not None:
        forbidden = forbidden | key_padding_mask
    weights = masked_softmax(scores, forbidden)
    return merge(weights @ v) @ W_out.T + b_out, weights


@mistake(
    "padding-along-heads",
    caught_by="padded_keys",
    says=N_(
        "Sentence b's row of key_padding_mask lands on head b, of all sentences. Axes are matched from the right,"
        " and (B, H, Tq, Tk) scores have two between the mask's B and its Tk: each needs an axis of size 1 in its"
        " place. When B = H, nothing complains."
    ),
)
def padding_along_heads(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    scores = scaled_scores(q, k)
    forbidden = union(scores, None, attn_mask)
    if key_padding_mask is not None:
        forbidden = forbidden | key_padding_mask.unsqueeze(1)
    weights = masked_softmax(scores, forbidden)
    return merge(weights @ v) @ W_out.T + b_out, weights


@mistake(
    "padding-repeated-in-the-wrong-order",
    caught_by="padded_keys",
    says=N_(
        "You repeat the whole padding mask H times for B·H rows of scores. There, the H heads of a sentence follow "
        "one another, so each row of the mask is to be repeated at once (repeat_interleave)."
    ),
)
def padding_repeated_in_the_wrong_order(
    query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None
):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    scores = scaled_scores(q, k)
    forbidden = union(scores, None, attn_mask)
    if key_padding_mask is not None:
        rows = key_padding_mask.repeat(num_heads, 1).view(len(query), num_heads, 1, -1)
        forbidden = forbidden | rows
    weights = masked_softmax(scores, forbidden)
    return merge(weights @ v) @ W_out.T + b_out, weights


@mistake(
    "padded-queries-too",
    caught_by="padded_keys",
    says=N_(
        "You stop padded places from looking as well. key_padding_mask speaks of keys alone; queries may even be "
        "another sentence, of another length."
    ),
)
def padded_queries_too(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    scores = scaled_scores(q, k)
    forbidden = union(scores, key_padding_mask, attn_mask)
    if key_padding_mask is not None:
        forbidden = forbidden | key_padding_mask[:, None, :, None]
    weights = masked_softmax(scores, forbidden)
    return merge(weights @ v) @ W_out.T + b_out, weights


@mistake(
    "attn-mask-transposed",
    caught_by="attn_mask",
    says=N_("You use attn_mask transposed: its rows are queries and its columns keys, just as in the scores."),
)
def attn_mask_transposed(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    scores = scaled_scores(q, k)
    forbidden = union(scores, key_padding_mask, None if attn_mask is None else attn_mask.T)
    weights = masked_softmax(scores, forbidden)
    return merge(weights @ v) @ W_out.T + b_out, weights


@mistake(
    "scores-set-to-zero",
    caught_by="padded_keys",
    says=N_(
        "You set forbidden scores to 0 before the softmax. e to the power of 0 is 1, so that a forbidden key still "
        "gets its share: only minus infinity has the power 0."
    ),
)
def scores_set_to_zero(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    scores = scaled_scores(q, k)
    weights = F.softmax(scores.masked_fill(union(scores, key_padding_mask, attn_mask), 0.0), dim=-1)
    return merge(weights @ v) @ W_out.T + b_out, weights


@mistake(
    "fill-not-low-enough",
    caught_by="padded_keys",
    says=N_(
        "Forbidden keys keep a little weight, and where all allowed scores are below -100 they get nearly "
        "everything. For example, forbidden scores are set to -100: that is not low enough, since a score may "
        "well be lower."
    ),
)
def fill_not_low_enough(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    scores = scaled_scores(q, k)
    weights = F.softmax(scores.masked_fill(union(scores, key_padding_mask, attn_mask), -100.0), dim=-1)
    return merge(weights @ v) @ W_out.T + b_out, weights


@mistake(
    "infinity-times-zero",
    caught_by="weights",
    says=N_(
        "All your weights are NaN, with masks and without. For example, a table of bans times minus infinity: "
        "wherever nothing is forbidden that is 0 times infinity, which is NaN."
    ),
)
def infinity_times_zero(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    scores = scaled_scores(q, k)
    weights = F.softmax(scores + union(scores, key_padding_mask, attn_mask) * float("-inf"), dim=-1)
    return merge(weights @ v) @ W_out.T + b_out, weights


@mistake(
    "masked-after-softmax",
    caught_by="rows_sum_to_one",
    says=N_(
        "You set forbidden weights to 0 after the softmax and leave it at that: the share of the forbidden keys is "
        "lost, and rows sum to less than 1. Mask the scores instead."
    ),
)
def masked_after_softmax(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    scores = scaled_scores(q, k)
    weights = F.softmax(scores, dim=-1).masked_fill(union(scores, key_padding_mask, attn_mask), 0.0)
    return merge(weights @ v) @ W_out.T + b_out, weights


@mistake(
    "renormalised-after-softmax",
    caught_by="huge_logits",
    says=N_(
        "You mask after the softmax and divide by what is left. If a forbidden key had nearly all the weight, "
        "nothing is left: mask the scores, and it cannot happen."
    ),
)
def renormalised_after_softmax(
    query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None
):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    scores = scaled_scores(q, k)
    weights = F.softmax(scores, dim=-1).masked_fill(union(scores, key_padding_mask, attn_mask), 0.0)
    weights = weights / weights.sum(-1, keepdim=True).clamp(min=1e-12)
    return merge(weights @ v) @ W_out.T + b_out, weights


@mistake(
    "penalty-that-loses-to-large-scores",
    caught_by="huge_logits",
    says=N_(
        "You add -10000 to forbidden scores. A score of 10000 makes up for it, and the padding is back: replace the "
        "score instead of lowering it."
    ),
)
def penalty_that_loses_to_large_scores(
    query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None
):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    scores = scaled_scores(q, k)
    forbidden = union(scores, key_padding_mask, attn_mask)
    weights = F.softmax(scores - 1e4 * forbidden.to(scores.dtype), dim=-1)
    weights = weights * ~forbidden.all(-1, keepdim=True)
    return merge(weights @ v) @ W_out.T + b_out, weights


@mistake(
    "leak-tidied-up",
    caught_by="more_padding",
    says=N_(
        "Your weights leak a little to forbidden keys, and you set them to 0 only after the output has been made "
        "with them: what stands in the padding still shines through."
    ),
)
def leak_tidied_up(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    scores = scaled_scores(q, k)
    forbidden = union(scores, key_padding_mask, attn_mask)
    weights = F.softmax(scores - 25 * forbidden.to(scores.dtype), dim=-1)
    output = merge(weights @ v) @ W_out.T + b_out
    return output, weights.masked_fill(forbidden, 0.0)


@mistake(
    "masks-needed",
    caught_by="weights",
    says=N_("You use a mask before you have asked whether it is None. Without masks, everybody may look everywhere."),
)
def masks_needed(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    scores = scaled_scores(q, k)
    forbidden = key_padding_mask[:, None, None, :] | attn_mask
    weights = masked_softmax(scores, forbidden)
    return merge(weights @ v) @ W_out.T + b_out, weights


# Queries with no allowed key


@mistake(
    "nan-rows",
    caught_by="empty_rows",
    says=N_(
        "A query with no allowed key gets NaN, as in PyTorch: a softmax of minus infinities divides 0 by 0. Here it "
        "gets zero weights, so that the output bias alone is left."
    ),
)
def nan_rows(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    scores = scaled_scores(q, k)
    forbidden = union(scores, key_padding_mask, attn_mask)
    weights = F.softmax(scores.masked_fill(forbidden, float("-inf")), dim=-1)
    return merge(weights @ v) @ W_out.T + b_out, weights


@mistake(
    "uniform-rows",
    caught_by="empty_rows",
    says=N_(
        "A query with no allowed key shares itself out evenly among forbidden ones. For example, if all of its "
        "scores are set to the same low number, none is lower than another. It should get zero weights."
    ),
)
def uniform_rows(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    scores = scaled_scores(q, k)
    forbidden = union(scores, key_padding_mask, attn_mask)
    weights = F.softmax(scores.masked_fill(forbidden, -1e9), dim=-1)
    return merge(weights @ v) @ W_out.T + b_out, weights


@mistake(
    "penalty-on-whole-rows",
    caught_by="empty_rows",
    says=N_(
        "A query with no allowed key looks as if nothing were masked, and bfloat16 inputs end in an error. For "
        "example, ban * -1e9 is added to the scores: where all of them sink alike, they differ as before, and a "
        "bool tensor times a number is float32."
    ),
)
def penalty_on_whole_rows(
    query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None
):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    scores = scaled_scores(q, k)
    scores = scores + union(scores, key_padding_mask, attn_mask) * -1e9
    weights = F.softmax(scores, dim=-1)
    return merge(weights @ v) @ W_out.T + b_out, weights


@mistake(
    "nan-replaced-afterwards",
    caught_by="empty_rows_gradients",
    says=N_(
        "You add minus infinity and replace NaN by 0 afterwards. Forwards it is gone, but backwards the softmax "
        "still divides 0 by 0, and the gradients are NaN: keep it from arising."
    ),
)
def nan_replaced_afterwards(
    query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None
):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    scores = scaled_scores(q, k)
    added = torch.zeros_like(scores).masked_fill(union(scores, key_padding_mask, attn_mask), float("-inf"))
    weights = torch.nan_to_num(F.softmax(scores + added, dim=-1))
    return merge(weights @ v) @ W_out.T + b_out, weights


@mistake(
    "zero-output-for-empty-rows",
    caught_by="empty_rows",
    says=N_(
        "The output of a query with no allowed key is 0 in yours. Zero weights do no more than silence its heads; "
        "the projection out still adds its bias. (If you replace NaN by 0, do it before that projection.)"
    ),
)
def zero_output_for_empty_rows(
    query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None
):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    scores = scaled_scores(q, k)
    forbidden = union(scores, key_padding_mask, attn_mask)
    weights = masked_softmax(scores, forbidden)
    output = merge(weights @ v) @ W_out.T + b_out
    return output.masked_fill(forbidden[:, 0].all(-1, keepdim=True), 0.0), weights


# Batches, types, inputs, gradients


@mistake(
    "squeezed",
    caught_by="batches",
    says=N_(
        "Your results go through squeeze(), which drops every axis of size 1: a batch of one sentence, a sentence "
        "of one word, or a single head loses its axis."
    ),
)
def squeezed(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    mixed, weights = attend(q, k, v, key_padding_mask, attn_mask)
    output = merge(mixed) @ W_out.T + b_out
    return output.squeeze(), weights.squeeze()


@mistake(
    "float32-mask",
    caught_by="dtypes",
    says=N_(
        "The mask that you add to the scores is float32 whatever the inputs are, and turns bfloat16 scores into "
        "float32. Make it with the dtype of the scores."
    ),
)
def float32_mask(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    scores = scaled_scores(q, k)
    forbidden = union(scores, key_padding_mask, attn_mask)
    weights = F.softmax(scores + torch.zeros(scores.shape).masked_fill(forbidden, -1e9), dim=-1)
    weights = weights.masked_fill(forbidden, 0.0)
    return merge(weights @ v) @ W_out.T + b_out, weights


@mistake(
    "float32-zeros",
    caught_by="dtypes",
    says=N_(
        "What goes into the projection out is float32 whatever the inputs are. For example, the heads are written"
        " into a new tensor (torch.zeros, torch.empty) without a dtype: give it the dtype and device of an input."
    ),
)
def float32_zeros(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    mixed, weights = attend(q, k, v, key_padding_mask, attn_mask)
    merged = torch.zeros(query.shape)
    merged[...] = merge(mixed)
    return merged @ W_out.T + b_out, weights


@mistake(
    "mask-turned-in-place",
    caught_by="hygiene",
    says=N_(
        "You turn key_padding_mask around in place (logical_not_), and the caller's mask with it. `~` makes a new one."
    ),
)
def mask_turned_in_place(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    mixed, weights = attend(q, k, v, key_padding_mask, attn_mask)
    if key_padding_mask is not None:
        key_padding_mask.logical_not_()
    return merge(mixed) @ W_out.T + b_out, weights


@mistake(
    "dropout",
    caught_by="hygiene",
    says=N_("Your weights go through dropout on every call, so that the same call gives different results."),
)
def dropout(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    _, weights = attend(q, k, v, key_padding_mask, attn_mask)
    return merge(F.dropout(weights, p=0.1) @ v) @ W_out.T + b_out, weights


@mistake(
    "detached-weights",
    caught_by="parity",
    says=N_(
        "The weights that you return are cut off from the graph (detach, .data, a copy), while the output is not:"
        " a loss on the weights teaches nothing."
    ),
)
def detached_weights(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    mixed, weights = attend(q, k, v, key_padding_mask, attn_mask)
    return merge(mixed) @ W_out.T + b_out, weights.detach()


@mistake(
    "parameters-copied",
    caught_by="parity",
    says=N_(
        "Gradients reach the inputs, but not the parameters: you put copies of them into layers of your own "
        "(nn.Parameter, .data, copy_), and what is learnt stays in the copies."
    ),
)
def parameters_copied(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    W_in, b_in, W_out, b_out = (torch.nn.Parameter(x) for x in (W_in, b_in, W_out, b_out))
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    mixed, weights = attend(q, k, v, key_padding_mask, attn_mask)
    return merge(mixed) @ W_out.T + b_out, weights


@mistake(
    "no-gradients",
    caught_by="parity",
    says=N_(
        "Nothing that you return carries gradients (no_grad, detach, .data or a copy through torch.tensor): nothing "
        "could learn from it."
    ),
)
def no_gradients(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    q, k, v = (split(x, num_heads) for x in project(query, key, value, W_in, b_in))
    mixed, weights = attend(q, k, v, key_padding_mask, attn_mask)
    output = merge(mixed) @ W_out.T + b_out
    return output.detach(), weights.detach()
