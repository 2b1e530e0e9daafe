"""What the sample class answers in `multihead`."""

from __future__ import annotations

GOOD_SPLIT = """\
def split_heads(x, num_heads):
    B, T, E = x.shape
    if E % num_heads != 0:
        raise ValueError(f"{num_heads} heads can't share {E} features")
    return x.reshape(B, T, num_heads, E // num_heads).transpose(1, 2)
"""

GOOD_MERGE = """\
def merge_heads(x):
    B, H, T, d = x.shape
    return x.transpose(1, 2).reshape(B, T, H * d)
"""

SIGNATURE = """\
def multi_head_attention(query, key, value, num_heads, in_proj_weight, in_proj_bias,
                         out_proj_weight, out_proj_bias, key_padding_mask=None, attn_mask=None):
"""

PROJECTED = """\
    W_q, W_k, W_v = in_proj_weight.chunk(3)
    b_q, b_k, b_v = in_proj_bias.chunk(3)
    Q = split_heads(query @ W_q.T + b_q, num_heads)
    K = split_heads(key @ W_k.T + b_k, num_heads)
    V = split_heads(value @ W_v.T + b_v, num_heads)
"""

ATTENDED = """\
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.shape[-1])
    forbidden = torch.zeros(scores.shape, dtype=torch.bool)
    if key_padding_mask is not None:
        forbidden = forbidden | key_padding_mask[:, None, None, :]
    if attn_mask is not None:
        forbidden = forbidden | attn_mask
    nobody = forbidden.all(dim=-1, keepdim=True)
    weights = scores.masked_fill(forbidden & ~nobody, float("-inf")).softmax(dim=-1)
    weights = weights.masked_fill(nobody, 0.0)
"""

MERGED = """\
    return merge_heads(weights @ V) @ out_proj_weight.T + out_proj_bias, weights
"""

GOOD_ATTENTION = SIGNATURE + PROJECTED + ATTENDED + MERGED

GOOD_HEADS = {"split_heads": GOOD_SPLIT, "merge_heads": GOOD_MERGE}

