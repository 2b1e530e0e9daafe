"""From what a check raised to its outcome and the sentence that a student reads."""

from __future__ import annotations

from autograder.channel.frames import ProtocolError
from autograder.channel.proxy import ForbiddenCall, ForbiddenCalled, StudentRaised
from autograder.examiner.session import Crashed, NoMoreRestarts, NoMoreTime, TimedOut, WorkerDied
from autograder.messages import N_, Message, message
from autograder.report import Outcome
from autograder.suite import CheckFailed

NOT_WRITTEN = "is not written yet"
"""What every stub of the course says when it is called."""

MEMORY_TEXTS = ("can't allocate memory", "not enough memory")


def outcome_of(raised: BaseException | None) -> tuple[Outcome, Message | None]:
    """The outcome of a check that raised this, and what to tell the student."""
    match raised:
        case None:
            return "passed", None
        case CheckFailed():
            return "failed", raised.message
        case StudentRaised():
            return _of_exception(raised)
        case ForbiddenCalled():
            return "forbidden", forbidden(raised.call)
        case NoMoreTime():
            return "timeout", message(
                N_("the whole notebook has {seconds} seconds, and they were used up"),
                seconds=f"{raised.seconds:g}",
            )
        case TimedOut():
            return "timeout", message(
                N_("your function gave no answer within {seconds} seconds; is there a loop that never ends?"),
                seconds=f"{raised.seconds:g}",
            )
        case Crashed():
            return "crashed", message(
                N_("your function ended the whole Python process ({how}); does it call exit?"),
                how=str(raised),
            )
        case NoMoreRestarts():
            return "crashed", message(N_("your notebook was stopped too often to go on with this check"))
        case WorkerDied() | ProtocolError():
            return "crashed", message(
                N_("your notebook's process wrote to the grader's own channel, so nothing could be read ({error})"),
                error=str(raised),
            )
    return "ungraded", message(
        N_("the check itself failed ({error}); this is a fault of the grader, not yours"),
        error=f"{type(raised).__name__}: {raised}"[:500],
    )


def forbidden(call: ForbiddenCall) -> Message:
    """The sentence about a finished article that the answer calls."""
    if call.line is None:
        return message(N_("your answer calls {name}, which this exercise asks you to write yourself"), name=call.name)
    return message(
        N_("your answer calls {name} (line {line} of the cell), which this exercise asks you to write yourself"),
        name=call.name,
        line=call.line,
    )


def _of_exception(raised: StudentRaised) -> tuple[Outcome, Message]:
    if "NotImplementedError" in raised.bases and NOT_WRITTEN in raised.message:
        return "not_attempted", message(N_("this exercise is not written yet"))
    if "MemoryError" in raised.bases or any(text in raised.message for text in MEMORY_TEXTS):
        return "out_of_memory", message(N_("your function asked for more memory than a submission may use"))
    first_line = raised.message.strip().split("\n")[0][:300]
    what = f"{raised.type_name}: {first_line}" if first_line else raised.type_name
    if raised.line is None:
        return "error", message(N_("your function raised {what}"), what=what)
    return "error", message(N_("your function raised {what} (line {line} of the cell)"), what=what, line=raised.line)
