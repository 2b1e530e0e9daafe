"""Correct ways to write a padding mask; all of them earn full marks."""

import numpy
import torch
import torch.nn.functional as F

from autograder.suite import correct, correct_source


@correct("arange-against-lengths")
def arange_against_lengths(lengths, max_len=None):
    max_len = int(lengths.max()) if max_len is None else max_len
    return torch.arange(max_len, device=lengths.device) >= lengths.unsqueeze(1)


@correct("not-a-word")
def not_a_word(lengths, max_len=None):
    if max_len is None:
        max_len = lengths.max().item()
    words = torch.arange(max_len)[None, :].expand(len(lengths), max_len) < lengths[:, None]
    return ~words


@correct("counted-from-one")
def counted_from_one(lengths, max_len=None):
    if not max_len:
        max_len = max(lengths)
    return torch.arange(1, max_len + 1).unsqueeze(0) > lengths.view(-1, 1)


@correct("loop-and-slices")
def loop_and_slices(lengths, max_len=None):
    max_len = max(lengths.tolist()) if max_len is None else max_len
    mask = torch.zeros(lengths.size(0), max_len, dtype=torch.bool)
    for i, n in enumerate(lengths):
        mask[i, n:] = True
    return mask


@correct("list-comprehension")
def list_comprehension(lengths, max_len=None):
    ns = lengths.tolist()
    max_len = max_len or max(ns)
    return torch.tensor([[False] * n + [True] * (max_len - n) for n in ns])


@correct("list-of-tensors-stacked")
def list_of_tensors_stacked(lengths, max_len=None):
    width = int(lengths.max()) if max_len is None else int(max_len)
    return torch.stack([torch.arange(width) >= n for n in lengths], dim=0)


@correct("cumsum")
def cumsum(lengths, max_len=None):
    max_len = int(torch.max(lengths)) if max_len is None else max_len
    ones = torch.ones(len(lengths), max_len, dtype=torch.long)
    return ones.cumsum(dim=1) > lengths.reshape(-1, 1)


@correct("rows-of-a-triangle")
def rows_of_a_triangle(lengths, max_len=None):
    max_len = int(lengths.max()) if max_len is None else max_len
    # Row n of the triangle is the row of a sentence of n words.
    return torch.ones(max_len + 1, max_len).triu().bool()[lengths]


@correct("ends-summed-up")
def ends_summed_up(lengths, max_len=None):
    max_len = int(lengths.max()) if max_len is None else max_len
    ends = F.one_hot(lengths, max_len + 1)
    return ends.cumsum(dim=-1)[:, :max_len].bool()


@correct("pad-sequence-of-words")
def pad_sequence_of_words(lengths, max_len=None):
    words = [torch.zeros(n, dtype=torch.bool) for n in lengths.tolist()]
    mask = torch.nn.utils.rnn.pad_sequence(words, batch_first=True, padding_value=True)
    if max_len is not None:
        mask = F.pad(mask, (0, max_len - mask.shape[1]), value=True)
    return mask


@correct("through-numpy")
def through_numpy(lengths, max_len=None):
    ns = lengths.numpy()
    places = numpy.arange(ns.max() if max_len is None else max_len)
    return torch.from_numpy(places[None] >= ns[:, None])


@correct("numbers-made-bool")
def numbers_made_bool(lengths, max_len=None):
    max_len = lengths.max() if max_len is None else max_len
    mask = torch.ones(len(lengths), max_len)
    for i in range(len(lengths)):
        mask[i, : lengths[i]] = 0
    return mask == 1


@correct("ge-and-expand")
def ge_and_expand(lengths, max_len=None):
    max_len = lengths.amax() if max_len is None else max_len
    grid = torch.arange(max_len).expand(lengths.shape[0], max_len)
    return torch.ge(grid, lengths[:, None].expand_as(grid))


@correct("where")
def where(lengths, max_len=None):
    max_len = int(lengths.max()) if max_len is None else max_len
    places = torch.arange(max_len).repeat(len(lengths), 1)
    return torch.where(places < lengths.unsqueeze(-1), False, True)


@correct("vmap")
def vmap(lengths, max_len=None):
    places = torch.arange(int(lengths.max()) if max_len is None else max_len)
    return torch.vmap(lambda length: places >= length)(lengths)


@correct("own-change-undone-on-a-clone")
def on_a_clone(lengths, max_len=None):
    longest = int(lengths.max()) if max_len is None else max_len
    left = lengths.clone()
    columns = []
    for _ in range(longest):
        columns.append(left <= 0)
        left -= 1
    return torch.stack(columns, dim=1)


callable_object = correct_source(
    "callable-object",
    """\
import torch

class PaddingMask:
    def __call__(self, lengths, max_len=None):
        if max_len is None:
            max_len = int(lengths.max())
        return torch.arange(max_len).unsqueeze(0) >= lengths.unsqueeze(1)

padding_mask = PaddingMask()
""",
)

a_lambda = correct_source(
    "lambda",
    """\
import torch
padding_mask = lambda lengths, max_len=None: torch.arange(max_len or int(lengths.max())) >= lengths[:, None]
""",
)

scripted = correct_source(
    "scripted",
    """\
from typing import Optional
import torch

@torch.jit.script
def padding_mask(lengths, max_len: Optional[int] = None):
    if max_len is None:
        width = int(lengths.max())
    else:
        width = max_len
    return torch.arange(width, device=lengths.device) >= lengths.unsqueeze(1)
""",
)
