"""Backward passes are counted, whichever way they are asked for."""

from collections.abc import Callable

import pytest
import torch

from autograder.worker.passes import count_passes, passes_since, so_far


def by_backward(x: torch.Tensor) -> None:
    x.square().sum().backward()


def by_grad(x: torch.Tensor) -> None:
    torch.autograd.grad(x.square().sum(), x)


def by_torch_func(x: torch.Tensor) -> None:
    torch.func.grad(lambda y: y.square().sum())(x.detach())


def by_step_with_closure(x: torch.Tensor) -> None:
    optimiser = torch.optim.SGD([x], lr=0.1)

    def closure() -> float:
        loss = x.square().sum()
        loss.backward()
        return float(loss.detach())

    optimiser.step(closure)


def by_scripted_code(x: torch.Tensor) -> None:
    unit = torch.jit.CompilationUnit("def train(x):\n    x.pow(2).sum().backward()\n")
    optimiser = torch.optim.SGD([x], lr=0.1)
    unit.train(x)
    optimiser.step()


@pytest.mark.parametrize("way", [by_scripted_code, by_backward, by_grad, by_torch_func, by_step_with_closure])
def test_a_backward_pass_is_counted_once(way: Callable[[torch.Tensor], None]) -> None:
    count_passes()
    count_passes()  # as every callee does
    x = torch.ones(3, requires_grad=True)
    before = so_far()
    way(x)
    assert passes_since(before) == 1


def test_a_forward_pass_is_not_counted() -> None:
    count_passes()
    before = so_far()
    torch.ones(3, requires_grad=True).square().sum()
    assert passes_since(before) == 0
