"""How a hidden suite declares a check, and how a check says no."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

from autograder.messages import Message

Test = TypeVar("Test", bound=Callable[..., None])


@dataclass(frozen=True)
class CheckSpec:
    """What is declared beside a check; `autograder` reads points from here and from nowhere else."""

    points: float
    title: str
    hint: str
    needs: tuple[str, ...] = field(default=())


def check(*, points: float, title: str, hint: str, needs: str | tuple[str, ...] = ()) -> Callable[[Test], Test]:
    """Declare a pytest function ``test_<id>`` of a hidden suite as the check ``<id>``.

    Args:
        points: what the check is worth; the checks of an exercise add up to the points of its graded cell.
        title: what is true when it passes, in one short sentence ("Each query's weights sum to 1").
        hint: what to try when it fails, without giving the code away.
        needs: ids of earlier checks of the suite without which this one says nothing; when one of them did not
            pass, this check is skipped.
    """
    if not points > 0 or points * 2 != int(points * 2):
        raise ValueError(f"points must be a positive multiple of one half, not {points!r}")
    spec = CheckSpec(points, title, hint, (needs,) if isinstance(needs, str) else tuple(needs))

    def declare(test: Test) -> Test:
        test.check = spec  # type: ignore[attr-defined]
        return test

    return declare


class CheckFailed(Exception):
    """The student's answer is wrong, and this is what was seen. Anything else that a suite raises is our fault.

    Attributes:
        says_all: whether the sentence says what to do as well, so that the check's hint would only distract.
        hint: what to try, where that is another thing than the check's own hint.
    """

    def __init__(self, message: Message, says_all: bool = False, hint: Message | None = None) -> None:
        super().__init__(message.render())
        self.message, self.says_all, self.hint = message, says_all, hint


def fail(id: str, *, says_all: bool = False, hint: str | None = None, **args: Any) -> NoReturn:
    """End the check.

    Args:
        id: the English sentence with ``{fields}``, marked ``N_("...")``.
        says_all: leave out the check's hint (see `CheckFailed`).
        hint: another hint than the check's, marked ``N_("...")``.
        args: what goes into the fields.
    """
    raise CheckFailed(Message(id, args), says_all, None if hint is None else Message(hint))


def with_hint(hint: str, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What `call` returns; where it ends the check, it does so with a hint that fits better than the check's."""
    try:
        return call(*args, **kwargs)
    except CheckFailed as failed:
        raise CheckFailed(failed.message, failed.says_all, Message(hint)) from None
