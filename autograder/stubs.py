"""Solutions and the stubs that stand for them, as regions of an instructor's cell::

    ### BEGIN SOLUTION
    shapes = {"scores": (2, 5, 5)}
    ### END SOLUTION
    ### BEGIN STUB
    # shapes = {"scores": None}
    ### END STUB

The commented lines become the release's code. Needs no nbgrader: what students got is asked for at every submission.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from autograder.errors import CourseError

SOLUTION, STUB = "SOLUTION", "STUB"
STOCK_STUB = "# YOUR CODE HERE\nraise NotImplementedError()"
"""nbgrader's own, for a solution that has no stub beside it."""


@dataclass
class Region:
    """Lines of a cell: a ``SOLUTION``, a ``STUB``, or what is neither (an empty kind)."""

    kind: str = ""
    indent: str = ""
    lines: list[str] = field(default_factory=list)

    @property
    def blank(self) -> bool:
        """Whether it is white space between others."""
        return not self.kind and not any(line.strip() for line in self.lines)


def regions(source: str) -> list[Region]:
    """The cell's lines, cut at the marks; none of its solutions and stubs is open or nested.

    Raises:
        CourseError: the marks do not fit together; the sentence does not name the cell.
    """
    found = [Region()]
    for line in source.split("\n"):
        mark = re.search(rf"\b(BEGIN|END) ({SOLUTION}|{STUB})\b", line)
        within = found[-1].kind
        if mark is None:
            found[-1].lines.append(line)
        elif mark[1] == "BEGIN":
            if within:
                raise CourseError(f"BEGIN {mark[2]} stands before the END {within} of another")
            if mark[2] == STUB and next((r.kind for r in reversed(found) if not r.blank), "") != SOLUTION:
                raise CourseError("BEGIN STUB must follow the END SOLUTION that it stands for")
            found.append(Region(mark[2], indent=line[: len(line) - len(line.lstrip())]))
        else:
            if within != mark[2]:
                raise CourseError(f"END {mark[2]} has no BEGIN {mark[2]}")
            found.append(Region())
    if found[-1].kind:
        raise CourseError(f"BEGIN {found[-1].kind} has no END {found[-1].kind}")
    return found


def released(source: str, stock_stub: str) -> str:
    """The cell as students get it: each solution replaced by its stub, or by `stock_stub` where it has none."""
    cut = regions(source)
    lines: list[str] = []
    for place, region in enumerate(cut):
        if region.kind == STUB:
            lines += [_uncommented(line) for line in region.lines]
        elif not region.kind:
            lines += region.lines
        elif not _stub_follows(cut[place + 1 :]):
            lines += [region.indent + line for line in stock_stub.split("\n")]
    return "\n".join(lines)


def _uncommented(line: str) -> str:
    """A stub's line as live code: without its first ``# `` or ``#``, its indentation kept."""
    if not line.strip():
        return ""
    indent, mark, code = re.fullmatch(r"(\s*)(# ?|)(.*)", line).groups()  # type: ignore[union-attr] # matches all
    if not mark:
        raise CourseError(f"a line of the stub is not commented out: {code}")
    return f"{indent}{code}".rstrip()


def _stub_follows(later: Sequence[Region]) -> bool:
    return next((region.kind for region in later if not region.blank), "") == STUB
