"""What is left to repair in the sixth case, and half repairs."""

import math

import torch
import torch.nn.functional as F

from autograder.suite import N_, mistake


def attend(q, k, v, num_heads, key_padding_mask, attn_mask):
    q, k, v = (x.unflatten(-1, (num_heads, -1)).transpose(1, 2) for x in (q, k, v))
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    forbidden = torch.zeros_like(scores, dtype=torch.bool)
    if key_padding_mask is not None:
        forbidden = forbidden | key_padding_mask[:, None, None, :]
    if attn_mask is not None:
        forbidden = forbidden | attn_mask
    weights = torch.softmax(scores.masked_fill(forbidden, torch.finfo(scores.dtype).min), dim=-1)
    weights = weights.masked_fill(forbidden, 0.0)
    return (weights @ v).transpose(1, 2).flatten(2), weights


@mistake(
    "as-sick-as-before",
    caught_by="repaired",
    says=N_(
        "On every call up to here your function gives what the sick one gives: either your change is not what matters, "
        "or it is not in force (of several definitions in a notebook, the last counts). "
        "Compare with torch's module, all parameters drawn at random: is the difference the same for every word?"
    ),
)
def as_sick_as_before(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    W_q, W_k, W_v = W_in.chunk(3)
    b_q, b_v, b_k = b_in.chunk(3)
    q, k, v = F.linear(query, W_q, b_q), F.linear(key, W_k, b_k), F.linear(value, W_v, b_v)
    mixed, weights = attend(q, k, v, num_heads, key_padding_mask, attn_mask)
    return F.linear(mixed, W_out, b_out), weights


@mistake(
    "matrices-follow-the-biases",
    caught_by="repaired",
    says=N_(
        "Matrices and biases are now cut in one order, but in the wrong one: queries, values, keys. The weights were "
        "right before, so that the matrices cannot have been the trouble."
    ),
)
def matrices_follow_the_biases(
    query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None
):
    W_q, W_v, W_k = W_in.chunk(3)
    b_q, b_v, b_k = b_in.chunk(3)
    q, k, v = F.linear(query, W_q, b_q), F.linear(key, W_k, b_k), F.linear(value, W_v, b_v)
    mixed, weights = attend(q, k, v, num_heads, key_padding_mask, attn_mask)
    return F.linear(mixed, W_out, b_out), weights


@mistake(
    "biases-left-out",
    caught_by="repaired",
    says=N_(
        "The biases of the projections in are gone altogether. A new module, whose biases are 0, still agrees; a "
        "trained one does not."
    ),
)
def biases_left_out(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    W_q, W_k, W_v = W_in.chunk(3)
    mixed, weights = attend(query @ W_q.T, key @ W_k.T, value @ W_v.T, num_heads, key_padding_mask, attn_mask)
    return F.linear(mixed, W_out, b_out), weights


@mistake(
    "matrices-exchanged",
    caught_by="repaired",
    says=N_(
        "Keys and values are projected by each other's matrices now. The weights were right before, so that the "
        "matrices cannot have been the trouble."
    ),
)
def matrices_exchanged(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    W_q, W_v, W_k = W_in.chunk(3)
    b_q, b_k, b_v = b_in.chunk(3)
    q, k, v = F.linear(query, W_q, b_q), F.linear(key, W_k, b_k), F.linear(value, W_v, b_v)
    mixed, weights = attend(q, k, v, num_heads, key_padding_mask, attn_mask)
    return F.linear(mixed, W_out, b_out), weights


@mistake(
    "values-with-the-bias-of-the-queries",
    caught_by="repaired",
    says=N_(
        "The weights are right, the output is off: your values get the bias that belongs to the queries. Which third "
        "of in_proj_bias is theirs?"
    ),
)
def values_with_the_bias_of_the_queries(
    query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None
):
    W_q, W_k, W_v = W_in.chunk(3)
    b_q, b_k, _ = b_in.chunk(3)
    q, k, v = F.linear(query, W_q, b_q), F.linear(key, W_k, b_k), F.linear(value, W_v, b_q)
    mixed, weights = attend(q, k, v, num_heads, key_padding_mask, attn_mask)
    return F.linear(mixed, W_out, b_out), weights


@mistake(
    "bias-after-mixing",
    caught_by="repaired",
    says=N_(
        "You add the bias of the values after mixing. Where weights sum to 1 that is the same; a query that may look "
        "at nobody has weights 0, and must not get it."
    ),
)
def bias_after_mixing(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    W_q, W_k, W_v = W_in.chunk(3)
    b_q, b_k, b_v = b_in.chunk(3)
    q, k, v = F.linear(query, W_q, b_q), F.linear(key, W_k, b_k), F.linear(value, W_v)
    mixed, weights = attend(q, k, v, num_heads, key_padding_mask, attn_mask)
    return F.linear(mixed + b_v, W_out, b_out), weights
