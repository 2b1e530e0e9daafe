"""Correct ways to write the loss of a tagger; all of them earn full marks."""

import math
import warnings

import torch
import torch.nn as nn
import torch.nn.functional as F

from autograder.suite import correct, correct_source


@correct("by-the-library")
def by_the_library(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
    words = torch.arange(x.shape[1], device=x.device) < lengths.unsqueeze(1)
    output = F.scaled_dot_product_attention(x @ W_q, x @ W_k, x @ W_v, attn_mask=words.unsqueeze(1))
    labels = targets.masked_fill(~words, ignore_index)
    return F.cross_entropy((output @ W_out).transpose(1, 2), labels, ignore_index=ignore_index)


@correct("by-hand")
def by_hand(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
    padding = torch.arange(x.shape[1]) >= lengths[:, None]
    scores = (x @ W_q) @ (x @ W_k).transpose(-2, -1) / math.sqrt(W_q.shape[-1])
    weights = F.softmax(scores.masked_fill(padding[:, None, :], float("-inf")), dim=-1)
    logits = weights @ (x @ W_v) @ W_out
    counted = ~padding & (targets != ignore_index)
    labels = torch.where(counted, targets, 0)
    losses = -logits.log_softmax(-1).gather(-1, labels.unsqueeze(-1)).squeeze(-1)
    return (losses * counted).sum() / counted.sum()


@correct("minus-1e9-and-long-rows")
def minus_1e9_and_long_rows(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
    B, T, _ = x.shape
    padding = torch.arange(T).repeat(B, 1) >= lengths.view(B, 1)
    scores = torch.bmm(x @ W_q, (x @ W_k).transpose(1, 2)) * W_k.shape[1] ** -0.5
    weights = torch.softmax(torch.where(padding.unsqueeze(1), -1e9, scores), dim=2)
    logits = torch.bmm(weights, x @ W_v) @ W_out
    labels = torch.where(padding, ignore_index, targets)
    return F.cross_entropy(logits.reshape(B * T, -1), labels.reshape(B * T), ignore_index=ignore_index)


@correct("additive-mask")
def additive_mask(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
    padding = torch.arange(x.shape[1]) >= lengths.unsqueeze(1)
    mask = x.new_zeros(padding.shape).masked_fill(padding, -torch.inf).unsqueeze(1)
    output = F.scaled_dot_product_attention(x @ W_q, x @ W_k, x @ W_v, attn_mask=mask)
    labels = targets.clone()
    labels[padding] = ignore_index
    return nn.CrossEntropyLoss(ignore_index=ignore_index)((output @ W_out).permute(0, 2, 1), labels)


@correct("sentence-by-sentence")
def sentence_by_sentence(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
    logits, labels = [], []
    for words, own, n in zip(x, targets, lengths.tolist(), strict=True):
        words = words[:n]
        output = F.scaled_dot_product_attention(words @ W_q, words @ W_k, words @ W_v)
        logits.append(output @ W_out)
        labels.append(own[:n])
    return F.cross_entropy(torch.cat(logits), torch.cat(labels), ignore_index=ignore_index)


@correct("words-picked-out")
def words_picked_out(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
    words = torch.arange(x.shape[1]) < lengths.unsqueeze(1)
    output = F.scaled_dot_product_attention(x @ W_q, x @ W_k, x @ W_v, words[:, None].expand(-1, x.shape[1], -1))
    rows, labels = (output @ W_out)[words], targets[words]
    keep = labels != ignore_index
    return F.nll_loss(F.log_softmax(rows[keep], dim=-1), labels[keep])


@correct("padded-queries-too")
def padded_queries_too(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
    # What padded queries see does not matter: nothing of it is left in the loss.
    words = torch.arange(x.shape[1]) < lengths.unsqueeze(1)
    pairs = words.unsqueeze(1) & words.unsqueeze(2)
    output = F.scaled_dot_product_attention(x @ W_q, x @ W_k, x @ W_v, attn_mask=pairs)
    labels = targets.masked_fill(~words, ignore_index)
    return F.cross_entropy((output @ W_out).mT, labels, ignore_index=ignore_index)


@correct("sum-over-count")
def sum_over_count(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
    words = torch.arange(x.shape[1]) < lengths.unsqueeze(1)
    output = F.scaled_dot_product_attention(x @ W_q, x @ W_k, x @ W_v, words.unsqueeze(1))
    labels = targets.where(words, ignore_index)
    losses = F.cross_entropy((output @ W_out).mT, labels, ignore_index=ignore_index, reduction="none")
    return losses.sum() / (labels != ignore_index).sum().clamp(min=1)


@correct("einsum")
def einsum(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
    padding = torch.arange(x.shape[1]) >= lengths.unsqueeze(1)
    scores = torch.einsum("btd,de,fe,bsf->bts", x, W_q, W_k, x) / W_q.shape[1] ** 0.5
    weights = scores.masked_fill(padding.unsqueeze(1), torch.finfo(scores.dtype).min).softmax(-1)
    logits = torch.einsum("bts,bsd,dv,vc->btc", weights, x, W_v, W_out)
    labels = targets.masked_fill(padding, -100).masked_fill(targets == ignore_index, -100)
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


@correct("weights-masked-and-renormalised-by-hand")
def renormalised(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
    words = (torch.arange(x.shape[1]) < lengths.unsqueeze(1)).unsqueeze(1)
    scores = x @ W_q @ (x @ W_k).mT / W_q.shape[1] ** 0.5
    scores = scores - scores.masked_fill(~words, -torch.inf).amax(-1, keepdim=True)
    powers = scores.masked_fill(~words, -torch.inf).exp()
    output = powers / powers.sum(-1, keepdim=True) @ (x @ W_v)
    labels = targets.masked_fill(~words.squeeze(1), ignore_index)
    return F.cross_entropy((output @ W_out).mT, labels, ignore_index=ignore_index)


@correct("numbers-at-the-padding-zeroed-too")
def zeroed_too(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
    torch.manual_seed(1)
    warnings.warn("padding ahead", stacklevel=2)
    words = torch.arange(x.shape[1]) < lengths.unsqueeze(1)
    x = x * words.unsqueeze(-1)
    output = F.scaled_dot_product_attention(x @ W_q, x @ W_k, x @ W_v, attn_mask=words.unsqueeze(1))
    labels = targets.masked_fill(~words, ignore_index)
    print("words:", int(lengths.sum()))
    return F.cross_entropy((output @ W_out).swapaxes(1, 2), labels, ignore_index=ignore_index)


@correct("in-float32")
def in_float32(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
    words = torch.arange(x.shape[1]) < lengths.unsqueeze(1)
    output = F.scaled_dot_product_attention(x @ W_q, x @ W_k, x @ W_v, attn_mask=words.unsqueeze(1))
    labels = targets.masked_fill(~words, ignore_index)
    return F.cross_entropy((output @ W_out).float().mT, labels, ignore_index=ignore_index)


with_helpers = correct_source(
    "helpers",
    """\
import torch
import torch.nn.functional as F

def padding_mask(lengths, max_len):
    return torch.arange(max_len) >= lengths.unsqueeze(1)

def ignore_padding(targets, lengths, ignore_index=-100):
    return targets.masked_fill(padding_mask(lengths, targets.shape[1]), ignore_index)

def masked_attention(Q, K, V, key_padding_mask):
    scores = (Q @ K.mT / Q.shape[-1] ** 0.5).masked_fill(key_padding_mask.unsqueeze(1), float("-inf"))
    weights = F.softmax(scores, dim=-1)
    return weights @ V, weights

def sequence_cross_entropy(logits, targets, ignore_index=-100):
    keep = targets != ignore_index
    return -F.log_softmax(logits, -1)[keep].gather(1, targets[keep].unsqueeze(1)).mean()

def tagging_loss(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
    output, _ = masked_attention(x @ W_q, x @ W_k, x @ W_v, padding_mask(lengths, x.shape[1]))
    return sequence_cross_entropy(output @ W_out, ignore_padding(targets, lengths, ignore_index), ignore_index)
""",
)

callable_object = correct_source(
    "callable-object",
    """\
import torch
import torch.nn.functional as F

class TaggingLoss:
    def __call__(self, x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
        words = torch.arange(x.size(1)) < lengths[:, None]
        output = F.scaled_dot_product_attention(x @ W_q, x @ W_k, x @ W_v, attn_mask=words[:, None])
        labels = torch.where(words, targets, ignore_index)
        return F.cross_entropy((output @ W_out).mT, labels, ignore_index=ignore_index)

tagging_loss = TaggingLoss()
""",
)

scripted = correct_source(
    "scripted",
    """\
import torch

@torch.jit.script
def tagging_loss(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index: int = -100):
    padding = torch.arange(x.shape[1], device=x.device) >= lengths.unsqueeze(1)
    scores = (x @ W_q) @ (x @ W_k).transpose(1, 2) / W_q.shape[1] ** 0.5
    weights = torch.softmax(scores.masked_fill(padding.unsqueeze(1), -1e9), dim=-1)
    logits = weights @ (x @ W_v) @ W_out
    labels = targets.masked_fill(padding, ignore_index)
    return torch.nn.functional.cross_entropy(logits.transpose(1, 2), labels, ignore_index=ignore_index)
""",
)
