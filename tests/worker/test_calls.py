"""Calls of a function by its inner side; the border as a whole is examined in tests/channel/test_proxy.py."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from autograder.channel import raw
from autograder.channel.codec import Encoder
from autograder.worker.calls import Callee, describe_exception
from tests.channel.endpoint import over_the_wire


def request(*args: Any, number: int = 0) -> tuple[dict[str, Any], bytes]:
    encoder = Encoder(whole=True)
    header = {"op": "call", "id": number, "seed": 1, "args": encoder.value(args), "kwargs": encoder.value({})}
    tables, blobs = encoder.tables()
    return over_the_wire({**header, **tables}, blobs)


def call(function: Callable[..., Any], *args: Any) -> dict[str, Any]:
    return Callee().call(function, *request(*args))[0]


@pytest.mark.parametrize(
    "args",
    [
        (float("nan"), -0.0),
        ((1, [2]), {"a": (None, True)}),
        (torch.ones(2, 3).T, torch.empty(0)),
        (torch.arange(9)[4:4],),
    ],
    ids=["floats", "containers", "tensors", "empty_slice"],
)
def test_arguments_that_are_left_alone_count_as_unchanged(args: Any) -> None:
    reply = call(lambda *args: None, *args)
    assert (reply["restructured"], reply["changed"]) == (False, [])


def test_nothing_is_sent_back_of_an_input_that_is_not_changed() -> None:
    _, blobs = Callee().call(lambda x: x, *request(torch.ones(1000)))
    assert blobs == []


def test_a_fill_with_the_same_values_is_no_change() -> None:
    assert call(lambda x: x.copy_(x.clone()), torch.ones(3))["changed"] == []


def test_the_functions_warnings_are_silent_and_no_exceptions() -> None:
    def answer() -> int:
        warnings.warn("deprecated", stacklevel=1)
        return 1

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert call(answer)["result"] == 1


def test_a_function_that_is_none_is_an_exception_of_the_call() -> None:
    assert call(None, 1)["raised"]["type"] == "TypeError"  # type: ignore[arg-type]


def test_a_result_with_an_exception_for_an_answer_is_no_exception() -> None:
    reply = call(lambda: ValueError("returned"))
    assert "raised" not in reply
    assert reply["result"] == {"t": "other", "type": "ValueError", "why": "other"}


def test_freeing_a_call_twice_or_one_that_never_was_does_no_harm() -> None:
    callee = Callee()
    callee.call(lambda x: x, *request(torch.ones(1)))
    callee.free([0, 0, 7])
    assert callee._graphs == {}


def asked(*args: Any, **kwargs: Any) -> Any:
    raise AssertionError("asked")


class Nosy(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, *args: Any, **kwargs: Any) -> Any:
        asked()


class Nosier(TorchDispatchMode):
    def __torch_dispatch__(self, *args: Any, **kwargs: Any) -> Any:
        asked()


@pytest.mark.parametrize("mode", [Nosy, Nosier])
def test_a_mode_that_is_entered_and_never_left_sees_nothing_of_what_becomes_of_the_result(mode: Any) -> None:
    entered = mode()

    def answer(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        entered.__enter__()
        return y

    callee, first, second = Callee(), request(torch.ones(2, 3, requires_grad=True).mT), request(torch.ones(2))
    try:
        reply, _ = callee.call(answer, *first)
        again, _ = callee.call(lambda x: 1, *second)
    finally:
        if mode is Nosier:
            entered.__exit__(None, None, None)
    assert "raised" not in reply and again["result"] == 1
    assert torch.overrides._len_torch_function_stack() == 0


def test_a_mode_of_ours_that_the_function_leaves_is_entered_again() -> None:
    class Ours(torch.overrides.TorchFunctionMode):
        pass

    with Ours() as ours:
        call(lambda: torch._C._pop_torch_function_stack())
        assert list(raw.modes().stack) == [ours]


def sets_the_device() -> str:
    torch.set_default_device("cpu")
    return str(torch.get_default_device())


def test_a_default_device_may_be_set_at_every_call_and_is_the_calls_own() -> None:
    callee = Callee()
    with torch.overrides.BaseTorchFunctionMode():  # such as a watch
        replies = [callee.call(sets_the_device, *request(number=number))[0] for number in range(3)]
        assert [reply.get("result") for reply in replies] == ["cpu"] * 3
        torch.set_default_device("cpu")  # as a later cell does
        torch.set_default_device(None)
    assert torch.overrides._len_torch_function_stack() == 0


def test_the_default_device_of_a_cell_outlives_a_call_that_sets_another() -> None:
    torch.set_default_device("meta")
    try:
        assert "raised" not in call(sets_the_device)
        assert torch.get_default_device().type == "meta"
    finally:
        torch.set_default_device(None)
    assert torch.overrides._len_torch_function_stack() == 0


SOURCE = """\
def inner(x):
    return 1 / x

