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
        "On every call up to here your function gives what the sick one gives: either your change is not what matters, "
        "or it is not in force (of several definitions in a notebook, the last counts). "
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
        "With key_padding_mask all your weights are 0: its step can only forbid, and the table before it allows "
        "nobody. What should stand in the table before the first mask?"
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
    "nobody-allowed-by-the-second",
    caught_by="repaired",
    says=N_(
        "With key_padding_mask alone all is well; with attn_mask alone all your weights are 0: its step can only "
        "forbid, and the table before it allows nobody. What should stand in the table before the first mask?"
    ),
)
def nobody_allowed_by_the_second(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    allowed = torch.full_like(scores, key_padding_mask is None and attn_mask is None, dtype=torch.bool)
    if key_padding_mask is not None:
        allowed = allowed | ~key_padding_mask.unsqueeze(-2)
    if attn_mask is not None:
        allowed = allowed & ~attn_mask
    return mix(scores, allowed, V)


@mistake(
    "padding-without-effect",
    caught_by="repaired",
    says=N_(
        "key_padding_mask has no effect any more. If your table allows everybody from the start, look at the step that "
        "joins the mask to it: can that step still turn a True into a False?"
    ),
)
def padding_without_effect(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    allowed = torch.ones_like(scores, dtype=torch.bool)
    if key_padding_mask is not None:
        allowed = allowed | ~key_padding_mask.unsqueeze(-2)
    if attn_mask is not None:
        allowed = allowed | ~attn_mask
    return mix(scores, allowed, V)


@mistake(
    "causal-without-effect",
    caught_by="repaired",
    says=N_(
        "key_padding_mask alone is obeyed; attn_mask alone has no effect any more. If your table allows everybody from "
        "the start, look at the step that joins attn_mask to it: can that step still turn a True into a False?"
    ),
)
def causal_without_effect(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    allowed = torch.ones_like(scores, dtype=torch.bool)
    if key_padding_mask is not None:
        allowed = allowed & ~key_padding_mask.unsqueeze(-2)
    if attn_mask is not None:
        allowed = allowed | ~attn_mask
    return mix(scores, allowed, V)


@mistake(
    "pads-as-queries",
    caught_by="repaired",
    says=N_(
        "Now the rows of the pads are empty, and their columns are not: words may look at pads. In the sick "
        "function key_padding_mask alone did the right thing."
    ),
)
def pads_as_queries(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    allowed = torch.ones_like(scores, dtype=torch.bool)
    if key_padding_mask is not None:
        allowed = allowed & ~key_padding_mask.unsqueeze(-1)
    if attn_mask is not None:
        allowed = allowed & ~attn_mask
    return mix(scores, allowed, V)


@mistake(
    "padding-forgotten",
    caught_by="repaired",
    says=N_(
        "Each mask alone is obeyed. When both are given, the future is hidden, but key_padding_mask has no effect: "
        "look at pads that stand on the left."
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
