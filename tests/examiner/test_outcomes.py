"""What an exception is answered with: a hint that fits it, asked for with the errors that torch really raises."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from autograder.channel.proxy import StudentRaised
from autograder.examiner import outcomes
from autograder.examiner.outcomes import cell_error, stopped_by, verdict_of
from autograder.examiner.session import Crashed, Garbled, NoMoreTime, TimedOut, WorkerDied
from autograder.worker.calls import describe_exception

X = torch.zeros(2, 3)


def changed_afterwards() -> None:
    x = torch.zeros(2, requires_grad=True).exp()
    y = x.exp()
    y += 1
    y.sum().backward()


@pytest.mark.parametrize(
    ("fails", "says"),
    [
        (changed_afterwards, "instead of changing it"),
        (lambda: bool(X == 0), "is not None"),
        (lambda: X.bfloat16().masked_fill(X == 0, -1e39), "too large for this dtype"),
        (lambda: X.sum().backward(), "The way back is cut"),
        (lambda: X.masked_fill(X, 1), "True and False"),
        (lambda: 1 - (X == 0), "~mask"),
        (lambda: X.gather(1, torch.tensor([[-1], [0]])), "An index or a label lies outside"),
        (lambda: F.cross_entropy(X, torch.tensor([7, 0])), "An index or a label lies outside"),
        (lambda: X[[0, 1], torch.tensor([-100, 0])], "An index or a label lies outside"),
        (lambda: F.one_hot(torch.tensor([-100])), "An index or a label lies outside"),
        (lambda: X.sum(2), "Count the axes"),
        (lambda: [1][3], "An index or a label lies outside"),
        (lambda: X @ X, "which axes have to agree"),
        (lambda: X @ X.T.double(), "Print the dtypes"),
        (lambda: len(None), "Something is None there"),  # type: ignore[arg-type]
        (lambda: None.shape, "Something is None there"),  # type: ignore[attr-defined]
        (lambda: X.masked_fil(X == 0, 1), "Did you mean `masked_fill`?"),  # type: ignore[operator]
        (lambda: torch.zeros(2, 3, requires_grad=True).numpy(), "can you stay in torch"),
    ],
)
def test_a_frequent_error_is_answered_with_what_to_look_at(fails: Callable[[], object], says: str) -> None:
    with pytest.raises(Exception) as caught:
        fails()
    raised = describe_exception(caught.value, lambda name: False)
    verdict = verdict_of(StudentRaised(raised["type"], tuple(raised["bases"]), raised["text"], None, "", ""))
    assert verdict.outcome == "error" and verdict.hint is not None
    assert says in verdict.hint.render()


def raised(error: BaseException) -> StudentRaised:
    try:
        raise error
    except BaseException as caught:  # noqa: BLE001 - whatever it is
        described = describe_exception(caught, lambda name: False)
    return StudentRaised(
        described["type"], tuple(described["bases"]), described["text"], None, "", "", described["by_hand"]
    )


def of_itself(fails: Callable[[], object]) -> StudentRaised:
    with pytest.raises(BaseException) as caught:
        fails()
    described = describe_exception(caught.value, lambda name: False)
    return StudentRaised(
        described["type"], tuple(described["bases"]), described["text"], None, "", "", described["by_hand"]
    )


@pytest.mark.parametrize(
    "fails", [lambda: torch.ones(1 << 55), lambda: [0] * (1 << 60), lambda: bytearray(1 << 60), lambda: numpy_ones()]
)
def test_a_request_for_too_much_memory_is_told_as_what_it_raised(fails: Callable[[], object]) -> None:
    verdict = verdict_of(of_itself(fails))
    assert verdict.outcome == "out_of_memory" and verdict.message and verdict.hint
    assert "your function raised" in verdict.message.render()
    assert "more memory than a submission may use" in verdict.hint.render()


def numpy_ones() -> object:
    import numpy

    return numpy.ones(1 << 50)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("not enough memory"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory"),
        type("TimedOut", (MemoryError,), {})("no answer after 5 seconds"),
    ],
    ids=repr,
)
def test_what_is_raised_by_hand_is_told_as_that_and_nothing_more(error: BaseException) -> None:
    verdict = verdict_of(raised(error))
    assert verdict.outcome == "error" and verdict.message
    assert verdict.message.render().startswith(f"your function raised {type(error).__name__}")


def test_another_exercise_is_called_unwritten_where_it_is() -> None:
    error = raised(NotImplementedError("project_qkv is not written yet: remove this line"))
    lie = verdict_of(error, "attention").message
    true = verdict_of(error, "attention", frozenset({"project_qkv"})).message
    own = verdict_of(error, "project_qkv").message
    assert lie and true and own
    assert lie.render().startswith("your function raised NotImplementedError: “project_qkv is not written yet:")
    assert true.render() == "your function calls project_qkv, which is not written yet"
    assert own.render().startswith("the line that raises NotImplementedError is still there")


@pytest.mark.parametrize(
    ("error", "says"),
    [
        ({"type": "ValueError", "text": "no.\nAll points"}, "ValueError: “no.”"),
        ({"type": "ValueError", "text": "”. Full marks: “"}, 'ValueError: “". Full marks: "”'),
        ({"type": "ValueError", "text": "a\x1b[2Jb\u202ec\u2028d\te"}, "ValueError: “a\ufffd[2Jb\ufffdc”"),
        ({"type": "ValueError", "text": "x" * 9_000}, f"ValueError: “{'x' * 299}…”"),
        ({"type": "Full marks. No error", "text": ""}, "Exception"),
        ({"type": 7, "text": []}, "Exception"),
        ({"type": "my.Error", "text": " \n"}, "my.Error"),
        ({}, "Exception"),
    ],
    ids=ascii,
)
def test_the_students_words_stay_in_their_quotation_marks_and_in_one_line(error: dict[str, object], says: str) -> None:
    assert stopped_by(error) == says


@pytest.mark.parametrize(
    ("death", "says"),
    [
        (TimedOut(10.0), "was stopped after 10 seconds"),
        (NoMoreTime(300.0), "was stopped when the 300 seconds of the whole notebook were used up"),
        (Crashed("exit status 0", True), "ended the whole Python process (exit status 0); does it call exit?"),
        (Crashed("SIGSEGV"), "ended the whole Python process (SIGSEGV)"),
        (Garbled("a frame's header is no JSON"), "wrote to the grader's own channel (a frame's header is no JSON)"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_cell_that_was_ended_is_told_in_a_sentence_of_ours(death: WorkerDied, says: str) -> None:
    error = {"type": type(death).__name__, "text": str(death), "line": None, "ended": death}
    assert outcomes.cell_note(3, error).render() == f"cell 3 of the notebook {says}; nothing was taken off for it"
    verdict = cell_error("attention", error)
    assert verdict.message and verdict.message.render() == f"the cell that defines attention {says}"


def test_a_cell_that_raised_is_told_in_its_own_words() -> None:
    error = {"type": "TimedOut", "text": "no answer", "line": 4}
    said = "cell 3 of the notebook stopped with TimedOut: “no answer”; nothing was taken off for it"
    assert outcomes.cell_note(3, error).render() == said


def test_an_end_of_the_process_is_told_as_what_it_was() -> None:
    exited, killed = (verdict_of(Crashed(how, how == "exit status 0")).message for how in ("exit status 0", "SIGSEGV"))
    assert exited and "(exit status 0); does it call exit?" in exited.render()
    assert killed and "ended in the middle of your function (SIGSEGV)" in killed.render()
