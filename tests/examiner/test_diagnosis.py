"""A known mistake is named where a student's function equals it on every call, and nowhere else."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from autograder.channel.proxy import Call, StudentRaised
from autograder.examiner import diagnosis
from autograder.examiner.diagnosis import equals, find_mistake
from autograder.suite import Mistake
from tests.channel.endpoint import student

Answer = Callable[..., Any]


def reference(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    weights = torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, dim=-1)
    return weights @ v, weights


def no_scale(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    weights = torch.softmax(q @ k.mT, dim=-1)
    return weights @ v, weights


def no_scale_in_other_words(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    scores = torch.einsum("bqd,bkd->bqk", q, k)
    scores = (scores - scores.amax(-1, keepdim=True)).exp()
    weights = scores / scores.sum(-1, keepdim=True)
    return torch.bmm(weights, v), weights


def no_scale_by_einsum(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    weights = torch.einsum("bqd,bkd->bqk", q, k).softmax(-1)
    return torch.einsum("bqk,bkd->bqd", weights, v), weights


def wrong_axis(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    weights = torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, dim=-2)
    return weights @ v, weights


def known(*answers: Answer) -> list[Mistake]:
    return [Mistake(answer.__name__, "some_check", "You …", answer) for answer in answers]


MISTAKES = known(wrong_axis, no_scale)


def draw(seed: int, *shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype).requires_grad_()


def calls_of(answer: Answer, *, gradients: bool = True, dtype: torch.dtype = torch.float64) -> Sequence[Call]:
    """What a suite would have recorded of an answer: three calls, one of them self-attention."""
    called = student(answer)
    for seed, d in enumerate((2, 4, 9)):
        q, k, v = (draw(10 * seed + n, 2, 5, d, dtype=dtype) for n in range(3))
        try:
            result = called(q, k, v)
            out = result[0] if isinstance(result, list | tuple) else result
            if gradients and isinstance(out, Tensor) and out.requires_grad:
                torch.autograd.grad(out.square().sum(), [q, k, v], allow_unused=True)
        except StudentRaised:
            pass
    x = draw(99, 1, 3, 4, dtype=dtype)
    try:
        called(x, x, x)
    except StudentRaised:
        pass
    return called.calls


def named(answer: Answer, mistakes: Sequence[Mistake] = MISTAKES, **options: Any) -> str | None:
    found = find_mistake(calls_of(answer, **options), mistakes, reference)
    return found.id if found else None


@pytest.mark.parametrize("answer", [no_scale, no_scale_in_other_words])
def test_a_function_that_equals_a_known_mistake_is_named(answer: Answer) -> None:
    assert named(answer) == "no_scale"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rounding_does_not_hide_a_mistake(dtype: torch.dtype) -> None:
    assert named(no_scale_by_einsum, dtype=dtype) == "no_scale"


def test_the_reference_is_no_mistake() -> None:
    assert named(reference) is None


def test_a_correct_answer_is_no_mistake_even_if_a_mistake_equals_it_on_these_calls() -> None:
    def wrong_elsewhere(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        return reference(q, k, v) if len(q) < 100 else (q, k)

    assert named(reference, known(wrong_elsewhere)) is None


def test_nothing_was_called_nothing_is_named() -> None:
    assert find_mistake([], MISTAKES, reference) is None


def test_a_mistake_of_nobody_is_not_named() -> None:
    assert named(lambda q, k, v: (q, k)) is None


def test_one_call_that_differs_is_enough() -> None:
    def mostly(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        return no_scale(q, k, v) if q.shape[-1] != 9 else reference(q, k, v)

    assert named(mostly) is None


def test_one_element_that_differs_is_enough() -> None:
    def nearly(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        out, weights = no_scale(q, k, v)
        return out + 1e-3 * (torch.arange(out.numel()).view_as(out) == 7), weights

    assert named(nearly) is None


@pytest.mark.parametrize(
    "other",
    [
        lambda out, weights: [out, weights],
        lambda out, weights: (out,),
        lambda out, weights: out,
        lambda out, weights: (out, weights.float()),
        lambda out, weights: (out, weights.detach()),
        lambda out, weights: {"out": out, "weights": weights},
        lambda out, weights: (out, None),
        lambda out, weights: (out, weights.unsqueeze(0)),
    ],
    ids=["list", "alone", "bare", "dtype", "detached", "dict", "none", "shape"],
)
def test_the_form_of_the_result_counts(other: Callable[..., Any]) -> None:
    def answer(q: Tensor, k: Tensor, v: Tensor) -> Any:
        return other(*no_scale(q, k, v))

    assert named(answer) is None
    assert named(answer, known(answer)) == "answer"


def test_gradients_count() -> None:
    def detached(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        weights = torch.softmax(q.detach() @ k.mT, dim=-1)
        return weights @ v, weights

    assert named(detached) is None
    assert named(detached, gradients=False) == "no_scale"
    assert named(detached, [*MISTAKES, *known(detached)]) == "detached"


def test_a_changed_input_counts() -> None:
    def in_place(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        result = no_scale(q, k, v)
        with torch.no_grad():
            v.zero_()
        return result[0].detach(), result[1].detach()

    def detached(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        return no_scale(q.detach(), k.detach(), v.detach())

    assert named(in_place, known(detached)) is None
    assert named(detached, known(in_place)) is None
    assert named(in_place, known(detached, in_place)) == "in_place"


def test_a_changed_list_counts() -> None:
    def shortens(xs: list[Tensor]) -> Tensor:
        return xs.pop()

    def takes_the_last(xs: list[Tensor]) -> Tensor:
        return xs[-1]

    called = student(shortens)
    called([torch.ones(1), torch.zeros(1)])
    assert equals(shortens, called.calls, reference)
    assert not equals(takes_the_last, called.calls, reference)


def raising(error: type[Exception], text: str) -> Answer:
    def answer(q: Tensor, k: Tensor, v: Tensor) -> Any:
        raise error(text)

    return answer


def test_exceptions_match_by_kind_and_text() -> None:
    calls = calls_of(raising(ValueError, "no mask"))
    assert equals(raising(ValueError, "no mask"), calls, reference)
    assert not equals(raising(ValueError, "another"), calls, reference)
    assert not equals(raising(TypeError, "no mask"), calls, reference)
    assert not equals(reference, calls, reference)
    assert not equals(raising(ValueError, "no mask"), calls_of(reference), reference)


@pytest.mark.parametrize("raised", [{"type": "ValueError"}, {"bases": None}, {"bases": [[1]]}, "ValueError", 7, []])
def test_a_description_of_an_exception_that_makes_no_sense_names_nothing_and_stops_nothing(raised: object) -> None:
    [first, *others] = calls_of(raising(ValueError, "no"))
    calls = [Call(first.request, ({**first.reply[0], "raised": raised}, first.reply[1])), *others]
    refuses = raising(ValueError, "no")
    assert find_mistake(calls, known(no_scale, refuses), refuses) is None
    assert find_mistake(calls, known(no_scale), reference) is None


def test_where_an_error_is_due_the_words_of_a_refusal_do_not_matter() -> None:
    calls = calls_of(raising(AssertionError, "E must be divisible by num_heads"))
    refuses = raising(ValueError, "10 features can't be dealt out to 3 heads")
    assert equals(raising(ValueError, "no"), calls, refuses)
    assert not equals(raising(ValueError, "no"), calls, reference)
    assert not equals(raising(RuntimeError, "no"), calls, refuses)
    assert find_mistake(calls, known(raising(ValueError, "no")), refuses) is None


def test_an_exception_of_torch_is_the_same_wherever_it_was_raised() -> None:
    def transposed(q: Tensor, k: Tensor, v: Tensor) -> Any:
        return q @ k

    def transposed_elsewhere(q: Tensor, k: Tensor, v: Tensor) -> Any:
        return torch.einsum("bqd,bkd->bqk", q, k), torch.matmul(q, k)

    assert named(transposed_elsewhere, known(transposed)) == "transposed"


def test_an_exception_of_the_backward_pass_counts() -> None:
    class Stuck(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 1

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            raise ValueError("stuck")

    def stuck(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        out, weights = no_scale(q, k, v)
        return Stuck.apply(out), weights

    assert named(stuck) is None
    assert named(stuck, known(stuck)) == "stuck"


def test_random_answers_are_compared_under_their_seeds() -> None:
    def dropout(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        out, weights = reference(q, k, v)
        return torch.nn.functional.dropout(out, 0.5), weights

    assert named(dropout) is None
    assert named(dropout, known(dropout)) == "dropout"


def test_infinities_and_not_a_number_are_equal_to_themselves() -> None:
    def broken(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        out, weights = no_scale(q, k, v)
        return out / 0 * 0, weights / 0

    assert named(broken, known(no_scale, broken)) == "broken"


@pytest.mark.parametrize(
    ("value", "near", "far"),
    [
        (1.0, 1.0 + 1e-12, 1.001),
        (float("nan"), float("nan"), 0.0),
        (3, 3, 4),
        (1, 1, True),
        (True, True, 1),
        ("a", "a", "b"),
        (None, None, 0),
        ([1, (2,)], [1, (2,)], [1, [2]]),
        ({"a": 1, "b": 2}, {"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (torch.tensor([1 + 1j]), torch.tensor([1 + 1j + 1e-7]), torch.tensor([1 - 1j])),
        (torch.tensor([1]), torch.tensor([1]), torch.tensor([2])),
    ],
    ids=str,
)
def test_values_of_every_kind_are_compared(value: Any, near: Any, far: Any) -> None:
    called = student(lambda: value)
    called()
    assert equals(lambda: near, called.calls, reference)
    assert not equals(lambda: far, called.calls, reference)


def test_the_search_leaves_the_recorded_calls_as_they_were() -> None:
    def in_place(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            q.zero_()
        return q.detach(), k

    calls = calls_of(in_place)
    before = [(json.dumps(call.request[0]), call.request[1], call.reply[1]) for call in calls]
    find_mistake(calls, [*MISTAKES, *known(in_place)], reference)
    assert [(json.dumps(call.request[0]), call.request[1], call.reply[1]) for call in calls] == before


def test_a_mistake_with_a_wrong_number_of_arguments_is_just_another() -> None:
    def needs_four(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Any:
        return q

    assert named(no_scale, [*known(needs_four), *MISTAKES]) == "no_scale"


def test_what_our_own_functions_came_to_is_kept_within_a_bound_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    told = diagnosis._Told()
    monkeypatch.setattr(diagnosis, "_told", told)
    assert named(no_scale) == "no_scale"
    everything = told.bytes
    assert everything == sum(said.size for said in told.said.values()) > 4 * 2 * 5 * 4 * 8
    monkeypatch.setattr(diagnosis, "MAX_TOLD_BYTES", everything // 2)
    assert named(no_scale_in_other_words) == "no_scale"
    assert told.bytes <= everything // 2
    assert told.bytes == sum(said.size for said in told.said.values())


def test_a_mistake_that_gets_no_memory_says_nothing_and_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    told = diagnosis._Told()
    monkeypatch.setattr(diagnosis, "_told", told)

    def hungry(q: Tensor, k: Tensor, v: Tensor) -> Any:
        return torch.ones(1 << 55)

    with pytest.raises(MemoryError):
        named(no_scale, known(hungry))
    assert not [answer for answer, _ in told.said if answer is hungry]
