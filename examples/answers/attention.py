"""What the sample class answers in `attention`."""

from __future__ import annotations

GOOD_PROJECTION = """\
def project_qkv(x, W_q, W_k, W_v):
    return x @ W_q, x @ W_k, x @ W_v
"""

GOOD_ATTENTION = """\
def scaled_dot_product_attention(Q, K, V):
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.shape[-1])
    weights = scores.softmax(dim=-1)
    return weights @ V, weights
"""

ANSWERS: dict[str, dict[str, str]] = {
    # everything right
    "amara": {"project_qkv": GOOD_PROJECTION, "scaled_dot_product_attention": GOOD_ATTENTION},
    # opened it and handed it in
    "ben": {},
    # got as far as the projections
    "chen": {"project_qkv": GOOD_PROJECTION},
    # forgot the scale
    "dora": {
        "project_qkv": GOOD_PROJECTION,
        "scaled_dot_product_attention": """\
def scaled_dot_product_attention(Q, K, V):
    weights = torch.softmax(Q @ K.mT, dim=-1)
    return weights @ V, weights
""",
    },
    # softmax along the wrong axis, and the projections in another order
    "emil": {
        "project_qkv": """\
def project_qkv(x, W_q, W_k, W_v):
    return x @ W_q, x @ W_v, x @ W_k
""",
        "scaled_dot_product_attention": """\
def scaled_dot_product_attention(Q, K, V):
    scores = Q @ K.transpose(-2, -1) / Q.shape[-1] ** 0.5
    weights = torch.softmax(scores, dim=-2)
    return weights @ V, weights
""",
    },
    # changes the queries that were handed in
    "farah": {
        "project_qkv": GOOD_PROJECTION,
        "scaled_dot_product_attention": """\
def scaled_dot_product_attention(Q, K, V):
    Q /= Q.shape[-1] ** 0.5
    weights = (Q @ K.mT).softmax(-1)
    return weights @ V, weights
""",
    },
    # right, and unlike anybody else's: an object, einsum, a softmax by hand, a namedtuple
    "goran": {
        "project_qkv": "project_qkv = lambda x, *Ws: [torch.einsum('...td,de->...te', x, W) for W in Ws]",
        "scaled_dot_product_attention": """\
from collections import namedtuple

Attention = namedtuple("Attention", "output weights")

class Attend:
    def __call__(self, Q, K, V):
        print("attending to", K.shape[-2], "keys")
        scores = torch.einsum("...qd,...kd->...qk", Q * Q.shape[-1] ** -0.25, K * K.shape[-1] ** -0.25)
        exponentials = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
        weights = exponentials / exponentials.sum(dim=-1, keepdim=True)
        return Attention(torch.einsum("...qk,...kv->...qv", weights, V), weights)

scaled_dot_product_attention = Attend()
""",
    },
    # tries to hand a score to the grader instead of an answer
    "hugo": {
        "project_qkv": GOOD_PROJECTION,
        "scaled_dot_product_attention": """\
def scaled_dot_product_attention(Q, K, V):
    get_ipython().displayhook(16.0)
    print("16.0")
    return 16.0

get_ipython().displayhook(16.0)
16.0
""",
    },
    # never comes to an end
    "ines": {
        "project_qkv": GOOD_PROJECTION,
        "scaled_dot_product_attention": """\
def scaled_dot_product_attention(Q, K, V):
    weights = torch.zeros(Q.shape[-2], K.shape[-2])
    row = 0
    while row < Q.shape[-2]:
        weights[row] = torch.softmax(Q[row] @ K.T, dim=-1)
    return weights @ V, weights
""",
    },
    # ends the whole process
    "jonas": {
        "project_qkv": GOOD_PROJECTION,
        "scaled_dot_product_attention": """\
import os

def scaled_dot_product_attention(Q, K, V):
    os._exit(0)
""",
    },
    # a bracket is missing
    "kaito": {
        "project_qkv": GOOD_PROJECTION,
        "scaled_dot_product_attention": """\
def scaled_dot_product_attention(Q, K, V):
    weights = torch.softmax(Q @ K.mT / math.sqrt(Q.shape[-1], dim=-1)
    return weights @ V, weights
""",
    },
    # everything right, and 100 MB of prints
    "lena": {
        "project_qkv": GOOD_PROJECTION + '\nfor _ in range(100):\n    print("x" * 2**20)\n',
        "scaled_dot_product_attention": GOOD_ATTENTION,
    },
    # calls the finished article under another name
    "mei": {
        "project_qkv": GOOD_PROJECTION,
        "scaled_dot_product_attention": """\
import torch.nn.functional as F

attend = getattr(F, "scaled_dot_product_attention")

def scaled_dot_product_attention(Q, K, V):
    weights = torch.softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), dim=-1)
    return attend(Q, K, V), weights
""",
    },
    # numpy where tensors are due
    "noor": {
        "project_qkv": GOOD_PROJECTION,
        "scaled_dot_product_attention": """\
import numpy as np

def scaled_dot_product_attention(Q, K, V):
    q, k, v = np.array(Q), np.array(K), np.array(V)
    e = np.exp(q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1]))
    weights = e / e.sum(axis=-1, keepdims=True)
    return weights @ v, weights
""",
    },
}
