"""Repairs of the fifth case; all of them earn full marks."""

import torch

from autograder.suite import correct


@correct("cut-then-exchange")
def cut_then_exchange(x, num_heads):
    B, T, E = x.shape
    if E % num_heads:
        raise ValueError(f"{E} features cannot be shared out equally among {num_heads} heads")
    return x.reshape(B, T, num_heads, E // num_heads).transpose(1, 2)


@correct("turned-once-more")
def turned_once_more(x, num_heads):
    B, T, E = x.shape
    if E % num_heads:
        raise ValueError(f"{E} features cannot be shared out equally among {num_heads} heads")
    return x.transpose(1, 2).reshape(B, num_heads, E // num_heads, T).transpose(2, 3)


@correct("stacked")
def stacked(x, num_heads):
    if x.shape[-1] % num_heads:
        raise ValueError("num_heads must divide the embedding")
    return torch.stack(x.chunk(num_heads, dim=-1), dim=1)
