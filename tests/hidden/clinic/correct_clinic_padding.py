"""Repairs of the second case; all of them earn full marks."""

import math

import torch

from autograder.suite import correct


@correct("the-other-axis")
def the_other_axis(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.shape[-1])
    forbidden = torch.zeros_like(scores, dtype=torch.bool)
    if attn_mask is not None:
        forbidden = forbidden | attn_mask
    if key_padding_mask is not None:
        forbidden = forbidden | key_padding_mask.unsqueeze(-2)
    weights = torch.softmax(scores.masked_fill(forbidden, torch.finfo(scores.dtype).min), dim=-1)
    weights = weights.masked_fill(forbidden, 0.0)
    return weights @ V, weights


@correct("minus-infinity-outside-empty-rows")
def minus_infinity_outside_empty_rows(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = torch.einsum("bqd,bkd->bqk", Q, K) * Q.shape[-1] ** -0.5
    allowed = torch.ones_like(scores, dtype=torch.bool)
    if key_padding_mask is not None:
        allowed &= ~key_padding_mask[:, None, :]
    if attn_mask is not None:
        allowed &= ~attn_mask
    nobody = ~allowed.any(-1, keepdim=True)
    weights = torch.softmax(torch.where(allowed | nobody, scores, -math.inf), dim=-1)
    weights = torch.where(nobody, 0.0, weights)
    return weights @ V, weights
