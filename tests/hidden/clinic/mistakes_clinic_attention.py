"""What is left to repair in the first case, and half repairs."""

import math

import torch

from autograder.suite import N_, mistake


def scaled_scores(Q, K):
    return Q @ K.transpose(-2, -1) / math.sqrt(Q.shape[-1])


@mistake(
    "as-sick-as-before",
    caught_by="repaired",
    says=N_(
        "On every call up to here your function gives what the sick one gives: either your change is not what matters, "
        "or it is not in force (of several definitions in a notebook, the last counts). "
        "Compare a sentence alone with the same sentence in a batch, row by row."
    ),
)
def as_sick_as_before(Q, K, V):
    weights = torch.softmax(scaled_scores(Q, K), dim=1)
    return weights @ V, weights


@mistake(
    "batches-only",
    caught_by="repaired",
    says=N_(
        "A batch of sentences is well now, but a sentence alone and a batch of heads are not: your softmax still finds "
        "its axis by counting from the front. Which end of a shape is the same for all of them?"
    ),
)
def batches_only(Q, K, V):
    weights = torch.softmax(scaled_scores(Q, K), dim=2)
    return weights @ V, weights


@mistake(
    "over-the-batch",
    caught_by="repaired",
    says=N_(
        "Now your softmax runs over the first axis, so that the sentences of a batch share 1 among them. Add up one "
        "row: each query has a whole unit to give."
    ),
)
def over_the_batch(Q, K, V):
    weights = torch.softmax(scaled_scores(Q, K), dim=0)
    return weights @ V, weights


@mistake(
    "renormalised",
    caught_by="repaired",
    says=N_(
        "Your rows sum to 1 now, but only because they are divided by their sum: before that a softmax along another "
        "axis has bent the weights, and its traces stay. Along which axis should it have run in the first place?"
    ),
)
def renormalised(Q, K, V):
    weights = torch.softmax(scaled_scores(Q, K), dim=1)
    weights = weights / weights.sum(dim=-1, keepdim=True)
    return weights @ V, weights
