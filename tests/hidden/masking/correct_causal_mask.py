"""Correct ways to write a causal mask; all of them earn full marks."""

import numpy
import torch
from torch import nn

from autograder.suite import correct, correct_source


@correct("triu")
def triu(T):
    return torch.triu(torch.ones(T, T, dtype=torch.bool), diagonal=1)


@correct("tril-inverted")
def tril_inverted(T):
    return ~torch.ones((T, T)).bool().tril()


@correct("tril-is-zero")
def tril_is_zero(T):
    return torch.tril(torch.ones(T, T)) == 0


@correct("one-minus-tril")
def one_minus_tril(T):
    return (1 - torch.ones(T, T).tril()).to(torch.bool)


@correct("arange-broadcast")
def arange_broadcast(T):
    places = torch.arange(T)
    return places.unsqueeze(0) > places[:, None]


@correct("cumsum")
def cumsum(T):
    return torch.eye(T).cumsum(dim=1) - torch.eye(T) > 0


@correct("loop")
def loop(T):
    mask = torch.zeros(T, T, dtype=torch.bool)
    for query in range(T):
        mask[query, query + 1 :] = True
    return mask


@correct("list-comprehension")
def list_comprehension(T):
    return torch.BoolTensor([[key > query for key in range(T)] for query in range(T)])


@correct("indices")
def indices(T):
    mask = torch.full((T, T), False)
    rows, columns = torch.triu_indices(T, T, offset=1)
    mask[rows, columns] = True
    return mask


@correct("from-minus-infinity")
def from_minus_infinity(T):
    return nn.Transformer.generate_square_subsequent_mask(T).isinf()


@correct("from-numpy")
def from_numpy(T):
    return torch.from_numpy(numpy.triu(numpy.ones((T, T)), k=1).astype(bool))


@correct("meshgrid")
def meshgrid(T):
    query, key = torch.meshgrid(torch.arange(T), torch.arange(T), indexing="ij")
    return torch.logical_not(key <= query)


@correct("lower-transposed")
def lower_transposed(T):
    return torch.ones(T, T, dtype=torch.bool).tril(-1).T


@correct("in-place-on-its-own")
def in_place_on_its_own(T):
    return torch.ones(T, T, dtype=torch.uint8).triu_(1).bool()


@correct("rows-shrink")
def rows_shrink(T):
    return torch.stack([torch.arange(T) >= seen for seen in range(1, T + 1)])


scripted = correct_source(
    "scripted",
    """\
import torch

@torch.jit.script
def causal_mask(T: int):
    return torch.ones(T, T, dtype=torch.bool).triu(1)
""",
)

remembered = correct_source(
    "remembered",
    """\
import functools
import torch

@functools.lru_cache
def causal_mask(T):
    return torch.ones(T, T, dtype=torch.bool).triu(1)
""",
)

callable_object = correct_source(
    "callable-object",
    """\
import torch

class Causal:
    def __init__(self, largest=64):
        self.mask = torch.ones(largest, largest).triu(1).bool()

    def __call__(self, T):
        return self.mask[:T, :T]

causal_mask = Causal()
""",
)
