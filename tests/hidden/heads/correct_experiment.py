"""Correct ways to run the experiment, on tasks of all kinds; all of them earn full marks."""

import collections

import numpy
import torch
import torch.nn.functional as F
from torch import nn

from autograder.suite import correct

STEPS = 20


def make_batch(size=8, length=6, vocabulary=5):
    words = torch.randint(vocabulary, (size, length))
    return words, words.roll(1, dims=1)


class Tagger(nn.Module):
    def __init__(self, num_heads, width=16, vocabulary=5, length=6):
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.places = nn.Parameter(torch.randn(length, width))
        self.attention = nn.MultiheadAttention(width, num_heads, batch_first=True)
        self.out = nn.Linear(width, vocabulary)

    def forward(self, words):
        x = self.words(words) + self.places
        x, weights = self.attention(x, x, x, average_attn_weights=False)
        return self.out(x), weights


# The first is what the suite is rehearsed with, at each start: an optimiser would import a compiler, for seconds.
@correct("descent-by-hand")
def descent_by_hand():
    results = collections.defaultdict(dict)
    for num_heads in (8, 1):
        model, step = Tagger(num_heads), 0
        parameters = list(model.parameters())
        while step < STEPS:
            words, targets = make_batch()
            logits, weights = model(words)
            loss = F.cross_entropy(logits.mT, targets)
            for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
                parameter.data -= 0.1 * gradient
            step += 1
        results["final_loss"][num_heads] = loss.detach()
        results["steps"][num_heads] = step
        results["bytes"][num_heads] = weights.numel() * weights.element_size()
    return results


@correct("adam-and-backward")
def adam_and_backward():
    results = {"final_loss": {}, "steps": {}, "bytes": {}}
    for num_heads in (1, 8):
        torch.manual_seed(0)
        model = Tagger(num_heads)
        optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
        for _ in range(STEPS):
            words, targets = make_batch()
            logits, weights = model(words)
            loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        results["final_loss"][num_heads] = loss.item()
        results["steps"][num_heads] = STEPS
        results["bytes"][num_heads] = weights.nbytes
    return results


@correct("both-in-one-backward")
def both_in_one_backward():
    models = nn.ModuleDict({"1": Tagger(1), "8": Tagger(8)})
    optimiser = torch.optim.SGD(models.parameters(), lr=0.1)
    for _ in range(STEPS):
        words, targets = make_batch()
        outputs = {int(heads): model(words) for heads, model in models.items()}
        losses = {heads: F.cross_entropy(logits.mT, targets) for heads, (logits, _) in outputs.items()}
        optimiser.zero_grad()
        sum(losses.values()).backward()
        optimiser.step()
    return {
        "final_loss": losses,
        "steps": dict.fromkeys((1, 8), STEPS),
        "bytes": {heads: weights.untyped_storage().nbytes() for heads, (_, weights) in outputs.items()},
    }


@correct("numpy-numbers")
def numpy_numbers():
    results = {"steps": {}, "bytes": {}, "final_loss": {}}
    for num_heads in (numpy.int64(1), numpy.int64(8)):
        model = nn.MultiheadAttention(8, int(num_heads), batch_first=True)
        optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
        curve = []
        for _ in range(STEPS):
            x = torch.randn(3, 4, 8)
            output, weights = model(x, x, x, average_attn_weights=False)
            loss = F.mse_loss(output, x.flip(1))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            curve.append(loss.item())
        results["final_loss"][num_heads] = numpy.float32(curve[-1])
        results["steps"][num_heads] = numpy.int64(len(curve))
        results["bytes"][num_heads] = numpy.prod([*weights.shape, 4])
    return results


@correct("functional-and-more-keys")
def functional_and_more_keys():
    results = {"task": "the mean of all words", "curves": {}, "final_loss": {}, "steps": {}, "bytes": {}}
    for num_heads, steps in ((1, STEPS), (4, 5), (8, STEPS // 2)):
        W_in, W_out = torch.randn(24, 8, requires_grad=True), torch.randn(8, 8, requires_grad=True)
        b_in, b_out = torch.zeros(24), torch.zeros(8)
        curve = []
        for _ in range(steps):
            x = torch.randn(5, 3, 8)
            output, weights = F.multi_head_attention_forward(
                x, x, x, 8, num_heads, W_in, b_in, None, None, False, 0.0, W_out, b_out, average_attn_weights=False
            )
            loss = (output - x.mean(0)).square().mean()
            loss.backward()
            with torch.no_grad():
                for W in (W_in, W_out):
                    W -= 0.01 * W.grad
                    W.grad = None
            curve.append(float(loss))
        results["curves"][num_heads] = curve
        results["final_loss"][num_heads] = sum(curve[-5:]) / 5
        results["steps"][num_heads] = float(steps)
        results["bytes"][num_heads] = weights.nbytes
    return results


@correct("bytes-as-tensors")
def bytes_as_tensors():
    runs = {}
    for num_heads in (1, 8):
        model = Tagger(num_heads).double()
        optimiser = torch.optim.AdamW(model.parameters())
        taken = torch.tensor(0)
        for _ in range(STEPS):
            words, targets = make_batch()
            with torch.enable_grad():
                logits, weights = model(words)
                loss = F.nll_loss(logits.log_softmax(-1).flatten(0, 1), targets.flatten())
            model.zero_grad()
            loss.backward()
            optimiser.step()
            taken += 1
        runs[num_heads] = loss.item(), taken, torch.tensor([weights.nbytes])
    names = ("final_loss", "steps", "bytes")
    return {name: {num_heads: run[i] for num_heads, run in runs.items()} for i, name in enumerate(names)}
