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
        "On every call your function still gives what the sick one gave: what you changed is not what makes it sick. "
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
        "Now key_padding_mask meets the scores as it is, (B, Tk) against (B, Tq, Tk). Shapes are matched from the "
        "right: write them below each other, and see whom its B meets."
    ),
)
def no_new_axis(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    forbidden = bans(scores, attn_mask)
    if key_padding_mask is not None:
        forbidden = forbidden | key_padding_mask
    return mix(scores, forbidden, V)
