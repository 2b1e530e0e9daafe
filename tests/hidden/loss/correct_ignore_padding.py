"""Correct ways to take the padding out of the targets; all of them earn full marks."""

import warnings

import torch

from autograder.suite import correct, correct_source


@correct("masked-fill")
def masked_fill(targets, lengths, ignore_index=-100):
    padding = torch.arange(targets.shape[1], device=targets.device) >= lengths.unsqueeze(1)
    return targets.masked_fill(padding, ignore_index)


@correct("where")
def where(targets, lengths, ignore_index=-100):
    words = torch.arange(targets.size(1))[None] < lengths[:, None]
    return torch.where(words, targets, ignore_index)


@correct("where-with-a-tensor")
def where_with_a_tensor(targets, lengths, ignore_index=-100):
    words = torch.arange(targets.size(1)).expand_as(targets) < lengths.view(-1, 1)
    return torch.where(words, targets, torch.tensor(ignore_index, dtype=targets.dtype))


@correct("clone-and-slices")
def clone_and_slices(targets, lengths, ignore_index=-100):
    result = targets.clone()
    for b in range(len(lengths)):
        result[b, lengths[b] :] = ignore_index
    return result


@correct("clone-and-boolean-indexing")
def clone_and_boolean_indexing(targets, lengths, ignore_index=-100):
    result = targets.detach().clone()
    result[torch.arange(targets.shape[1]) >= lengths[:, None]] = ignore_index
    return result


@correct("words-copied-over")
def words_copied_over(targets, lengths, ignore_index=-100):
    result = torch.full_like(targets, ignore_index)
    for row, words, n in zip(result, targets, lengths, strict=True):
        row[:n] = words[:n]
    return result


@correct("products")
def products(targets, lengths, ignore_index=-100):
    padding = (torch.arange(targets.shape[1]) >= lengths.unsqueeze(1)).to(targets.dtype)
    return targets * (1 - padding) + ignore_index * padding


@correct("rows-made-anew")
def rows_made_anew(targets, lengths, ignore_index=-100):
    width = targets.shape[1]
    rows = [row[:n].tolist() + [ignore_index] * (width - n) for row, n in zip(targets, lengths.tolist(), strict=True)]
    return torch.tensor(rows, dtype=targets.dtype)


@correct("label-by-label")
def label_by_label(targets, lengths, ignore_index=-100):
    copy = torch.empty_like(targets)
    for b in range(targets.shape[0]):
        for t in range(targets.shape[1]):
            copy[b, t] = targets[b, t] if t < lengths[b] else ignore_index
    return copy


@correct("cut-and-padded")
def cut_and_padded(targets, lengths, ignore_index=-100):
    rows = [row[:n] for row, n in zip(targets, lengths, strict=True)]
    width = targets.shape[1]
    rows = [torch.nn.functional.pad(row, (0, width - len(row)), value=ignore_index) for row in rows]
    return torch.stack(rows)


@correct("masked-scatter")
def masked_scatter(targets, lengths, ignore_index=-100):
    words = torch.arange(targets.shape[1]) < lengths.unsqueeze(1)
    return torch.full_like(targets, ignore_index).masked_scatter(words, targets[words])


@correct("vmap-and-prints")
def vmap_and_prints(targets, lengths, ignore_index=-100):
    warnings.warn("labels at the padding are going to be replaced", stacklevel=2)
    places = torch.arange(targets.shape[1])
    result = torch.vmap(lambda row, n: torch.where(places < n, row, ignore_index))(targets, lengths)
    print("replaced:", (result == ignore_index).sum().item())
    return result


callable_object = correct_source(
    "callable-object",
    """\
import torch

class IgnorePadding:
    def __call__(self, targets, lengths, ignore_index=-100):
        padding = torch.arange(targets.shape[1]) >= lengths.unsqueeze(1)
        return targets.masked_fill(padding, ignore_index)

ignore_padding = IgnorePadding()
""",
)

a_lambda = correct_source(
    "lambda",
    """\
import torch
ignore_padding = lambda y, n, ignore_index=-100: y.masked_fill(torch.arange(y.size(1)) >= n[:, None], ignore_index)
""",
)

scripted = correct_source(
    "scripted",
    """\
import torch

@torch.jit.script
def ignore_padding(targets, lengths, ignore_index: int = -100):
    padding = torch.arange(targets.shape[1], device=targets.device) >= lengths.unsqueeze(1)
    return targets.masked_fill(padding, ignore_index)
""",
)
