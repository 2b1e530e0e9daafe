"""The student's function through the border: as if it were called here, gradients and changed inputs included."""

from __future__ import annotations

import contextlib
import functools
import gc
import json
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest
import torch
from torch import Tensor

from autograder.channel import proxy
from autograder.channel.codec import Unsupported
from autograder.channel.frames import ProtocolError
from autograder.channel.proxy import ForbiddenCalled, Student, StudentRaised
from tests.channel.endpoint import InProcess, student


def attend(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    weights = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]), dim=-1)
    return weights @ v, weights


def nested(depth: int) -> Any:
    tree: Any = []
    for _ in range(depth):
        tree = [tree]
    return tree


def leaf(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()


def gradients(function: Callable[..., Any], inputs: list[Tensor]) -> list[Tensor | None]:
    out, weights = function(*inputs)
    return list(torch.autograd.grad(out.sin().sum() + weights.pow(3).sum(), inputs, allow_unused=True))


# Values


def test_results_are_those_of_the_function() -> None:
    q, k, v = leaf(2, 3, 4), leaf(2, 5, 4, seed=1), leaf(2, 5, 6, seed=2)
    for ours, theirs in zip(student(attend)(q, k, v), attend(q, k, v), strict=True):
        assert torch.equal(ours, theirs)


def test_arguments_by_name_and_of_every_plain_kind_arrive() -> None:
    def answer(*args: Any, **kwargs: Any) -> Any:
        return args, kwargs

    args, kwargs = student(answer)(1, None, [True, (2.5,)], mask={"a": "b"}, nan=math.nan)
    assert args == (1, None, [True, (2.5,)])
    assert kwargs["mask"] == {"a": "b"}
    assert math.isnan(kwargs["nan"])


def test_what_cannot_cross_arrives_with_its_reason() -> None:
    result = student(lambda x: {"array": x.numpy(), "lazy": (i for i in x), "module": torch.nn.ReLU()})(torch.ones(2))
    assert result["array"] == Unsupported("numpy.ndarray", "numpy")
    assert [result[name].reason for name in ("lazy", "module")] == ["generator", "other"]


def test_the_function_sees_the_strides_and_aliasing_of_its_arguments() -> None:
    def answer(a: Tensor, b: Tensor, c: Tensor) -> Any:
        return a is b, a.is_contiguous(), a.stride(), c.data_ptr() - a.data_ptr(), a.requires_grad, a.is_leaf

    whole = torch.zeros(6, 4)
    x = whole.T
    assert student(answer)(x, x, whole[1:]) == (True, False, (1, 4), 16, False, True)


def test_random_answers_are_repeatable_and_differ_from_call_to_call() -> None:
    first, again = student(torch.rand_like), student(torch.rand_like)
    x = torch.zeros(4)
    a, b = first(x), first(x)
    assert torch.equal(a, again(x))
    assert torch.equal(b, again(x))
    assert not torch.equal(a, b)


# Changed inputs


def add_one(x: Tensor, *_: Any) -> None:
    x.add_(1)


def test_an_input_changed_in_place_is_changed_here_and_noted() -> None:
    answer, x, other = student(add_one), torch.zeros(3), torch.zeros(3)
    answer(x, other)
    assert x.tolist() == [1, 1, 1]
    assert other.tolist() == [0, 0, 0]
    assert answer.changed_inputs == ["argument 1"]


def test_arguments_are_called_by_the_names_of_the_exercise_where_these_are_known() -> None:
    def answer(q: Tensor, ks: list[Tensor], *rest: Tensor, scale: Tensor) -> None:
        for x in (q, *rest, scale):
            x.add_(1)
        raise ValueError("no")

    called = Student("answer", InProcess(answer), parameters=("query", "keys"))
    with pytest.raises(StudentRaised) as raised:
        keys = [torch.zeros(2, 3), torch.zeros(4, 3)]
        called(torch.zeros(1, 3), keys, torch.zeros(5, dtype=torch.int64), scale=torch.zeros(()))
    assert called.changed_inputs == ["query", "argument 3", "scale"]
    assert raised.value.called_with == (
        "query (1, 3), keys (2, 3), keys (4, 3), argument 3 (5,), scale () in float32, int64"
    )


def test_an_untouched_input_is_not_noted() -> None:
    answer = student(attend)
    answer(leaf(2, 2), leaf(2, 2), leaf(2, 2))
    answer(*(torch.full((2, 2), math.nan) for _ in range(3)))
    assert answer.changed_inputs == []


def test_a_change_through_one_of_several_views_reaches_them_all() -> None:
    answer, whole = student(add_one), torch.zeros(6)
    answer(whole[:3], whole[2:])
    assert whole.tolist() == [1, 1, 1, 0, 0, 0]
    assert answer.changed_inputs == ["argument 1", "argument 2"]


def test_a_change_beside_the_slice_that_was_passed_is_seen() -> None:
    def answer(x: Tensor) -> None:
        x.as_strided((8,), (1,), 0).fill_(9)

    whole = torch.zeros(8)
    called = student(answer)
    called(whole[4:6])
    assert whole.tolist() == [9] * 8
    assert called.changed_inputs == ["argument 1"]


def test_a_change_of_a_non_contiguous_input_lands_in_its_place() -> None:
    whole = torch.zeros(2, 3)
    student(lambda x: x[0].fill_(5))(whole.T)
    assert whole.tolist() == [[5, 0, 0], [5, 0, 0]]


def test_a_change_of_bool_and_integer_inputs_is_seen() -> None:
    mask, ids = torch.tensor([True, False]), torch.tensor([1, 2])
    answer = student(lambda mask, ids: (mask.logical_not_(), ids.zero_()))
    answer(mask, ids=ids)
    assert mask.tolist() == [False, True]
    assert answer.changed_inputs == ["argument 1", "ids"]


def test_a_change_inside_a_list_is_noted_by_its_argument() -> None:
    answer = student(lambda xs, d: xs[1].add_(1))
    answer([torch.zeros(1), torch.zeros(1)], {"a": torch.zeros(1)})
    assert answer.changed_inputs == ["argument 1"]


def test_a_change_made_before_an_exception_is_seen() -> None:
    def answer(x: Tensor) -> None:
        x.zero_()
        raise ValueError("too late")

    x, called = torch.ones(2), student(answer)
    with pytest.raises(StudentRaised):
        called(x)
    assert x.tolist() == [0, 0]
    assert called.changed_inputs == ["argument 1"]


@pytest.mark.parametrize(
    "change",
    [
        lambda x, items, table: x.unsqueeze_(0),
        lambda x, items, table: x.t_(),
        lambda x, items, table: x.requires_grad_(),
        lambda x, items, table: setattr(x, "data", x * 2),
        lambda x, items, table: x.set_(torch.zeros(2, 3)),
        lambda x, items, table: items.append(3),
        lambda x, items, table: items.clear(),
        lambda x, items, table: items.__setitem__(0, 7),
        lambda x, items, table: table.update(b=2),
        lambda x, items, table: table.pop("a"),
    ],
    ids=["unsqueeze", "transpose", "grad", "data", "set", "append", "clear", "item", "new_key", "pop"],
)
def test_a_changed_shape_or_container_is_noted(change: Callable[..., Any]) -> None:
    def changing(*args: Any) -> None:
        change(*args)

    answer = student(changing)
    answer(torch.zeros(2, 3), [1, 2], {"a": 1})
    assert answer.changed_inputs == ["the shape of an argument"]


def test_an_input_that_was_given_other_data_comes_back_with_it() -> None:
    def answer(x: Tensor) -> Tensor:
        x.data = x.data * 2
        return x

    x = torch.ones(2)
    assert student(answer)(x).tolist() == [2, 2]
    assert x.tolist() == [1, 1]


def test_an_input_that_was_transposed_in_place_comes_back_transposed() -> None:
    result = student(lambda x: x.t_())(torch.arange(6.0).view(2, 3))
    assert result.tolist() == [[0, 3], [1, 4], [2, 5]]


def test_an_input_whose_storage_was_set_anew_comes_back_with_it() -> None:
    result = student(lambda x: x.set_(torch.full((2, 2), 7.0)))(torch.zeros(3))
    assert result.tolist() == [[7, 7], [7, 7]]


@pytest.mark.parametrize("size", [0, 3])
def test_an_input_that_cannot_be_resized_is_the_students_exception(size: int) -> None:
    with pytest.raises(StudentRaised, match="not resizable"):
        student(lambda x: x.resize_(100))(torch.empty(size))


def test_an_input_that_is_broken_by_a_failed_resize_comes_back_as_no_tensor() -> None:
    def answer(x: Tensor) -> Tensor:
        try:
            return x.resize_(100)
        except RuntimeError:
            return x

    assert student(answer)(torch.zeros(3)) == Unsupported("torch.Tensor", "other")


def twisted(twist: Callable[[Tensor], object]) -> Callable[[Tensor], Tensor]:
    def answer(x: Tensor) -> Tensor:
        with torch.no_grad():
            twist(x)
        return x * torch.arange(1.0, 1 + x.numel()).view(x.shape)

    return answer


TWISTS: dict[str, tuple[Callable[[Tensor], object], list[float]]] = {
    "t": (lambda x: x.t_(), [1, 3, 5, 2, 4, 6]),
    "transpose": (lambda x: x.transpose_(0, 1), [1, 3, 5, 2, 4, 6]),
    "swapaxes": (lambda x: x.swapaxes_(0, 1), [1, 3, 5, 2, 4, 6]),
    "unsqueeze": (lambda x: x.unsqueeze_(0), [1, 2, 3, 4, 5, 6]),
    "data": (lambda x: setattr(x, "data", x.data.mT), [1, 3, 5, 2, 4, 6]),
}


@pytest.mark.parametrize("name", TWISTS)
def test_gradients_of_an_input_that_was_twisted_in_place_arrive_in_its_own_shape(name: str) -> None:
    twist, gradient = TWISTS[name]
    x = torch.arange(6.0).view(2, 3).requires_grad_()
    called = student(twisted(twist))
    (found,) = torch.autograd.grad(called(x).sum(), x)
    assert found.shape == (2, 3) and found.flatten().tolist() == gradient
    assert called.changed_inputs == ["the shape of an argument"]


@pytest.mark.parametrize("other", [lambda x: x.set_(torch.ones(4)), lambda x: setattr(x, "data", torch.ones(5))])
def test_an_input_that_looks_into_other_memory_gets_no_gradient(other: Callable[[Tensor], object]) -> None:
    x = torch.arange(6.0).view(2, 3).requires_grad_()
    called = student(twisted(other))
    assert torch.autograd.grad(called(x).sum(), x, allow_unused=True) == (None,)
    assert called.changed_inputs == ["the shape of an argument"]


def test_an_input_that_was_squeezed_or_transposed_to_the_same_shape_is_noted() -> None:
    x = torch.arange(4.0).view(1, 2, 2).requires_grad_()
    called = student(twisted(lambda x: x.squeeze_(0).t_()))
    assert torch.autograd.grad(called(x).sum(), x)[0].tolist() == [[[1, 3], [2, 4]]]
    assert called.changed_inputs == ["the shape of an argument"]


def test_a_class_that_was_put_over_an_input_is_noted_and_never_asked() -> None:
    def asked(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("asked")

    class Lie(Tensor):
        shape = property(asked)  # type: ignore[assignment]
        untyped_storage = stride = detach = asked
        __torch_function__ = classmethod(asked)  # type: ignore[assignment]

    def answer(x: Tensor) -> Tensor:
        x.__class__ = Lie  # type: ignore[assignment]
        return x

    called = student(answer)
    assert called(torch.ones(2)).tolist() == [1, 1]
    assert called.changed_inputs == ["the shape of an argument"]


# Results that are inputs


def test_an_input_that_is_handed_back_shares_our_memory_and_carries_gradients() -> None:
    x = leaf(3)
    y = student(lambda x: x)(x)
    assert y.data_ptr() == x.data_ptr()
    assert torch.autograd.grad((2 * y).sum(), x)[0].tolist() == [2, 2, 2]


def test_a_view_of_an_input_shares_our_memory() -> None:
    x = torch.arange(6.0).view(2, 3)
    y = student(lambda x: x.T[1:])(x)
    assert y.tolist() == [[1, 4], [2, 5]]
    x[0, 1] = 9
    assert y[0, 0] == 9


def test_results_that_are_views_of_one_another_stay_so() -> None:
    def answer(x: Tensor) -> Any:
        y = x * 2
        return y, y[1:], y

    a, b, c = student(answer)(torch.ones(3))
    assert a is c
    a[1] = 5
    assert b[0] == 5


def test_gradients_flow_through_results_that_are_views_of_one_another() -> None:
    def answer(x: Tensor) -> Any:
        y = x * x
        return y, y[1:], x, x[:1]

    x, here = leaf(3), leaf(3)
    found = [
        torch.autograd.grad(sum(out.sum() * n for n, out in enumerate(outs, 1)), source)[0]  # type: ignore[arg-type]
        for outs, source in ((student(answer)(x), x), (answer(here), here))
    ]
    assert torch.equal(*found)


def test_an_input_changed_in_place_and_handed_back_has_its_new_values() -> None:
    x = torch.zeros(2)
    assert student(lambda x: x.add_(1))(x).tolist() == [1, 1]


# Gradients


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4), (2, 2, 3, 4)], ids=str)
def test_gradients_of_self_attention_are_those_of_the_function(shape: tuple[int, ...]) -> None:
    x, here = leaf(*shape), leaf(*shape)
    (ours,), (theirs,) = (gradients(lambda x, f=f: f(x, x, x), [y]) for f, y in ((student(attend), x), (attend, here)))
    assert torch.equal(ours, theirs)  # type: ignore[arg-type]


