"""Random draws behind the course's seed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import torch


class Draws:
    """Numbers that depend on the seed and the names alone: not on torch's global stream, not on other draws.

    Args:
        seed: the course's seed.
        names: what the draws are for, such as the exercise and the check; other names give other numbers.
    """

    def __init__(self, seed: int, *names: str) -> None:
        self._seed, self._names = seed, names
        key = "\0".join((str(seed), *names)).encode()
        # `hash` differs from process to process; a digest does not.
        digest = hashlib.sha256(key).digest()
        self._generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)

    def part(self, name: str) -> Draws:
        """Draws of their own for a part of what these are for; they don't depend on how much was drawn before."""
        return Draws(self._seed, *self._names, name)

    def normal(self, *shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
        """Independent standard normal numbers, drawn in float64: all dtypes see the same ones."""
        return torch.randn(shape, generator=self._generator, dtype=torch.float64).to(dtype)

    def shuffled(self, numbers: Sequence[int]) -> torch.Tensor:
        """These whole numbers, int64, in a random order that neither rises nor falls (for three and more of them)."""
        sorted_ways = sorted(numbers), sorted(numbers, reverse=True)
        while True:
            drawn = torch.tensor(numbers)[self.normal(len(numbers)).argsort()]
            if len(set(numbers)) < 3 or drawn.tolist() not in sorted_ways:
                return drawn

    def integers(self, high: int, *shape: int) -> torch.Tensor:
        """Independent whole numbers from 0 up to, not including, `high`, all equally likely, int64."""
        return torch.randint(high, shape, generator=self._generator)
