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


def test_shuffled_numbers_neither_rise_nor_fall() -> None:
    for seed in range(20):
        drawn = Draws(seed).shuffled((1, 2, 3)).tolist()
        assert sorted(drawn) == [1, 2, 3] and drawn not in ([1, 2, 3], [3, 2, 1])


def test_two_numbers_or_equal_ones_come_in_any_order() -> None:
    assert {tuple(Draws(seed).shuffled((1, 2)).tolist()) for seed in range(20)} == {(1, 2), (2, 1)}
    assert Draws(0).shuffled((4, 4, 4)).tolist() == [4, 4, 4]


def test_whole_numbers_fill_their_range_and_depend_on_the_seed() -> None:
    drawn = Draws(7).integers(5, 200)
    assert set(drawn.tolist()) == {0, 1, 2, 3, 4}
    assert torch.equal(drawn, Draws(7).integers(5, 200)) and not torch.equal(drawn, Draws(8).integers(5, 200))


def test_a_part_has_draws_of_its_own_whatever_was_drawn_before() -> None:
    whole = Draws(7, "clinic")
    before = whole.part("shapes").normal(3)
    whole.normal(5)
    assert torch.equal(whole.part("shapes").normal(3), before)
    assert not torch.equal(whole.part("values").normal(3), before)
