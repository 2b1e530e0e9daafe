"""Random draws behind a seed."""

from typing import Any

import torch

from autograder.suite import Draws


def test_equal_seeds_and_names_give_equal_numbers() -> None:
    assert torch.equal(Draws(7, "loss", "shapes").normal(3, 4), Draws(7, "loss", "shapes").normal(3, 4))


def test_another_seed_or_another_name_gives_other_numbers() -> None:
    first = Draws(7, "loss", "shapes").normal(3)
    others: list[tuple[Any, ...]] = [
        (8, "loss", "shapes"),
        (-7, "loss", "shapes"),
        (7, "loss", "output"),
        (7, "lossshapes"),
    ]
    for other in others:
        assert not torch.equal(first, Draws(*other).normal(3))


def test_draws_leave_torchs_global_stream_alone_and_do_not_depend_on_it() -> None:
    torch.manual_seed(1)
    undisturbed = torch.rand(2)
    torch.manual_seed(1)
    drawn = Draws(7).normal(2)
    assert torch.equal(torch.rand(2), undisturbed)
    assert torch.equal(Draws(7).normal(2), drawn)


def test_dtypes_see_the_same_numbers_rounded() -> None:
    exact = Draws(7).normal(5)
    assert exact.dtype == torch.float64
    assert torch.equal(Draws(7).normal(5, dtype=torch.bfloat16), exact.to(torch.bfloat16))


def test_numbers_are_the_same_in_every_process() -> None:
    # `hash` of a string differs from process to process: a suite would then judge by other numbers each time.
    assert abs(Draws(20261129, "exercise", "check").normal(1).item() - 1.1279700378652229) < 1e-12
