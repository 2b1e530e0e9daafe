"""What learners get wrong in a sinusoidal encoding, each with the check that catches it."""

import math

import numpy
import torch

from autograder.suite import N_, mistake


def expect_pairs(D):
    if D % 2 != 0:
        raise ValueError("D must be even")


def frequencies(D):
    return 10000.0 ** (-torch.arange(0, D, 2) / D)


def interleaved(angles):
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)


def encoding(T, D):
    expect_pairs(D)
    return interleaved(torch.arange(T).unsqueeze(1) * frequencies(D))


# Which wave stands where


@mistake(
    "halves",
    caught_by="position_zero",
    says=N_(
        "All sines stand in the left half, all cosines in the right, as in some libraries. Here they take turns: a "
        "sine in every even column, the cosine of the same angle in the odd one beside it."
    ),
)
def halves(T, D):
    expect_pairs(D)
    angles = torch.arange(T).unsqueeze(1) * frequencies(D)
    return torch.cat([angles.sin(), angles.cos()], dim=1)


@mistake(
    "sine-and-cosine-swapped",
    caught_by="position_zero",
    says=N_("Sine and cosine have changed places: even columns hold sines, odd ones cosines."),
)
def swapped(T, D):
    expect_pairs(D)
    angles = torch.arange(T).unsqueeze(1) * frequencies(D)
    return torch.stack([angles.cos(), angles.sin()], dim=2).flatten(1)


@mistake(
    "all-sines",
    caught_by="cosines",
    says=N_(
        "Every column of yours is a sine, so that the two columns of a pair are equal and one of them tells nothing "
        "new. Odd columns hold the cosine."
    ),
)
def all_sines(T, D):
    expect_pairs(D)
    return (torch.arange(T).unsqueeze(1) * frequencies(D).repeat_interleave(2)).sin()


@mistake(
    "slowest-first",
    caught_by="sines",
    says=N_(
        "Your pairs come in the opposite order, the slowest wave first. Pair 0 is the fastest: its exponent is 0, and "
        "its angle the position itself."
    ),
)
def slowest_first(T, D):
    expect_pairs(D)
    return interleaved(torch.arange(T).unsqueeze(1) * frequencies(D).flip(0))


@mistake(
    "positions-from-1",
    caught_by="position_zero",
    says=N_("Your positions count from 1. They count from 0, so that the first row is 0, 1, 0, 1, …"),
)
def positions_from_1(T, D):
    expect_pairs(D)
    return interleaved(torch.arange(1, T + 1).unsqueeze(1) * frequencies(D))


# How fast each wave is


@mistake(
    "exponent-of-each-column",
    caught_by="cosines",
    says=N_(
        "Every column has a frequency of its own, so that a cosine does not turn with the sine beside it. Columns 2i "
        "and 2i + 1 share the exponent -2i/D."
    ),
)
def exponent_of_each_column(T, D):
    expect_pairs(D)
    table = torch.zeros(T, D)
    for t in range(T):
        for j in range(D):
            angle = t / 10000 ** (j / D)
            table[t, j] = math.sin(angle) if j % 2 == 0 else math.cos(angle)
    return table


