"""Correct ways to write masked attention; all of them earn full marks."""

import collections
import math
import warnings

import torch
import torch.nn.functional as F

from autograder.suite import correct, correct_source


def union(key_padding_mask, attn_mask, like):
    """(B, Tq, Tk), True where either mask forbids."""
    forbidden = torch.zeros_like(like, dtype=torch.bool)
    if key_padding_mask is not None:
        forbidden = forbidden | key_padding_mask[:, None, :]
    if attn_mask is not None:
        forbidden = forbidden | attn_mask
    return forbidden


@correct("fill-softmax-fill")
def fill_softmax_fill(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.shape[-1])
    forbidden = torch.zeros_like(scores, dtype=torch.bool)
    if key_padding_mask is not None:
        forbidden = forbidden | key_padding_mask.unsqueeze(1)
    if attn_mask is not None:
        forbidden = forbidden | attn_mask
    weights = F.softmax(scores.masked_fill(forbidden, torch.finfo(scores.dtype).min), dim=-1)
    weights = weights.masked_fill(forbidden, 0.0)
    return weights @ V, weights


@correct("one-mask-after-the-other")
def one_mask_after_the_other(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = Q @ K.mT / Q.shape[-1] ** 0.5
    if key_padding_mask is not None:
        scores = scores.masked_fill(key_padding_mask.unsqueeze(-2), float("-inf"))
    if attn_mask is not None:
        scores = scores.masked_fill(attn_mask.unsqueeze(0), float("-inf"))
    empty = (scores == float("-inf")).all(dim=-1, keepdim=True)
    weights = torch.softmax(scores.masked_fill(empty, 0.0), dim=-1).masked_fill(empty, 0.0)
    return weights @ V, weights


@correct("minus-infinity-and-nan-to-num")
def minus_infinity_and_nan_to_num(Q, K, V, key_padding_mask=None, attn_mask=None):
    # masked_fill stops the NaN on the way back, where an addition would let it through.
    scores = Q @ K.mT / Q.shape[-1] ** 0.5
    if key_padding_mask is not None:
        scores = scores.masked_fill(key_padding_mask[:, None], -torch.inf)
    if attn_mask is not None:
        scores = scores.masked_fill(attn_mask, -torch.inf)
    weights = torch.nan_to_num(F.softmax(scores, dim=-1), nan=0.0)
    return weights @ V, weights


@correct("where")
def where(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = torch.matmul(Q, K.swapaxes(-1, -2)) * Q.size(-1) ** -0.5
    forbidden = union(key_padding_mask, attn_mask, scores)
    weights = torch.softmax(torch.where(forbidden, -1e9, scores), dim=-1)
    weights = torch.where(forbidden, torch.zeros_like(weights), weights)
    return torch.matmul(weights, V), weights


@correct("minus-1e9-and-product")
def minus_1e9_and_product(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = Q @ K.mT / Q.shape[-1] ** 0.5
    forbidden = union(key_padding_mask, attn_mask, scores)
    weights = scores.masked_fill(forbidden, -1e9).softmax(-1) * ~forbidden
    return weights @ V, weights


@correct("minus-1e9-and-empty-rows-alone")
def minus_1e9_and_empty_rows_alone(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = Q @ K.mT / Q.shape[-1] ** 0.5
    forbidden = union(key_padding_mask, attn_mask, scores)
    weights = F.softmax(scores.masked_fill(forbidden, -1e9), dim=-1)
    weights = weights * (~forbidden).any(dim=-1, keepdim=True)
    return weights @ V, weights


@correct("additive-mask")
def additive_mask(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = Q @ K.mT / Q.shape[-1] ** 0.5
    forbidden = union(key_padding_mask, attn_mask, scores)
    empty = forbidden.all(-1, keepdim=True)
    added = torch.zeros_like(scores).masked_fill(forbidden & ~empty, float("-inf"))
    weights = F.softmax(scores + added, dim=-1) * (~empty).to(Q.dtype)
    return weights @ V, weights


@correct("masks-as-numbers")
def masks_as_numbers(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = Q @ K.mT / Q.shape[-1] ** 0.5
    keep = torch.ones_like(scores)
    if key_padding_mask is not None:
        keep = keep * (1 - key_padding_mask.to(Q.dtype)).unsqueeze(1)
    if attn_mask is not None:
        keep = keep * (1 - attn_mask.to(Q.dtype))
    weights = torch.softmax(scores * keep - 1e9 * (1 - keep), dim=-1) * keep
    return weights @ V, weights


@correct("hand-softmax")
def hand_softmax(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = Q @ K.mT / Q.shape[-1] ** 0.5
    allowed = ~union(key_padding_mask, attn_mask, scores)
    largest = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min).amax(-1, keepdim=True)
    exponentials = torch.exp((scores - largest).masked_fill(~allowed, -torch.inf))
    weights = exponentials / exponentials.sum(-1, keepdim=True).clamp(min=1e-9)
    return weights @ V, weights


@correct("logsumexp")
def logsumexp(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = Q @ K.mT / Q.shape[-1] ** 0.5
    forbidden = union(key_padding_mask, attn_mask, scores)
    low = scores.masked_fill(forbidden, torch.finfo(scores.dtype).min / 2)
    weights = torch.exp(low - low.logsumexp(-1, keepdim=True)).masked_fill(forbidden, 0)
    return weights @ V, weights


@correct("renormalised-stable")
def renormalised_stable(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = Q @ K.mT / Q.shape[-1] ** 0.5
    keep = (~union(key_padding_mask, attn_mask, scores)).to(scores.dtype)
    lowered = scores.masked_fill(keep == 0, -1e30)
    masked = torch.softmax(lowered, dim=-1) * keep
    total = masked.sum(-1, keepdim=True)
    weights = masked / torch.where(total == 0, torch.ones_like(total), total)
    return weights @ V, weights


@correct("boolean-indexing")
def boolean_indexing(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = Q @ K.mT / Q.shape[-1] ** 0.5
    forbidden = union(key_padding_mask, attn_mask, scores)
    scores[forbidden] = torch.finfo(Q.dtype).min
    weights = F.softmax(scores, dim=-1).clone()
    weights[forbidden] = 0
    return weights @ V, weights


@correct("in-place-on-its-own")
def in_place_on_its_own(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = Q @ K.mT
    scores /= Q.shape[-1] ** 0.5
    forbidden = torch.zeros(scores.shape, dtype=torch.bool, device=Q.device)
    if key_padding_mask is not None:
        forbidden |= key_padding_mask.unsqueeze(1)
    if attn_mask is not None:
        forbidden |= attn_mask
    scores.masked_fill_(forbidden, -1e9)
    weights = scores.softmax(-1).masked_fill(forbidden, 0.0)
    return weights @ V, weights


@correct("loop-over-queries")
def loop_over_queries(Q, K, V, key_padding_mask=None, attn_mask=None):
    batch = []
    for b in range(Q.shape[0]):
        rows = []
        for i in range(Q.shape[1]):
            allowed = torch.ones(K.shape[1], dtype=torch.bool)
            if key_padding_mask is not None:
                allowed &= ~key_padding_mask[b]
            if attn_mask is not None:
                allowed &= ~attn_mask[i]
            row = torch.zeros(K.shape[1], dtype=Q.dtype)
            if allowed.any():
                row[allowed] = torch.softmax(K[b, allowed] @ Q[b, i] / Q.shape[-1] ** 0.5, dim=0)
            rows.append(row)
        batch.append(torch.stack(rows))
    weights = torch.stack(batch)
    return weights @ V, weights


@correct("sentence-by-sentence-without-its-padding")
def without_its_padding(Q, K, V, key_padding_mask=None, attn_mask=None):
    weights = torch.zeros(Q.shape[0], Q.shape[1], K.shape[1], dtype=Q.dtype)
    for b, (q, k) in enumerate(zip(Q, K, strict=True)):
        words = torch.arange(len(k)) if key_padding_mask is None else (~key_padding_mask[b]).nonzero()[:, 0]
        if len(words) == 0:
            continue
        scores = q @ k[words].T / math.sqrt(q.shape[-1])
        if attn_mask is not None:
            hidden = attn_mask[:, words]
            share = torch.softmax(scores.masked_fill(hidden, -1e9), dim=-1).masked_fill(hidden, 0.0)
        else:
            share = torch.softmax(scores, dim=-1)
        weights[b] = weights[b].index_copy(1, words, share)
    return torch.stack([w @ v for w, v in zip(weights, V, strict=True)]), weights


@correct("einsum")
def einsum(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = torch.einsum("bqd,bkd->bqk", Q, K) / Q.shape[-1] ** 0.5
    forbidden = union(key_padding_mask, attn_mask, scores)
    weights = torch.softmax(scores.masked_fill(forbidden, -1e30), dim=2) * forbidden.logical_not()
    return torch.einsum("bqk,bkv->bqv", weights, V), weights


@correct("baddbmm")
def baddbmm(Q, K, V, key_padding_mask=None, attn_mask=None):
    bias = Q.new_zeros(Q.shape[0], Q.shape[1], K.shape[1])
    if key_padding_mask is not None:
        bias = bias.masked_fill(key_padding_mask.unsqueeze(1), -1e15)
    if attn_mask is not None:
        bias = bias.masked_fill(attn_mask.unsqueeze(0), -1e15)
    weights = torch.baddbmm(bias, Q, K.transpose(1, 2), alpha=Q.shape[-1] ** -0.5).softmax(dim=-1)
    weights = weights * (bias == 0)
    return torch.bmm(weights, V), weights


@correct("a-sink-for-empty-rows")
def a_sink_for_empty_rows(Q, K, V, key_padding_mask=None, attn_mask=None):
    # One more column, which only empty rows can see, takes all that they have to give.
    scores = Q @ K.mT / Q.shape[-1] ** 0.5
    forbidden = union(key_padding_mask, attn_mask, scores)
    sink = ~forbidden.all(-1, keepdim=True)
    scores = torch.cat([scores, torch.zeros_like(scores[..., :1])], dim=-1)
    scores = scores.masked_fill(torch.cat([forbidden, sink], dim=-1), -torch.inf)
    weights = F.softmax(scores, dim=-1)[..., :-1]
    return weights @ V, weights


@correct("vmap")
def vmap(Q, K, V, key_padding_mask=None, attn_mask=None):
    (B, Tq, _), Tk = Q.shape, K.shape[1]
    pads = torch.zeros(B, Tk, dtype=torch.bool) if key_padding_mask is None else key_padding_mask
    attn = torch.zeros(Tq, Tk, dtype=torch.bool) if attn_mask is None else attn_mask

    def sentence(q, k, v, padded):
        scores = q @ k.T / q.shape[-1] ** 0.5
        forbidden = padded | attn
        weights = torch.softmax(torch.where(forbidden, -1e9, scores), dim=-1).masked_fill(forbidden, 0.0)
        return weights @ v, weights

    return torch.vmap(sentence)(Q, K, V, pads)


@correct("torch-masked")
def torch_masked(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = Q @ K.mT / Q.shape[-1] ** 0.5
    allowed = ~union(key_padding_mask, attn_mask, scores)
    weights = torch.masked.softmax(scores, -1, mask=allowed)
    weights = torch.where(allowed, weights, 0.0)
    return weights @ V, weights


@correct("softmax-in-float32-and-back")
def softmax_in_float32_and_back(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = (Q @ K.mT / Q.shape[-1] ** 0.5).float()
    forbidden = union(key_padding_mask, attn_mask, scores)
    weights = F.softmax(scores.masked_fill(forbidden, -1e30), dim=-1).masked_fill(forbidden, 0).to(Q.dtype)
    return weights @ V, weights


@correct("tensor-root-and-scaled-queries")
def tensor_root(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = (Q / torch.sqrt(torch.tensor(Q.shape[-1]))) @ K.mT
    forbidden = union(key_padding_mask, attn_mask, scores)
    weights = torch.nn.Softmax(dim=-1)(scores.masked_fill(forbidden, -1e10)).masked_fill(forbidden, 0)
    return weights @ V, weights


@correct("online-softmax")
def online_softmax(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = Q @ K.mT / Q.shape[-1] ** 0.5
    forbidden = union(key_padding_mask, attn_mask, scores)
    largest = torch.full_like(scores[..., :1], -1e30)
    total = torch.zeros_like(largest)
    for j in range(K.shape[1]):
        column, out = scores[..., j : j + 1], forbidden[..., j : j + 1]
        new = torch.where(out, largest, torch.maximum(largest, column))
        gain = torch.where(out, 0.0, torch.exp(column.masked_fill(out, 0) - new.masked_fill(out, 0)))
        total = total * torch.exp(largest - new) + gain
        largest = new
    parts = torch.exp((scores - largest.clamp(min=-1e20)).masked_fill(forbidden, -1e30))
    weights = (parts / total.clamp(min=1e-20)).masked_fill(forbidden, 0.0)
    return weights @ V, weights


@correct("list-own-seed-and-prints")
def list_own_seed_and_prints(Q, K, V, key_padding_mask=None, attn_mask=None):
    torch.manual_seed(42)
    warnings.warn("just so", stacklevel=2)
    print("noise:", torch.randn(2).tolist(), "猫追狗")
    return list(fill_like_finfo(Q, K, V, key_padding_mask, attn_mask))


def fill_like_finfo(Q, K, V, key_padding_mask, attn_mask):
    scores = Q @ K.mT / Q.shape[-1] ** 0.5
    forbidden = union(key_padding_mask, attn_mask, scores)
    weights = F.softmax(scores.masked_fill(forbidden, torch.finfo(scores.dtype).min), dim=-1)
    weights = weights.masked_fill(forbidden.all(-1, keepdim=True), 0)
    return weights @ V, weights


@correct("namedtuple")
def namedtuple(Q, K, V, key_padding_mask=None, attn_mask=None):
    Attention = collections.namedtuple("Attention", "output weights")
    return Attention(*fill_like_finfo(Q, K, V, key_padding_mask, attn_mask))


@correct("slow")
def slow(Q, K, V, key_padding_mask=None, attn_mask=None):
    for _ in range(20):
        results = fill_like_finfo(Q, K, V, key_padding_mask, attn_mask)
    return results


callable_object = correct_source(
    "callable-object",
    """\
import torch

class MaskedAttention(torch.nn.Module):
    def forward(self, Q, K, V, key_padding_mask=None, attn_mask=None):
        scores = Q @ K.mT / Q.shape[-1] ** 0.5
        masks = [m for m in (key_padding_mask if key_padding_mask is None else key_padding_mask[:, None], attn_mask)
                 if m is not None]
        for mask in masks:
            scores = scores.masked_fill(mask, -1e9)
        weights = scores.softmax(-1)
        for mask in masks:
            weights = weights.masked_fill(mask, 0)
        return weights @ V, weights

masked_attention = MaskedAttention()
""",
)

helpers_and_lambda = correct_source(
    "helpers-and-lambda",
    """\
import torch

def allowed(K, Q, pads, attn):
    free = torch.ones(Q.shape[0], Q.shape[1], K.shape[1], dtype=torch.bool)
    free = free if pads is None else free & ~pads[:, None, :]
    return free if attn is None else torch.logical_and(free, torch.logical_not(attn))

def weights_of(Q, K, free):
    return torch.softmax((Q @ K.mT * Q.shape[-1] ** -0.5).masked_fill(~free, -1e20), -1) * free

masked_attention = lambda Q, K, V, key_padding_mask=None, attn_mask=None: (
    weights_of(Q, K, allowed(K, Q, key_padding_mask, attn_mask)) @ V,
    weights_of(Q, K, allowed(K, Q, key_padding_mask, attn_mask)),
)
""",
)

scripted = correct_source(
    "scripted",
    """\
from typing import Optional
import torch

Mask = Optional[torch.Tensor]

@torch.jit.script
def masked_attention(Q, K, V, key_padding_mask: Mask = None, attn_mask: Mask = None):
    scores = torch.matmul(Q, K.transpose(-2, -1)) / float(Q.size(-1)) ** 0.5
    forbidden = torch.zeros_like(scores, dtype=torch.bool)
    if key_padding_mask is not None:
        forbidden = forbidden | key_padding_mask.unsqueeze(1)
    if attn_mask is not None:
        forbidden = forbidden | attn_mask
    weights = torch.softmax(scores.masked_fill(forbidden, -1e9), dim=-1).masked_fill(forbidden, 0.0)
    return torch.matmul(weights, V), weights
""",
)
