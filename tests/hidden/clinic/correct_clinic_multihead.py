"""Repairs of the sixth case; all of them earn full marks."""

import math

import torch
import torch.nn.functional as F

from autograder.suite import correct


@correct("biases-in-order")
def biases_in_order(
    query,
    key,
    value,
    num_heads,
    in_proj_weight,
    in_proj_bias,
    out_proj_weight,
    out_proj_bias,
    key_padding_mask=None,
    attn_mask=None,
):
    W_q, W_k, W_v = in_proj_weight.chunk(3)
    b_q, b_k, b_v = in_proj_bias.chunk(3)
    q, k, v = F.linear(query, W_q, b_q), F.linear(key, W_k, b_k), F.linear(value, W_v, b_v)
    q, k, v = (x.unflatten(-1, (num_heads, -1)).transpose(1, 2) for x in (q, k, v))
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    forbidden = torch.zeros_like(scores, dtype=torch.bool)
    if key_padding_mask is not None:
        forbidden = forbidden | key_padding_mask[:, None, None, :]
    if attn_mask is not None:
        forbidden = forbidden | attn_mask
    weights = torch.softmax(scores.masked_fill(forbidden, torch.finfo(scores.dtype).min), dim=-1)
    weights = weights.masked_fill(forbidden, 0.0)
    return F.linear((weights @ v).transpose(1, 2).flatten(2), out_proj_weight, out_proj_bias), weights


@correct("head-by-head")
def head_by_head(
    query,
    key,
    value,
    num_heads,
    in_proj_weight,
    in_proj_bias,
    out_proj_weight,
    out_proj_bias,
    key_padding_mask=None,
    attn_mask=None,
):
    E = query.shape[-1]
    d = E // num_heads
    found, tables = [], []
    for h in range(num_heads):
        rows = [slice(n * E + h * d, n * E + (h + 1) * d) for n in range(3)]
        q, k, v = (x @ in_proj_weight[r].T + in_proj_bias[r] for x, r in zip((query, key, value), rows, strict=True))
        scores = torch.bmm(q, k.mT) * d**-0.5
        forbidden = torch.zeros(scores.shape, dtype=torch.bool, device=scores.device)
        if key_padding_mask is not None:
            forbidden |= key_padding_mask.unsqueeze(1)
        if attn_mask is not None:
            forbidden |= attn_mask
        weights = torch.softmax(scores.masked_fill(forbidden, -1e9), dim=-1).masked_fill(forbidden, 0.0)
        found.append(weights @ v)
        tables.append(weights)
    return torch.cat(found, dim=-1) @ out_proj_weight.T + out_proj_bias, torch.stack(tables, dim=1)