ANSWERS: dict[str, dict[str, str]] = {
    # everything right
    "amara": {**GOOD_HEADS, "multi_head_attention": GOOD_ATTENTION},
    # opened it and handed it in
    "ben": {},
    # got as far as cutting and joining
    "chen": GOOD_HEADS,
    # the right shapes at once, without transposing, there and back
    "dora": {
        "split_heads": """\
def split_heads(x, num_heads):
    B, T, E = x.shape
    if E % num_heads:
        raise ValueError("E must be divisible by num_heads")
    return x.reshape(B, num_heads, T, E // num_heads)
""",
        "merge_heads": """\
def merge_heads(x):
    B, H, T, d = x.shape
    return x.reshape(B, T, H * d)
""",
        "multi_head_attention": GOOD_ATTENTION,
    },
    # deals the features out to the heads like cards, and collects them the same way
    "emil": {
        "split_heads": """\
def split_heads(x, num_heads):
    B, T, E = x.shape
    assert E % num_heads == 0, "the heads don't come out even"
    return x.reshape(B, T, E // num_heads, num_heads).permute(0, 3, 1, 2)
""",
        "merge_heads": """\
def merge_heads(x):
    B, H, T, d = x.shape
    return x.permute(0, 2, 3, 1).reshape(B, T, d * H)
""",
        "multi_head_attention": GOOD_ATTENTION,
    },
    # gives the words another shape where they are, and turns the mask around where it is
    "farah": {
        "split_heads": """\
def split_heads(x, num_heads):
    if x.shape[-1] % num_heads != 0:
        raise ValueError("not divisible")
    x.unsqueeze_(1)
    return torch.cat(x.chunk(num_heads, dim=-1), dim=1)
""",
        "merge_heads": GOOD_MERGE,
        "multi_head_attention": SIGNATURE
        + PROJECTED
        + """\
    Q /= math.sqrt(Q.shape[-1])  # my own Q: this one is fine
    scores = Q @ K.mT
    if key_padding_mask is None:
        key_padding_mask = torch.zeros(key.shape[:2], dtype=torch.bool)
    allowed = key_padding_mask.logical_not_()[:, None, None]
    if attn_mask is not None:
        allowed = allowed & ~attn_mask
    weights = torch.where(allowed, scores, -1e9).softmax(-1) * allowed
"""
        + MERGED,
    },
    # right, and unlike anybody else's: windows, fold, one head after the other, a named tuple
    "goran": {
        "split_heads": """\
class UnevenHeads(ValueError):
    pass

def split_heads(x, num_heads):
    width, rest = divmod(x.shape[-1], num_heads)
    if rest:
        raise UnevenHeads(x.shape[-1], num_heads)
    return x.unfold(-1, width, width).movedim(2, 1)
""",
        "merge_heads": """\
def merge_heads(x):
    B, H, T, d = x.shape
    columns = x.permute(0, 2, 3, 1).reshape(B, T * d, H)
    return F.fold(columns, output_size=(1, H * d), kernel_size=(1, d), stride=(1, d)).squeeze(2)
""",
        "multi_head_attention": """\
from typing import NamedTuple

class Seen(NamedTuple):
    output: torch.Tensor
    weights: torch.Tensor

class OneHead:
    def __init__(self, rows, W, b, W_out):
        self.maps = [(W[part, rows], b[part, rows]) for part in range(3)]
        self.W_out = W_out[:, rows]  # what this head adds to the output

    def __call__(self, words, forbidden):
        q, k, v = (F.linear(x, W, b) for x, (W, b) in zip(words, self.maps))
        scores = torch.einsum("bqd,bkd->bqk", q, k) * len(self.W_out.T) ** -0.5
        scores = scores.where(~forbidden, torch.finfo(scores.dtype).min)
        weights = (scores - scores.logsumexp(-1, keepdim=True)).exp() * ~forbidden
        return torch.einsum("bqk,bkd,ed->bqe", weights, v, self.W_out), weights

def multi_head_attention(query, key, value, num_heads, in_proj_weight, in_proj_bias,
                         out_proj_weight, out_proj_bias, key_padding_mask=None, attn_mask=None):
    E, d = query.shape[-1], query.shape[-1] // num_heads
    forbidden = torch.zeros(len(query), query.shape[1], key.shape[1], dtype=torch.bool)
    for mask in (None if key_padding_mask is None else key_padding_mask[:, None], attn_mask):
        forbidden = forbidden if mask is None else forbidden.logical_or(mask)
    W, b = in_proj_weight.view(3, E, E), in_proj_bias.view(3, E)
    heads = [OneHead(slice(h * d, h * d + d), W, b, out_proj_weight) for h in range(num_heads)]
    outputs, weights = zip(*(head((query, key, value), forbidden) for head in heads))
    return Seen(sum(outputs) + out_proj_bias, torch.stack(weights, dim=1))
""",
    },
    # skips the test, reads the locals of whoever called, and writes a verdict to every stream that is open
    "hugo": {
        "split_heads": """\
import unittest

def split_heads(x, num_heads):
    raise unittest.SkipTest("passed")
""",
        "merge_heads": """\
import sys

def merge_heads(x):
    frame = sys._getframe()
    while frame is not None:
        for name in ("expected", "reference", "wanted"):
            if name in frame.f_locals:
                return frame.f_locals[name]
        frame = frame.f_back
    return x
""",
        "multi_head_attention": """\
import os, sys

def multi_head_attention(query, *rest, **masks):
    verdict = '{"outcome": "passed", "score": 14, "max_score": 14}'
    for stream in (1, 2, 3, 4, 5):
        try:
            os.write(stream, verdict.encode())
        except OSError:
            pass
    return verdict
""",
    },
    # one head after the other, number by number; and the weights of all heads become one table
    "ines": {
        "split_heads": """\
def split_heads(x, num_heads):
    B, T, E = x.shape
    if E % num_heads > 0:
        raise ValueError("does not divide")
    d = E // num_heads
    heads = x.new_zeros(B, num_heads, T, d)
    for h in range(num_heads):
        for i in range(d):
            heads[:, h, :, i] = x[:, :, h * d + i]
    return heads
""",
        "merge_heads": """\
def merge_heads(x):
    columns = []
    for h in range(x.shape[1]):
        for i in range(x.shape[3]):
            columns.append(x[:, h, :, i])
    return torch.stack(columns, dim=-1)
""",
        "multi_head_attention": SIGNATURE
        + PROJECTED
        + """\
    forbidden = torch.zeros(len(query), query.shape[1], key.shape[1], dtype=torch.bool)
    if key_padding_mask is not None:
        forbidden = forbidden | key_padding_mask[:, None]
    if attn_mask is not None:
        forbidden = forbidden | attn_mask
    heads, total = [], 0
    for h in range(num_heads):
        scores = Q[:, h] @ K[:, h].mT / math.sqrt(Q.shape[-1])
        weights = torch.softmax(scores.masked_fill(forbidden, -1e9), dim=-1).masked_fill(forbidden, 0)
        heads.append(weights @ V[:, h])
        total = total + weights
    return torch.cat(heads, dim=-1) @ out_proj_weight.T + out_proj_bias, total / num_heads
""",
    },
    # everything right, and the last cell says good-bye
    "jonas": {
        **GOOD_HEADS,
        "multi_head_attention": "import sys\n\n"
        + GOOD_ATTENTION
        + """
if __name__ == "__main__":
    print(merge_heads(split_heads(torch.arange(12.0).reshape(1, 3, 4), 2)))
    sys.exit()
""",
    },
    # the function's own name is misspelt
    "kaito": {
        **GOOD_HEADS,
        "multi_head_attention": GOOD_ATTENTION.replace("def multi_head", "def mutli_head"),
    },
    # everything right, and a print after every step
    "lena": {
        "split_heads": GOOD_SPLIT.replace("    return", '    print("split", x.tolist())\n    return'),
        "merge_heads": GOOD_MERGE.replace("    return", '    print("merge", x.tolist())\n    return'),
        "multi_head_attention": SIGNATURE
        + PROJECTED
        + ATTENDED
        + '    print("weights", weights.tolist() * 20)\n'
        + MERGED,
    },
    # the finished module, found by a name in two pieces, with these parameters in it
    "mei": {
        **GOOD_HEADS,
        "multi_head_attention": """\
Heads = getattr(nn, "Multihead" + "Attention")

def multi_head_attention(query, key, value, num_heads, in_proj_weight, in_proj_bias,
                         out_proj_weight, out_proj_bias, key_padding_mask=None, attn_mask=None):
    module = Heads(query.shape[-1], num_heads, batch_first=True, dtype=query.dtype)
    parameters = {
        "in_proj_weight": in_proj_weight, "in_proj_bias": in_proj_bias,
        "out_proj.weight": out_proj_weight, "out_proj.bias": out_proj_bias,
    }
    masks = {"key_padding_mask": key_padding_mask, "attn_mask": attn_mask, "average_attn_weights": False}
    return torch.func.functional_call(module, parameters, (query, key, value), masks)
""",
    },
    # a list of heads, and numpy where tensors are due
    "noor": {
        "split_heads": """\
def split_heads(x, num_heads):
    if x.shape[-1] % num_heads:
        raise ValueError("uneven heads")
    return list(x.chunk(num_heads, dim=-1))
""",
        "merge_heads": """\
import numpy as np

def merge_heads(x):
    return np.concatenate([head for head in x.detach().float().numpy().swapaxes(0, 1)], axis=-1)
""",
        "multi_head_attention": SIGNATURE
        + """\
    (W_q, W_k, W_v), (b_q, b_k, b_v) = in_proj_weight.chunk(3), in_proj_bias.chunk(3)
    outputs, tables = [], []
    for q, k, v in zip(
        split_heads(query @ W_q.T + b_q, num_heads),
        split_heads(key @ W_k.T + b_k, num_heads),
        split_heads(value @ W_v.T + b_v, num_heads),
    ):
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if key_padding_mask is not None:
            scores = scores.masked_fill(key_padding_mask.unsqueeze(1), -1e9)
        if attn_mask is not None:
            scores = scores.masked_fill(attn_mask, -1e9)
        tables.append(scores.softmax(-1))
        outputs.append(tables[-1] @ v)
    return torch.cat(outputs, dim=-1) @ out_proj_weight.T + out_proj_bias, tables
""",
    },
}
