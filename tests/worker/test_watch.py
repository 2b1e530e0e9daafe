"""The finished article is noticed while the answer runs, by whatever name it was reached; ordinary torch is not."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from autograder.course import load_course
from autograder.worker import watch
from autograder.worker.watch import Seen, watching
from tests.courses import REPOSITORY
from tests.examiner.test_forbidden import NEVER_CALLED, REACHED_PERHAPS

COURSE = load_course(REPOSITORY)
SDPA = "torch.nn.functional.scaled_dot_product_attention"
FORWARD = "torch.nn.functional.multi_head_attention_forward"
MODULE = "torch.nn.MultiheadAttention"
NAMES = [SDPA, FORWARD, MODULE]
CROSS_ENTROPY = "torch.nn.functional.cross_entropy"
NLL = "torch.nn.functional.nll_loss"
LINEAR = "torch.nn.functional.linear_cross_entropy"
FLEX = "torch.nn.attention.flex_attention.flex_attention"
LOSSES = COURSE.forbidden_names("loss", "sequence_cross_entropy")

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.trace` is deprecated")

HEAD = "import torch, math\nimport torch.nn.functional as F\nfrom torch import nn\n"
MHA = "mha = nn.MultiheadAttention(4, 2, batch_first=True).eval()\nx = torch.ones(1, 3, 4)\n"
NO_GRAD = "def no_grad(f, *args):\n    with torch.no_grad():\n        return f(*args)\n"


LOGITS = (
    "x, t = torch.eye(4)[:3], torch.arange(3)\npixels, labels = torch.ones(1, 2, 3, 3), torch.ones(1, 3, 3).long()\n"
)


PARTS = (
    "import types\nimport torch._refs.nn.functional as refs\nfrom torch._decomp import decompositions\n"
    "import torch.ao.nn.quantizable as quantizable\n"
    "from torch.fx.experimental.proxy_tensor import make_fx\n"
    "mha = nn.MultiheadAttention(4, 2, batch_first=True).requires_grad_(False)\n"
    "projected = (*[x[:, None]] * 3, 4, 2, mha.in_proj_weight, mha.in_proj_bias, None, None, False, 0.0,"
    " mha.out_proj.weight, mha.out_proj.bias)\n"
    "joined = vars(F)['_'.join(['multi', 'head', 'attention', 'forward'])]\n"
    "copied = types.FunctionType(joined.__code__, vars(F), 'innocent', joined.__defaults__)\n"
)


def sightings(*cells: str, names: Sequence[str] = NAMES) -> list[tuple[str, int | None]]:
    """What is seen of the last cell's `answer(q, k, v)`; all cells share a namespace, as in a notebook."""
    return look(*cells, names=names).calls


def look(*cells: str, names: Sequence[str] = NAMES) -> Seen:
    """The same, and what is seen beside it."""
    space: dict[str, Any] = {"__name__": "cells"}
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
    assert seen.calls == []


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("F.cross_entropy(x, t)", CROSS_ENTROPY),
        ("F.cross_entropy(x, x.softmax(-1))", CROSS_ENTROPY),
        ("getattr(F, 'cross_' + 'entropy')(x, t)", CROSS_ENTROPY),
        ("torch._C._nn.cross_entropy_loss(x, t)", CROSS_ENTROPY),
        ("torch.ops.aten.cross_entropy_loss.default(x, t)", CROSS_ENTROPY),
        ("torch.vmap(F.cross_entropy)(x, t)", CROSS_ENTROPY),
        ("torch.func.grad(F.cross_entropy)(x, t)", CROSS_ENTROPY),
        ("eval('F.cross_' + 'entropy')(x, t)", CROSS_ENTROPY),
        ("nn.CrossEntropyLoss.forward(nn.CrossEntropyLoss(), x, t)", CROSS_ENTROPY),
        ("nn.CrossEntropyLoss()(x, t)", "torch.nn.CrossEntropyLoss"),
        ("type('Mine', (nn.CrossEntropyLoss,), {})()(x, t)", "torch.nn.CrossEntropyLoss"),
        ("F.nll_loss(x, t)", NLL),
        ("F.nll_loss(pixels, labels)", NLL),
        ("torch._C._nn.nll_loss(x, t)", NLL),
        ("torch._C._nn.nll_loss(x, t, out=torch.empty(0))", NLL),
        ("torch._C._nn.nll_loss_nd(x, t)", NLL),
        ("torch._C._nn.nll_loss2d(pixels, labels)", NLL),
        ("torch.ops.aten.nll_loss_forward(x, t, None, 1, -100)", NLL),
        ("torch.ops.aten.nll_loss2d_forward.default(pixels, labels, None, 1, -100)", NLL),
        ("nn.NLLLoss()(x, t)", "torch.nn.NLLLoss"),
        ("nn.NLLLoss2d()(pixels, labels)", "torch.nn.NLLLoss"),
        ("F.linear_cross_entropy(x, x, t[:3] % 3)", LINEAR),
        ("F.linear_cross_entropy(x, x, t, options=nn.LinearCrossEntropyOptions())", LINEAR),
        ("nn.LinearCrossEntropyLoss(4, 5)(x, t)", "torch.nn.LinearCrossEntropyLoss"),
    ],
)
@pytest.mark.filterwarnings("ignore:`NLLLoss2d` has been deprecated")
def test_a_finished_cross_entropy_is_seen_with_its_name_and_line(call: str, name: str) -> None:
    source = f"def answer(q, k, v):\n    y = 1\n    return {call}"
    assert sightings(HEAD + LOGITS, source, names=LOSSES)[0] == (name, 3)


