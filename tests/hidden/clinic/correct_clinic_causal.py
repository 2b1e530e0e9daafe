"""Repairs of the third case; all of them earn full marks."""

import math

import torch

from autograder.suite import correct


@correct("allowed-by-both")
def allowed_by_both(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.shape[-1])
    allowed = torch.ones_like(scores, dtype=torch.bool)
    if key_padding_mask is not None:
        allowed = allowed & ~key_padding_mask.unsqueeze(-2)
    if attn_mask is not None:
        allowed = allowed & ~attn_mask
    weights = torch.softmax(scores.masked_fill(~allowed, torch.finfo(scores.dtype).min), dim=-1)
    weights = weights.masked_fill(~allowed, 0.0)
    return weights @ V, weights


@correct("sentence-by-sentence")
def sentence_by_sentence(Q, K, V, key_padding_mask=None, attn_mask=None):
    outputs, tables = [], []
    for b, (q, k, v) in enumerate(zip(Q, K, V, strict=True)):
        scores = q @ k.T / q.shape[-1] ** 0.5
        forbidden = torch.zeros(scores.shape, dtype=torch.bool, device=scores.device)
        for mask in (attn_mask, None if key_padding_mask is None else key_padding_mask[b]):
            if mask is not None:
                forbidden = forbidden | mask
        weights = torch.softmax(scores.masked_fill(forbidden, -1e9), dim=-1).masked_fill(forbidden, 0.0)
        outputs.append(weights @ v)
        tables.append(weights)
    return torch.stack(outputs), torch.stack(tables)
