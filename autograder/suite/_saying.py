"""What hidden suites say of values and exceptions that are no tensors of the right kind, in words."""

from __future__ import annotations

from typing import Any

import torch

from autograder.channel import words
from autograder.channel.codec import Unsupported
from autograder.channel.proxy import StudentRaised
from autograder.messages import N_, Message

MAX_TEXT = 40
"""Characters of a student's own value in a sentence."""
REFUSALS = frozenset(("ValueError", "AssertionError"))


def described(value: Any) -> Message:
    """What stands somewhere, with as much of it as fits into a sentence."""
    if value is None:
        return Message(N_("None"))
    if isinstance(value, torch.Tensor):
        return Message(N_("a tensor of shape {shape}"), {"shape": str(tuple(value.shape))})
    if isinstance(value, str):
        return Message(N_("the text {text}"), {"text": shortened(repr(value[: MAX_TEXT + 1]))})
    if isinstance(value, bool | int | float):
        return Message(N_("the number {number}"), {"number": shortened(repr(value))})
    if isinstance(value, list | tuple | dict):
        return Message(N_("a {type} of {count} entries"), {"type": type(value).__name__, "count": len(value)})
    type_name = value.type_name if isinstance(value, Unsupported) else type(value).__name__
    return Message(N_("an object of type {type}"), {"type": type_name})


def shortened(text: str) -> str:
    """A text that a student may have made long."""
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"


def error_of(raised: StudentRaised) -> Message:
    """An exception in words, with the line where it came from."""
    said = {"error": raised.type_name, "text": words.quoted(raised.message, 120)}
    if raised.line is None:
        return Message(N_("{error}: {text}"), said)
    return Message(N_("{error}: {text} (line {line} of the cell)"), {**said, "line": raised.line})


def is_refusal(raised: StudentRaised) -> bool:
    """A ValueError or AssertionError, also where TorchScript has wrapped it into an error of its own."""
    wrapped = raised.type_name == "Error" and any(name in raised.message for name in REFUSALS)
    return wrapped or not REFUSALS.isdisjoint(raised.bases)
