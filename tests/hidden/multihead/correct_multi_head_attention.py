"""Correct ways to write multi-head attention; all of them earn full marks."""

import collections
import math
import warnings

import torch
import torch.nn.functional as F

from autograder.suite import correct, correct_source


def split(x, num_heads):
    return x.view(x.shape[0], x.shape[1], num_heads, -1).transpose(1, 2)


def merge(x):
    return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], -1)


def union(key_padding_mask, attn_mask, like):
    """(B, H, Tq, Tk), True where either mask forbids."""
    forbidden = torch.zeros_like(like, dtype=torch.bool)
    if key_padding_mask is not None:
        forbidden = forbidden | key_padding_mask[:, None, None, :]
    if attn_mask is not None:
        forbidden = forbidden | attn_mask
    return forbidden


def projected(query, key, value, num_heads, W_in, b_in):
    parts = zip((query, key, value), W_in.chunk(3), b_in.chunk(3), strict=True)
    return [split(F.linear(x, W, b), num_heads) for x, W, b in parts]


@correct("step-by-step")
def step_by_step(
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
    Q = split(query @ W_q.T + b_q, num_heads)
    K = split(key @ W_k.T + b_k, num_heads)
    V = split(value @ W_v.T + b_v, num_heads)
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.shape[-1])
    forbidden = torch.zeros_like(scores, dtype=torch.bool)
    if key_padding_mask is not None:
        forbidden = forbidden | key_padding_mask[:, None, None, :]
    if attn_mask is not None:
        forbidden = forbidden | attn_mask
    weights = F.softmax(scores.masked_fill(forbidden, torch.finfo(scores.dtype).min), dim=-1)
    weights = weights.masked_fill(forbidden, 0.0)
    return merge(weights @ V) @ out_proj_weight.T + out_proj_bias, weights


