"""Correct ways to put heads side by side again; all of them earn full marks."""

import torch

from autograder.suite import correct, correct_source


@correct("transpose-and-reshape")
def transpose_and_reshape(x):
    B, H, T, d = x.shape
    return x.transpose(1, 2).reshape(B, T, H * d)


@correct("contiguous-and-view")
def contiguous_and_view(x):
    return x.permute(0, 2, 1, 3).contiguous().view(x.shape[0], x.shape[2], -1)


@correct("flatten")
def flatten(x):
    return x.swapaxes(1, 2).flatten(2)


@correct("heads-concatenated")
def heads_concatenated(x):
    return torch.cat([x[:, h] for h in range(x.shape[1])], dim=-1)


@correct("unbound")
def unbound(x):
    print(len(x))
    return torch.cat(x.unbind(dim=1), dim=2)


@correct("word-by-word")
def word_by_word(x):
    return torch.stack([torch.stack([words[:, t].flatten() for t in range(x.shape[2])]) for words in x])


@correct("filled-in")
def filled_in(x):
    B, H, T, d = x.shape
    merged = torch.empty(B, T, H * d, dtype=x.dtype, device=x.device)
    for h in range(H):
        merged[..., h * d : (h + 1) * d] = x[:, h]
    return merged


@correct("einsum")
def einsum(x):
    return torch.einsum("bhtd->bthd", x).reshape(x.size(0), x.size(2), x.size(1) * x.size(3))


@correct("placed-by-a-product")
def placed_by_a_product(x):
    H, d = x.shape[1], x.shape[3]
    place = torch.eye(H * d, dtype=x.dtype, device=x.device).view(H, d, H * d)
    return torch.einsum("bhtd,hde->bte", x, place)


lambda_of_rows = correct_source(
    "lambda",
    """\
import numpy as np
import torch

merge_heads = lambda x: x.movedim(1, 2).reshape((np.int64(x.shape[0]), np.int64(x.shape[2]), -1))
""",
)

module = correct_source(
    "module",
    """\
import torch

class MergeHeads(torch.nn.Module):
    def forward(self, x):
        return torch.hstack([head.mT for head in x.unbind(1)]).mT

merge_heads = MergeHeads()
""",
)

scripted = correct_source(
    "scripted",
    """\
import torch

@torch.jit.script
def merge_heads(x):
    return x.transpose(1, 2).flatten(2)
""",
)
