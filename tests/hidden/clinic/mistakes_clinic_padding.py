"""What is left to repair in the second case, and half repairs."""

import math

import torch

from autograder.suite import N_, mistake


def scaled_scores(Q, K):
    return Q @ K.transpose(-2, -1) / math.sqrt(Q.shape[-1])


def bans(scores, attn_mask):
    forbidden = torch.zeros_like(scores, dtype=torch.bool)
    return forbidden if attn_mask is None else forbidden | attn_mask


def mix(scores, forbidden, V):
    weights = torch.softmax(scores.masked_fill(forbidden, torch.finfo(scores.dtype).min), dim=-1)
    weights = weights.masked_fill(forbidden, 0.0)
    return weights @ V, weights


@mistake(
    "as-sick-as-before",
    caught_by="repaired",
    says=N_(
        "On every call up to here your function gives what the sick one gives: either your change is not what matters, "
        "or it is not in force (of several definitions in a notebook, the last counts). "
        "Take one short sentence and write another number into its pad: which rows of the output change?"
    ),
)
def as_sick_as_before(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    forbidden = bans(scores, attn_mask)
    if key_padding_mask is not None:
        forbidden = forbidden | key_padding_mask.unsqueeze(-1)
    return mix(scores, forbidden, V)


@mistake(
    "old-bans-kept",
    caught_by="repaired",
    says=N_(
        "Nobody looks at the pads any more, but the bans from before are still there, beside the new ones: where a key "
        "is a pad, the query of the same number gets nothing. A key_padding_mask says nothing about queries."
    ),
)
def old_bans_kept(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    forbidden = bans(scores, attn_mask)
    if key_padding_mask is not None:
        forbidden = forbidden | key_padding_mask.unsqueeze(-1) | key_padding_mask.unsqueeze(-2)
    return mix(scores, forbidden, V)


@mistake(
    "no-new-axis",
    caught_by="repaired",
    says=N_(
        "The sentences of key_padding_mask do not meet the sentences of the scores. Shapes are matched from the right: "
        "write that of your mask below (B, Tq, Tk), and see what its B meets."
    ),
)
def no_new_axis(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    forbidden = bans(scores, attn_mask)
    if key_padding_mask is not None:
        forbidden = forbidden | key_padding_mask
    return mix(scores, forbidden, V)


@mistake(
    "upside-down",
    caught_by="repaired",
    says=N_(
        "Now the words are forbidden, and the pads may be looked at. The mask has the right axis, but True means "
        "forbidden, and so it did before."
    ),
)
def upside_down(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    forbidden = bans(scores, attn_mask)
    if key_padding_mask is not None:
        forbidden = forbidden | ~key_padding_mask.unsqueeze(-2)
    return mix(scores, forbidden, V)


@mistake(
    "rows-upside-down",
    caught_by="repaired",
    says=N_(
        "Now the rows of the words are empty, and those of the pads are not. What True means was right before: the "
        "question is whether a pad's row is to be empty or its column."
    ),
)
def rows_upside_down(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    forbidden = bans(scores, attn_mask)
    if key_padding_mask is not None:
        forbidden = forbidden | ~key_padding_mask.unsqueeze(-1)
    return mix(scores, forbidden, V)
