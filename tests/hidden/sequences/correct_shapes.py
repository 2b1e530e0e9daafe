"""Correct ways to write the ledger of shapes; all of them earn full marks."""

from collections import OrderedDict, namedtuple

import numpy
import torch

from autograder.suite import correct


@correct("tuples")
def tuples():
    return {
        "scores": (3, 6, 7),
        "weights": (3, 6, 7),
        "output": (3, 6, 10),
        "padded_batch": (3, 7, 12),
        "lengths": (3,),
        "mha_output": (3, 7, 12),
        "mha_weights_default": (3, 7, 7),
        "mha_weights_per_head": (3, 4, 7, 7),
    }


@correct("names-of-sizes")
def names_of_sizes():
    lengths = [7, 4, 5]
    B, T, E, H, Tq, dv = len(lengths), max(lengths), 12, 4, 6, 10
    words = (B, T, E)
    pairs = (B, Tq, T)
    return {
        "mha_weights_per_head": (B, H, T, T),
        "mha_weights_default": (B, T, T),
        "mha_output": words,
        "lengths": (B,),
        "padded_batch": words,
        "output": (*pairs[:-1], dv),
        "weights": pairs,
        "scores": pairs,
    }


@correct("looked-up-on-tensors")
def looked_up_on_tensors():
    sentences = torch.zeros(3, 7, 12)
    pairs = torch.zeros(3, 6, 8) @ torch.zeros(3, 7, 8).mT
    heads = sentences.view(3, 7, 4, 3).transpose(1, 2)
    per_head = heads @ heads.mT
    return {
        "scores": pairs.shape,
        "weights": pairs.size(),
        "output": (pairs @ torch.zeros(3, 7, 10)).shape,
        "padded_batch": sentences.shape,
        "lengths": torch.tensor([7, 4, 5]).shape,
        "mha_output": heads.transpose(1, 2).flatten(2).shape,
        "mha_weights_default": per_head.mean(1).shape,
        "mha_weights_per_head": per_head.shape,
    }


@correct("lists-and-numpy-numbers")
def lists_and_numpy_numbers():
    B, T = numpy.int64(3), numpy.int32(7)
    return {
        "scores": [B, 6, T],
        "weights": [B, 6, T],
        "output": [B, 6, 10],
        "padded_batch": numpy.zeros((B, T, 12)).shape,
        "lengths": [B],
        "mha_output": [B, T, 12],
        "mha_weights_default": [B, T, T],
        "mha_weights_per_head": [B, 4, T, T],
    }


@correct("another-dict-with-more-in-it")
def another_dict_with_more_in_it():
    Pairs = namedtuple("Pairs", "sentences queries keys")
    ledger = OrderedDict(queries=(3, 6, 8), keys=(3, 7, 8), values=(3, 7, 10), score=None)
    ledger["scores"] = ledger["weights"] = Pairs(3, 6, 7)
    ledger["output"] = (3, 6, 10)
    ledger["padded_batch"] = ledger["mha_output"] = (3, 7, 12)
    ledger["lengths"] = tuple(range(3, 4))
    ledger["mha_weights_default"] = (3, 7, 7)
    ledger["mha_weights_per_head"] = (3, 4, 7, 7)
    ledger[0] = "checked twice"
    return ledger
