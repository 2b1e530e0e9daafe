"""From what a check raised to its outcome, the sentence that a student reads, and a hint that fits."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from autograder.channel import words
from autograder.channel.frames import ProtocolError
from autograder.channel.proxy import ForbiddenCall, ForbiddenCalled, StudentRaised
from autograder.examiner.patience import says_no_memory
from autograder.examiner.session import Crashed, NoMoreRestarts, NoMoreTime, TimedOut, WorkerDied
from autograder.messages import N_, Message, message
from autograder.report import Outcome
from autograder.suite import CheckFailed

NOT_WRITTEN = "is not written yet"
"""What every stub of the course says when it is called."""

_AXES = N_("Print the shapes before that line: which axes have to agree?")
_NOTHING = N_("Something is None there: an argument that was left out, or a function without a `return`?")
_OUTSIDE = N_("An index or a label lies outside of what it points into: print the smallest and the largest one.")

# What to try after an exception, by a builtin class of it and a piece of its text; the first that fits.
HINTS = (
    ("SyntaxError", "", N_("That is where Python gave up reading: the slip is there or just before it.")),
    ("ModuleNotFoundError", "", N_("Only what the course needs can be imported here: torch, numpy, matplotlib.")),
    ("NameError", "", N_("Is the name spelt as where it was made, and made or imported in this cell or above?")),
    ("EOFError", "input()", N_("What the function needs comes in as arguments.")),
    ("RuntimeError", "numpy()", N_("numpy knows nothing of gradients: can you stay in torch?")),
    ("RuntimeError", "modified by an inplace operation",
     N_("Gradients need that tensor as it was: make a new one instead of changing it.")),
    ("RuntimeError", "Boolean value of Tensor",
     N_("A whole tensor was asked whether it is true: do you mean `is not None`, or .any(), or .all()?")),
    ("RuntimeError", "without overflow",
     N_("A number is too large for this dtype: `torch.finfo(x.dtype)` tells how far it reaches.")),
    ("RuntimeError", "does not require grad",
     N_("The way back is cut: does a step detach, leave torch, or run under no_grad?")),
    ("RuntimeError", "only supports boolean masks",
     N_("Make the mask of True and False: a comparison does, or `.bool()`.")),
    ("RuntimeError", "with a bool tensor", N_("A bool tensor can't be subtracted: `~mask` turns it round.")),
    ("RuntimeError", "expected scalar type",
     N_("Two tensors differ in dtype: print both, and see which one you made yourself.")),
    ("IndexError", "out of bounds", _OUTSIDE),
    ("RuntimeError", "out of bounds", _OUTSIDE),
    ("RuntimeError", "Class values must be", _OUTSIDE),
    ("RuntimeError", "in-place", N_("That line writes into a tensor that it was given: make a new tensor instead.")),
    ("RuntimeError", "dtype", N_("Print the dtypes before that line: which tensor did you make yourself?")),
    ("RuntimeError", "size", _AXES),
    ("RuntimeError", "shape", _AXES),
    ("RuntimeError", "dimension", _AXES),
    ("TypeError", "NoneType", _NOTHING),
    ("AttributeError", "NoneType", _NOTHING),
    ("IndexError", "list index", _OUTSIDE),
    ("IndexError", "", N_("Count the axes of that tensor: how many can you rely on?")),
    ("TypeError", "", N_("Print the type of each part of that line: which one is not what you took it for?")),
)  # fmt: skip

_NO_ATTRIBUTE = re.compile(r"(?:'(Tensor)' object|module 'torch') has no attribute '([A-Za-z_]\w{0,80})'")
LIKENESS = 0.8
"""Of a misspelt name to the one that is suggested for it, as `difflib` measures it."""


@dataclass(frozen=True)
class Verdict:
    """What became of a check; `hint` is one of its own, `ask_check` says that the check's hint fits."""

    outcome: Outcome
    message: Message | None = None
    hint: Message | None = None
    ask_check: bool = False


def verdict_of(raised: BaseException | None, exercise: str = "", unwritten: frozenset[str] = frozenset()) -> Verdict:
    """The verdict on a check of an exercise that raised this; `unwritten` are the notebook's stubs."""
    match raised:
        case None:
            return Verdict("passed")
        case CheckFailed():
            if raised.hint is not None and not raised.says_all:
                return Verdict("failed", raised.message, raised.hint)
            return Verdict("failed", raised.message, ask_check=not raised.says_all)
        case StudentRaised():
            return _of_exception(raised, exercise, unwritten)
        case ForbiddenCalled():
            return Verdict("forbidden", forbidden(raised.call))
        case NoMoreTime():
            said = N_("the whole notebook has {seconds} seconds, and they were used up")
            return Verdict("timeout", message(said, seconds=f"{raised.seconds:g}"))
        case TimedOut():
            said = N_("your function gave no answer within {seconds} seconds; is there a loop that never ends?")
            return Verdict("timeout", message(said, seconds=f"{raised.seconds:g}"))
        case Crashed():
            if raised.exited:
                said = N_("your function ended the whole Python process ({how}); does it call exit?")
            else:
                said = N_("the whole Python process ended in the middle of your function ({how})")
            return Verdict("crashed", message(said, how=str(raised)))
        case NoMoreRestarts():
            return Verdict("crashed", message(N_("your notebook was stopped too often to go on with this check")))
        case WorkerDied() | ProtocolError():
            said = N_("your notebook's process wrote to the grader's own channel, so nothing could be read ({error})")
            return Verdict("crashed", message(said, error=str(raised)))
    said = N_("the check itself failed ({error}); this is a fault of the grader, not yours")
    return Verdict("ungraded", message(said, error=f"{type(raised).__name__}: {raised}"[:500]))


