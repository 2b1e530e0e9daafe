"""Correct ways to cut features into heads; all of them earn full marks."""

import torch

from autograder.suite import correct, correct_source


@correct("view-and-transpose")
def view_and_transpose(x, num_heads):
    B, T, E = x.shape
    if E % num_heads != 0:
        raise ValueError(f"{E} features cannot be shared out among {num_heads} heads")
    return x.view(B, T, num_heads, E // num_heads).transpose(1, 2)


@correct("reshape-and-permute")
def reshape_and_permute(x, num_heads):
    if x.shape[-1] % num_heads:
        raise ValueError("num_heads must divide the embedding")
    return x.reshape(*x.shape[:2], num_heads, -1).permute(0, 2, 1, 3).contiguous()


@correct("assert")
def with_assert(x, num_heads):
    assert x.size(-1) % num_heads == 0, "num_heads must divide the embedding"
    return x.unflatten(-1, (num_heads, -1)).swapaxes(1, 2)


@correct("own-error")
def own_error(x, num_heads):
    class WidthError(ValueError):
        pass

    width, rest = divmod(x.shape[-1], num_heads)
    if rest:
        raise WidthError(rest)
    return torch.einsum("bthd->bhtd", x.reshape(x.shape[0], x.shape[1], num_heads, width))


@correct("chunks-stacked")
def chunks_stacked(x, num_heads):
    if x.shape[-1] % num_heads != 0:
        raise ValueError("uneven heads")
    return torch.stack(x.chunk(num_heads, dim=-1), dim=1)


@correct("slices-in-a-list")
def slices_in_a_list(x, num_heads):
    d = x.shape[2] / num_heads
    if d != int(d):
        raise ValueError("uneven heads")
    d = int(d)
    print("head width", d)
    return torch.cat([x[:, None, :, h * d : h * d + d] for h in range(num_heads)], dim=1)


@correct("filled-in")
def filled_in(x, num_heads):
    B, T, E = x.shape
    if E % num_heads:
        raise ValueError("uneven heads")
    d = E // num_heads
    heads = x.new_zeros(B, num_heads, T, d)
    for h in range(num_heads):
        for column in range(d):
            heads[:, h, :, column] = x[:, :, h * d + column]
    return heads


@correct("picked-by-a-product")
def picked_by_a_product(x, num_heads):
    E = x.shape[-1]
    if E % num_heads:
        raise ValueError("uneven heads")
    pick = torch.eye(E, dtype=x.dtype, device=x.device).view(E, num_heads, E // num_heads)
    return torch.einsum("bte,ehd->bhtd", x, pick)


@correct("index-select")
def index_select(x, num_heads):
    if x.shape[-1] % num_heads:
        raise ValueError("uneven heads")
    places = torch.arange(x.shape[-1], device=x.device).view(num_heads, -1)
    return x[:, :, places].movedim(2, 1)


@correct("vmap")
def vmap(x, num_heads):
    if x.shape[-1] % num_heads:
        raise ValueError("uneven heads")
    return torch.vmap(lambda words: words.unflatten(1, (num_heads, -1)).transpose(0, 1))(x)


callable_object = correct_source(
    "callable-object",
    """\
import torch

class SplitHeads:
    def __call__(self, x, num_heads):
        torch.manual_seed(7)
        if x.shape[-1] % num_heads != 0:
            raise ValueError("num_heads must divide E")
        return x.unfold(-1, x.shape[-1] // num_heads, x.shape[-1] // num_heads).transpose(1, 2)

split_heads = SplitHeads()
""",
)

scripted = correct_source(
    "scripted",
    """\
import torch

@torch.jit.script
def split_heads(x, num_heads: int):
    B, T, E = x.shape
    assert E % num_heads == 0
    return x.reshape(B, T, num_heads, E // num_heads).transpose(1, 2)
""",
)
