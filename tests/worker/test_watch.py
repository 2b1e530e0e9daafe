"""The finished article is noticed while the answer runs, by whatever name it was reached; ordinary torch is not."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from autograder.worker.watch import watching

SDPA = "torch.nn.functional.scaled_dot_product_attention"
FORWARD = "torch.nn.functional.multi_head_attention_forward"
MODULE = "torch.nn.MultiheadAttention"
NAMES = [SDPA, FORWARD, MODULE]

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.trace` is deprecated")

HEAD = "import torch, math\nimport torch.nn.functional as F\nfrom torch import nn\n"
MHA = "mha = nn.MultiheadAttention(4, 2, batch_first=True).eval()\nx = torch.ones(1, 3, 4)\n"
NO_GRAD = "def no_grad(f, *args):\n    with torch.no_grad():\n        return f(*args)\n"


def sightings(*cells: str, names: list[str] = NAMES) -> list[tuple[str, int | None]]:
    """What is seen of the last cell's `answer(q, k, v)`; all cells share a namespace, as in a notebook."""
    space: dict[str, Any] = {}
    for number, source in enumerate(cells):
        exec(compile(source, f"<cell {number}>", "exec"), space)
    q = torch.ones(1, 2, 3, 4)
    with watching(names, lambda filename: filename.startswith("<cell ")) as seen:
        space["answer"](q, q, q)
    return seen


@pytest.mark.parametrize(
    "body",
    [
        "return F.scaled_dot_product_attention(q, k, v)",
        "return getattr(F, 'scaled_dot' + '_product_attention')(q, k, v)",
        "return torch._C._nn.scaled_dot_product_attention(q, k, v)",
        "return torch.ops.aten.scaled_dot_product_attention(q, k, v)",
        "return torch.ops.aten.scaled_dot_product_attention.default(q, k, v)",
        "return torch._scaled_dot_product_attention_math(q, k, v)",
        "return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v)",
        "return torch.vmap(F.scaled_dot_product_attention)(q, k, v)",
        "return eval('F.scaled_' + 'dot_product_attention')(q, k, v)",
    ],
)
def test_the_function_is_seen_with_its_name_and_line(body: str) -> None:
    assert sightings(HEAD, f"def answer(q, k, v):\n    {body}")[0] == (SDPA, 2)


def test_the_function_is_seen_behind_an_alias_and_a_helper_of_another_cell() -> None:
    helper = "attend = F.scaled_dot_product_attention\n\ndef helper(*args):\n    return attend(*args)"
    assert sightings(HEAD, helper, "def answer(q, k, v):\n    return helper(q, k, v)") == [(SDPA, 2)]


@pytest.mark.parametrize(
    "call",
    ["mha(x, x, x)", "no_grad(mha, x, x, x)", "mha.train()(x, x, x)", "nn.TransformerEncoderLayer(4, 2)(x)"],
)
def test_the_module_is_seen_with_and_without_gradients(call: str) -> None:
    seen = sightings(HEAD + MHA + NO_GRAD, f"def answer(q, k, v):\n    y = 1\n    return {call}", names=[MODULE])
    assert seen[0][0] == MODULE
    assert seen[0][1] in (3, 8)  # in the cell, or where the helper of the cell before calls it


@pytest.mark.parametrize("call", ["mha.forward(x, x, x)", "no_grad(mha.forward, x, x, x)"])
def test_a_module_called_around_its_hooks_is_seen_by_what_it_calls(call: str) -> None:
    seen = sightings(HEAD + MHA + NO_GRAD, f"def answer(q, k, v):\n    return {call}")
    assert seen[0][0] == FORWARD


def test_the_fused_kernel_of_the_module_is_seen() -> None:
    call = (
        "torch._native_multi_head_attention(x, x, x, 4, 2, mha.in_proj_weight, mha.in_proj_bias, "
        "mha.out_proj.weight, mha.out_proj.bias)"
    )
    assert sightings(HEAD + MHA + NO_GRAD, f"def answer(q, k, v):\n    return no_grad(lambda: {call})", names=[MODULE])


@pytest.mark.parametrize(
    "body",
    [
        "return torch.softmax(q @ k.mT / 2, dim=-1) @ v",
        "return F.softmax(torch.einsum('bhqd,bhkd->bhqk', q, k), -1) @ v",
        "return torch.vmap(lambda q, k, v: (q @ k.mT).softmax(-1) @ v)(q, k, v)",
        "return torch.bmm(q[0], k[0].mT).masked_fill(torch.eye(3).bool(), -math.inf)",
        "return scripted(q, k, v)",
        "return scaled_dot_product_attention(q, k, v)",
        "return MultiheadAttention()(q)",
        "return nn.Linear(4, 4)(q)",
    ],
)
def test_ordinary_correct_answers_are_not_seen(body: str) -> None:
    own = (
        "def scaled_dot_product_attention(q, k, v):\n    return (q @ k.mT).softmax(-1) @ v\n"
        "class MultiheadAttention(nn.Module):\n    def forward(self, x):\n        return x\n"
    )
    space: dict[str, Any] = {}
    exec(compile(HEAD + own, "<cell 0>", "exec"), space)

    def scripted(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.softmax(q @ k.transpose(-2, -1), dim=-1) @ v

    space["scripted"] = torch.jit.trace(scripted, (torch.ones(1, 2, 3, 4),) * 3)
    exec(compile(f"def answer(q, k, v):\n    {body}", "<cell 1>", "exec"), space)
    q = torch.ones(1, 2, 3, 4)
    with watching(NAMES, lambda filename: True) as seen:
        space["answer"](q, q, q)
    assert seen == []


def test_only_the_names_that_were_given_are_looked_out_for() -> None:
    source = "def answer(q, k, v):\n    return F.scaled_dot_product_attention(q, k, v)"
    assert sightings(HEAD, source, names=["torch.bmm"]) == []
    assert sightings(HEAD, source, names=[]) == []


def test_methods_and_functions_share_their_names() -> None:
    source = "def answer(q, k, v):\n    return q.softmax(-1)"
    assert sightings(HEAD, source, names=["torch.Tensor.softmax"]) == [("torch.Tensor.softmax", 2)]


def test_a_name_that_is_nowhere_does_no_harm() -> None:
    source = "def answer(q, k, v):\n    return q"
    assert sightings(HEAD, source, names=["no_such_package.Thing", "torch.nn.NoSuchThing"]) == []


def test_nothing_is_seen_after_the_block_even_if_it_raised() -> None:
    with pytest.raises(ZeroDivisionError), watching(NAMES, lambda filename: False) as seen:
        raise ZeroDivisionError
    q = torch.ones(1, 2, 3, 4)
    torch.nn.functional.scaled_dot_product_attention(q, q, q)
    torch.nn.MultiheadAttention(4, 2)(q[0], q[0], q[0])
    assert seen == []


def test_a_thousand_calls_are_noted_ten_times_at_most() -> None:
    loop = "def answer(q, k, v):\n    for _ in range(50):\n        F.scaled_dot_product_attention(q, k, v)"
    assert len(sightings(HEAD, loop)) == 10
