"""What an exception is answered with: a hint that fits it, asked for with the errors that torch really raises."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from autograder.channel.proxy import StudentRaised
from autograder.examiner.outcomes import verdict_of
from autograder.examiner.session import Crashed
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


def test_an_end_of_the_process_is_told_as_what_it_was() -> None:
    exited, killed = (verdict_of(Crashed(how, how == "exit status 0")).message for how in ("exit status 0", "SIGSEGV"))
    assert exited and "(exit status 0); does it call exit?" in exited.render()
    assert killed and "ended in the middle of your function (SIGSEGV)" in killed.render()
