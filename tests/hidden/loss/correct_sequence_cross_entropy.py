"""Correct ways to write the loss of a batch of sentences; all of them earn full marks."""

import warnings

import torch
import torch.nn.functional as F

from autograder.suite import correct, correct_source


@correct("log-softmax-and-gather")
def log_softmax_and_gather(logits, targets, ignore_index=-100):
    real = targets != ignore_index
    labels = targets.masked_fill(~real, 0)
    losses = -F.log_softmax(logits, dim=-1).gather(-1, labels.unsqueeze(-1)).squeeze(-1)
    return losses.masked_fill(~real, 0.0).sum() / real.sum().clamp(min=1)


@correct("logsumexp")
def logsumexp(logits, targets, ignore_index=-100):
    real = (targets != ignore_index).to(logits.dtype)
    labels = torch.where(targets == ignore_index, 0, targets)
    own = torch.take_along_dim(logits, labels[..., None], dim=2)[..., 0]
    losses = torch.logsumexp(logits, dim=-1) - own
    return (losses * real).sum() / torch.clamp(real.sum(), min=1.0)


@correct("hand-written")
def hand_written(logits, targets, ignore_index=-100):
    largest = logits.max(dim=-1, keepdim=True).values
    shifted = logits - largest
    log_shares = shifted - shifted.exp().sum(dim=-1, keepdim=True).log()
    flat, labels = log_shares.reshape(-1, logits.shape[-1]), targets.reshape(-1)
    keep = labels != ignore_index
    if keep.sum() == 0:
        return logits.sum() * 0.0
    return -flat[keep, labels[keep]].mean()


@correct("a-new-zero-where-nothing-is-real")
def a_new_zero_where_nothing_is_real(logits, targets, ignore_index=-100):
    keep = targets != ignore_index
    if not keep.any():
        return torch.zeros((), dtype=logits.dtype, device=logits.device)
    rows = F.log_softmax(logits[keep], dim=-1)
    return -rows[torch.arange(len(rows)), targets[keep]].mean()


@correct("largest-detached")
def largest_detached(logits, targets, ignore_index=-100):
    rows = logits[targets != ignore_index]
    labels = targets[targets != ignore_index]
    rows = rows - rows.detach().amax(dim=-1, keepdim=True)
    own = rows[torch.arange(len(labels)), labels]
    return (rows.exp().sum(-1).log() - own).sum() / max(1, len(labels))


@correct("one-hot")
def one_hot(logits, targets, ignore_index=-100):
    real = targets != ignore_index
    classes = F.one_hot(targets.where(real, 0), logits.shape[-1]).to(logits.dtype) * real.unsqueeze(-1)
    return -(classes * torch.log_softmax(logits, -1)).sum() / (classes.sum() + 1e-12)


@correct("einsum")
def einsum(logits, targets, ignore_index=-100):
    classes = targets.unsqueeze(-1) == torch.arange(logits.shape[-1])
    classes = (classes & (targets != ignore_index).unsqueeze(-1)).to(logits.dtype)
    total = torch.einsum("btv,btv->", classes, logits.log_softmax(-1))
    return -total / classes.sum().clamp(min=1)


@correct("word-by-word")
def word_by_word(logits, targets, ignore_index=-100):
    total, count = logits.sum() * 0, 0
    for b in range(targets.shape[0]):
        for t in range(targets.shape[1]):
            label = targets[b, t]
            if label == ignore_index:
                continue
            total = total - F.log_softmax(logits[b, t], dim=0)[label]
            count += 1
    return total / count if count else total


@correct("sentence-by-sentence")
def sentence_by_sentence(logits, targets, ignore_index=-100):
    losses = []
    for words, labels in zip(logits, targets, strict=True):
        keep = (labels != ignore_index).nonzero().squeeze(1)
        losses.append(-words[keep].log_softmax(-1).gather(1, labels[keep, None]).squeeze(1))
    losses = torch.cat(losses)
    return losses.sum() / max(len(losses), 1)


@correct("boolean-indexing")
def boolean_indexing(logits, targets, ignore_index=-100):
    keep = targets.ne(ignore_index)
    rows, labels = F.log_softmax(logits[keep], dim=-1), targets[keep]
    losses = -rows.gather(1, labels.view(-1, 1))
    return losses.mean() if keep.any() else losses.sum()


@correct("mean-of-nothing-replaced")
def mean_of_nothing_replaced(logits, targets, ignore_index=-100):
    # Nothing is selected, so nothing is sent back: no NaN can arise there.
    keep = targets != ignore_index
    losses = logits[keep].logsumexp(-1) - logits[keep].gather(-1, targets[keep].unsqueeze(-1)).squeeze(-1)
    return torch.nan_to_num(losses.mean())


