"""Backward passes that hang, raise, die or lie behind results that are right."""

from __future__ import annotations

from functools import partial

from tests.engine import ATTENTION, GOOD_BODY, attention
from tests.redteam.bank import Case

_case = partial(Case, family="backward")
FULL, HUGE, GRADIENTS = 16.0, 1.0, 1.0
"""Of the exercise; of the checks that need a backward pass on huge scores, and on ordinary ones."""

# The identity, with a backward pass of its own.
PASS = """
import os, time
class Pass(torch.autograd.Function):
    times = 0
    @staticmethod
    def forward(ctx, x): return x.view_as(x)
    @staticmethod
    def backward(ctx, grad):
        Pass.times += 1
        {deed}
"""
BODY = GOOD_BODY.replace("return weights @ V, weights", "return Pass.apply(weights @ V), Pass.apply(weights)")


def _pass(id: str, tries: str, deed: str, lost: float, *outcomes: str, **more: object) -> Case:
    """A right answer that goes through an identity whose backward pass does that, and costs so much."""
    answer = attention(BODY, PASS.format(deed=deed))
    return _case(id=id, tries=tries, score=FULL - lost, answers={ATTENTION: answer}, outcomes=outcomes, **more)  # type: ignore[arg-type]


def _end(id: str, tries: str, end: str, before: str = "", lost: float = GRADIENTS, **more: object) -> Case:
    """A right answer with another last line."""
    body = GOOD_BODY.replace("return weights @ V, weights", end)
    return _case(id=id, tries=tries, score=FULL - lost, answers={ATTENTION: attention(body, before)}, **more)  # type: ignore[arg-type]


CASES = (
    _pass("hangs", "never comes back from its backward pass", "while True: pass", HUGE + GRADIENTS, "timeout"),
    _pass(
        "sleeps",
        "sleeps in its backward pass, where no processor time is counted",
        "time.sleep(3600)",
        HUGE + GRADIENTS,
        "timeout",
    ),
    _pass(
        "raises",
        "raises in its backward pass, with a text that claims success",
        "raise SystemExit('passed')",
        HUGE + GRADIENTS,
        "error",
    ),
    _pass("dies", "ends the process with success in its backward pass", "os._exit(0)", HUGE + GRADIENTS, "crashed"),
    _pass("gives-none", "gives no gradient back", "return None", GRADIENTS, "failed"),
    _pass("doubles", "gives twice the gradient back", "return 2 * grad", GRADIENTS, "failed"),
    _pass("gives-random-numbers", "gives random numbers back", "return torch.rand_like(grad)", GRADIENTS, "failed"),
    _pass("gives-nan", "gives NaN back", "return grad * float('nan')", HUGE + GRADIENTS, "failed"),
    _pass(
        "right-at-first",
        "gives the right gradient back in its first pass, and half of it later",
        "return grad if Pass.times <= 1 else grad / 2",
        GRADIENTS,
        "failed",
    ),
    _pass(
        "of-another-shape",
        "gives gradients of another shape and dtype back",
        "return grad[..., :1].double()",
        HUGE + GRADIENTS,
        "error",
        "failed",
        "crashed",
    ),
    _pass(
        "takes-all-memory",
        "asks for all memory in its backward pass",
        "return grad + torch.ones(1 << 40).sum()",
        HUGE + GRADIENTS,
        "out_of_memory",
        "error",
        "crashed",
    ),
    _end(
        "detached",
        "cuts the graph, so that no pass can be asked for",
        "return (weights @ V).detach(), weights.detach()",
    ),
    _end(
        "graph-of-another-function",
        "hands results over whose gradients are those of other numbers",
        "return (weights @ V).detach() + 0 * V.sum() + (Q - Q.detach()).sum(), weights",
    ),
    _end(
        "hooks",
        "hangs hooks on its results that change the gradients as they pass",
        "output = weights @ V\nfor x in (output, weights):\n"
        "    if x.requires_grad: x.register_hook(lambda grad: grad * 3)\nreturn output, weights",
    ),
    _end(
        "hooks-on-the-inputs",
        "hangs hooks on the inputs that it was given",
        "for x in (Q, K, V):\n    if x.requires_grad: x.register_hook(lambda grad: -grad)\nreturn weights @ V, weights",
    ),
    _end(
        "engine-that-lies",
        "replaces the function by which gradients are computed by one that gives ones",
        "return weights @ V, weights",
        "torch.autograd.grad = lambda outputs, inputs, *args, **kwargs: [torch.ones_like(x) for x in inputs]",
    ),
    _end(
        "engine-of-another-length",
        "replaces the function by which gradients are computed by one that gives too many, of wrong types and shapes",
        "return weights @ V, weights",
        "torch.autograd.grad = lambda outputs, inputs, *args, **kwargs: [torch.ones(2), None, 'x', *inputs, *inputs]",
        lost=HUGE + GRADIENTS,
    ),
    _end(
        "graph-that-grows",
        "keeps every graph alive, with large tensors that only a backward pass would need; the answer is right",
        "big = torch.zeros(1 << 20, requires_grad=True)\nKEPT.append((big.exp() * 2).exp())\n"
        "return weights @ V + 0 * KEPT[-1].sum().to(V.dtype), weights",
        "KEPT = []",
        lost=0.0,
    ),
)
