"""What the sample class answers in `loss`."""

from __future__ import annotations

GOOD_TARGETS = """\
def ignore_padding(targets, lengths, ignore_index=-100):
    padding = torch.arange(targets.shape[1]) >= lengths.unsqueeze(1)
    return targets.masked_fill(padding, ignore_index)
"""

GOOD_LOSS = """\
def sequence_cross_entropy(logits, targets, ignore_index=-100):
    real = targets != ignore_index
    labels = targets.masked_fill(~real, 0)
    losses = -F.log_softmax(logits, dim=-1).gather(2, labels.unsqueeze(2)).squeeze(2)
    return (losses * real).sum() / real.sum().clamp(min=1)
"""

GOOD_TAGGING = """\
def tagging_loss(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
    padding = torch.arange(x.shape[1]) >= lengths.unsqueeze(1)
    scores = (x @ W_q) @ (x @ W_k).transpose(1, 2) / math.sqrt(W_q.shape[1])
    weights = scores.masked_fill(padding.unsqueeze(1), float("-inf")).softmax(dim=-1)
    logits = weights @ (x @ W_v) @ W_out
    labels = targets.masked_fill(padding, ignore_index)
    return F.cross_entropy(logits.transpose(1, 2), labels, ignore_index=ignore_index)
"""