def test_gradients_of_non_contiguous_inputs_are_those_of_the_function() -> None:
    def parts(x: Tensor) -> list[Tensor]:
        return [x.transpose(1, 2)[:, :3, ::2], x[:, :2].mT.flip(1)[:, :, :1].expand(-1, -1, 2), x[:, 1:3].mT]

    x, here = leaf(2, 4, 5), leaf(2, 4, 5)
    (ours,), (theirs,) = (
        gradients(lambda x, f=f: f(*parts(x)), [y]) for f, y in ((student(attend), x), (attend, here))
    )
    assert torch.allclose(ours, theirs)  # type: ignore[arg-type]


def test_inputs_that_are_not_leaves_pass_gradients_on() -> None:
    x = leaf(3)
    out = student(lambda y: y * y)(x * 3)
    assert torch.allclose(torch.autograd.grad(out.sum(), x)[0], 18 * x)


def test_an_unused_input_gets_no_gradient() -> None:
    q, k, v = leaf(2, 2), leaf(2, 2), leaf(2, 2)
    _, weights = student(attend)(q, k, v)
    found = torch.autograd.grad(weights.sum(), [q, k, v], allow_unused=True)
    assert found[0] is not None
    assert found[2] is None


def test_inputs_that_need_no_gradient_get_none() -> None:
    q, k = leaf(2, 2), leaf(2, 2).detach()
    out, _ = student(attend)(q, k, k)
    out.sum().backward()
    assert q.grad is not None
    assert k.grad is None