@correct("zero-of-its-own")
def zero_of_its_own(logits, targets, ignore_index=-100):
    keep = targets != ignore_index
    if not keep.any():
        return torch.zeros((), dtype=logits.dtype, requires_grad=True)
    return -torch.log_softmax(logits, dim=-1)[keep].gather(1, targets[keep][:, None]).mean()


@correct("kl-divergence")
def kl_divergence(logits, targets, ignore_index=-100):
    real = targets != ignore_index
    wanted = F.one_hot(targets * real, logits.size(-1)).to(logits.dtype)
    losses = F.kl_div(logits.log_softmax(-1), wanted, reduction="none").sum(-1)
    return losses[real].sum() / real.sum().clamp(min=1)


@correct("categorical")
def categorical(logits, targets, ignore_index=-100):
    real = targets != ignore_index
    labels = targets.masked_fill(~real, 0)
    losses = -torch.distributions.Categorical(logits=logits).log_prob(labels)
    return torch.where(real, losses, 0).sum() / real.sum().clamp(min=1)


@correct("classes-first")
def classes_first(logits, targets, ignore_index=-100):
    real = targets != ignore_index
    log_shares = logits.permute(0, 2, 1).log_softmax(dim=1)
    losses = -log_shares.gather(1, (targets * real).unsqueeze(1)).squeeze(1)
    weights = real / real.sum().clamp(min=1)
    return (losses * weights).sum()


@correct("in-float32")
def in_float32(logits, targets, ignore_index=-100):
    real = targets != ignore_index
    log_shares = logits.float().log_softmax(-1)
    losses = -log_shares.gather(-1, targets.clamp(min=0).unsqueeze(-1)).squeeze(-1)
    return (losses * real.float()).sum() / real.float().sum().clamp(min=1)


@correct("by-differences")
def by_differences(logits, targets, ignore_index=-100):
    # -log of a share is the logsumexp of how much higher each class is than the label's.
    keep = targets != ignore_index
    rows, labels = logits[keep], targets[keep]
    own = rows.gather(1, labels.unsqueeze(1))
    return torch.logsumexp(rows - own, dim=1).sum() / keep.sum().clamp(min=1)


@correct("vmap")
def vmap(logits, targets, ignore_index=-100):
    def word(row, label):
        own = torch.where(torch.arange(row.shape[0]) == label, row, 0).sum()
        return torch.where(label == ignore_index, 0.0, torch.logsumexp(row, 0) - own)

    losses = torch.vmap(torch.vmap(word))(logits, targets)
    return losses.sum() / (targets != ignore_index).sum().clamp(min=1)


@correct("own-seed-and-prints")
def own_seed_and_prints(logits, targets, ignore_index=-100):
    torch.manual_seed(0)
    warnings.warn("this is a fine loss", stacklevel=2)
    labels = targets.clone()
    ignored = labels == ignore_index
    labels[ignored] = 0
    losses = -logits.log_softmax(2).gather(2, labels.unsqueeze(2)).squeeze(2)
    losses[ignored] = 0
    print(losses.shape)
    return losses.sum() / (~ignored).sum().clamp_min(1)


callable_object = correct_source(
    "callable-object",
    """\
import torch

class SequenceCrossEntropy(torch.nn.Module):
    def forward(self, logits, targets, ignore_index=-100):
        keep = targets != ignore_index
        rows, labels = logits[keep], targets[keep]
        losses = rows.logsumexp(-1) - rows.gather(-1, labels.unsqueeze(-1)).squeeze(-1)
        return losses.sum() / max(1, losses.numel())

sequence_cross_entropy = SequenceCrossEntropy()
""",
)

a_closure = correct_source(
    "closure",
    """\
import torch
import torch.nn.functional as F

def reduced(mean):
    def loss(logits, targets, ignore_index=-100):
        keep = (targets != ignore_index).flatten()
        rows = F.log_softmax(logits.flatten(0, 1), dim=-1)[keep]
        picked = rows[range(len(rows)), targets.flatten()[keep]]
        return mean(-picked)
    return loss

sequence_cross_entropy = reduced(lambda losses: losses.mean() if len(losses) else losses.sum())
""",
)

scripted = correct_source(
    "scripted",
    """\
import torch

@torch.jit.script
def sequence_cross_entropy(logits, targets, ignore_index: int = -100):
    real = targets != ignore_index
    labels = targets.masked_fill(~real, 0)
    losses = -torch.log_softmax(logits, dim=-1).gather(-1, labels.unsqueeze(-1)).squeeze(-1)
    return losses.masked_fill(~real, 0.0).sum() / real.sum().clamp(min=1)
""",
)