OWN_LOSS = (
    "def nll_loss(x, t):\n    return -x.log_softmax(-1).gather(1, t[:, None]).mean()\n"
    "cross_entropy = torch.jit.trace(nll_loss, (x, t))\n"
    "class CrossEntropyLoss(nn.Module):\n    def forward(self, x, t):\n        return nll_loss(x, t)\n"
)


@pytest.mark.parametrize(
    "call",
    [
        "nll_loss(x, t)",
        "cross_entropy(x, t)",
        "CrossEntropyLoss()(x, t)",
        "-F.log_softmax(x, -1)[torch.arange(3), t].mean()",
        "(x.logsumexp(-1) - x.gather(1, t[:, None])[:, 0]).mean()",
        "-(F.one_hot(t, 4) * F.log_softmax(x, -1)).sum()",
        "F.kl_div(F.log_softmax(x, -1), F.one_hot(t, 4).float(), reduction='batchmean')",
        "nn.KLDivLoss(reduction='sum')(nn.LogSoftmax(-1)(x), F.one_hot(t, 4).float())",
        "-torch.distributions.Categorical(logits=x).log_prob(t).mean()",
        "torch.vmap(lambda x, t: x.logsumexp(-1) - x.gather(0, t))(x, t)",
        "F.binary_cross_entropy(x.sigmoid(), x)",
        "F.binary_cross_entropy_with_logits(x, x)",
        "F.gaussian_nll_loss(x, x, x.exp())",
        "F.poisson_nll_loss(x, x)",
        "nn.GaussianNLLLoss()(x, x, x.exp()) + nn.PoissonNLLLoss()(x, x) + nn.BCELoss()(x, x)",
        "F.multi_margin_loss(x, t)",
    ],
)
def test_accepted_ways_and_look_alikes_of_a_cross_entropy_are_not_seen(call: str, dispatcher: None) -> None:
    assert sightings(HEAD + LOGITS + OWN_LOSS, f"def answer(q, k, v):\n    return {call}", names=LOSSES) == []


