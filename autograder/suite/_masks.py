"""Masks that a suite draws: True where a query may not look. Ragged, and without an order that would hide a slip."""

from __future__ import annotations

import torch

from autograder.suite._draws import Draws


def padding(rng: Draws, *lengths: int, keys: int) -> torch.Tensor:
    """(B, keys): a padding mask for these lengths, in a random order, neither rising nor falling."""
    return torch.arange(keys) >= rng.shuffled(lengths).unsqueeze(1)


def scattered(rng: Draws, rows: int, columns: int) -> torch.Tensor:
    """(rows, columns): row i forbids 1 + i of the keys but the first, which is free for all."""
    order = rng.normal(rows, columns - 1).argsort(-1).argsort(-1)
    hidden = order < 1 + torch.arange(rows).unsqueeze(1) % (columns - 2)
    return torch.cat([torch.zeros(rows, 1, dtype=torch.bool), hidden], dim=1)


def causal(T: int) -> torch.Tensor:
    """(T, T), True in the future."""
    return torch.arange(T) > torch.arange(T).unsqueeze(1)
