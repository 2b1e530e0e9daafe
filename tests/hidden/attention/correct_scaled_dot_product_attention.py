"""Correct ways to write scaled dot-product attention; all of them earn full marks."""

import collections
import math
import warnings

import numpy
import torch
import torch.nn.functional as F

from autograder.suite import correct, correct_source


@correct("textbook")
def textbook(Q, K, V):
    scores = Q @ K.transpose(-2, -1) / Q.shape[-1] ** 0.5
    weights = F.softmax(scores, dim=-1)
    return weights @ V, weights


@correct("einsum")
def einsum(Q, K, V):
    weights = torch.softmax(torch.einsum("...qd,...kd->...qk", Q, K) / math.sqrt(Q.size(-1)), -1)
    return torch.einsum("...qk,...kv->...qv", weights, V), weights


@correct("mT-and-tensor-root")
def tensor_root(Q, K, V):
    weights = (Q @ K.mT / torch.sqrt(torch.tensor(Q.shape[-1]))).softmax(-1)
    return weights.matmul(V), weights


@correct("swapaxes-and-numpy-root")
def numpy_root(Q, K, V):
    weights = torch.nn.Softmax(dim=-1)(torch.matmul(Q, K.swapaxes(-1, -2)) / numpy.sqrt(K.shape[-1]))
    return torch.matmul(weights, V), weights


@correct("rsqrt-of-a-like-tensor")
def rsqrt(Q, K, V):
    scale = Q.new_tensor(Q.shape[-1]).rsqrt()
    weights = F.softmax(scale * (Q @ K.movedim(-1, -2)), dim=-1)
    return weights @ V, weights


@correct("bmm")
def bmm(Q, K, V):
    leading, (tq, d), (tk, dv) = Q.shape[:-2], Q.shape[-2:], V.shape[-2:]
    q, k, v = Q.reshape(-1, tq, d), K.reshape(-1, tk, d), V.reshape(-1, tk, dv)
    weights = torch.softmax(torch.bmm(q, k.transpose(1, 2)) / d**0.5, dim=2)
    output = torch.bmm(weights, v)
    return output.reshape(*leading, tq, dv), weights.reshape(*leading, tq, tk)


@correct("baddbmm")
def baddbmm(Q, K, V):
    leading, (tq, d), (tk, dv) = Q.shape[:-2], Q.shape[-2:], V.shape[-2:]
    q, k, v = Q.flatten(0, -3) if leading else Q[None], K.reshape(-1, tk, d), V.reshape(-1, tk, dv)
    start = torch.zeros(len(q), tq, tk, dtype=Q.dtype, device=Q.device)
    weights = torch.baddbmm(start, q, k.mT, beta=0, alpha=d**-0.5).softmax(dim=-1)
    return torch.bmm(weights, v).view(*leading, tq, dv), weights.view(*leading, tq, tk)


@correct("hand-softmax")
def hand_softmax(Q, K, V):
    scores = Q @ K.transpose(-1, -2) / Q.shape[-1] ** 0.5
    exponentials = torch.exp(scores - scores.max(dim=-1, keepdim=True).values)
    weights = exponentials / exponentials.sum(dim=-1, keepdim=True)
    return weights @ V, weights


@correct("hand-softmax-with-detached-maximum")
def hand_softmax_detached(Q, K, V):
    scores = Q @ K.transpose(-1, -2) / Q.shape[-1] ** 0.5
    exponentials = (scores - scores.amax(-1, keepdim=True).detach()).exp()
    weights = exponentials / (exponentials.sum(-1, keepdim=True) + 1e-9)
    return weights @ V, weights


@correct("logsumexp")
def logsumexp(Q, K, V):
    scores = Q @ K.mT / Q.shape[-1] ** 0.5
    weights = torch.exp(scores - torch.logsumexp(scores, dim=-1, keepdim=True))
    return weights @ V, weights


@correct("log-softmax-exp")
def log_softmax_exp(Q, K, V):
    weights = F.log_softmax(Q @ K.mT * Q.shape[-1] ** -0.5, dim=-1).exp()
    return weights @ V, weights


@correct("queries-scaled-first")
def queries_scaled_first(Q, K, V):
    Q = Q / math.sqrt(Q.shape[-1])
    weights = F.softmax(Q @ K.mT, dim=-1)
    return weights @ V, weights


@correct("fourth-root-on-both")
def fourth_root_on_both(Q, K, V):
    root = Q.shape[-1] ** 0.25
    weights = F.softmax((Q / root) @ (K / root).mT, dim=-1)
    return weights @ V, weights


