"""What is left to repair in the fourth case, and half repairs."""

import torch

from autograder.suite import N_, mistake


def losses_of_words(logits, targets, real):
    labels = targets.masked_fill(~real, 0)
    losses = -torch.log_softmax(logits, dim=-1).gather(-1, labels.unsqueeze(-1)).squeeze(-1)
    return losses.masked_fill(~real, 0.0)


@mistake(
    "as-sick-as-before",
    caught_by="repaired",
    says=N_(
        "On every call up to here your function gives what the sick one gives: either your change is not what matters, "
        "or it is not in force (of several definitions in a notebook, the last counts). "
        "Take three words whose losses you know, as one sentence and as two, and follow the numbers."
    ),
)
def as_sick_as_before(logits, targets, ignore_index=-100):
    real = targets != ignore_index
    losses = losses_of_words(logits, targets, real)
    of_sentence = losses.sum(-1) / real.sum(-1).clamp(min=1)
    return of_sentence.mean()


@mistake(
    "every-place-counted",
    caught_by="repaired",
    says=N_(
        "The pads have a say now: your sum is divided by the number of all places, and they are among these. Which "
        "places are words?"
    ),
)
def every_place_counted(logits, targets, ignore_index=-100):
    real = targets != ignore_index
    return losses_of_words(logits, targets, real).mean()


@mistake(
    "guard-lost",
    caught_by="repaired",
    says=N_(
        "With words in the batch your loss is right. Without any it is NaN, which the sick function was not: the guard "
        "against 0 / 0 got lost in the repair."
    ),
)
def guard_lost(logits, targets, ignore_index=-100):
    real = targets != ignore_index
    return losses_of_words(logits, targets, real).sum() / real.sum()


@mistake(
    "words-without-loss-left-out",
    caught_by="repaired",
    says=N_(
        "A word whose loss is exactly 0 is missing in your divisor, as if it were a pad. Which tensor tells words and "
        "pads apart: that of the losses, or that of the targets?"
    ),
)
def words_without_loss_left_out(logits, targets, ignore_index=-100):
    losses = losses_of_words(logits, targets, targets != ignore_index)
    return losses.sum() / (losses != 0).sum().clamp(min=1)
