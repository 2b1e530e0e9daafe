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
    caught_by="place_zero",
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
    caught_by="place_zero",
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
        "Every column of yours is a sine, so that the two columns of a hand are equal and one of them tells nothing "
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
        "Your hands come in the opposite order, the slowest first. Hand 0 is the fastest: its exponent is 0, and "
        "its angle the number of the place itself."
    ),
)
def slowest_first(T, D):
    expect_pairs(D)
    return interleaved(torch.arange(T).unsqueeze(1) * frequencies(D).flip(0))


@mistake(
    "places-from-1",
    caught_by="place_zero",
    says=N_("Your places count from 1. They count from 0, so that the first row is 0, 1, 0, 1, …"),
)
def places_from_1(T, D):
    expect_pairs(D)
    return interleaved(torch.arange(1, T + 1).unsqueeze(1) * frequencies(D))


# How fast each hand is


@mistake(
    "exponent-of-each-column",
    caught_by="cosines",
    says=N_(
        "Every column has an angle of its own, so that a cosine does not turn with the sine beside it. Columns 2i "
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
        "Your exponent is -i/D for hand i, half of what it should be: the 2 of -2i/D is missing. For example, "
        "arange(D // 2) counts hands, and arange(0, D, 2) counts their columns."
    ),
)
def exponent_halved(T, D):
    expect_pairs(D)
    return interleaved(torch.arange(T).unsqueeze(1) * 10000.0 ** (-torch.arange(D // 2) / D))


@mistake(
    "exponent-doubled",
    caught_by="sines",
    says=N_(
        "Your exponent is -4i/D for hand i, twice what it should be. For example, when i runs through 0, 2, 4, … it is "
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
        "Your exponents go from 0 to -1, both included, so that the slowest hand turns by 1/10000. Hand i has the "
        "exponent -2i/D: the last one does not quite reach -1."
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
        "You multiply by 10000^(2i/D) where you should divide by it: your hands become faster and faster, up to "
        "hundreds of turns from one place to the next. The exponent is negative."
    ),
)
def sign_of_the_exponent(T, D):
    expect_pairs(D)
    return interleaved(torch.arange(T).unsqueeze(1) * 10000.0 ** (torch.arange(0, D, 2) / D))


@mistake(
    "whole-exponents",
    caught_by="sines",
    says=N_(
        "All your hands turn at the same speed, by 1, with exponent 0. For example, `//` leaves nothing of 2i/D, which "
        "lies between 0 and 1: divide with `/`."
    ),
)
def whole_exponents(T, D):
    expect_pairs(D)
    return interleaved(torch.arange(T).unsqueeze(1) / 10000.0 ** (torch.arange(0, D, 2) // D))


@mistake(
    "exponents-rounded-down",
    caught_by="sines",
    says=N_(
        "Hand 0 turns by 1, and all others by 1/10000: their exponents are whole numbers. For example, `//` makes -1 "
        "of -2i/D, which lies between -1 and 0: divide with `/`."
    ),
)
def exponents_rounded_down(T, D):
    expect_pairs(D)
    return interleaved(torch.arange(T).unsqueeze(1) * 10000.0 ** (-2 * torch.arange(D // 2) // D))


@mistake(
    "number-of-the-column-for-the-hand",
    caught_by="sines",
    says=N_(
        "Your exponent is -2j/D for column j, which takes the number of the column for that of the hand. Columns 2i "
        "and 2i + 1 belong to hand i, and share the exponent -2i/D."
    ),
)
def number_of_the_column_for_the_hand(T, D):
    expect_pairs(D)
    table = torch.zeros(T, D)
    for j in range(D):
        angles = torch.arange(T) / 10000 ** (2 * j / D)
        table[:, j] = angles.sin() if j % 2 == 0 else angles.cos()
    return table


@mistake(
    "length-for-width",
    caught_by="sines",
    says=N_(
        "Your exponent is -2i/T, divided by the number of places. The hands of a place are the same for any number of "
        "them: the exponent is -2i/D."
    ),
)
def length_for_width(T, D):
    expect_pairs(D)
    return interleaved(torch.arange(T).unsqueeze(1) * 10000.0 ** (-torch.arange(0, D, 2) / T))


@mistake(
    "places-as-fractions",
    caught_by="sines",
    says=N_(
        "You divide the places by T, so that they run from 0 to 1: the same place gets another row in a longer text. "
        "They count 0, 1, 2, …, as they are."
    ),
)
def places_as_fractions(T, D):
    expect_pairs(D)
    return interleaved((torch.arange(T) / T).unsqueeze(1) * frequencies(D))


@mistake(
    "cosine-as-a-root",
    caught_by="cosines",
    says=N_(
        "Your cosines are never negative, as the square root of 1 - sine² is not. A cosine is, for half of all angles: "
        "compute it from the angle."
    ),
)
def cosine_as_a_root(T, D):
    expect_pairs(D)
    sines = (torch.arange(T).unsqueeze(1) * frequencies(D)).sin()
    return torch.stack([sines, (1 - sines**2).sqrt()], dim=2).flatten(1)


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
    says=N_("Your turns fall in equal steps, by 2/D from hand to hand. They fall by an equal factor: powers of 10000."),
)
def linear_frequencies(T, D):
    expect_pairs(D)
    return interleaved(torch.arange(T).unsqueeze(1) * (1 - torch.arange(0, D, 2) / D))


# How far it reaches


@mistake(
    "places-in-eight-bits",
    caught_by="long",
    says=N_(
        "Your places begin again at 0 after 256 of them, as whole numbers of eight bits (uint8) do. Leave their "
        "dtype to torch.arange, or use floating numbers."
    ),
)
def places_in_eight_bits(T, D):
    expect_pairs(D)
    return interleaved(torch.arange(T).to(torch.uint8).unsqueeze(1) * frequencies(D))


@mistake(
    "bfloat16-places",
    caught_by="long",
    says=N_(
        "Your places go through bfloat16, which has no room for all whole numbers beyond 256: 257 becomes 256. "
        "Count in float32."
    ),
)
def bfloat16_places(T, D):
    expect_pairs(D)
    return interleaved(torch.arange(T, dtype=torch.bfloat16).float().unsqueeze(1) * frequencies(D))


@mistake(
    "at-most-100-places",
    caught_by="long",
    says=N_("Your table is made for 100 places and ends there, whatever T is: make it for T."),
)
def at_most_100_places(T, D):
    return encoding(100, D)[:T]


# The shape, and what it is made of


@mistake(
    "transposed",
    caught_by="shape",
    says=N_("Your encoding is (D, T), a column for every place. It is added to words in rows: (T, D)."),
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
    "an-axis-for-sine-and-cosine",
    caught_by="shape",
    says=N_(
        "Your encoding is (T, D/2, 2), with an axis for sine and cosine. The two belong side by side in one row: the "
        "last two axes become one, as with flatten."
    ),
)
def an_axis_for_sine_and_cosine(T, D):
    return encoding(T, D).view(T, D // 2, 2)


@mistake(
    "list-of-rows",
    caught_by="shape",
    says=N_(
        "You return a list with a row for every place. One tensor is due: torch.stack makes one of a list of them."
    ),
)
def list_of_rows(T, D):
    return list(encoding(T, D))


@mistake(
    "squeezed",
    caught_by="shape",
    says=N_("Your encoding loses every axis of size 1, as through squeeze(): for one place it is (D,), not (1, D)."),
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
    caught_by="numbers",
    says=N_("You return a numpy array. A tensor is due: torch.from_numpy makes one of it."),
)
def numpy_result(T, D):
    return numpy.array(encoding(T, D))


@mistake(
    "same-row-everywhere",
    caught_by="rows",
    says=N_(
        "Every row of yours is the row of place 1, so that no place can be told from another: the angle of a hand is "
        "its turn times the number of the place."
    ),
)
def same_row_everywhere(T, D):
    expect_pairs(D)
    return interleaved(frequencies(D)).expand(T, D)


@mistake(
    "no-return",
    caught_by="numbers",
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