@correct("in-place-on-its-own")
def in_place_on_its_own(Q, K, V):
    scores = Q @ K.mT
    scores /= Q.shape[-1] ** 0.5
    weights = scores.softmax(dim=-1)
    return weights @ V, weights


@correct("in-place-on-a-clone")
def in_place_on_a_clone(Q, K, V):
    Q = Q.clone()
    Q *= Q.shape[-1] ** -0.5
    weights = F.softmax(Q @ K.mT, dim=-1)
    return weights @ V, weights


@correct("softmax-in-float32-and-back")
def softmax_in_float32_and_back(Q, K, V):
    scores = Q @ K.mT / Q.shape[-1] ** 0.5
    weights = F.softmax(scores.float(), dim=-1).to(Q.dtype)
    return weights @ V, weights


@correct("all-in-float64-and-back")
def all_in_float64_and_back(Q, K, V):
    weights = F.softmax(Q.double() @ K.double().mT / Q.shape[-1] ** 0.5, dim=-1)
    return (weights @ V.double()).to(V.dtype), weights.to(Q.dtype)


@correct("loop-over-queries")
def loop_over_queries(Q, K, V):
    rows = []
    for i in range(Q.shape[-2]):
        scores = (K * Q[..., i : i + 1, :]).sum(-1) / Q.shape[-1] ** 0.5
        rows.append(F.softmax(scores, dim=-1))
    weights = torch.stack(rows, dim=-2)
    return weights @ V, weights


@correct("recursion-over-leading-axes-and-loops")
def recursion(Q, K, V):
    if Q.dim() > 2:
        pairs = [recursion(q, k, v) for q, k, v in zip(Q, K, V, strict=True)]
        return torch.stack([output for output, _ in pairs]), torch.stack([weights for _, weights in pairs])
    rows = []
    for query in Q:
        scores = torch.stack([torch.dot(query, key) for key in K]) / len(query) ** 0.5
        rows.append(torch.softmax(scores, dim=0))
    outputs = [sum(weight * value for weight, value in zip(row, V, strict=True)) for row in rows]
    return torch.stack(outputs), torch.stack(rows)


@correct("written-into-empty-tensors")
def written_into_empty_tensors(Q, K, V):
    scores = torch.empty(*Q.shape[:-1], K.shape[-2], dtype=Q.dtype, device=Q.device)
    for i in range(Q.shape[-2]):
        for j in range(K.shape[-2]):
            scores[..., i, j] = (Q[..., i, :] * K[..., j, :]).sum(-1) / math.sqrt(Q.shape[-1])
    weights = torch.softmax(scores, dim=-1)
    return weights @ V, weights


@correct("online-softmax")
def online_softmax(Q, K, V):
    scores = Q @ K.mT / Q.shape[-1] ** 0.5
    shape = (*Q.shape[:-1], 1)
    largest, total = Q.new_full(shape, float("-inf")), Q.new_zeros(shape)
    output = Q.new_zeros(*Q.shape[:-1], V.shape[-1])
    for start in range(0, K.shape[-2], 2):
        chunk = scores[..., start : start + 2]
        new = torch.maximum(largest, chunk.amax(-1, keepdim=True))
        shrink, parts = torch.exp(largest - new), torch.exp(chunk - new)
        total = total * shrink + parts.sum(-1, keepdim=True)
        output = output * shrink + parts @ V[..., start : start + 2, :]
        largest = new
    return output / total, torch.exp(scores - largest) / total


@correct("chunks-of-queries")
def chunks_of_queries(Q, K, V):
    chunks = [torch.softmax(q @ K.mT / Q.shape[-1] ** 0.5, dim=-1) for q in Q.split(3, dim=-2)]
    weights = torch.cat(chunks, dim=-2)
    return torch.cat([chunk @ V for chunk in chunks], dim=-2), weights


@correct("vmap")
def vmap(Q, K, V):
    def one_query(query, keys, values):
        weights = torch.softmax(keys @ query / query.shape[0] ** 0.5, dim=0)
        return weights @ values, weights

    attend = torch.vmap(one_query, in_dims=(0, None, None))
    for _ in range(Q.dim() - 2):
        attend = torch.vmap(attend)
    return attend(Q, K, V)


