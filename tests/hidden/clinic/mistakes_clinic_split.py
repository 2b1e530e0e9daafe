"""What is left to repair in the fifth case, and half repairs."""

import torch

from autograder.suite import N_, mistake


def width_of(x, num_heads):
    if x.shape[-1] % num_heads:
        raise ValueError("num_heads must divide the embedding")
    return x.shape[-1] // num_heads


@mistake(
    "as-sick-as-before",
    caught_by="repaired",
    says=N_(
        "On every call up to here your function gives what the sick one gives: either your change is not what matters, "
        "or it is not in force (of several definitions in a notebook, the last counts). "
        "Send numbers through it that tell where they come from, and read the first row of head 0."
    ),
)
def as_sick_as_before(x, num_heads):
    B, T, _ = x.shape
    return x.transpose(1, 2).reshape(B, num_heads, T, width_of(x, num_heads))


@mistake(
    "never-exchanged",
    caught_by="repaired",
    says=N_(
        "Now nothing changes places at all: the numbers are cut in the order in which they lie, and head 0 gets the "
        "first words instead of a part of each. Which axis may be cut, and what has to move afterwards?"
    ),
)
def never_exchanged(x, num_heads):
    B, T, _ = x.shape
    return x.reshape(B, num_heads, T, width_of(x, num_heads))


@mistake(
    "heads-lie-on-their-side",
    caught_by="repaired",
    says=N_(
        "Every head has the right numbers now, and they lie in order, but on their side: (B, H, d, T), a row for each "
        "feature. One more step is missing."
    ),
)
def heads_lie_on_their_side(x, num_heads):
    B, T, _ = x.shape
    return x.transpose(1, 2).reshape(B, num_heads, width_of(x, num_heads), T)


@mistake(
    "pieces-of-num-heads",
    caught_by="repaired",
    says=N_(
        "Width and number of the heads have changed places: your heads are num_heads features wide, and there are "
        "E / num_heads of them. Count off a case where the two are different."
    ),
)
def pieces_of_num_heads(x, num_heads):
    width_of(x, num_heads)
    return torch.stack(x.split(num_heads, dim=-1), dim=1)
