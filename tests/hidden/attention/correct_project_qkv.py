"""Correct ways to project to queries, keys and values; all of them earn full marks."""

import collections
import functools

import numpy
import torch
import torch.nn.functional as F

from autograder.suite import correct, correct_source


@correct("matmul-operator")
def matmul_operator(x, W_q, W_k, W_v):
    return x @ W_q, x @ W_k, x @ W_v


@correct("einsum")
def einsum(x, W_q, W_k, W_v):
    return tuple(torch.einsum("...d,de->...e", x, W) for W in (W_q, W_k, W_v))


@correct("linear-with-transposed-weights")
def linear_with_transposed_weights(x, W_q, W_k, W_v):
    return F.linear(x, W_q.T), F.linear(x, W_k.t()), F.linear(x, W_v.mT)


@correct("one-product-then-split")
def one_product_then_split(x, W_q, W_k, W_v):
    return (x @ torch.cat([W_q, W_k, W_v], dim=1)).split([W_q.shape[1], W_k.shape[1], W_v.shape[1]], dim=-1)


@correct("list-of-results")
def list_of_results(x, W_q, W_k, W_v):
    return [torch.matmul(x, W) for W in (W_q, W_k, W_v)]


@correct("tensordot")
def tensordot(x, W_q, W_k, W_v):
    return tuple(torch.tensordot(x, W, dims=1) for W in (W_q, W_k, W_v))


@correct("flattened-mm")
def flattened_mm(x, W_q, W_k, W_v):
    flat = x.reshape(-1, x.shape[-1])
    return tuple(torch.mm(flat, W).reshape(*x.shape[:-1], W.shape[1]) for W in (W_q, W_k, W_v))


@correct("loop-over-columns")
def loop_over_columns(x, W_q, W_k, W_v):
    return tuple(
        torch.stack([(x * W[:, column]).sum(-1) for column in range(W.shape[1])], dim=-1) for W in (W_q, W_k, W_v)
    )


@correct("broadcast-sum")
def broadcast_sum(x, W_q, W_k, W_v):
    return tuple((x[..., None] * W).sum(-2) for W in (W_q, W_k, W_v))


@correct("out-of-place-addition-of-rows")
def addition_of_rows(x, W_q, W_k, W_v):
    def project(W):
        total = torch.zeros(*x.shape[:-1], W.shape[1], dtype=x.dtype, device=x.device)
        for row in range(W.shape[0]):
            total = total + x[..., row : row + 1] * W[row]
        return total

    return project(W_q), project(W_k), project(W_v)


@correct("namedtuple")
def namedtuple(x, W_q, W_k, W_v):
    Projections = collections.namedtuple("Projections", "Q K V")
    return Projections(x @ W_q, x @ W_k, x @ W_v)


@correct("other-argument-names")
def other_argument_names(inputs, query_weights, key_weights, value_weights):
    project = functools.partial(torch.matmul, inputs)
    return project(query_weights), project(key_weights), project(value_weights)


@correct("stray-print-and-seed")
def stray_print_and_seed(x, W_q, W_k, W_v):
    torch.manual_seed(0)
    numpy.random.seed(0)
    print("x:", tuple(x.shape))
    return x @ W_q, x @ W_k, x @ W_v


a_lambda = correct_source(
    "lambda",
    "project_qkv = lambda x, W_q, W_k, W_v: (x @ W_q, x @ W_k, x @ W_v)\n",
)

callable_object = correct_source(
    "callable-object",
    """\
class Projector:
    def __call__(self, x, W_q, W_k, W_v):
        return tuple(x @ W for W in (W_q, W_k, W_v))

project_qkv = Projector()
""",
)

scripted = correct_source(
    "scripted",
    """\
import torch

@torch.jit.script
def project_qkv(x, W_q, W_k, W_v):
    return torch.matmul(x, W_q), torch.matmul(x, W_k), torch.matmul(x, W_v)
""",
)

module = correct_source(
    "module",
    """\
import torch

class Projector(torch.nn.Module):
    def forward(self, x, *matrices):
        return [x @ W for W in matrices]

project_qkv = Projector()
""",
)