def test_complex_numbers_carry_gradients() -> None:
    def turn(z: Tensor) -> Tensor:
        return (z * 1j).abs().square()

    z = torch.tensor([1 + 2j, 3 - 1j], requires_grad=True)
    answer = student(turn)
    (ours,) = torch.autograd.grad(answer(z).sum(), z)
    assert torch.allclose(ours, 2 * z)
    assert answer.changed_inputs == []


def test_a_detached_result_carries_none() -> None:
    x = leaf(2)
    a, b = student(lambda x: ((x * 2).detach(), x * 2))(x)
    assert not a.requires_grad
    assert b.requires_grad


def test_without_grad_nothing_is_recorded() -> None:
    x = leaf(2)
    with torch.no_grad():
        assert not student(lambda x: x * 2)(x).requires_grad


def test_several_backward_passes_through_one_call_agree() -> None:
    x = leaf(3)
    y = student(lambda x: x**3)(x)
    first, second = (torch.autograd.grad(y.sum(), x, retain_graph=True)[0] for _ in range(2))
    assert torch.equal(first, second)
    assert torch.allclose(first, 3 * x**2)


def test_gradcheck_accepts_the_function() -> None:
    inputs = leaf(2, 3), leaf(2, 3, seed=1), leaf(2, 2, seed=2)
    assert torch.autograd.gradcheck(student(attend), inputs)