@mistake(
    "exponent-halved",
    caught_by="sines",
    says=N_(
        "Your exponent is -i/D for pair i, half of what it should be: the 2 of -2i/D is missing. For example, "
        "arange(D // 2) counts pairs, and arange(0, D, 2) counts their columns."
    ),
)
def exponent_halved(T, D):
    expect_pairs(D)
    return interleaved(torch.arange(T).unsqueeze(1) * 10000.0 ** (-torch.arange(D // 2) / D))


@mistake(
    "exponent-doubled",
    caught_by="sines",
    says=N_(
        "Your exponent is -4i/D for pair i, twice what it should be. For example, when i runs through 0, 2, 4, … it is "
        "the 2i of the formula already."
    ),
)
def exponent_doubled(T, D):
    expect_pairs(D)
    return interleaved(torch.arange(T).unsqueeze(1) * 10000.0 ** (-2 * torch.arange(0, D, 2) / D))


@mistake(
    "slowest-wave-at-the-base",
    caught_by="sines",
    says=N_(
        "Your exponents go from 0 to -1, both included, so that the slowest wave has the frequency 1/10000. Pair i has "
        "the exponent -2i/D: the last one does not quite reach -1."
    ),
)
def slowest_wave_at_the_base(T, D):
    expect_pairs(D)
    return interleaved(torch.arange(T).unsqueeze(1) * 10000.0 ** -torch.linspace(0, 1, D // 2))


@mistake(
    "width-less-one",
    caught_by="sines",
    says=N_("Your exponent is -2i/(D - 1). It is divided by the width as it is: -2i/D."),
)
def width_less_one(T, D):
    expect_pairs(D)
    return interleaved(torch.arange(T).unsqueeze(1) * 10000.0 ** (-torch.arange(0, D, 2) / (D - 1)))


@mistake(
    "base-1000",
    caught_by="sines",
    says=N_("Your base is 1000, one zero short: it is 10000."),
)
def base_1000(T, D):
    expect_pairs(D)
    return interleaved(torch.arange(T).unsqueeze(1) * 1000.0 ** (-torch.arange(0, D, 2) / D))


@mistake(
    "sign-of-the-exponent",
    caught_by="sines",
    says=N_(
        "You multiply by 10000^(2i/D) where you should divide by it: your waves become faster from pair to pair, up to "
        "thousands of turns for one word. The exponent is negative."
    ),
)
def sign_of_the_exponent(T, D):
    expect_pairs(D)
    return interleaved(torch.arange(T).unsqueeze(1) * 10000.0 ** (torch.arange(0, D, 2) / D))


@mistake(
    "whole-exponents",
    caught_by="sines",
    says=N_(
        "All your pairs turn at the same speed, with exponent 0. For example, `//` leaves nothing of 2i/D, which lies "
        "between 0 and 1: divide with `/`."
    ),
)
def whole_exponents(T, D):
    expect_pairs(D)
    return interleaved(torch.arange(T).unsqueeze(1) / 10000.0 ** (torch.arange(0, D, 2) // D))


@mistake(
    "degrees",
    caught_by="sines",
    says=N_("You turn the angles as if they were degrees, by π/180. torch.sin takes radians, and so does the formula."),
)
def degrees(T, D):
    expect_pairs(D)
    return interleaved(torch.deg2rad(torch.arange(T).unsqueeze(1) * frequencies(D)))


@mistake(
    "linear-frequencies",
    caught_by="sines",
    says=N_(
        "Your frequencies fall in equal steps, by 2/D from pair to pair. They fall by an equal factor: powers of 10000."
    ),
)
def linear_frequencies(T, D):
    expect_pairs(D)
    return interleaved(torch.arange(T).unsqueeze(1) * (1 - torch.arange(0, D, 2) / D))


# How far it reaches


@mistake(
    "positions-in-eight-bits",
    caught_by="long",
    says=N_(
        "Your positions begin again at 0 after 256 of them, as whole numbers of eight bits (uint8) do. Leave their "
        "dtype to torch.arange, or use floating numbers."
    ),
)
def positions_in_eight_bits(T, D):
    expect_pairs(D)
    return interleaved(torch.arange(T).to(torch.uint8).unsqueeze(1) * frequencies(D))


@mistake(
    "bfloat16-positions",
    caught_by="long",
    says=N_(
        "Your positions go through bfloat16, which has no room for all whole numbers beyond 256: 257 becomes 256. "
        "Count in float32."
    ),
)
def bfloat16_positions(T, D):
    expect_pairs(D)
    return interleaved(torch.arange(T, dtype=torch.bfloat16).float().unsqueeze(1) * frequencies(D))


@mistake(
    "at-most-100-positions",
    caught_by="long",
    says=N_("Your table is made for 100 positions and ends there, whatever T is: make it for T."),
)
def at_most_100_positions(T, D):
    return encoding(100, D)[:T]


# The shape, and what it is made of


@mistake(
    "transposed",
    caught_by="shape",
    says=N_("Your encoding is (D, T), a column for every position. It is added to words in rows: (T, D)."),
)
def transposed(T, D):
    return encoding(T, D).T


@mistake(
    "axis-for-the-batch",
    caught_by="shape",
    says=N_(
        "Your encoding has an axis for the batch: (1, T, D). It is the same for all sentences, and (T, D) is asked for."
    ),
)
def axis_for_the_batch(T, D):
    return encoding(T, D).unsqueeze(0)


@mistake(
    "squeezed",
    caught_by="sizes",
    says=N_("Your encoding loses every axis of size 1, as through squeeze(): for one position it is (D,), not (1, D)."),
)
def squeezed(T, D):
    return encoding(T, D).squeeze()


@mistake(
    "float64",
    caught_by="dtype",
    says=N_(
        "Your encoding is float64. Compute in it if you like, but hand over float32, or everything that it is added to "
        "becomes float64 as well."
    ),
)
def float64(T, D):
    expect_pairs(D)
    return interleaved(torch.arange(T).unsqueeze(1) * 10000.0 ** (-torch.arange(0, D, 2, dtype=torch.float64) / D))


@mistake(
    "numpy-result",
    caught_by="table",
    says=N_("You return a numpy array. A tensor is due: torch.from_numpy makes one of it."),
)
def numpy_result(T, D):
    return numpy.array(encoding(T, D))


@mistake(
    "no-return",
    caught_by="table",
    says=N_("Your function computes something and returns nothing: `return` is missing, so that it returns None."),
)
def no_return(T, D):
    table = encoding(T, D)  # noqa: F841 - computed, and never returned


# An odd width


@mistake(
    "odd-width-cut",
    caught_by="odd",
    says=N_(
        "With an odd D you return one column less, or one more, and nobody notices until it is added to the words. "
        "Raise a ValueError instead."
    ),
)
def odd_width_cut(T, D):
    return interleaved(torch.arange(T).unsqueeze(1) * 10000.0 ** (-2 * torch.arange(D // 2) / D))


@mistake(
    "odd-width-filled",
    caught_by="odd",
    says=N_(
        "With an odd D you return a table all the same, with a sine in the last column that has no cosine beside it. "
        "Raise a ValueError instead."
    ),
)
def odd_width_filled(T, D):
    table = torch.zeros(T, D)
    angles = torch.arange(T).unsqueeze(1) * frequencies(D)
    table[:, 0::2] = angles.sin()
    table[:, 1::2] = angles.cos()[:, : D // 2]
    return table


@mistake(
    "error-left-to-torch",
    caught_by="odd",
    says=N_(
        "With an odd D you leave it to torch to notice that the cosines do not fit: a RuntimeError about sizes, which "
        "doesn't say what the caller did wrong. Ask for the remainder yourself, and raise a ValueError that does."
    ),
)
def error_left_to_torch(T, D):
    table = torch.zeros(T, D)
    angles = torch.arange(T).unsqueeze(1) * frequencies(D)
    table[:, 0::2] = angles.sin()
    table[:, 1::2] = angles.cos()
    return table


@mistake(
    "plain-exception",
    caught_by="odd",
    says=N_(
        "You refuse an odd D with a plain Exception, which a caller can't tell from any other trouble. A ValueError "
        "says that it was the value."
    ),
)
def plain_exception(T, D):
    if D % 2 != 0:
        raise Exception("D must be even")
    return encoding(T, D)
