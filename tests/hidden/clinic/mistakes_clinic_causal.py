"""What is left to repair in the third case, and half repairs."""

import math

import torch

from autograder.suite import N_, mistake


def scaled_scores(Q, K):
    return Q @ K.transpose(-2, -1) / math.sqrt(Q.shape[-1])


def mix(scores, allowed, V):
    weights = torch.softmax(scores.masked_fill(~allowed, torch.finfo(scores.dtype).min), dim=-1)
    weights = weights.masked_fill(~allowed, 0.0)
    return weights @ V, weights


@mistake(
    "as-sick-as-before",
    caught_by="repaired",
    says=N_(
        "On every call your function still gives what the sick one gave: what you changed is not what makes it sick. "
        "Take one sentence and compare three tables: with one mask, with the other, and with both."
    ),
)
def as_sick_as_before(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    allowed = torch.full_like(scores, key_padding_mask is None and attn_mask is None, dtype=torch.bool)
    if key_padding_mask is not None:
        allowed = allowed | ~key_padding_mask.unsqueeze(-2)
    if attn_mask is not None:
        allowed = allowed | ~attn_mask
    return mix(scores, allowed, V)


@mistake(
    "nobody-allowed",
    caught_by="repaired",
    says=N_(
        "As soon as there is a mask, all your weights are 0: each step can only take leave away, and your table begins "
        "with none. What should stand in it before the first mask?"
    ),
)
def nobody_allowed(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    allowed = torch.full_like(scores, key_padding_mask is None and attn_mask is None, dtype=torch.bool)
    if key_padding_mask is not None:
        allowed = allowed & ~key_padding_mask.unsqueeze(-2)
    if attn_mask is not None:
        allowed = allowed & ~attn_mask
    return mix(scores, allowed, V)


@mistake(
    "padding-forgotten",
    caught_by="repaired",
    says=N_(
        "The future is hidden now, with padding and without. But when both masks are given, key_padding_mask has no "
        "effect any more: look at pads that stand on the left."
    ),
)
def padding_forgotten(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    allowed = torch.ones_like(scores, dtype=torch.bool)
    if key_padding_mask is not None:
        allowed = ~key_padding_mask.unsqueeze(-2).expand_as(scores)
    if attn_mask is not None:
        allowed = ~attn_mask.expand_as(scores)
    return mix(scores, allowed, V)