@correct("broadcast-sums")
def broadcast_sums(Q, K, V):
    scores = (Q.unsqueeze(-2) * K.unsqueeze(-3)).sum(-1).div(Q.shape[-1] ** 0.5)
    weights = scores.softmax(-1)
    return (weights.unsqueeze(-1) * V.unsqueeze(-3)).sum(-2), weights


@correct("keys-first-then-transposed")
def keys_first_then_transposed(Q, K, V):
    columns = torch.softmax(K @ Q.mT / Q.shape[-1] ** 0.5, dim=-2)
    return columns.mT @ V, columns.mT


@correct("permute")
def permute(Q, K, V):
    axes = list(range(K.dim()))
    axes[-1], axes[-2] = axes[-2], axes[-1]
    weights = F.softmax(Q @ K.permute(*axes) / Q.shape[-1] ** 0.5, dim=Q.dim() - 1)
    return weights @ V, weights


@correct("list-of-results")
def list_of_results(Q, K, V):
    weights = F.softmax(Q @ K.mT / Q.shape[-1] ** 0.5, dim=-1)
    return [weights @ V, weights]


@correct("namedtuple")
def namedtuple(Q, K, V):
    Attention = collections.namedtuple("Attention", "output weights")
    weights = F.softmax(Q @ K.mT / Q.shape[-1] ** 0.5, dim=-1)
    return Attention(output=weights @ V, weights=weights)


@correct("own-seed-prints-and-warnings")
def own_seed_prints_and_warnings(Q, K, V):
    torch.manual_seed(42)
    noise = torch.randn(3)
    warnings.warn("just so", stacklevel=2)
    print("noise:", noise.tolist(), "\x1b[31mred\x1b[0m", "猫追狗")
    weights = F.softmax(Q @ K.mT / Q.shape[-1] ** 0.5, dim=-1)
    return weights @ V, weights


@correct("dropout-switched-off")
def dropout_switched_off(Q, K, V):
    weights = F.softmax(Q @ K.mT / Q.shape[-1] ** 0.5, dim=-1)
    weights = F.dropout(weights, p=0.1, training=False)
    return weights @ V, weights


@correct("other-argument-names-and-defaults")
def other_argument_names(query, key, value, scale=None):
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    weights = torch.softmax(query @ key.mT * scale, dim=-1)
    return torch.matmul(weights, value), weights


@correct("slow")
def slow(Q, K, V):
    for _ in range(100):
        weights = F.softmax(Q @ K.mT / Q.shape[-1] ** 0.5, dim=-1)
        output = weights @ V
    return output, weights


scripted = correct_source(
    "scripted",
    """\
import torch

@torch.jit.script
def scaled_dot_product_attention(Q, K, V):
    scores = torch.matmul(Q, K.transpose(-2, -1)) / float(Q.size(-1)) ** 0.5
    weights = torch.softmax(scores, dim=-1)
    return torch.matmul(weights, V), weights
""",
)

callable_object = correct_source(
    "callable-object",
    """\
import torch

class Attention:
    def __init__(self):
        self.softmax = torch.nn.Softmax(dim=-1)

    def __call__(self, Q, K, V):
        weights = self.softmax(Q @ K.mT / Q.shape[-1] ** 0.5)
        return weights @ V, weights

scaled_dot_product_attention = Attention()
""",
)

module = correct_source(
    "module",
    """\
import torch
from torch import nn

class Attention(nn.Module):
    def forward(self, Q, K, V):
        weights = torch.softmax(Q @ K.mT / Q.shape[-1] ** 0.5, dim=-1)
        return weights @ V, weights

scaled_dot_product_attention = Attention()
""",
)

closure = correct_source(
    "closure",
    """\
import torch

def make(softmax):
    def attention(Q, K, V):
        weights = softmax(Q @ K.transpose(-2, -1) * Q.shape[-1] ** -0.5, -1)
        return weights @ V, weights
    return attention

scaled_dot_product_attention = make(torch.softmax)
""",
)

a_lambda = correct_source(
    "lambda",
    """\
import math, torch, os, sys
weights_of = lambda Q, K: torch.softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), -1)
scaled_dot_product_attention = lambda Q, K, V: (weights_of(Q, K) @ V, weights_of(Q, K))
""",
)

partial = correct_source(
    "partial",
    """\
import functools
import torch

def attend(softmax, Q, K, V):
    weights = softmax(Q @ K.mT / Q.shape[-1] ** 0.5)
    return weights @ V, weights

scaled_dot_product_attention = functools.partial(attend, functools.partial(torch.softmax, dim=-1))
""",
)