@correct("loop-over-heads")
def loop_over_heads(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    E = query.shape[-1]
    d = E // num_heads
    heads, pictures = [], []
    for h in range(num_heads):
        rows = slice(h * d, (h + 1) * d)
        q = query @ W_in[:E][rows].T + b_in[:E][rows]
        k = key @ W_in[E : 2 * E][rows].T + b_in[E : 2 * E][rows]
        v = value @ W_in[2 * E :][rows].T + b_in[2 * E :][rows]
        scores = q @ k.mT / d**0.5
        forbidden = union(key_padding_mask, attn_mask, scores.unsqueeze(1)).squeeze(1)
        weights = torch.softmax(scores.masked_fill(forbidden, -1e9), dim=-1).masked_fill(forbidden, 0.0)
        heads.append(weights @ v)
        pictures.append(weights)
    return torch.cat(heads, dim=-1) @ W_out.T + b_out, torch.stack(pictures, dim=1)


@correct("heads-summed-after-their-share-of-the-projection")
def heads_summed_after_projection(
    query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None
):
    Q, K, V = projected(query, key, value, num_heads, W_in, b_in)
    scores = Q @ K.mT * Q.shape[-1] ** -0.5
    forbidden = union(key_padding_mask, attn_mask, scores)
    weights = scores.masked_fill(forbidden, -1e30).softmax(-1) * ~forbidden
    shares = W_out.split(Q.shape[-1], dim=1)
    output = sum(head @ share.T for head, share in zip((weights @ V).unbind(1), shares, strict=True))
    return output + b_out, weights


@correct("einsum")
def einsum(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    E = query.shape[-1]
    W = W_in.view(3, num_heads, E // num_heads, E)
    b = b_in.view(3, num_heads, 1, E // num_heads)
    Q, K, V = (torch.einsum("bte,hde->bhtd", x, W[i]) + b[i] for i, x in enumerate((query, key, value)))
    scores = torch.einsum("bhqd,bhkd->bhqk", Q, K) / math.sqrt(E // num_heads)
    forbidden = union(key_padding_mask, attn_mask, scores)
    weights = torch.where(forbidden, 0.0, torch.softmax(torch.where(forbidden, -1e9, scores), dim=3))
    mixed = torch.einsum("bhqk,bhkd->bqhd", weights, V).flatten(2)
    return torch.einsum("bqe,oe->bqo", mixed, W_out) + b_out, weights


@correct("bmm-with-batch-and-heads-in-one")
def bmm_with_one_axis(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    B, Tq, E = query.shape
    Tk = key.shape[1]
    Q, K, V = (x.flatten(0, 1) for x in projected(query, key, value, num_heads, W_in, b_in))
    bias = Q.new_zeros(B * num_heads, Tq, Tk)
    if key_padding_mask is not None:
        bias = bias.masked_fill(key_padding_mask.repeat_interleave(num_heads, dim=0).unsqueeze(1), -1e15)
    if attn_mask is not None:
        bias = bias.masked_fill(attn_mask, -1e15)
    weights = torch.baddbmm(bias, Q, K.transpose(1, 2), alpha=Q.shape[-1] ** -0.5).softmax(-1) * (bias == 0)
    mixed = torch.bmm(weights, V).view(B, num_heads, Tq, -1).transpose(1, 2).reshape(B, Tq, E)
    return F.linear(mixed, W_out, b_out), weights.view(B, num_heads, Tq, Tk)


@correct("words-first")
def words_first(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    # As PyTorch does it inside: time, batch, features.
    E = query.shape[-1]
    q, k, v = (x.transpose(0, 1) for x in (query, key, value))
    W, b = W_in.split(E), b_in.split(E)
    q, k, v = F.linear(q, W[0], b[0]), F.linear(k, W[1], b[1]), F.linear(v, W[2], b[2])
    Tq, B, _ = q.shape
    d = E // num_heads
    q, k, v = (x.contiguous().view(x.shape[0], B * num_heads, d).transpose(0, 1) for x in (q, k, v))
    scores = ((q / math.sqrt(d)) @ k.transpose(1, 2)).view(B, num_heads, Tq, -1)
    forbidden = union(key_padding_mask, attn_mask, scores)
    empty = forbidden.all(-1, keepdim=True)
    scores = scores.masked_fill(forbidden & ~empty, float("-inf"))
    weights = F.softmax(scores, dim=-1).masked_fill(empty, 0.0)
    mixed = (weights.flatten(0, 1) @ v).transpose(0, 1).contiguous().view(Tq, B, E)
    return F.linear(mixed, W_out, b_out).transpose(0, 1), weights


@correct("minus-infinity-and-nan-to-num")
def minus_infinity_and_nan_to_num(
    query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None
):
    # masked_fill stops the NaN on the way back, where an addition would let it through.
    Q, K, V = projected(query, key, value, num_heads, W_in, b_in)
    scores = Q @ K.mT / Q.shape[-1] ** 0.5
    if key_padding_mask is not None:
        scores = scores.masked_fill(key_padding_mask.unsqueeze(1).unsqueeze(2), -torch.inf)
    if attn_mask is not None:
        scores = scores.masked_fill(attn_mask, -torch.inf)
    weights = torch.nan_to_num(F.softmax(scores, dim=-1), nan=0.0)
    return F.linear(merge(weights @ V), W_out, b_out), weights


@correct("hand-softmax")
def hand_softmax(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    Q, K, V = projected(query, key, value, num_heads, W_in, b_in)
    scores = Q @ K.mT / Q.shape[-1] ** 0.5
    forbidden = union(key_padding_mask, attn_mask, scores)
    largest = scores.masked_fill(forbidden, torch.finfo(scores.dtype).min).amax(-1, keepdim=True)
    powers = torch.exp((scores - largest).masked_fill(forbidden, -torch.inf))
    weights = powers / powers.sum(-1, keepdim=True).clamp(min=1e-9)
    return F.linear(merge(weights @ V), W_out, b_out), weights


@correct("logsumexp")
def logsumexp(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    Q, K, V = projected(query, key, value, num_heads, W_in, b_in)
    scores = (Q / Q.shape[-1] ** 0.25) @ (K / K.shape[-1] ** 0.25).mT
    forbidden = union(key_padding_mask, attn_mask, scores)
    low = scores.masked_fill(forbidden, torch.finfo(scores.dtype).min / 2)
    weights = torch.exp(low - low.logsumexp(-1, keepdim=True)).masked_fill(forbidden, 0)
    return F.linear(merge(weights @ V), W_out, b_out), weights


@correct("boolean-indexing")
def boolean_indexing(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    Q, K, V = projected(query, key, value, num_heads, W_in, b_in)
    scores = Q @ K.mT
    scores /= math.sqrt(Q.shape[-1])
    forbidden = union(key_padding_mask, attn_mask, scores)
    scores[forbidden] = torch.finfo(scores.dtype).min
    weights = F.softmax(scores, dim=-1).clone()
    weights[forbidden] = 0
    return F.linear(merge(weights @ V), W_out, b_out), weights


@correct("sentence-by-sentence-without-its-padding")
def without_its_padding(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    Q, K, V = projected(query, key, value, num_heads, W_in, b_in)
    pictures = []
    for b in range(len(query)):
        words = torch.arange(K.shape[2]) if key_padding_mask is None else (~key_padding_mask[b]).nonzero()[:, 0]
        picture = torch.zeros(num_heads, Q.shape[2], K.shape[2], dtype=query.dtype)
        if len(words):
            scores = Q[b] @ K[b][:, words].mT / math.sqrt(Q.shape[-1])
            if attn_mask is not None:
                scores = scores.masked_fill(attn_mask[:, words], torch.finfo(scores.dtype).min)
            share = torch.softmax(scores, dim=-1)
            if attn_mask is not None:
                share = share.masked_fill(attn_mask[:, words], 0.0)
            picture = picture.index_copy(2, words, share)
        pictures.append(picture)
    weights = torch.stack(pictures)
    return F.linear(merge(weights @ V), W_out, b_out), weights


@correct("vmap-over-heads")
def vmap_over_heads(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    Q, K, V = projected(query, key, value, num_heads, W_in, b_in)
    forbidden = union(key_padding_mask, attn_mask, Q @ K.mT)[:, 0]

    def head(q, k, v):
        scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(forbidden, -1e9)
        weights = torch.softmax(scores, dim=-1).masked_fill(forbidden, 0.0)
        return weights @ v, weights

    mixed, weights = torch.vmap(head, in_dims=1, out_dims=1)(Q, K, V)
    return F.linear(merge(mixed), W_out, b_out), weights


@correct("torch-masked")
def torch_masked(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    Q, K, V = projected(query, key, value, num_heads, W_in, b_in)
    scores = Q @ K.mT / Q.shape[-1] ** 0.5
    allowed = ~union(key_padding_mask, attn_mask, scores)
    weights = torch.where(allowed, torch.masked.softmax(scores, -1, mask=allowed), 0.0)
    return F.linear(merge(weights @ V), W_out, b_out), weights


@correct("softmax-in-float32-and-tensor-root")
def softmax_in_float32(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    Q, K, V = projected(query, key, value, num_heads, W_in, b_in)
    scores = (Q @ K.mT / torch.sqrt(torch.tensor(Q.shape[-1]))).float()
    forbidden = union(key_padding_mask, attn_mask, scores)
    weights = F.softmax(scores.masked_fill(forbidden, -1e30), dim=-1).masked_fill(forbidden, 0).to(query.dtype)
    return F.linear(merge(weights @ V), W_out, b_out), weights


@correct("projected-all-at-once")
def projected_all_at_once(
    query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None
):
    if query is key and key is value:
        Q, K, V = F.linear(query, W_in, b_in).chunk(3, dim=-1)
    else:
        Q, K, V = (F.linear(x, W_in, b_in).chunk(3, dim=-1)[i] for i, x in enumerate((query, key, value)))
    Q, K, V = (x.unflatten(-1, (num_heads, -1)).swapaxes(1, 2) for x in (Q, K, V))
    scores = torch.matmul(Q, K.swapaxes(-1, -2)) * Q.size(-1) ** -0.5
    forbidden = union(key_padding_mask, attn_mask, scores)
    keep = 1 - forbidden.to(scores.dtype)
    weights = torch.softmax(scores * keep - 1e9 * (1 - keep), dim=-1) * keep
    return F.linear(torch.matmul(weights, V).movedim(1, 2).flatten(2), W_out, b_out), weights


@correct("list-own-seed-and-prints")
def list_own_seed_and_prints(
    query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None
):
    torch.manual_seed(42)
    warnings.warn("just so", stacklevel=2)
    print("noise:", torch.randn(2).tolist(), "猫追狗")
    Q, K, V = projected(query, key, value, num_heads, W_in, b_in)
    return list(finished(Q, K, V, W_out, b_out, key_padding_mask, attn_mask))


def finished(Q, K, V, W_out, b_out, key_padding_mask, attn_mask):
    scores = Q @ K.mT / Q.shape[-1] ** 0.5
    forbidden = union(key_padding_mask, attn_mask, scores)
    weights = F.softmax(scores.masked_fill(forbidden, torch.finfo(scores.dtype).min), dim=-1)
    weights = weights.masked_fill(forbidden.all(-1, keepdim=True), 0)
    return F.linear(merge(weights @ V), W_out, b_out), weights


@correct("namedtuple")
def namedtuple(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    Attention = collections.namedtuple("Attention", "output weights")
    Q, K, V = projected(query, key, value, num_heads, W_in, b_in)
    return Attention(*finished(Q, K, V, W_out, b_out, key_padding_mask, attn_mask))


@correct("slow")
def slow(query, key, value, num_heads, W_in, b_in, W_out, b_out, key_padding_mask=None, attn_mask=None):
    for _ in range(10):
        Q, K, V = projected(query, key, value, num_heads, W_in, b_in)
        found = finished(Q, K, V, W_out, b_out, key_padding_mask, attn_mask)
    return found


callable_object = correct_source(
    "callable-object",
    """\
import torch

class MultiHeadAttention(torch.nn.Module):
    def heads(self, x, part, W, b, num_heads):
        E = x.shape[-1]
        y = torch.nn.functional.linear(x, W[part * E:(part + 1) * E], b[part * E:(part + 1) * E])
        return torch.stack(y.chunk(num_heads, dim=-1), dim=1)

    def forward(self, query, key, value, num_heads, in_proj_weight, in_proj_bias, out_proj_weight, out_proj_bias,
                key_padding_mask=None, attn_mask=None):
        q, k, v = (self.heads(x, i, in_proj_weight, in_proj_bias, num_heads) for i, x in enumerate((query, key, value)))
        scores = q @ k.mT / q.shape[-1] ** 0.5
        pads = None if key_padding_mask is None else key_padding_mask[:, None, None]
        masks = [mask for mask in (pads, attn_mask) if mask is not None]
        for mask in masks:
            scores = scores.masked_fill(mask, -1e9)
        weights = scores.softmax(-1)
        for mask in masks:
            weights = weights.masked_fill(mask, 0)
        mixed = torch.cat((weights @ v).unbind(1), dim=-1)
        return mixed @ out_proj_weight.mT + out_proj_bias, weights

multi_head_attention = MultiHeadAttention()
""",
)

other_cells = correct_source(
    "helpers-and-lambda",
    """\
import torch

def split_heads(x, num_heads):
    if x.shape[-1] % num_heads:
        raise ValueError("num_heads must divide E")
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)

def merge_heads(x):
    return x.transpose(1, 2).flatten(2)

def masked_attention(Q, K, V, allowed):
    weights = torch.softmax((Q @ K.mT * Q.shape[-1] ** -0.5).masked_fill(~allowed, -1e20), -1) * allowed
    return weights @ V, weights

def allowed_by(B, Tq, Tk, pads, attn):
    free = torch.ones(B, 1, Tq, Tk, dtype=torch.bool)
    free = free if pads is None else free.logical_and(~pads[:, None, None])
    return free if attn is None else free.logical_and(~attn)

project_out = lambda pair, W, b: (merge_heads(pair[0]) @ W.T + b, pair[1])

multi_head_attention = lambda query, key, value, num_heads, W_in, b_in, W_out, b_out, \\
        key_padding_mask=None, attn_mask=None: (
    project_out(
        masked_attention(
            *(
                split_heads(x @ W.T + b, num_heads)
                for x, W, b in zip((query, key, value), W_in.chunk(3), b_in.chunk(3))
            ),
            allowed_by(len(query), query.shape[1], key.shape[1], key_padding_mask, attn_mask),
        ),
        W_out,
        b_out,
    )
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
def multi_head_attention(query, key, value, num_heads: int, in_proj_weight, in_proj_bias,
                         out_proj_weight, out_proj_bias, key_padding_mask: Mask = None, attn_mask: Mask = None):
    B, Tq, E = query.shape
    Tk, d = key.shape[1], E // num_heads
    W, b = in_proj_weight.chunk(3), in_proj_bias.chunk(3)
    q = (query @ W[0].t() + b[0]).reshape(B, Tq, num_heads, d).transpose(1, 2)
    k = (key @ W[1].t() + b[1]).reshape(B, Tk, num_heads, d).transpose(1, 2)
    v = (value @ W[2].t() + b[2]).reshape(B, Tk, num_heads, d).transpose(1, 2)
    scores = torch.matmul(q, k.transpose(-2, -1)) / float(d) ** 0.5
    forbidden = torch.zeros_like(scores, dtype=torch.bool)
    if key_padding_mask is not None:
        forbidden = forbidden | key_padding_mask.unsqueeze(1).unsqueeze(1)
    if attn_mask is not None:
        forbidden = forbidden | attn_mask
    weights = torch.softmax(scores.masked_fill(forbidden, -1e9), dim=-1).masked_fill(forbidden, 0.0)
    return torch.matmul(weights, v).transpose(1, 2).reshape(B, Tq, E) @ out_proj_weight.t() + out_proj_bias, weights
""",
)