def test_gradients_of_bfloat16_and_float32_keep_their_dtype() -> None:
    for dtype in (torch.float32, torch.bfloat16):
        x = torch.ones(2, dtype=dtype, requires_grad=True)
        assert torch.autograd.grad(student(lambda x: x * 2)(x).sum(), x)[0].dtype == dtype


class BadBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 1

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        raise ValueError("no way back")


def test_an_exception_of_the_backward_pass_arrives_as_the_students() -> None:
    x = leaf(2)
    y = student(BadBackward.apply)(x)
    with pytest.raises(StudentRaised, match="no way back"):
        y.sum().backward()


def own_backward(gradient: Callable[[Tensor], Any]) -> Callable[[Tensor], Any]:
    class Own(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            return gradient(grad)

    return Own.apply  # type: ignore[no-any-return]


class Sub(Tensor):
    pass


ODD_GRADIENTS: dict[str, tuple[Callable[[Tensor], Any], str]] = {
    "another_shape": (lambda grad: grad[:1].repeat(5), "invalid gradient"),
    "no_tensor": (lambda grad: 7, "expected Variable"),
    "a_subclass": (lambda grad: grad.as_subclass(Sub), "no plain tensor"),
    "a_meta_tensor": (lambda grad: grad.to("meta"), "meta"),
    "too_many": (lambda grad: (grad, grad, grad), "incorrect number of gradients"),
    "an_exit": (lambda grad: exit(3), "3"),
    "the_text_of_a_lie": (lambda grad: (_ for _ in ()).throw(KeyError("x")), "x"),
}


@pytest.mark.parametrize("name", ODD_GRADIENTS)
def test_a_backward_pass_that_gives_no_gradient_is_an_exception_of_the_students(name: str) -> None:
    gradient, says = ODD_GRADIENTS[name]
    y = student(own_backward(gradient))(leaf(2))
    for _ in range(2):
        with pytest.raises(StudentRaised, match=says):
            y.sum().backward(retain_graph=True)


def test_no_gradient_infinite_and_sparse_ones_arrive_as_they_are() -> None:
    def back(gradient: Callable[[Tensor], Any]) -> Any:
        x = leaf(2)
        return torch.autograd.grad(student(own_backward(gradient))(x).sum(), x, allow_unused=True)[0]

    assert back(lambda grad: None) is None
    assert back(lambda grad: grad / 0).tolist() == [math.inf, math.inf]
    assert back(lambda grad: grad.to_sparse()).tolist() == [1, 1]


def test_a_backward_pass_that_differs_from_time_to_time_is_asked_each_time() -> None:
    times: list[int] = []
    x = leaf(2)
    y = student(own_backward(lambda grad: times.append(1) or grad * len(times)))(x)  # type: ignore[func-returns-value]
    found = [torch.autograd.grad(y.sum(), x, retain_graph=True)[0].tolist() for _ in range(3)]
    assert found == [[1, 1], [2, 2], [3, 3]]


def test_a_backward_pass_that_changes_what_it_is_given_changes_nothing_of_ours() -> None:
    x, cotangent = leaf(2), torch.ones(2, dtype=torch.float64)
    y = student(own_backward(lambda grad: grad.mul_(7)))(x)
    assert torch.autograd.grad(y, x, cotangent)[0].tolist() == [7, 7]
    assert cotangent.tolist() == [1, 1]


# Graphs


def test_the_graph_of_a_call_is_freed_when_its_results_are_gone() -> None:
    endpoint = InProcess(attend)
    answer = Student("answer", endpoint)
    x = leaf(2, 2)
    kept, _ = answer(x, x, x)
    lost, _ = answer(x, x, x)
    del lost, _
    gc.collect()
    answer(x, x, x)
    assert 0 in endpoint.callee._graphs
    assert 1 not in endpoint.callee._graphs
    torch.autograd.grad(kept.sum(), x)


def test_a_graph_that_no_result_can_need_is_freed_at_once() -> None:
    def answer(x: Tensor, how: str) -> Any:
        if how == "raise":
            raise ValueError
        return None if how == "none" else x.detach() * 2

    endpoint = InProcess(answer)
    called = Student("answer", endpoint)
    for how in ("none", "detach", "none"):
        called(leaf(2), how)
    with pytest.raises(StudentRaised):
        called(leaf(2), "raise")
    gc.collect()
    with torch.no_grad():
        called(leaf(2), "none")
    called(leaf(2), "none")
    assert list(endpoint.callee._graphs) == [5]


# Exceptions


class Odd(ValueError):
    pass


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def raises(error: BaseException) -> StudentRaised:
    def answer() -> None:
        raise error

    with pytest.raises(StudentRaised) as info:
        student(answer)()
    return info.value


@pytest.mark.parametrize(
    ("error", "type_name", "bases", "text"),
    [
        (Odd("odd"), "Odd", ("ValueError", "Exception", "BaseException"), "odd"),
        (KeyError("k"), "KeyError", ("KeyError", "LookupError", "Exception", "BaseException"), "'k'"),
        (SystemExit(3), "SystemExit", ("SystemExit", "BaseException"), "3"),
        (KeyboardInterrupt(), "KeyboardInterrupt", ("KeyboardInterrupt", "BaseException"), ""),
        (GeneratorExit(), "GeneratorExit", ("GeneratorExit", "BaseException"), ""),
        (Unspeakable(), "Unspeakable", ("Exception", "BaseException"), ""),
        (ValueError("x" * 10_000), "ValueError", ("ValueError", "Exception", "BaseException"), "x" * 2000),
        (
            ValueError("\ud800 注意"),
            "ValueError",
            ("ValueError", "Exception", "BaseException"),
            "\ud800 注意",
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_an_exception_arrives_as_plain_values(
    error: BaseException, type_name: str, bases: tuple[str, ...], text: str
) -> None:
    raised = raises(error)
    assert (raised.type_name, raised.bases, raised.message, raised.line) == (type_name, bases, text, None)


def test_a_recursion_without_end_is_an_exception_like_others() -> None:
    def answer() -> Any:
        return answer()

    with pytest.raises(StudentRaised, match="RecursionError"):
        student(answer)()


# Hostile replies


REPLY_TAMPERING: dict[str, Callable[[dict[str, Any]], object]] = {
    "forbidden_is_a_number": lambda reply: reply.update(forbidden=5),
    "forbidden_is_text": lambda reply: reply.update(forbidden="ab"),
    "forbidden_is_empty": lambda reply: reply.update(forbidden=[]),
    "forbidden_holds_no_pairs": lambda reply: reply.update(forbidden=[["a"]]),
    "raised_is_null": lambda reply: reply.update(raised=None),
    "raised_is_a_list": lambda reply: reply.update(raised=[]),
    "no_result": lambda reply: reply.pop("result"),
    "result_is_a_list": lambda reply: reply.update(result=[1]),
    "unknown_tensor": lambda reply: reply.update(result={"t": "tensor", "i": 9}),
    "no_storages": lambda reply: reply.pop("storages"),
    "storages_of_text": lambda reply: reply.update(storages=["8"]),
    "storages_too_many": lambda reply: reply["storages"].append(8),
    "no_tensors": lambda reply: reply.pop("tensors"),
    "no_changed": lambda reply: reply.pop("changed"),
    "changed_is_text": lambda reply: reply.update(changed="0"),
    "changed_twice": lambda reply: reply.update(changed=[0, 0]),
    "changed_unknown": lambda reply: reply.update(changed=[1]),
    "changed_negative": lambda reply: reply.update(changed=[-1]),
    "changed_true": lambda reply: reply.update(changed=[False]),
    "beside_is_text": lambda reply: reply.update(beside="ab"),
    "beside_is_longer_than_what_is_watched": lambda reply: reply.update(beside=["ab"]),
    "changed_without_bytes": lambda reply: reply.update(changed=[]),
    "forbidden_is_of_another_name": lambda reply: reply.update(forbidden=[["Full marks", 1]]),
    "changed_by_a_float": lambda reply: reply.update(changed=[0.0]),
    "changed_by_nested_lists": lambda reply: reply.update(changed=[[[0]]]),
    "storages_of_floats": lambda reply: reply.update(storages=[8.0]),
    "storages_of_truth": lambda reply: reply.update(storages=[True]),
    "storages_beyond_64_bits": lambda reply: reply.update(storages=[2**64]),
    "storages_below_zero": lambda reply: reply.update(storages=[-8, 16]),
}


@pytest.mark.parametrize("name", REPLY_TAMPERING)
def test_a_reply_that_makes_no_sense_is_refused(name: str) -> None:
    endpoint = InProcess(lambda x: x.add_(1) * 2)
    endpoint.tamper = REPLY_TAMPERING[name]
    with pytest.raises(ProtocolError):
        Student("answer", endpoint)(torch.zeros(2))


def test_numbers_that_were_never_sent_are_refused_before_they_go_into_a_set() -> None:
    # Multiples of 2**61 - 1 all meet in one place of a set, where each is held against all before it.
    endpoint = InProcess(lambda x: x * 2)
    endpoint.tamper = lambda reply: reply.update(changed=[2**61 - 1] * 2)
    with pytest.raises(ProtocolError, match="never sent"):  # and not "twice", which a set finds out
        Student("answer", endpoint)(torch.zeros(2))


NONSENSE = [
    [],
    {},
    None,
    -1,
    0,
    7,
    1.5,
    2**70,
    True,
    "text",
    "tensor",
    math.nan,
    [[]],
    [{}],
    nested(sys.getrecursionlimit() - 20),
]


def answers(how: str, x: Tensor) -> Any:
    """A function whose replies have, together, every field that a reply may have."""
    x.data.add_(1)
    if how == "raises":
        raise ValueError("x")
    return {"a": [x * 2, (1, None)], (1, "b"): object()}


def places(tree: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The ways to all parts of a tree."""
    parts = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for name, part in parts:
        yield (*way, name)
        yield from places(part, (*way, name))


def put(tree: Any, way: tuple[Any, ...], value: Any) -> None:
    for name in way[:-1]:
        tree = tree[name]
    tree[way[-1]] = value


def fields(how: str, backward: bool) -> list[tuple[Any, ...]]:
    """The ways to all fields of the reply to such a call, or to its backward pass."""
    replies: list[Any] = []
    converse(how, backward, replies.append)
    return list(places({"forbidden": [["abs", 1]], **replies[0]}))


def converse(how: str, backward: bool, tamper: Callable[[dict[str, Any]], object]) -> None:
    endpoint = InProcess(functools.partial(answers, "raises" if how == "raises" and not backward else "returns"))
    called = Student("answer", endpoint, ["abs"])
    if not backward:
        endpoint.tamper = tamper
    x = leaf(2)
    try:
        result = called(x)
        if backward:
            endpoint.tamper = (
                (lambda reply: (reply.update(raised={"type": "E", "bases": [], "text": ""}), tamper(reply)))
                if how == "raises"
                else tamper
            )
            result["a"][0].sum().backward()
    except (ProtocolError, StudentRaised, ForbiddenCalled):
        return


@pytest.mark.parametrize("how", ["returns", "raises"])
@pytest.mark.parametrize("backward", [False, True])
def test_whatever_stands_in_a_field_of_a_reply_the_fault_is_the_replys(how: str, backward: bool) -> None:
    for way in fields(how, backward):
        for value in NONSENSE:

            def tamper(reply: dict[str, Any], way: tuple[Any, ...] = way, value: Any = value) -> None:
                if way[0] == "forbidden":
                    reply["forbidden"] = [["abs", 1]]
                put(reply, way, value)

            try:
                converse(how, backward, tamper)
            except Exception as error:
                raise AssertionError(f"{way} = {str(value)[:20]}") from error


def test_a_raised_that_is_full_of_nonsense_is_still_an_exception() -> None:
    endpoint = InProcess(lambda x: x)
    endpoint.tamper = lambda reply: reply.update(raised={"type": [1], "bases": [{}, 3], "text": 5, "line": "x"})
    with pytest.raises(StudentRaised) as info:
        Student("answer", endpoint)(torch.zeros(2))
    assert info.value.line is None


NAMES = ["Full marks were given", "a\nb", "x\u202ey", [1], None, "", "A" * 70_000]


@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name)[:20])
def test_an_exceptions_class_is_called_by_what_looks_like_a_name(name: Any) -> None:
    endpoint = InProcess(lambda x: x)
    raised = {"type": name, "bases": [name], "text": "x" * 9_000, "line": 2**64, "code": "`x`\n" * 900}
    endpoint.tamper = lambda reply: reply.update(raised=raised)
    with pytest.raises(StudentRaised) as info:
        Student("answer", endpoint)(torch.zeros(2))
    assert info.value.type_name == "Exception" and info.value.bases == ("?",)
    assert len(info.value.message) == 2_000 and info.value.line is None and info.value.code == "'x'"


def test_what_raises_by_hand_is_told_from_what_raises_by_itself() -> None:
    def fails() -> Any:
        return [0] * (1 << 60)

    assert raises(MemoryError()).by_hand
    with pytest.raises(StudentRaised) as info:
        student(fails)()
    assert info.value.type_name == "MemoryError" and not info.value.by_hand


def test_what_is_kept_of_the_replies_is_bounded_by_what_they_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy, "MAX_RECORDED", 6 << 20)
    endpoint = InProcess(lambda how: [0] * 9_000 if how == "values" else torch.zeros(3 << 18))
    endpoint.tamper = lambda reply: reply.update(junk=[[]] * 100_000, restructured=[[]] * 100_000)
    for how in ("values", "numbers"):
        called = Student("answer", endpoint)
        called(how)
        assert len(called.calls) == 1 and "junk" not in called.calls[0].reply[0]
        assert called.calls[0].reply[0]["restructured"] is True
        for _ in range(4):
            called(how)
        assert called.calls == []


JUNK: Any = [["x" * 100]] * 10_000


@pytest.mark.parametrize("field", ["grads", "forbidden", "result", "raised", "junk"])
@pytest.mark.parametrize("how", ["returns", "raises"])
def test_nothing_that_was_not_checked_is_kept_of_a_call(field: str, how: str) -> None:
    kept = {"forbidden": [["abs", 1], *JUNK], "raised": {"type": "E", "bases": JUNK, "text": "", "x": JUNK}}
    if (field, how) == ("result", "returns"):
        kept["result"] = {"t": "other", "type": JUNK, "why": JUNK}
    endpoint = InProcess(functools.partial(answers, how))
    endpoint.tamper = lambda reply: reply.update({field: kept.get(field, JUNK)})
    called = Student("answer", endpoint, ["abs"])
    with contextlib.suppress(ProtocolError, StudentRaised, ForbiddenCalled):
        called(leaf(2))
    assert all(len(json.dumps(call.reply[0])) < 2_000 for call in called.calls)


@pytest.mark.parametrize("field", ["result", "changed", "restructured", "forbidden", "junk"])
@pytest.mark.parametrize("raised", [False, True])
def test_nothing_that_was_not_checked_is_kept_of_a_backward_pass(field: str, raised: bool) -> None:
    endpoint = InProcess(lambda x: x * 2)
    called, x = Student("answer", endpoint, ["abs"]), leaf(2)
    y = called(x)
    junk = {field: [["abs", 1], *JUNK] if field == "forbidden" else JUNK}
    endpoint.tamper = lambda reply: reply.update(junk, **({"raised": {"text": ""}} if raised else {}))
    with contextlib.suppress(StudentRaised, ForbiddenCalled):
        y.sum().backward()
    [call] = called.calls
    assert all(len(json.dumps(reply[0])) < 2_000 for _, reply in call.backwards)
    assert call.backwards or field == "forbidden"


def test_what_is_kept_of_exceptions_and_empty_tables_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy, "MAX_RECORDED", 1 << 20)

    def fails() -> None:
        raise ValueError("\N{GRINNING FACE}" * 2_000)

    tables = lambda reply: reply["storages"].extend([0] * 9_000)  # noqa: E731
    for function, tamper, most in ((fails, lambda reply: None, 100), (lambda: 1, tables, 3)):
        endpoint = InProcess(function)
        endpoint.tamper = tamper
        called = Student("answer", endpoint)
        for _ in range(most):
            with contextlib.suppress(StudentRaised):
                called()
        assert called.calls == []


def test_a_changed_bool_input_of_other_bytes_is_refused() -> None:
    endpoint = InProcess(lambda mask: mask.view(torch.uint8).fill_(2))
    with pytest.raises(ProtocolError, match="bool"):
        Student("answer", endpoint)(torch.tensor([True, False]))


def test_a_bool_result_that_looks_into_a_changed_input_is_checked_after_the_change() -> None:
    def answer(x: Tensor) -> Any:
        view = x.view(torch.bool)
        x.fill_(2)
        return view

    with pytest.raises(ProtocolError, match="bool"):
        student(answer)(torch.zeros(2, dtype=torch.uint8))


GRADIENT_TAMPERING: dict[str, Callable[[dict[str, Any]], object]] = {
    "no_list": lambda reply: reply.update(grads=None),
    "too_few": lambda reply: reply.update(grads=[]),
    "too_many": lambda reply: reply["grads"].append(None),
    "a_number": lambda reply: reply.update(grads=[1.5]),
    "another_shape": lambda reply: reply["tensors"][0].update(n=[1], k=[1]),
    "another_dtype": lambda reply: reply["tensors"][0].update(d="int64"),
    "complex": lambda reply: reply["tensors"][0].update(d="complex64"),
    "raised_is_text": lambda reply: reply.update(raised="x"),
}


@pytest.mark.parametrize("name", GRADIENT_TAMPERING)
def test_gradients_that_make_no_sense_are_refused(name: str) -> None:
    endpoint = InProcess(lambda x: x * x)
    x = leaf(2)
    y = Student("answer", endpoint)(x)
    endpoint.tamper = GRADIENT_TAMPERING[name]
    with pytest.raises(ProtocolError):
        y.sum().backward()


def test_a_forbidden_call_is_named_before_anything_else() -> None:
    endpoint = InProcess(lambda x: 1 / 0)
    endpoint.tamper = lambda reply: reply.update(forbidden=[["torch.softmax", 4], ["torch.bmm", None]])
    with pytest.raises(ForbiddenCalled) as info:
        Student("answer", endpoint, ["torch.softmax"])(torch.zeros(2))
    assert info.value.call == proxy.ForbiddenCall("torch.softmax", 4)


def test_numpy_scalars_and_nested_results_keep_their_form() -> None:
    result = student(lambda x: [(x, {"n": numpy.float32(0.5)})])(torch.ones(1))
    assert isinstance(result[0], tuple)
    assert result[0][1] == {"n": 0.5}
