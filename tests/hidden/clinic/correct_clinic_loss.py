"""Repairs of the fourth case; all of them earn full marks."""

import torch

from autograder.suite import correct


@correct("one-sum-one-number")
def one_sum_one_number(logits, targets, ignore_index=-100):
    real = targets != ignore_index
    labels = targets.masked_fill(~real, 0)
    losses = -torch.log_softmax(logits, dim=-1).gather(-1, labels.unsqueeze(-1)).squeeze(-1)
    return losses.masked_fill(~real, 0.0).sum() / real.sum().clamp(min=1)


@correct("real-words-picked-first")
def real_words_picked_first(logits, targets, ignore_index=-100):
    rows, labels = logits[targets != ignore_index], targets[targets != ignore_index]
    own = rows[torch.arange(len(rows)), labels]
    return (torch.logsumexp(rows, dim=-1) - own).sum() / max(len(rows), 1)


@correct("sentences-by-their-weight")
def sentences_by_their_weight(logits, targets, ignore_index=-100):
    real = targets != ignore_index
    labels = targets.masked_fill(~real, 0)
    losses = -torch.log_softmax(logits, dim=-1).gather(-1, labels.unsqueeze(-1)).squeeze(-1)
    lengths = real.sum(-1)
    of_sentence = losses.masked_fill(~real, 0.0).sum(-1) / lengths.clamp(min=1)
    return (of_sentence * lengths).sum() / lengths.sum().clamp(min=1)


# Nothing is promised for a sentence without words beside others that have some.
@correct("sentence-without-words-counted-as-one-word")
def sentence_without_words_counted_as_one_word(logits, targets, ignore_index=-100):
    real = targets != ignore_index
    labels = targets.masked_fill(~real, 0)
    losses = -torch.log_softmax(logits, dim=-1).gather(-1, labels.unsqueeze(-1)).squeeze(-1)
    return losses.masked_fill(~real, 0.0).sum() / real.sum(-1).clamp(min=1).sum()