RECURRENT = (
    "from torch.nn.utils import rnn as utils\n"
    "x, first, state = torch.ones(2, 3, 4), torch.ones(2, 4), torch.zeros(1, 2, 5)\n"
    "weights = torch.ones(5, 4), torch.ones(5, 5), torch.ones(5), torch.ones(5)\n"
    "rows = [torch.ones(3, 2), torch.ones(2, 2)]\n"
    "scripted = torch.jit.CompilationUnit('''def rnn(x, state, w: List[Tensor]):\n"
    "    return torch.rnn_tanh(x, state, w, True, 1, 0.0, False, False, True)[0]\n"
    "def padding(rows: List[Tensor]):\n    return torch._C._nn.pad_sequence(rows, True, 0.0)\n''')\n"
)
SEQUENCES = COURSE.forbidden_names("sequences", "rnn") + COURSE.forbidden_names("sequences", "pad_sequences")
PAD, NESTED = "torch.nn.utils.rnn.pad_sequence", "torch.nested.nested_tensor"


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("nn.RNN(4, 5)(x)", "torch.nn.RNN"),
        ("nn.RNNCell(4, 5)(first)", "torch.nn.RNNCell"),
        ("torch.rnn_tanh(x, state, weights, True, 1, 0.0, False, False, True)", "torch.rnn_tanh"),
        ("torch._VF.rnn_tanh(x, state, weights, True, 1, 0.0, False, False, True)", "torch.rnn_tanh"),
        ("torch.rnn_tanh_cell(first, state[0], *weights)", "torch.rnn_tanh_cell"),
        ("torch.ops.aten.rnn_tanh_cell(first, state[0], *weights)", "torch.rnn_tanh_cell"),
        ("scripted.rnn(x, state, list(weights))", "torch.rnn_tanh"),
        ("utils.pad_sequence(rows)", PAD),
        ("getattr(utils, 'pad_' + 'sequence')(rows, True)", PAD),
        ("torch._C._nn.pad_sequence(rows, True, 0.0)", PAD),
        ("utils.pad_packed_sequence(utils.pack_sequence(rows))", PAD),
        ("scripted.padding(rows)", PAD),
        ("torch.nested.nested_tensor(rows).to_padded_tensor(0.0)", "torch.nested.to_padded_tensor"),
        ("torch.nested.nested_tensor(rows)", NESTED),
        ("torch.nested.as_nested_tensor(rows)", NESTED),
        ("torch._nested_tensor_from_tensor_list(rows)", NESTED),
        (
            "torch.ops.aten._jagged_to_padded_dense_forward(torch.cat(rows), [torch.tensor([0, 3, 5])], [3], 0.0)",
            "torch.nested.to_padded_tensor",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors", "ignore:`torch.jit.script` is deprecated")
def test_a_finished_rnn_and_finished_padding_are_seen(call: str, name: str, dispatcher: None) -> None:
    source = f"def answer(q, k, v):\n    y = 1\n    return {call}"
    found = sightings(HEAD + RECURRENT, source, names=SEQUENCES)
    assert name in [seen for seen, _ in found] and {line for _, line in found} == {3}


@pytest.mark.parametrize(
    "call",
    [
        "F.pad(rows[1], (0, 0, 0, 1))",
        "nn.LSTM(4, 5)(x)",
        "nn.GRUCell(4, 5)(first)",
        "torch.tanh(first @ weights[0].T + state[0] @ weights[1].T)",
        "torch.nn.ConstantPad1d((0, 1), 0.0)(rows[1].T)",
        "torch.stack(list(first.unbind(-2)))",
    ],
)
def test_look_alikes_of_an_rnn_and_of_padding_are_not_seen(call: str, dispatcher: None) -> None:
    own = "def pad_sequences(rows):\n    return rows\ndef rnn(x):\n    return x\n"
    source = f"def answer(q, k, v):\n    pad_sequences(rows), rnn(x)\n    return {call}"
    assert sightings(HEAD + RECURRENT + own, source, names=SEQUENCES) == []


def test_a_finished_loss_and_attention_may_be_used_where_only_multi_head_attention_is_forbidden(
    dispatcher: None,
) -> None:
    names = COURSE.forbidden_names("loss", "tagging_loss")
    allowed = "F.cross_entropy(x, t) + F.scaled_dot_product_attention(q, k, v).sum() + nn.NLLLoss()(x, t)"
    assert sightings(HEAD + LOGITS, f"def answer(q, k, v):\n    return {allowed}", names=names) == []
    for call, name in {"mha(x, x, x)": MODULE, "mha.forward(x, x, x)": FORWARD}.items():
        assert sightings(HEAD + MHA, f"def answer(q, k, v):\n    {call}", names=names)[0] == (name, 2)
    weights = "mha(x, x, x, need_weights=True)"
    assert sightings(HEAD + MHA, f"def answer(q, k, v):\n    {weights}", names=[SDPA]) == []


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
    assert seen.calls == []


def test_a_thousand_calls_are_noted_ten_times_at_most() -> None:
    loop = "def answer(q, k, v):\n    for _ in range(50):\n        F.scaled_dot_product_attention(q, k, v)"
    assert len(sightings(HEAD, loop)) == 10


@contextmanager
def dispatched() -> Iterator[None]:
    """Let the dispatcher be watched inside the block alone, where a worker has it watched for good."""
    with pytest.MonkeyPatch.context() as patch, torch.library._scoped_library("aten", "IMPL") as library:
        patch.setattr(watch, "_dispatcher", library)
        for path in watch.ARTICLES:
            function = watch._import(path)
            patch.setattr(function, "__code__", function.__code__)
        watch.watch_dispatcher()
        yield


@pytest.fixture
def dispatcher() -> Iterator[None]:
    with dispatched():
        yield


BELOW = {
    "F.scaled_dot_product_attention(q, k, v)": SDPA,
    "F.cross_entropy(x, t)": CROSS_ENTROPY,
    "F.cross_entropy(x, x.softmax(-1))": CROSS_ENTROPY,
    "F.nll_loss(x, t)": NLL,
    "F.nll_loss(pixels, labels)": NLL,
    "torch.ops.aten.nll_loss_forward(x, t, None, 1, -100)[0]": NLL,
    "nn.CrossEntropyLoss().forward(x, t)": CROSS_ENTROPY,
    "F.linear_cross_entropy(x, x, t)": LINEAR,
    "F.multi_head_attention_forward(*projected)[0]": FORWARD,
    "mha.forward(x[None], x[None], x[None])[0]": FORWARD,
    "torch._scaled_dot_product_attention_math(q, k, v)[0]": SDPA,
    "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v)[0]": SDPA,
    "torch.ops.aten.nll_loss.out(x, t, None, 1, -100, out=torch.empty(0))": NLL,
    "torch._C._nn.nll_loss2d(pixels, labels, out=torch.empty(0))": NLL,
    "torch._C._nn.nll_loss_nd(x, t)": NLL,
}
VECTORISED = {
    "torch.vmap(F.cross_entropy)(x, t)": CROSS_ENTROPY,
    "torch.vmap(F.cross_entropy)(x, x.softmax(-1))": CROSS_ENTROPY,
    "torch.vmap(F.nll_loss)(x, t)": NLL,
    "torch.vmap(torch._C._nn.nll_loss_nd)(x, t)": NLL,
    "torch.vmap(torch._C._nn.nll_loss2d)(pixels[None], labels[None])": NLL,
    "torch.vmap(lambda x, t: torch.ops.aten.nll_loss_forward(x, t, None, 1, -100))(x[None], t[None])[0]": NLL,
    "torch.vmap(F.scaled_dot_product_attention)(q, k, v)": SDPA,
    "torch.vmap(torch._scaled_dot_product_attention_math)(q, k, v)[0]": SDPA,
    "torch.func.grad(F.cross_entropy)(x, t)": CROSS_ENTROPY,
}
PYTHON = {
    "refs.nll_loss(x, t)": NLL,
    "refs._nll_loss_nd(x, t, None, 'mean', -100)": NLL,
    "decompositions.nll_loss_forward(x, t, None, 1, -100)[0]": NLL,
    "decompositions.nll_loss2d_forward(pixels, labels, None, 1, -100)[0]": NLL,
    "decompositions.scaled_dot_product_flash_attention_for_cpu(q, k, v)[0]": SDPA,
    "F.linear_cross_entropy(x, x, t, options=nn.LinearCrossEntropyOptions())": LINEAR,
    "F.linear_cross_entropy(x, x, t, reduction='none', options=nn.LinearCrossEntropyOptions())": LINEAR,
    "quantizable.MultiheadAttention(4, 2).forward(*[x[None]] * 3)[0]": MODULE,
    "copied(*projected)[0]": FORWARD,
    "joined(*projected)[0]": FORWARD,
    "nn.TransformerEncoderLayer(4, 2).self_attn.forward(x, x, x)[0]": FORWARD,
    "nn.TransformerDecoderLayer(4, 2).multihead_attn.forward(x, x, x)[0]": FORWARD,
    "no_grad(nn.TransformerEncoderLayer(4, 2, batch_first=True).eval().forward, x[None])": MODULE,
}
RECORDED = {
    "make_fx(lambda q: torch._scaled_dot_product_attention_math(q, q, q)[0])(q)": (SDPA, "q"),
    "make_fx(lambda x: F.multi_head_attention_forward(x, *projected[1:])[0])(x[:, None])": (FORWARD, "x[:, None]"),
    "make_fx(lambda x: F.cross_entropy(x, x))(x)": (CROSS_ENTROPY, "x"),
    "torch.jit.trace(lambda x: F.multi_head_attention_forward(x, *projected[1:])[0], (x[:, None],))": (
        FORWARD,
        "x[:, None]",
    ),
    "torch.jit.script(F.multi_head_attention_forward)": (FORWARD, "*projected"),
    "torch.jit.script(copied)": (FORWARD, "*projected"),
    "torch.jit.script(mha)": (FORWARD, "x, x, x"),
    "torch.jit.script(F.cross_entropy)": (CROSS_ENTROPY, "x, t"),
    "torch.jit.script(nn.NLLLoss())": (NLL, "x, t"),
}
"""What another cell may record, with what it is noted as and called with."""

AROUND = {
    "traced": (
        "traced = torch.jit.trace(lambda q, k, v, x, pixels: {}, (*[torch.ones(1, 2, 3, 4)] * 3, x, pixels))",
        "traced(q, k, v, x, pixels)",
    ),
    "without_modes": (
        "def bare(q, k, v):\n    with torch._C.DisableTorchFunction():\n        return {}",
        "bare(q, k, v)",
    ),
    "thread": (
        "from concurrent.futures import ThreadPoolExecutor\ndef work(q, k, v):\n    return {}",
        "ThreadPoolExecutor(1).submit(work, q, k, v).result()",
    ),
}


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("way", AROUND)
@pytest.mark.parametrize("call", BELOW)
def test_a_call_that_python_does_not_show_is_seen_in_the_dispatcher(call: str, way: str, dispatcher: None) -> None:
    helper, answer = AROUND[way]
    cells = (HEAD + LOGITS, PARTS, helper.format(call), f"def answer(q, k, v):\n    return {answer}")
    found = sightings(*cells, names=[*LOSSES, *NAMES])
    assert found[0] == (BELOW[call], {"traced": 2, "without_modes": 2, "thread": 3}[way])
    assert sightings(*cells, names=["torch.bmm"]) == []


@pytest.mark.parametrize("way", ["without_modes", "thread"])
@pytest.mark.parametrize("call", VECTORISED | PYTHON)
def test_what_has_no_operator_of_its_own_is_seen_without_modes_and_in_threads(
    call: str, way: str, dispatcher: None
) -> None:
    helper, answer = AROUND[way]
    cells = (HEAD + LOGITS + NO_GRAD, PARTS, helper.format(call), f"def answer(q, k, v):\n    return {answer}")
    found = sightings(*cells, names=[*LOSSES, *NAMES, FLEX])
    assert found[0] == ((VECTORISED | PYTHON)[call], {"without_modes": 2, "thread": 3}[way])
    assert sightings(*cells, names=["torch.bmm"]) == []


def test_flexible_attention_is_seen_where_every_form_of_it_begins(dispatcher: None) -> None:
    source = (
        "import sys\nfrom contextlib import suppress\nflex = sys.modules['torch._higher_order_ops.flex_attention']\n"
        "def answer(q, k, v):\n    with suppress(AttributeError):\n"
        "        flex._math_attention_inner(None, k, v, None, (None,), 1.0, {})"
    )
    assert sightings(source, names=[FLEX]) == [(FLEX, 6)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("recorded", RECORDED)
def test_what_another_cell_recorded_is_seen_when_the_answer_runs_it(recorded: str, dispatcher: None) -> None:
    name, given = RECORDED[recorded]
    cells = (HEAD + LOGITS, PARTS + "q = torch.ones(1, 2, 3, 4)\n", f"recorded = {recorded}")
    bare = f"def answer(q, k, v):\n    with torch._C.DisableTorchFunction():\n        return recorded({given})"
    assert sightings(*cells, bare, names=[*LOSSES, *NAMES])[0] == (name, 3)
    assert sightings(*cells, "def answer(q, k, v):\n    return q", names=[*LOSSES, *NAMES]) == []


def losses() -> Iterator[tuple[Callable[..., torch.Tensor], torch.Tensor, torch.Tensor, dict[str, Any]]]:
    """Every form of a loss, with its logits, targets and options; some are errors."""
    generator = torch.Generator().manual_seed(0)
    class_weights = torch.rand(5, generator=generator)
    for shape in ((5,), (3, 5), (3, 5, 2), (3, 5, 2, 4), (2, 5, 3, 2, 2), (0, 5)):
        classes = min(len(shape) - 1, 1)
        x = torch.randn(shape, generator=generator)
        t = torch.randint(5, shape[:classes] + shape[classes + 1 :], generator=generator)
        for reduction, weight, ignored in product(("none", "mean", "sum"), (None, class_weights), (-100, 2)):
            options: dict[str, Any] = {"reduction": reduction, "weight": weight, "ignore_index": ignored}
            yield F.nll_loss, x, t, options
            for target, smoothing in product((t, t + 1, x.softmax(classes)), (0.0, 0.1)):
                yield F.cross_entropy, x, target, {**options, "label_smoothing": smoothing}
    for targets, options in (
        (torch.zeros(2, 3).long(), {}),  # the classes stand last
        (torch.zeros(2, 5), {}),
        (torch.zeros(2, 5).int(), {}),
        (torch.zeros(2, 5).long(), {"label_smoothing": 2.0}),
        (torch.zeros(2, 5).long(), {"weight": torch.ones(5)}),
    ):
        yield F.cross_entropy, torch.randn(2, 3, 5, generator=generator), targets, options


def outcome(
    loss: Callable[..., torch.Tensor], logits: torch.Tensor, targets: torch.Tensor, options: dict[str, Any]
) -> list[torch.Tensor | str]:
    """Result, gradient, gradient of the gradient and their node; or the error."""
    logits = logits.clone().requires_grad_()
    try:
        result = loss(logits, targets, **options)
        (gradient,) = torch.autograd.grad(result.square().sum(), logits, create_graph=True)
        (second,) = torch.autograd.grad(gradient.square().sum(), logits)
    except (RuntimeError, IndexError, ValueError) as error:
        return [repr(error)]
    return [result.detach(), gradient.detach(), second, str(result.grad_fn)[:20]]


@pytest.mark.filterwarnings("error")
def test_watching_the_dispatcher_changes_no_result_gradient_or_error() -> None:
    asked = list(losses())
    native = [outcome(*one) for one in asked]
    with dispatched():
        watched = [outcome(*one) for one in asked]
    assert 10 < sum(len(one) == 1 for one in native) < len(native) / 2, "errors and results both"
    for one, other in zip(native, watched, strict=True):
        assert [item for item in one if isinstance(item, str)] == [item for item in other if isinstance(item, str)]
        tensors = [[item for item in both if isinstance(item, torch.Tensor)] for both in (one, other)]
        torch.testing.assert_close(*tensors, rtol=0, atol=0, equal_nan=True)


def test_watching_the_dispatcher_leaves_attention_as_it_is() -> None:
    q = torch.randn(2, 3, 4, 8, generator=torch.Generator().manual_seed(0)).requires_grad_()
    native = F.scaled_dot_product_attention(q, q, q, is_causal=True, scale=0.3)
    with dispatched():
        watched = F.scaled_dot_product_attention(q, q, q, is_causal=True, scale=0.3)
        with pytest.raises(RuntimeError, match="attn_mask dtype"):
            F.scaled_dot_product_attention(q, q, q, attn_mask=torch.ones(4, 4).long())
    assert torch.equal(native, watched)
    assert type(native.grad_fn) is type(watched.grad_fn)
    assert torch.equal(*[torch.autograd.grad(one.sum(), q)[0] for one in (native, watched)])


def test_watched_functions_keep_signature_defaults_results_gradients_and_errors() -> None:
    mha = torch.nn.MultiheadAttention(4, 2).double()
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3, 2, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    masks = {"attn_mask": torch.ones(3, 3).triu(1).bool(), "average_attn_weights": False}

    def attempt() -> list[Any]:
        output, weights = mha(x, x, x, **masks)
        (gradient,) = torch.autograd.grad(output.square().sum() + weights.square().sum(), x)
        with pytest.raises(AssertionError) as wide:
            mha(x[..., :3], x, x)
        with pytest.raises(TypeError) as few:
            F.multi_head_attention_forward(x)  # type: ignore[call-arg]
        functions = [watch._import(path) for path in watch.ARTICLES]
        return [output, weights, gradient, str(wide.value), str(few.value), *map(inspect.signature, functions)]

    native = attempt()
    with dispatched():
        watched = attempt()
    for one, other in zip(native, watched, strict=True):
        assert torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other


def test_a_tensor_of_its_own_kind_still_answers_for_itself(dispatcher: None) -> None:
    class Mine(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func

    x = torch.ones(3, 1, 4).as_subclass(Mine)
    weight, bias = torch.ones(12, 4), torch.ones(12)
    options = (4, 2, weight, bias, None, None, False, 0.0, weight[:4], bias[:4])
    answered: Any = F.multi_head_attention_forward(x, x, x, *options)
    assert answered is F.multi_head_attention_forward


@pytest.mark.parametrize("name", sorted(set(REACHED_PERHAPS) - set(NEVER_CALLED)))
def test_what_the_search_leaves_to_a_person_is_seen_when_it_is_really_called(name: str, dispatcher: None) -> None:
    space_head = f"{HEAD}import importlib\nnet = nn\n"
    cells = [cell.replace("M(8, 2)(q, k, v)", "M(4, 2)(q[0], k[0], v[0])") for cell in REACHED_PERHAPS[name]]
    assert sightings(space_head, *cells)


def test_what_another_cell_left_running_is_not_the_answers(dispatcher: None) -> None:
    left = (
        "import threading\nstop, q = threading.Event(), torch.ones(1, 2, 3, 4)\nturns = threading.Semaphore(0)\n"
        "mha = nn.MultiheadAttention(4, 2)\n"
        "def work():\n    while not stop.is_set():\n"
        "        F.scaled_dot_product_attention(q, q, q); mha(q[0], q[0], q[0]); turns.release()\n"
        "thread = threading.Thread(target=work, daemon=True)\nthread.start()\n"
    )
    wait = "[turns.acquire() for _ in range(5)]"
    seen = look(HEAD, left, f"def answer(q, k, v):\n    {wait}\n    stop.set(); thread.join()")
    assert seen.calls == []
    assert {SDPA, "torch.nn.MultiheadAttention"} <= set(seen.beside)
    own = (
        "import threading\ndef answer(q, k, v):\n"
        "    run = threading.Thread(target=lambda: F.scaled_dot_product_attention(q, k, v))\n"
        "    run.start(); run.join()"
    )
    assert sightings(HEAD, own)[0] == (SDPA, 3)


def test_an_operator_of_one_s_own_may_have_any_name(dispatcher: None) -> None:
    own = (
        "@torch.library.custom_op('mine::scaled_dot_product_attention_by_hand', mutates_args=())\n"
        "def attend(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:\n    return {}\n"
    )
    answer = "def answer(q, k, v):\n    return attend(q, k)"
    assert sightings(HEAD, own.format("(q @ k.mT).softmax(-1) @ k"), answer) == []
    assert sightings(HEAD, own.format("F.scaled_dot_product_attention(q, k, k)"), answer)[0][0] == SDPA


@pytest.mark.parametrize(
    "call", ["ops.attention(q, k, v)", "impl.attention_23(q, k, v)", "impl.attention_23._init_fn(q, k, v)",
             "impl.attention_23._init_fn(q, k, v, qk_matmul_output_mode=3)"],
)  # fmt: skip
def test_what_torch_wrote_for_onnx_is_seen(call: str, dispatcher: None) -> None:
    head = "import torch.onnx.ops as ops\nimport torch.onnx.ops._impl as impl\n"
    names = COURSE.forbidden_names("attention", "scaled_dot_product_attention")
    assert sightings(head, f"def answer(q, k, v):\n    return {call}", names=names)[0] == (
        "torch.onnx.ops.attention",
        2,
    )
