"""What the sample class answers in `masking`."""

from __future__ import annotations

GOOD_PADDING = """\
def padding_mask(lengths, max_len=None):
    if max_len is None:
        max_len = int(lengths.max())
    return torch.arange(max_len) >= lengths.unsqueeze(1)
"""

GOOD_CAUSAL = """\
def causal_mask(T):
    return torch.triu(torch.ones(T, T), diagonal=1).bool()
"""

GOOD_ATTENTION = """\
def masked_attention(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = Q @ K.transpose(1, 2) / math.sqrt(Q.shape[-1])
    forbidden = torch.zeros_like(scores, dtype=torch.bool)
    if key_padding_mask is not None:
        forbidden = forbidden | key_padding_mask.unsqueeze(1)
    if attn_mask is not None:
        forbidden = forbidden | attn_mask
    nobody = forbidden.all(dim=-1, keepdim=True)
    scores = scores.masked_fill(forbidden & ~nobody, float("-inf"))
    weights = scores.softmax(dim=-1).masked_fill(nobody, 0.0)
    return weights @ V, weights
"""

GOOD_MASKS = {"padding_mask": GOOD_PADDING, "causal_mask": GOOD_CAUSAL}

ANSWERS: dict[str, dict[str, str]] = {
    # everything right
    "amara": {**GOOD_MASKS, "masked_attention": GOOD_ATTENTION},
    # opened it and handed it in
    "ben": {},
    # got as far as the masks
    "chen": GOOD_MASKS,
    # nobody left to look at: NaN
    "dora": {
        **GOOD_MASKS,
        "masked_attention": """\
def masked_attention(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    if key_padding_mask is not None:
        scores = scores.masked_fill(key_padding_mask[:, None, :], -math.inf)
    if attn_mask is not None:
        scores = scores.masked_fill(attn_mask, -math.inf)
    weights = torch.softmax(scores, dim=-1)
    return weights @ V, weights
""",
    },
    # the other triangle, and the padding along the queries
    "emil": {
        "padding_mask": GOOD_PADDING,
        "causal_mask": """\
def causal_mask(T):
    return torch.ones(T, T, dtype=torch.bool).tril(-1)
""",
        "masked_attention": """\
def masked_attention(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    forbidden = torch.zeros(scores.shape, dtype=torch.bool)
    if key_padding_mask is not None:
        forbidden = forbidden | key_padding_mask.unsqueeze(2)
    if attn_mask is not None:
        forbidden = forbidden | attn_mask
    nobody = forbidden.all(dim=-1, keepdim=True)
    weights = torch.softmax(scores.masked_fill(forbidden & ~nobody, -math.inf), dim=-1)
    weights = weights.masked_fill(nobody, 0)
    return weights @ V, weights
""",
    },
    # one mask, and written into it: the caller's
    "farah": {
        **GOOD_MASKS,
        "masked_attention": """\
def masked_attention(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    if key_padding_mask is None:
        key_padding_mask = torch.zeros(K.shape[:2], dtype=torch.bool)
    allowed = key_padding_mask.logical_not_().unsqueeze(1)
    if attn_mask is not None:
        allowed = allowed & attn_mask.logical_not_()
    weights = torch.where(allowed, scores, -1e9).softmax(-1) * allowed
    return weights @ V, weights
""",
    },
    # right, and unlike anybody else's: cumsum, outer differences, an online softmax over the keys
    "goran": {
        "padding_mask": """\
import torch.nn.functional as F

def padding_mask(lengths, max_len=None):
    # an end mark at place n, and its running sum
    width = max_len or max(lengths.tolist())
    return F.one_hot(lengths.long(), width + 1).cumsum(-1)[:, :width].eq(1)
""",
        "causal_mask": """\
class Causal:
    def __call__(self, T):
        place = torch.arange(T)
        return torch.sub(place, place[:, None]).sign() > 0

causal_mask = Causal()
""",
        "masked_attention": """\
def masked_attention(Q, K, V, key_padding_mask=None, attn_mask=None):
    # one key after the other, as FlashAttention does: never the whole table of scores
    n, m, d = Q.shape[1], K.shape[1], Q.shape[2]
    low = torch.finfo(Q.dtype).min
    top, total, mixed, parts = Q.new_full((len(Q), n), low), Q.new_zeros(len(Q), n), 0, []
    for j in range(m):
        out = torch.zeros(len(Q), n, dtype=torch.bool)
        if key_padding_mask is not None:
            out = out | key_padding_mask[:, j, None]
        if attn_mask is not None:
            out = out | attn_mask[:, j]
        score = torch.einsum("bqd,bd->bq", Q, K[:, j]) / d**0.5
        new = torch.where(out, top, torch.maximum(top, score.detach()))
        shrink = torch.exp(top - new)
        part = torch.where(out, 0, torch.exp(torch.where(out, 0, score - new)))
        total, top = total * shrink + part, new
        mixed = mixed * shrink[..., None] + part[..., None] * V[:, None, j]
        parts = [p * shrink for p in parts] + [part]
    total = torch.where(total == 0, 1, total)[..., None]
    return mixed / total, torch.stack(parts, -1) / total
""",
    },
    # hands over objects that are equal to whatever they are compared with
    "hugo": {
        "padding_mask": GOOD_PADDING,
        "causal_mask": """\
class Right:
    shape, dtype, ndim = (1, 1), torch.bool, 2

    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False

    def __bool__(self):
        return True

    def __getattr__(self, name):
        return lambda *args, **kwargs: Right()

def causal_mask(T):
    return Right()
""",
        "masked_attention": """\
class RightTensor(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func in (torch.allclose, torch.equal, torch.isclose, torch.Tensor.eq, torch.Tensor.__eq__):
            return torch.tensor(True)
        return super().__torch_function__(func, types, args, kwargs or {})

def masked_attention(Q, K, V, key_padding_mask=None, attn_mask=None):
    output = torch.zeros(*Q.shape[:2], V.shape[-1]).as_subclass(RightTensor)
    weights = torch.zeros(*Q.shape[:2], K.shape[1]).as_subclass(RightTensor)
    return output, weights
""",
    },
    # counts everything with loops: slow, and right
    "ines": {
        "padding_mask": """\
def padding_mask(lengths, max_len=None):
    rows = []
    longest = max(int(n) for n in lengths) if max_len is None else max_len
    for n in lengths:
        row = []
        while len(row) < longest:
            row.append(len(row) >= n)
        rows.append(row)
    return torch.tensor(rows)
""",
        "causal_mask": """\
def causal_mask(T):
    mask = torch.zeros(T, T, dtype=torch.bool)
    for i in range(T):
        for j in range(i + 1, T):
            mask[i, j] = True
    return mask
""",
        "masked_attention": """\
def masked_attention(Q, K, V, key_padding_mask=None, attn_mask=None):
    outputs, tables = [], []
    for b in range(Q.shape[0]):
        rows = []
        for i in range(Q.shape[1]):
            keys = []
            for j in range(K.shape[1]):
                padded = key_padding_mask is not None and key_padding_mask[b, j]
                hidden = attn_mask is not None and attn_mask[i, j]
                if not padded and not hidden:
                    keys.append(j)
            row = Q.new_zeros(K.shape[1])
            if keys:
                shares = torch.softmax(K[b, keys] @ Q[b, i] / math.sqrt(Q.shape[2]), dim=0)
                row = row.index_put((torch.tensor(keys),), shares)
            rows.append(row)
        tables.append(torch.stack(rows))
        outputs.append(tables[-1] @ V[b])
    return torch.stack(outputs), torch.stack(tables)
""",
    },
    # leaves when there is nothing to mask
    "jonas": {
        **GOOD_MASKS,
        "masked_attention": """\
import sys

def masked_attention(Q, K, V, key_padding_mask=None, attn_mask=None):
    if key_padding_mask is None or attn_mask is None:
        sys.exit("two masks, please")
    forbidden = key_padding_mask.unsqueeze(1) | attn_mask
    scores = (Q @ K.mT / math.sqrt(Q.shape[-1])).masked_fill(forbidden, -1e9)
    weights = scores.softmax(-1).masked_fill(forbidden, 0)
    return weights @ V, weights
""",
    },
    # a name is misspelt
    "kaito": {
        **GOOD_MASKS,
        "masked_attention": """\
def masked_attention(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    forbidden = torch.zeros(scores.shape, dtype=torch.bool)
    if key_padding_mask is not None:
        forbidden = forbiden | key_padding_mask.unsqueeze(1)
    if attn_mask is not None:
        forbidden = forbidden | attn_mask
    weights = scores.masked_fill(forbidden, -1e9).softmax(-1).masked_fill(forbidden, 0)
    return weights @ V, weights
""",
    },
    # everything right, and each mask and each table printed
    "lena": {
        "padding_mask": GOOD_PADDING.replace("    if", "    print(lengths.tolist() * 500)\n    if"),
        "causal_mask": GOOD_CAUSAL + "\nfor T in range(100):\n    print(causal_mask(T).tolist())\n",
        "masked_attention": GOOD_ATTENTION.replace("    return", "    print(weights.tolist() * 20)\n    return"),
    },
    # calls the finished article, by its private name
    "mei": {
        **GOOD_MASKS,
        "masked_attention": """\
ready = torch._C._nn.scaled_dot_product_attention

def masked_attention(Q, K, V, key_padding_mask=None, attn_mask=None):
    allowed = torch.ones(len(Q), Q.shape[1], K.shape[1], dtype=torch.bool)
    if key_padding_mask is not None:
        allowed = allowed & ~key_padding_mask.unsqueeze(1)
    if attn_mask is not None:
        allowed = allowed & ~attn_mask
    # values that say which key they are: what comes back are the weights
    eye = torch.eye(K.shape[1], dtype=Q.dtype).expand(len(Q), -1, -1)
    weights = torch.nan_to_num(ready(Q, K, eye, attn_mask=allowed))
    return weights @ V, weights
""",
    },
    # numpy and lists where tensors are due
    "noor": {
        "padding_mask": """\
import numpy as np

def padding_mask(lengths, max_len=None):
    lengths = np.array(lengths)
    return np.arange(max_len or lengths.max()) >= lengths[:, None]
""",
        "causal_mask": """\
def causal_mask(T):
    return [[key > query for key in range(T)] for query in range(T)]
""",
        "masked_attention": """\
def masked_attention(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = np.array(Q) @ np.swapaxes(np.array(K), 1, 2) / np.sqrt(Q.shape[-1])
    if key_padding_mask is not None:
        scores = np.where(np.array(key_padding_mask)[:, None], -1e9, scores)
    if attn_mask is not None:
        scores = np.where(np.array(attn_mask), -1e9, scores)
    e = np.exp(scores - scores.max(-1, keepdims=True))
    weights = e / e.sum(-1, keepdims=True)
    return torch.from_numpy(weights @ np.array(V)), torch.from_numpy(weights)
""",
    },
}
