"""The names of finished articles, and what else stands for one of them."""

from __future__ import annotations

from collections.abc import Sequence

from autograder.worker.watch import KERNELS

GENERIC = ("attention",)
"""Last parts that stand for a finished article under its full name alone."""


class Articles:
    """The forbidden names; private builtins such as ``torch._C._nn.…`` share the last part."""

    def __init__(self, forbidden: Sequence[str]) -> None:
        self.roots = {name.partition(".")[0] for name in forbidden}
        self._modules = {name.rsplit(".", up)[0] for name in forbidden for up in range(1, name.count(".") + 1)} - {""}
        self._stems = {name.rpartition(".")[2]: name for name in forbidden}
        kernels = {KERNELS[stem]: name for stem, name in self._stems.items() if stem in KERNELS}
        if "scaled_dot_product_attention" in self._stems:
            kernels["sfdp_pattern"] = self._stems["scaled_dot_product_attention"]  # the patterns of torch's compiler
        self._starts = {stem: name for stem, name in self._stems.items() if stem not in GENERIC} | kernels
        self._full = [name for stem, name in self._stems.items() if stem in GENERIC]
        self._known: dict[str, str | None] = {}

    def match(self, dotted: str) -> str | None:
        """The forbidden name that a resolved dotted name stands for, or None."""
        if dotted not in self._known:
            root, *parts = dotted.split(".")
            parts = parts if root in self.roots else []
            found = (name for part in parts if (name := self.match_part(part)))
            full = (name for name in self._full if f"{dotted}.".startswith(f"{name}."))
            self._known[dotted] = next(found, None) or next(full, None)
        return self._known[dotted]

    def match_part(self, part: str) -> str | None:
        """The forbidden name that has such a part."""
        plain = part.lstrip("_")
        # RNNCell begins with RNN as well: the longest says best what it is.
        start = max((start for start in self._starts if plain.startswith(start)), key=len, default=None)
        return None if start is None else self._starts[start]

    def is_module(self, dotted: str) -> bool:
        """Whether a dotted name is a module from which a forbidden name could be taken."""
        root, _, rest = dotted.partition(".")
        return dotted in self._modules or (root in self.roots and rest.startswith(("_", "ops", "nn.modules")))

    def is_ours(self, dotted: str) -> bool:
        """Whether it is of a package that has forbidden names."""
        return dotted.partition(".")[0] in self.roots
