"""Correct ways to write a sinusoidal encoding; all of them earn full marks."""

import math
import warnings

import numpy
import torch

from autograder.suite import correct, correct_source


@correct("slices-filled")
def slices_filled(T, D):
    if D % 2 != 0:
        raise ValueError(f"D must be even, and is {D}")
    encoding = torch.zeros(T, D)
    angles = torch.arange(T).unsqueeze(1) / 10000 ** (torch.arange(0, D, 2) / D)
    encoding[:, 0::2] = torch.sin(angles)
    encoding[:, 1::2] = torch.cos(angles)
    return encoding


@correct("exponential-of-logarithm")
def exponential_of_logarithm(T, D):
    assert D % 2 == 0, "D must be even"
    position = torch.arange(0, T, dtype=torch.float).unsqueeze(1)
    frequency = torch.exp(torch.arange(0, D, 2).float() * (-math.log(10000.0) / D))
    encoding = torch.empty(T, D)
    encoding[:, 0::2] = torch.sin(position * frequency)
    encoding[:, 1::2] = torch.cos(position * frequency)
    return encoding


@correct("entry-by-entry")
def entry_by_entry(T, D):
    if D % 2:
        raise ValueError("D must be even")
    encoding = torch.zeros(T, D)
    for t in range(T):
        for i in range(D // 2):
            encoding[t, 2 * i] = math.sin(t / 10000 ** (2 * i / D))
            encoding[t, 2 * i + 1] = math.cos(t / 10000 ** (2 * i / D))
    return encoding


@correct("stacked-and-flattened")
def stacked_and_flattened(T, D):
    if D % 2:
        raise ValueError("D must be even")
    angles = torch.outer(torch.arange(T).float(), torch.pow(10000.0, -torch.arange(0, D, 2) / D))
    return torch.stack((angles.sin(), angles.cos()), dim=2).reshape(T, D)


@correct("halves-reordered")
def halves_reordered(T, D):
    if D % 2:
        raise ValueError("D must be even")
    angles = torch.einsum("t,i->ti", torch.arange(T).float(), 10000.0 ** (-2 * torch.arange(D // 2) / D))
    halves = torch.cat([angles.sin(), angles.cos()], dim=-1)
    return halves.view(T, 2, D // 2).transpose(1, 2).flatten(1)


@correct("cosine-as-a-shifted-sine")
def cosine_as_a_shifted_sine(T, D):
    if D % 2:
        raise ValueError("D must be even")
    column = torch.arange(D)
    frequency = 10000.0 ** (-(column - column % 2) / D)
    return torch.sin(torch.arange(T)[:, None] * frequency + column % 2 * (torch.pi / 2))


@correct("complex-rotation")
def complex_rotation(T, D):
    if D % 2:
        raise ValueError("D must be even")
    angles = torch.arange(T, dtype=torch.float64)[:, None] * 10000.0 ** (-torch.arange(0, D, 2).double() / D)
    turned = torch.view_as_real(torch.polar(torch.ones_like(angles), angles))
    return turned.flip(-1).flatten(1).float()


@correct("chosen-by-column")
def chosen_by_column(T, D):
    if D % 2:
        raise ValueError("D must be even")
    frequency = torch.logspace(0, -4 * (D - 2) / D, D // 2).repeat_interleave(2)
    angles = torch.arange(T).view(-1, 1) * frequency
    return torch.where(torch.arange(D) % 2 == 0, angles.sin(), angles.cos())


@correct("from-numpy")
def from_numpy(T, D):
    if D % 2:
        raise ValueError("D must be even")
    angles = numpy.arange(T)[:, None] / numpy.power(10000, 2 * (numpy.arange(D) // 2) / D)
    angles[:, 0::2], angles[:, 1::2] = numpy.sin(angles[:, 0::2]), numpy.cos(angles[:, 1::2])
    return torch.from_numpy(angles).to(torch.float32)


@correct("turned-step-by-step")
def turned_step_by_step(T, D):
    if D % 2:
        raise ValueError("D must be even")
    step = 10000.0 ** (-torch.arange(0, D, 2, dtype=torch.float64) / D)
    sine, cosine = torch.zeros(D // 2, dtype=torch.float64), torch.ones(D // 2, dtype=torch.float64)
    rows = []
    for _ in range(T):
        rows.append(torch.stack([sine, cosine], dim=1).flatten())
        sine, cosine = sine * step.cos() + cosine * step.sin(), cosine * step.cos() - sine * step.sin()
    return torch.stack(rows).float()


@correct("lists-and-an-own-error")
def lists_and_an_own_error(T, D):
    class OddWidthError(ValueError):
        pass

    if D % 2:
        raise OddWidthError(D)
    warnings.warn("this is slow", stacklevel=2)
    torch.manual_seed(7)
    waves = [math.sin, math.cos]
    rows = [[waves[j % 2](t * math.pow(10000, -(j - j % 2) / D)) for j in range(D)] for t in range(T)]
    print("rows:", len(rows))
    return torch.tensor(rows)


@correct("columns-transposed")
def columns_transposed(T, D):
    if D % 2:
        raise ValueError("D must be even")
    position, columns = torch.arange(T), []
    for pair in range(D // 2):
        angle = position / 10000 ** (2 * pair / D)
        columns += [angle.sin(), angle.cos()]
    return torch.stack(columns).T


callable_object = correct_source(
    "callable-object",
    """\
import torch

class PositionalEncoding:
    def __init__(self):
        self.tables = {}

    def __call__(self, T, D):
        if D % 2:
            raise ValueError("D must be even")
        if (T, D) not in self.tables:
            angles = torch.arange(T)[:, None] / 10000 ** (torch.arange(D) // 2 * 2 / D)
            angles[:, 0::2].sin_()
            angles[:, 1::2].cos_()
            self.tables[T, D] = angles
        return self.tables[T, D]

positional_encoding = PositionalEncoding()
""",
)

scripted = correct_source(
    "scripted",
    """\
import torch

@torch.jit.script
def positional_encoding(T: int, D: int):
    if D % 2 != 0:
        raise ValueError("D must be even")
    angles = torch.arange(T).unsqueeze(1) * torch.pow(10000.0, -torch.arange(0, D, 2) / D)
    return torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1)
""",
)