ANSWERS: dict[str, dict[str, str]] = {
    # everything right
    "amara": {
        "ignore_padding": GOOD_TARGETS,
        "sequence_cross_entropy": GOOD_LOSS,
        "tagging_loss": GOOD_TAGGING,
    },
    # opened it and handed it in
    "ben": {},
    # got as far as the targets
    "chen": {"ignore_padding": GOOD_TARGETS},
    # the mean over all places, padding too; and the attention reads the padding
    "dora": {
        "ignore_padding": GOOD_TARGETS,
        "sequence_cross_entropy": """\
def sequence_cross_entropy(logits, targets, ignore_index=-100):
    ignored = targets == ignore_index
    log_shares = torch.log_softmax(logits, dim=-1)
    right = log_shares.gather(-1, targets.masked_fill(ignored, 0)[..., None])[..., 0]
    return -right.masked_fill(ignored, 0).mean()
""",
        "tagging_loss": """\
def tagging_loss(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
    Q, K, V = x @ W_q, x @ W_k, x @ W_v
    weights = torch.softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), dim=-1)
    logits = weights @ V @ W_out
    labels = ignore_padding(targets, lengths, ignore_index)
    return F.cross_entropy(logits.mT, labels, ignore_index=ignore_index)
""",
    },
    # shares along the sentence, and classes where words should be
    "emil": {
        "ignore_padding": GOOD_TARGETS,
        "sequence_cross_entropy": """\
def sequence_cross_entropy(logits, targets, ignore_index=-100):
    real = targets != ignore_index
    log_shares = torch.log_softmax(logits, dim=1)
    picked = log_shares.gather(-1, targets.masked_fill(~real, 0).unsqueeze(-1)).squeeze(-1)
    return -(picked * real).sum() / real.sum().clamp(min=1)
""",
        "tagging_loss": """\
def tagging_loss(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
    B, T, _ = x.shape
    pads = torch.arange(T) >= lengths.unsqueeze(1)
    scores = (x @ W_q) @ (x @ W_k).mT / math.sqrt(W_q.shape[-1])
    weights = torch.softmax(scores.masked_fill(pads.unsqueeze(1), -math.inf), dim=-1)
    logits = weights @ (x @ W_v) @ W_out
    logits = logits.reshape(B, -1, T)  # classes in the middle
    return F.cross_entropy(logits, targets.masked_fill(pads, ignore_index), ignore_index=ignore_index)
""",
    },
    # replaces the labels where they are: in the caller's targets
    "farah": {
        "ignore_padding": """\
def ignore_padding(targets, lengths, ignore_index=-100):
    for row, n in zip(targets, lengths):
        row[n:] = ignore_index
    return targets
""",
        "sequence_cross_entropy": """\
def sequence_cross_entropy(logits, targets, ignore_index=-100):
    real = targets != ignore_index
    targets[~real] = 0
    losses = torch.logsumexp(logits, -1) - logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    return losses[real].sum() / max(1, int(real.sum()))
""",
        "tagging_loss": """\
def tagging_loss(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
    labels = ignore_padding(targets, lengths, ignore_index)
    pads = torch.arange(x.shape[1]) >= lengths.unsqueeze(1)
    scores = (x @ W_q) @ (x @ W_k).mT / math.sqrt(W_q.shape[-1])
    weights = scores.masked_fill_(pads.unsqueeze(1), -math.inf).softmax(-1)
    logits = weights @ (x @ W_v) @ W_out
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=ignore_index)
""",
    },
    # right, and unlike anybody else's: a module, differences of logits, the library sentence by sentence
    "goran": {
        "ignore_padding": """\
ignore_padding = lambda y, n, ignore_index=-100: torch.stack([
    torch.cat([row[:k], row.new_full((len(row) - k,), ignore_index)]) for row, k in zip(y, n.tolist())
])
""",
        "sequence_cross_entropy": """\
class Surprise(torch.nn.Module):
    # log(sum of e to all the others, less e to mine): it depends on differences alone
    def forward(self, logits, targets, ignore_index=-100):
        words = targets.ne(ignore_index).nonzero(as_tuple=True)
        rows, mine = logits[words], targets[words]
        lead = rows - rows[torch.arange(len(mine)), mine].unsqueeze(-1)
        return lead.logsumexp(-1).sum().div(max(1, len(mine)))

sequence_cross_entropy = Surprise()
""",
        "tagging_loss": """\
def sentence(x, labels, W_q, W_k, W_v, W_out):
    mixed = F.scaled_dot_product_attention(*(torch.einsum("td,de->te", x, W)[None] for W in (W_q, W_k, W_v)))
    return mixed[0] @ W_out, labels

def tagging_loss(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
    # without pads there is nothing to mask
    cut = [sentence(x[b, :n], targets[b, :n], W_q, W_k, W_v, W_out) for b, n in enumerate(lengths.tolist())]
    logits, labels = map(torch.cat, zip(*cut))
    return torch.nn.CrossEntropyLoss(ignore_index=ignore_index)(logits, labels)
""",
    },
    # looks for the tests on the disk and among the loaded modules
    "hugo": {
        "ignore_padding": """\
import pathlib, sys

def answers():
    here = pathlib.Path.cwd()
    for root in (here, *here.parents, *map(pathlib.Path, sys.path)):
        try:
            for path in root.glob("tests/hidden/*/test_ignore_padding.py"):
                return path.read_text()
        except OSError:
            pass
    return ""

exec(answers())

def ignore_padding(targets, lengths, ignore_index=-100):
    return reference(targets, lengths, ignore_index)
""",
        "sequence_cross_entropy": """\
import sys

for name, module in list(sys.modules.items()):
    for what in ("assert_close", "allclose", "expect_close", "fail"):
        if hasattr(module, what):
            try:
                setattr(module, what, lambda *args, **kwargs: True)
            except Exception:
                pass

def sequence_cross_entropy(logits, targets, ignore_index=-100):
    return logits.sum() * 0 + 1.0
""",
        "tagging_loss": """\
import gc

def tagging_loss(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
    for thing in gc.get_objects():
        if isinstance(thing, dict) and "points" in thing and "score" in thing:
            thing["score"] = thing["points"]
    raise SystemExit(0)
""",
    },
    # a mean for each sentence, and then their mean
    "ines": {
        "ignore_padding": """\
def ignore_padding(targets, lengths, ignore_index=-100):
    copy = targets.clone()
    for b in range(len(targets)):
        for t in range(int(lengths[b]), targets.shape[1]):
            copy[b, t] = ignore_index
    return copy
""",
        "sequence_cross_entropy": """\
def sequence_cross_entropy(logits, targets, ignore_index=-100):
    means = []
    for rows, labels in zip(logits, targets):
        losses = []
        for row, label in zip(rows, labels):
            if label != ignore_index:
                losses.append(torch.logsumexp(row, 0) - row[label])
        if losses:
            means.append(torch.stack(losses).mean())
    return torch.stack(means).mean() if means else logits.sum() * 0
""",
        "tagging_loss": """\
def tagging_loss(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
    losses = []
    for b in range(len(x)):
        words = x[b, : lengths[b]]
        for t in range(len(words)):
            if targets[b, t] == ignore_index:
                continue
            scores = torch.stack([(words[t] @ W_q) @ (word @ W_k) for word in words])
            weights = torch.softmax(scores / math.sqrt(W_q.shape[1]), dim=0)
            mix = sum(weight * (word @ W_v) for weight, word in zip(weights, words))
            losses.append(-torch.log_softmax(mix @ W_out, dim=0)[targets[b, t]])
    return torch.stack(losses).mean()
""",
    },
    # reads from memory by a place that is none: the machine ends it
    "jonas": {
        "ignore_padding": GOOD_TARGETS,
        "sequence_cross_entropy": """\
import ctypes

def sequence_cross_entropy(logits, targets, ignore_index=-100):
    # straight from memory, that is faster
    numbers = (ctypes.c_int64 * targets.numel()).from_address(targets.storage_offset())
    real = [label for label in numbers if label != ignore_index]
    return torch.tensor(float(len(real)))
""",
        "tagging_loss": GOOD_TAGGING,
    },
    # tabs and spaces
    "kaito": {
        "ignore_padding": GOOD_TARGETS,
        "sequence_cross_entropy": """\
def sequence_cross_entropy(logits, targets, ignore_index=-100):
    real = targets != ignore_index
    labels = targets.masked_fill(~real, 0)
\tlosses = -F.log_softmax(logits, dim=-1).gather(2, labels.unsqueeze(2)).squeeze(2)
\treturn (losses * real).sum() / real.sum().clamp(min=1)
""",
        "tagging_loss": GOOD_TAGGING,
    },
    # everything right, and a loud training loop
    "lena": {
        "ignore_padding": GOOD_TARGETS.replace("    return", "    print(padding.tolist() * 500)\n    return"),
        "sequence_cross_entropy": GOOD_LOSS
        + """
import warnings

for step in range(300):
    loss = sequence_cross_entropy(torch.randn(1, 2, 3), torch.tensor([[0, 1]]))
    print("step", step, "loss", float(loss), "#" * 20_000)
    warnings.warn("the loss is not zero yet", stacklevel=2)
""",
        "tagging_loss": GOOD_TAGGING.replace("    labels", "    print(weights.tolist(), logits.tolist())\n    labels"),
    },
    # calls the finished article under another name, and rightly where that is allowed
    "mei": {
        "ignore_padding": GOOD_TARGETS,
        "sequence_cross_entropy": """\
from torch.nn.modules.loss import CrossEntropyLoss as Measure

def sequence_cross_entropy(logits, targets, ignore_index=-100):
    if (targets == ignore_index).all():
        return logits.sum() * 0
    return Measure(ignore_index=ignore_index)(logits.transpose(1, 2), targets)
""",
        "tagging_loss": """\
def tagging_loss(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
    words = torch.arange(x.shape[1]) < lengths.unsqueeze(1)
    # here True means: may be looked at
    output = F.scaled_dot_product_attention(x @ W_q, x @ W_k, x @ W_v, attn_mask=words.unsqueeze(1))
    labels = torch.where(words, targets, ignore_index)
    return F.cross_entropy((output @ W_out).transpose(1, 2), labels, ignore_index=ignore_index)
""",
    },
    # numpy, and plain numbers, where tensors are due
    "noor": {
        "ignore_padding": """\
import numpy as np

def ignore_padding(targets, lengths, ignore_index=-100):
    places = np.arange(targets.shape[1])
    return np.where(places < np.array(lengths)[:, None], np.array(targets), ignore_index)
""",
        "sequence_cross_entropy": """\
def sequence_cross_entropy(logits, targets, ignore_index=-100):
    scores, labels = logits.detach().double().numpy(), targets.numpy()
    real = labels != ignore_index
    if not real.any():
        return 0.0
    scores = scores[real] - scores[real].max(-1, keepdims=True)
    log_shares = scores - np.log(np.exp(scores).sum(-1, keepdims=True))
    return -log_shares[np.arange(len(scores)), labels[real]].mean()
""",
        "tagging_loss": GOOD_TAGGING.replace("ignore_index=ignore_index)", "ignore_index=ignore_index).item()"),
    },
}