def forbidden(call: ForbiddenCall) -> Message:
    """The sentence about a finished article that the answer calls."""
    said = N_("your answer calls {name}{where}, which this exercise asks you to write yourself")
    return message(said, name=call.name, where=_where(call.line, ""))


def cell_error(name: str, error: Mapping[str, Any]) -> Verdict:
    """The verdict where the cell that defines an exercise's function did not run to its end."""
    if isinstance(death := error.get("ended"), WorkerDied):
        ended = N_("the cell that defines {name} {was_ended}")
        return Verdict("error", message(ended, name=name, was_ended=_was_ended(death)))
    said = N_("the cell that defines {name} stopped with {what}{where}")
    where = _where(error.get("line"), str(error.get("code") or ""))
    bases = tuple(error.get("bases") or ())
    text = str(error.get("text") or "")
    return Verdict("error", message(said, name=name, where=where, what=stopped_by(error)), _hint(bases, text))


def cell_note(place: int, error: Mapping[str, Any]) -> Message:
    """What the student is told of a cell of their own that did not run to its end; `place` counts from 1."""
    if isinstance(death := error.get("ended"), WorkerDied):
        said = N_("cell {place} of the notebook {was_ended}; nothing was taken off for it")
        return message(said, place=place, was_ended=_was_ended(death))
    said = N_("cell {place} of the notebook stopped with {what}; nothing was taken off for it")
    return message(said, place=place, what=stopped_by(error))


def _was_ended(death: WorkerDied) -> Message:
    """How a cell ended with its whole process, as the end of a sentence."""
    match death:
        case NoMoreTime():
            said = N_("was stopped when the {seconds} seconds of the whole notebook were used up")
            return message(said, seconds=f"{death.seconds:g}")
        case TimedOut():
            return message(N_("was stopped after {seconds} seconds"), seconds=f"{death.seconds:g}")
        case Crashed(exited=True):
            return message(N_("ended the whole Python process ({how}); does it call exit?"), how=str(death))
        case Crashed():
            return message(N_("ended the whole Python process ({how})"), how=str(death))
    return message(N_("wrote to the grader's own channel ({error})"), error=str(death))


def stopped_by(error: Mapping[str, Any]) -> str:
    """An exception in one line: its type, and the first line of its text in quotation marks, as somebody's words."""
    kind, said = words.name(error.get("type"), unknown="Exception"), words.quoted(error.get("text"), 300)
    return f"{kind}: {said}" if said else kind


def _of_exception(raised: StudentRaised, exercise: str, unwritten: frozenset[str]) -> Verdict:
    where = _where(raised.line, raised.code)
    if "NotImplementedError" in raised.bases and NOT_WRITTEN in raised.message:
        stub = raised.message.partition(" ")[0]
        if stub != exercise and stub in unwritten:
            return Verdict("error", message(N_("your function calls {stub}, which is not written yet"), stub=stub))
        if stub == exercise:
            said = N_("the line that raises NotImplementedError is still there{where}, and ends your function")
            return Verdict("error", message(said, where=_where(raised.line, "")), message(N_("Delete that line.")))
    what = stopped_by({"type": raised.type_name, "text": raised.message})
    called = message(N_(", called with {shapes},"), shapes=raised.called_with) if raised.called_with else ""
    said = N_("your function{called} raised {what}{where}")
    if _asked_for_too_much(raised):
        hint = message(N_("That is what a request for more memory than a submission may use ends in: how large is it?"))
        return Verdict("out_of_memory", message(said, what=what, where=where, called=called), hint)
    return Verdict("error", message(said, what=what, where=where, called=called), _hint(raised.bases, raised.message))


def _asked_for_too_much(raised: StudentRaised) -> bool:
    # What the function raises by hand says nothing of memory, whatever it is called.
    return not raised.by_hand and says_no_memory(raised.bases, raised.message)


def _where(line: object, code: str) -> Message | str:
    if not isinstance(line, int):
        return ""
    if not code:
        return message(N_(" (line {line} of the cell)"), line=line)
    # The line comes last and in backticks: its brackets and colons are not the sentence's.
    return message(N_(" (line {line} of the cell): `{code}`"), line=line, code=code)


def _hint(bases: tuple[str, ...], text: str) -> Message | None:
    if "AttributeError" in bases and (unknown := _NO_ATTRIBUTE.match(text)):
        known = [name for name in dir(torch.Tensor if unknown[1] else torch) if not name.startswith("_")]
        near = difflib.get_close_matches(unknown[2], known, 1, LIKENESS)
        return message(N_("Did you mean `{name}`?"), name=near[0]) if near else None
    for base, piece, hint in HINTS:
        if base in bases and piece in text:
            return message(hint)
    return None
