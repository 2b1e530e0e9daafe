"""Random draws behind the course's seed."""

from __future__ import annotations

import hashlib

import torch


class Draws:
    """Numbers that depend on the seed and the names alone: not on torch's global stream, not on other draws.

    Args:
        seed: the course's seed.
        names: what the draws are for, such as the exercise and the check; other names give other numbers.
    """

    def __init__(self, seed: int, *names: str) -> None:
        key = "\0".join((str(seed), *names)).encode()
        # `hash` differs from process to process; a digest does not.
        digest = hashlib.sha256(key).digest()
        self._generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)

    def normal(self, *shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
        """Independent standard normal numbers, drawn in float64: all dtypes see the same ones."""
        return torch.randn(shape, generator=self._generator, dtype=torch.float64).to(dtype)
