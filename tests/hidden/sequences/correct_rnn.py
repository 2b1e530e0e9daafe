"""Correct recurrent networks of every kind; all of them earn full marks."""

import functools
import itertools
import warnings

import torch
import torch.nn.functional as F

from autograder.suite import correct, correct_source


@correct("step-by-step")
def step_by_step(x, W_xh, W_hh, b, h0=None):
    h = x.new_zeros(b.shape) if h0 is None else h0
    states = []
    for t in range(x.shape[-2]):
        h = torch.tanh(x[..., t, :] @ W_xh + h @ W_hh + b)
        states.append(h)
    return torch.stack(states, dim=-2)


@correct("words-projected-at-once")
def words_projected_at_once(x, W_xh, W_hh, b, h0=None):
    inputs = x @ W_xh + b
    if h0 is None:
        h0 = torch.zeros_like(inputs[..., 0, :])
    states, h = [], h0
    for step in inputs.unbind(-2):
        h = (step + h @ W_hh).tanh()
        states += [h.unsqueeze(-2)]
    return torch.cat(states, dim=-2)


@correct("written-into-a-tensor")
def written_into_a_tensor(x, W_xh, W_hh, b, h0=None):
    *leading, T, _ = x.shape
    H = W_hh.shape[0]
    states = torch.empty(*leading, T, H, dtype=x.dtype, device=x.device)
    h = torch.zeros(*leading, H).to(x) if h0 is None else h0.expand(*leading, H)
    for t in range(T):
        h = torch.tanh(torch.matmul(x[..., t, :], W_xh) + torch.matmul(h, W_hh) + b)
        states[..., t, :] = h
    return states


@correct("one-matrix")
def one_matrix(x, W_xh, W_hh, b, h0=None):
    torch.manual_seed(0)
    W = torch.cat([W_xh, W_hh])
    h = b * 0 if h0 is None else h0
    h = h.expand(x.shape[:-2] + b.shape)
    states = []
    for t in range(x.size(-2)):
        h = torch.tanh(torch.cat([x[..., t, :], h], dim=-1) @ W + b)
        states.append(h)
    return torch.stack(states, -2)


@correct("linear-layers")
def linear_layers(x, W_xh, W_hh, b, h0=None):
    steps = F.linear(x, W_xh.T, b).movedim(-2, 0)
    h = torch.zeros_like(steps[0]) if h0 is None else h0
    states = []
    for step in steps:
        h = torch.tanh(step + F.linear(h, W_hh.T))
        states.append(h)
    return torch.stack(states).movedim(0, -2)


@correct("batch-flattened")
def batch_flattened(x, W_xh, W_hh, b, h0=None):
    T, D = x.shape[-2:]
    H = len(b)
    flat = x.reshape(-1, T, D)
    h = torch.zeros(len(flat), H, dtype=x.dtype) if h0 is None else h0.expand(*x.shape[:-2], H).reshape(-1, H)
    states = [h]
    for t in range(T):
        states.append(torch.tanh(torch.addmm(b, flat[:, t], W_xh) + states[t].mm(W_hh)))
    return torch.stack(states[1:], dim=1).reshape(*x.shape[:-1], H)


@correct("recursive")
def recursive(x, W_xh, W_hh, b, h0=None):
    if x.shape[-2] == 0:
        return x.new_zeros(*x.shape[:-1], len(b))
    h = torch.einsum("...d,dh->...h", x[..., 0, :], W_xh) + b
    if h0 is not None:
        h = h + torch.einsum("...h,hk->...k", h0, W_hh)
    h = torch.tanh(h)
    return torch.cat([h[..., None, :], recursive(x[..., 1:, :], W_xh, W_hh, b, h)], dim=-2)


@correct("sentence-by-sentence")
def sentence_by_sentence(x, W_xh, W_hh, b, h0=None):
    if h0 is None:
        h0 = torch.zeros(W_hh.shape[0], dtype=x.dtype)
    if x.dim() > 2:
        starts = h0.expand(*x.shape[:-2], -1)
        return torch.stack([sentence_by_sentence(s, W_xh, W_hh, b, h) for s, h in zip(x, starts, strict=True)])
    states = [h0]
    for word in x:
        states.append(torch.tanh(word @ W_xh + states[-1] @ W_hh + b))
    print("read", len(states) - 1, "words")
    return torch.stack(states[1:])


@correct("accumulated")
def accumulated(x, W_xh, W_hh, b, h0=None):
    h0 = torch.zeros_like(b) if h0 is None else h0
    words = [x.select(-2, t) for t in range(x.shape[-2])]
    step = functools.partial(lambda W, h, word: torch.tanh(word @ W + h @ W_hh + b), W_xh)
    states = list(itertools.accumulate(words, step, initial=h0))[1:]
    return torch.stack(states, dim=x.dim() - 2)


@correct("own-tanh")
def own_tanh(x, W_xh, W_hh, b, h0=None):
    warnings.warn("tanh by hand", stacklevel=2)
    T = x.shape[-2]
    h = 0 if h0 is None else h0 @ W_hh
    states = []
    for t in range(T):
        h = 2 * torch.sigmoid(2 * (x[..., t, :] @ W_xh + h + b)) - 1
        states.append(h)
        h = h @ W_hh
    return torch.stack(states, dim=-2)


callable_object = correct_source(
    "callable-object",
    """\
import torch

class Network:
    def step(self, word, h):
        return torch.tanh((word[..., None] * self.W_xh).sum(-2) + (h[..., None] * self.W_hh).sum(-2) + self.b)

    def __call__(self, x, W_xh, W_hh, b, h0=None):
        self.W_xh, self.W_hh, self.b = W_xh, W_hh, b
        h = torch.zeros(W_hh.size(0), dtype=x.dtype, device=x.device) if h0 is None else h0
        states = []
        for t in range(x.size(-2)):
            h = self.step(x[..., t, :], h)
            states.append(h)
        return torch.stack(states, dim=-2)

rnn = Network()
""",
)

scripted = correct_source(
    "scripted",
    """\
from typing import List, Optional

import torch

@torch.jit.script
def rnn(x, W_xh, W_hh, b, h0: Optional[torch.Tensor] = None):
    h = torch.zeros_like(b) if h0 is None else h0
    states: List[torch.Tensor] = []
    for t in range(x.size(-2)):
        h = torch.tanh(torch.matmul(x.select(-2, t), W_xh) + torch.matmul(h, W_hh) + b)
        states.append(h)
    return torch.stack(states, -2)
""",
)
