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
        "On every call your function still gives what the sick one gave: what you changed is not what makes it sick. "
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
        "The full stops have no say any more, but the pads have: your sum is divided by the number of all places. "
        "Which of them are words?"
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