def outer(x):
    y = 1
    return inner(x)

def library(x):
    import json
    return json.loads(x)
"""


def raised_by(name: str, argument: Any) -> dict[str, Any]:
    space: dict[str, Any] = {}
    exec(compile(SOURCE, "<cell 3>", "exec"), space)
    with pytest.raises(Exception) as info:
        space[name](argument)
    return describe_exception(info.value, lambda filename: filename == "<cell 3>")


def test_the_line_is_the_innermost_one_of_the_students() -> None:
    assert raised_by("outer", 0)["line"] == 2


def test_an_exception_of_a_library_names_the_students_line_that_called_it() -> None:
    described = raised_by("library", "{")
    assert described["line"] == 10
    assert (described["type"], described["bases"][0]) == ("JSONDecodeError", "ValueError")


def test_an_exception_that_never_met_a_cell_has_no_line() -> None:
    assert describe_exception(ValueError("x"), lambda filename: False)["line"] is None


def test_a_syntax_error_of_a_cell_has_the_line_where_it_stands() -> None:
    with pytest.raises(SyntaxError) as info:
        compile("x = 1\ny = (", "<cell 1>", "exec")
    assert describe_exception(info.value, lambda filename: filename == "<cell 1>")["line"] == 2
    assert describe_exception(info.value, lambda filename: False)["line"] is None


class Disguised(SyntaxError):
    __traceback__ = filename = lineno = text = msg = property(asked)  # type: ignore[assignment]
    __class__ = property(asked)  # type: ignore[assignment]


class Named(type):
    __name__ = __mro__ = property(asked)  # type: ignore[assignment]
    __getattr__ = __eq__ = __hash__ = asked  # type: ignore[assignment]


def test_nothing_but_the_text_is_asked_of_an_exception() -> None:
    described = describe_exception(Disguised("x"), lambda filename: False)
    assert described["type"] == "Disguised" and described["bases"][:2] == ["SyntaxError", "Exception"]
    odd = Named("Odd", (ValueError,), {})("x")
    assert describe_exception(odd, lambda filename: False)["bases"] == ["ValueError", "Exception", "BaseException"]


def test_a_module_whose_loader_fails_costs_the_line_alone() -> None:
    space: dict[str, Any] = {"__name__": "m", "__loader__": type("L", (), {"get_source": asked})()}
    exec(compile("def fails(): return 1 / 0", "<cell 5>", "exec"), space)
    with pytest.raises(ZeroDivisionError) as info:
        space["fails"]()
    assert describe_exception(info.value, lambda filename: True)["type"] == "ZeroDivisionError"


class StrangeText(str):
    def __getitem__(self, key: Any) -> Any:
        return object()


class Strange(Exception):
    def __str__(self) -> str:
        return StrangeText("strange")


def test_an_exception_with_a_text_of_its_own_kind_is_described_in_plain_text() -> None:
    assert type(describe_exception(Strange(), lambda filename: False)["text"]) is str
