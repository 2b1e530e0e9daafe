"""Repairs of the first case; all of them earn full marks."""

import math

import torch

from autograder.suite import correct


@correct("the-last-axis")
def the_last_axis(Q, K, V):
    d = Q.shape[-1]
    scores = Q @ K.transpose(-2, -1) / math.sqrt(d)
    weights = torch.softmax(scores, dim=-1)
    return weights @ V, weights


@correct("written-anew")
def written_anew(Q, K, V):
    scores = torch.einsum("...qd,...kd->...qk", Q * Q.shape[-1] ** -0.5, K)
    powers = (scores - scores.amax(-1, keepdim=True)).exp()
    weights = powers / powers.sum(-1, keepdim=True)
    return torch.einsum("...qk,...kv->...qv", weights, V), weights


@correct("axis-by-number-of-axes")
def axis_by_number_of_axes(Q, K, V):
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    weights = torch.softmax(scores, dim=scores.dim() - 1)
    return weights @ V, weights
