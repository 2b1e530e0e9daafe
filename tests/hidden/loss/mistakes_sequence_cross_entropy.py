"""What learners get wrong in the loss of a batch of sentences, each with the check that catches it."""

import math

import torch
import torch.nn.functional as F

from autograder.suite import N_, mistake


def picked(shares, targets, real):
    """The share (or its logarithm) of each word's label, (B, T); of class 0 where the label is ignored."""
    labels = targets.masked_fill(~real, 0)
    return shares.gather(-1, labels.unsqueeze(-1)).squeeze(-1)


def word_losses(logits, targets, real):
    return -picked(F.log_softmax(logits, dim=-1), targets, real)


def mean_of_real(losses, real):
    return (losses * real).sum() / real.sum().clamp(min=1)


# What a word costs


@mistake(
    "sign-forgotten",
    caught_by="one_word",
    says=N_("Your loss is negative: a share is below 1, and its logarithm below 0. The minus before it is missing."),
)
def sign_forgotten(logits, targets, ignore_index=-100):
    real = targets != ignore_index
    return -mean_of_real(word_losses(logits, targets, real), real)


@mistake(
    "no-logarithm",
    caught_by="one_word",
    says=N_("You average the shares of the labels, with a minus before, and take no logarithm of them."),
)
def no_logarithm(logits, targets, ignore_index=-100):
    real = targets != ignore_index
    return mean_of_real(-picked(F.softmax(logits, dim=-1), targets, real), real)


@mistake(
    "no-softmax",
    caught_by="one_word",
    says=N_(
        "You take the label's logit as it is. The other classes have no say then: it takes a softmax to make shares of "
        "logits."
    ),
)
def no_softmax(logits, targets, ignore_index=-100):
    real = targets != ignore_index
    return mean_of_real(-picked(logits, targets, real), real)


@mistake(
    "softmax-twice",
    caught_by="one_word",
    says=N_(
        "The logits go through softmax, and then through log_softmax, which contains a softmax already. Shares of "
        "shares are nearly alike: the loss hardly moves."
    ),
)
def softmax_twice(logits, targets, ignore_index=-100):
    real = targets != ignore_index
    return mean_of_real(word_losses(F.softmax(logits, dim=-1), targets, real), real)


@mistake(
    "mean-over-classes-too",
    caught_by="one_word",
    says=N_(
        "You average over the classes as well, and so divide by V once too often: all classes but the label's add a 0, "
        "and are to be added up, not averaged."
    ),
)
def mean_over_classes_too(logits, targets, ignore_index=-100):
    real = targets != ignore_index
    return mean_of_real(word_losses(logits, targets, real), real) / logits.shape[-1]


@mistake(
    "wrong-guesses-counted",
    caught_by="one_word",
    says=N_(
        "You count how often the largest logit is not the label's. No gradient flows through a count, and a narrow "
        "miss costs as much as a wide one."
    ),
)
def wrong_guesses_counted(logits, targets, ignore_index=-100):
    real = targets != ignore_index
    return mean_of_real((logits.argmax(-1) != targets).to(logits.dtype), real)


# Along which axis


@mistake(
    "softmax-over-positions",
    caught_by="one_word",
    says=N_(
        "Your softmax runs over the positions (dim=1): the words of a sentence compete for a class. The classes of one "
        "word should compete, and they lie along the last axis."
    ),
)
def softmax_over_positions(logits, targets, ignore_index=-100):
    real = targets != ignore_index
    return mean_of_real(-picked(F.log_softmax(logits, dim=1), targets, real), real)


@mistake(
    "softmax-over-sentences",
    caught_by="one_word",
    says=N_(
        "Your softmax runs over the sentences (dim=0). The classes of one word should compete, and they lie along the "
        "last axis."
    ),
)
def softmax_over_sentences(logits, targets, ignore_index=-100):
    real = targets != ignore_index
    return mean_of_real(-picked(F.log_softmax(logits, dim=0), targets, real), real)


@mistake(
    "classes-on-axis-1",
    caught_by="one_number",
    says=N_(
        "You look for the classes on axis 1, where the positions are. That is where F.cross_entropy expects them; "
        "these logits have them last. With as many classes as positions it even runs."
    ),
)
def classes_on_axis_1(logits, targets, ignore_index=-100):
    real = targets != ignore_index
    labels = targets.masked_fill(~real, 0)
    losses = -F.log_softmax(logits, dim=1).gather(1, labels.unsqueeze(1)).squeeze(1)
    return mean_of_real(losses, real)


@mistake(
    "reshaped-instead-of-transposed",
    caught_by="every_word",
    says=N_(
        "You bring the logits into the shape (B, V, T) by reshape or view. That keeps the numbers in their order and "
        "only counts them off anew: classes and words get mixed up. To swap axes is another thing."
    ),
)
def reshaped(logits, targets, ignore_index=-100):
    real = targets != ignore_index
    B, T, V = logits.shape
    shares = logits.reshape(B, V, T).log_softmax(dim=1)
    return mean_of_real(-picked(shares.transpose(1, 2), targets, real), real)


@mistake(
    "every-label-of-the-batch-for-every-word",
    caught_by="every_word",
    says=N_(
        "Every word is charged for the labels of all words of the batch, and not for its own alone. In "
        "`rows[:, labels]` each row gets every label: rows and labels have to go in pairs."
    ),
)
def every_label_for_every_word(logits, targets, ignore_index=-100):
    keep = targets != ignore_index
    losses = -F.log_softmax(logits[keep], dim=-1)[:, targets[keep]]
    return losses.sum() / max(losses.numel(), 1)


# What is averaged, and over how much


@mistake(
    "mean-over-all-places",
    caught_by="padding",
    says=N_(
        "You divide by the number of all places. Ignored ones add 0 to the sum but still count in the mean, so that "
        "your loss shrinks with every pad: divide by the number of real words."
    ),
)
def mean_over_all_places(logits, targets, ignore_index=-100):
    real = targets != ignore_index
    return (word_losses(logits, targets, real) * real).mean()


@mistake(
    "mean-of-sentence-means",
    caught_by="batch_mean",
    says=N_(
        "You average within each sentence first, and then over the sentences: the only word of a short sentence counts "
        "as much as all words of a long one. Every word of the batch should weigh the same."
    ),
)
def mean_of_sentence_means(logits, targets, ignore_index=-100):
    real = targets != ignore_index
    losses = word_losses(logits, targets, real) * real
    return (losses.sum(1) / real.sum(1).clamp(min=1)).mean()


@mistake(
    "sum",
    caught_by="every_word",
    says=N_(
        "You add the losses of the words up and do not divide: a batch twice as large has a loss twice as large, and "
        "steps twice as long."
    ),
)
def as_sum(logits, targets, ignore_index=-100):
    real = targets != ignore_index
    return (word_losses(logits, targets, real) * real).sum()


@mistake(
    "divided-by-the-sentences",
    caught_by="every_word",
    says=N_(
        "You divide by the number of sentences instead of words: long sentences have a larger loss than short ones."
    ),
)
def divided_by_the_sentences(logits, targets, ignore_index=-100):
    real = targets != ignore_index
    return (word_losses(logits, targets, real) * real).sum() / logits.shape[0]


@mistake(
    "divided-by-one-more",
    caught_by="every_word",
    says=N_(
        "You divide by one more than the number of real words. A guard against dividing by 0 should change nothing "
        "where there are words: it is the larger of the number and 1, not their sum."
    ),
)
def divided_by_one_more(logits, targets, ignore_index=-100):
    real = targets != ignore_index
    return (word_losses(logits, targets, real) * real).sum() / (real.sum() + 1)


@mistake(
    "words-without-loss-left-out",
    caught_by="every_word",
    says=N_(
        "You leave out words whose loss is exactly 0, as if they were padding. A word that your model is quite sure "
        "of, and right about, costs nothing and counts all the same: ask the label, not the loss, what is real."
    ),
)
def words_without_loss_left_out(logits, targets, ignore_index=-100):
    real = targets != ignore_index
    losses = word_losses(logits, targets, real) * real
    return losses.sum() / (losses != 0).sum().clamp(min=1)


@mistake(
    "logarithm-after-the-mean",
    caught_by="every_word",
    says=N_(
        "You average the shares first and take the logarithm of the mean. The logarithm comes first, for every word; a "
        "word that gets hardly any share should cost much, whatever the others get."
    ),
)
def logarithm_after_the_mean(logits, targets, ignore_index=-100):
    real = targets != ignore_index
    if not real.any():
        return logits.sum() * 0
    losses = word_losses(logits, targets, real)[real]
    return math.log(len(losses)) - torch.logsumexp(-losses, dim=0)


@mistake(
    "first-sentence-only",
    caught_by="every_word",
    says=N_(
        "Only the first sentence has a say in your loss. A `return` inside the loop over the sentences, for example, "
        "ends the loop after its first round."
    ),
)
def first_sentence_only(logits, targets, ignore_index=-100):
    total, count = logits.sum() * 0, 0
    for rows, labels in zip(logits, targets, strict=True):
        real = labels != ignore_index
        total = total + (word_losses(rows, labels, real) * real).sum()
        count = count + real.sum()
        return total / count.clamp(min=1)
    return total


@mistake(
    "last-position-only",
    caught_by="every_word",
    says=N_("Only the last position of each sentence has a say in your loss. Here every word has a label."),
)
def last_position_only(logits, targets, ignore_index=-100):
    real = targets[:, -1:] != ignore_index
    return mean_of_real(word_losses(logits[:, -1:], targets[:, -1:], real), real)


@mistake(
    "labels-shifted",
    caught_by="every_word",
    says=N_(
        "You compare each word's logits with the label of the word behind it. That is for models that guess the next "
        "word; here logits and label of a word stand at the same position."
    ),
)
def labels_shifted(logits, targets, ignore_index=-100):
    logits, targets = logits[:, :-1], targets[:, 1:]
    real = targets != ignore_index
    return mean_of_real(word_losses(logits, targets, real), real)


# Which places are ignored


@mistake(
    "labels-looked-up-as-they-are",
    caught_by="ignored_places",
    says=N_(
        "You look up the share of the label -100 at ignored places, and there is no such class. These places must be "
        "taken out, or get some real label for the look-up, before."
    ),
)
def looked_up_as_they_are(logits, targets, ignore_index=-100):
    real = targets != ignore_index
    losses = -F.log_softmax(logits, dim=-1).gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    return mean_of_real(losses, real)


@mistake(
    "padding-taken-for-class-0",
    caught_by="ignored_places",
    says=N_(
        "At ignored places you put class 0 for the look-up, and count the loss of these places: your model learns to "
        "say class 0 there. Their loss has to leave the sum, and they the mean."
    ),
)
def padding_taken_for_class_0(logits, targets, ignore_index=-100):
    real = targets != ignore_index
    return word_losses(logits, targets, real).mean()


@mistake(
    "marks-clamped-to-class-0",
    caught_by="ignored_places",
    says=N_(
        "You lift negative labels to 0 (clamp) for the look-up, and do no more: nothing is ignored, and the padding "
        "counts as words of class 0."
    ),
)
def marks_clamped(logits, targets, ignore_index=-100):
    labels = targets.clamp(min=0)
    return -F.log_softmax(logits, dim=-1).gather(-1, labels.unsqueeze(-1)).mean()


@mistake(
    "class-0-of-ignored-divided-by-the-words",
    caught_by="ignored_places",
    says=N_(
        "You divide by the number of real words, as you should, but the loss of the ignored places, looked up as class "
        "0, is still in the sum."
    ),
)
def ignored_still_in_the_sum(logits, targets, ignore_index=-100):
    real = targets != ignore_index
    return word_losses(logits, targets, real).sum() / real.sum().clamp(min=1)


@mistake(
    "logits-set-to-zero",
    caught_by="padding",
    says=N_(
        "You set the logits at ignored places to 0, and count these places. Equal logits are no loss of 0: each class "
        "gets the share 1/V, which costs log V. It is the loss that has to be masked."
    ),
)
def logits_set_to_zero(logits, targets, ignore_index=-100):
    real = targets != ignore_index
    return word_losses(logits * real.unsqueeze(-1), targets, real).mean()


@mistake(
    "logits-set-to-minus-infinity",
    caught_by="ignored_places",
    says=N_(
        "You set the logits at ignored places to minus infinity, as one does with scores. A softmax over nothing but "
        "minus infinities is NaN, and NaN times 0 is NaN: here it is the loss that has to be masked."
    ),
)
def logits_set_to_minus_infinity(logits, targets, ignore_index=-100):
    real = targets != ignore_index
    lowered = logits.masked_fill(~real.unsqueeze(-1), float("-inf"))
    return mean_of_real(word_losses(lowered, targets, real), real)


@mistake(
    "always-minus-100",
    caught_by="ignore_index",
    says=N_(
        "You ignore the label -100, whatever ignore_index says (it is only the default), and any other mark is looked "
        "up as a class."
    ),
)
def always_minus_100(logits, targets, ignore_index=-100):
    real = targets != -100
    return mean_of_real(word_losses(logits, targets, real), real)


@mistake(
    "all-negative-labels-ignored",
    caught_by="ignore_index",
    says=N_(
        "You ignore labels below 0, and do not ask what ignore_index is: where it is 0 or another class, nothing is "
        "ignored."
    ),
)
def all_negative_labels_ignored(logits, targets, ignore_index=-100):
    real = targets >= 0
    return mean_of_real(word_losses(logits, targets, real), real)


@mistake(
    "class-0-ignored",
    caught_by="every_word",
    says=N_(
        "You count only labels above 0, so that class 0 is ignored as well: its words are never learned. 0 is a class "
        "like any other here."
    ),
)
def class_0_ignored(logits, targets, ignore_index=-100):
    real = (targets > 0) & (targets != ignore_index)
    return mean_of_real(word_losses(logits, targets, real), real)


@mistake(
    "zero-taken-for-nothing",
    caught_by="ignore_index",
    says=N_(
        "ignore_index = 0 is taken for no ignore_index at all: `or` and `if ignore_index`, for example, can't tell 0 "
        "from nothing."
    ),
)
def zero_taken_for_nothing(logits, targets, ignore_index=-100):
    real = targets != (ignore_index or -100)
    return mean_of_real(word_losses(logits, targets, real), real)


@mistake(
    "words-counted-off-from-the-front",
    caught_by="padding",
    says=N_(
        "You count the real labels of a sentence and take so many from its front. Ignored places may stand among the "
        "words: ask every place for itself."
    ),
)
def counted_off_from_the_front(logits, targets, ignore_index=-100):
    counts = (targets != ignore_index).sum(1, keepdim=True)
    real = torch.arange(targets.shape[1]) < counts
    return mean_of_real(word_losses(logits, targets.clamp(min=0), real), real)


# Nothing real


@mistake(
    "nan-when-nothing-is-real",
    caught_by="nothing_real",
    says=N_("Where every label is ignored, you divide 0 by 0, or take the mean of nothing: both are NaN."),
)
def nan_when_nothing_is_real(logits, targets, ignore_index=-100):
    real = targets != ignore_index
    return word_losses(logits, targets, real)[real].mean()


@mistake(
    "nan-replaced-afterwards",
    caught_by="nothing_real_gradients",
    says=N_(
        "You divide by 0 first and make a 0 of the NaN afterwards. On the way back the division is still there, and "
        "the gradients are NaN: keep it from dividing by 0 at all."
    ),
)
def nan_replaced_afterwards(logits, targets, ignore_index=-100):
    real = targets != ignore_index
    return torch.nan_to_num((word_losses(logits, targets, real) * real).sum() / real.sum())


# Huge logits


@mistake(
    "logarithm-of-a-rounded-share",
    caught_by="huge_logits",
    says=N_(
        "You take the logarithm of a finished softmax. A share that was rounded to 0 has the logarithm minus infinity: "
        "do both in one step."
    ),
)
def logarithm_of_a_rounded_share(logits, targets, ignore_index=-100):
    real = targets != ignore_index
    return mean_of_real(-picked(F.softmax(logits, dim=-1), targets, real).log(), real)


@mistake(
    "logarithm-of-share-plus-epsilon",
    caught_by="huge_logits",
    says=N_(
        "You add a tiny number to the share before the logarithm. That keeps infinity away, but no word can cost more "
        "than about 28 then, and its gradient is gone: do softmax and logarithm in one step."
    ),
)
def logarithm_of_share_plus_epsilon(logits, targets, ignore_index=-100):
    real = targets != ignore_index
    return mean_of_real(-(picked(F.softmax(logits, dim=-1), targets, real) + 1e-12).log(), real)


@mistake(
    "naive-exp",
    caught_by="huge_logits",
    says=N_(
        "You compute e to the power of the logits as they are, which is infinite for large ones. Take each word's "
        "largest logit away first: the shares stay the same."
    ),
)
def naive_exp(logits, targets, ignore_index=-100):
    real = targets != ignore_index
    losses = logits.exp().sum(-1).log() - picked(logits, targets, real)
    return mean_of_real(losses, real)


@mistake(
    "largest-taken-off-one-side-only",
    caught_by="one_word",
    says=N_(
        "You take the largest logit off before the powers of e, and not off the logit of the label. Both sides of the "
        "difference have to be lowered by the same number."
    ),
)
def largest_off_one_side(logits, targets, ignore_index=-100):
    real = targets != ignore_index
    lowered = logits - logits.amax(-1, keepdim=True)
    return mean_of_real(lowered.exp().sum(-1).log() - picked(logits, targets, real), real)


@mistake(
    "global-maximum",
    caught_by="huge_logits",
    says=N_(
        "You take the largest logit of the whole batch away. A word whose logits all lie far below it is left with "
        "nothing but zeros: every word needs its own largest."
    ),
)
def global_maximum(logits, targets, ignore_index=-100):
    real = targets != ignore_index
    shifted = logits - logits.max()
    losses = shifted.exp().sum(-1).log() - picked(shifted, targets, real)
    return mean_of_real(losses, real)


# What comes back, and what is left behind


@mistake(
    "losses-of-words-returned",
    caught_by="one_number",
    says=N_("You return the loss of every word. One number is due: their mean over the real words of the batch."),
)
def losses_of_words(logits, targets, ignore_index=-100):
    real = targets != ignore_index
    return word_losses(logits, targets, real) * real


@mistake(
    "losses-of-sentences-returned",
    caught_by="one_number",
    says=N_("You return a loss for every sentence. One number is due, for the whole batch."),
)
def losses_of_sentences(logits, targets, ignore_index=-100):
    real = targets != ignore_index
    return (word_losses(logits, targets, real) * real).sum(1) / real.sum(1).clamp(min=1)


@mistake(
    "no-return",
    caught_by="one_number",
    says=N_("Your function computes something and returns nothing: `return` is missing, so that it returns None."),
)
def no_return(logits, targets, ignore_index=-100):
    real = targets != ignore_index
    loss = mean_of_real(word_losses(logits, targets, real), real)  # noqa: F841 - computed, and never returned


@mistake(
    "an-axis-left",
    caught_by="dtypes",
    says=N_("Your loss has an axis of size 1 left: (1,). A scalar has none."),
)
def an_axis_left(logits, targets, ignore_index=-100):
    real = targets != ignore_index
    return mean_of_real(word_losses(logits, targets, real), real).reshape(1)


@mistake(
    "plain-number",
    caught_by="gradients",
    says=N_(
        "You return a plain Python number, such as item() makes. No gradient can flow through that: leave the loss a "
        "tensor."
    ),
)
def plain_number(logits, targets, ignore_index=-100):
    real = targets != ignore_index
    return mean_of_real(word_losses(logits, targets, real), real).item()


@mistake(
    "detached",
    caught_by="gradients",
    says=N_(
        "Your loss is the right number, but cut off from the logits (detach, no_grad, .data, or a new tensor made of "
        "it): nothing can be learned from it."
    ),
)
def detached(logits, targets, ignore_index=-100):
    real = targets != ignore_index
    return mean_of_real(word_losses(logits, targets, real), real).detach()


@mistake(
    "float32-losses",
    caught_by="dtypes",
    says=N_(
        "You collect the losses in a new tensor of zeros, which is float32 whatever the logits are, and float64 does "
        "not go in. Say what dtype it should have."
    ),
)
def float32_losses(logits, targets, ignore_index=-100):
    real = targets != ignore_index
    losses = torch.zeros(targets.shape)
    losses[real] = word_losses(logits, targets, real)[real]
    return losses.sum() / real.sum().clamp(min=1)


@mistake(
    "view-of-what-lies-elsewhere",
    caught_by="any_batch",
    says=N_(
        "You flatten by view(), which works only while the numbers lie one behind the other in memory. After a "
        "transpose they do not; reshape() works for both."
    ),
)
def flattened_by_view(logits, targets, ignore_index=-100):
    rows, labels = logits.view(-1, logits.shape[-1]), targets.view(-1)
    real = labels != ignore_index
    return mean_of_real(word_losses(rows, labels, real), real)


@mistake(
    "targets-overwritten",
    caught_by="hygiene",
    says=N_(
        "You write class 0 over ignore_index in the targets that you were given. At the next call the padding counts "
        "as words of class 0: make a copy."
    ),
)
def targets_overwritten(logits, targets, ignore_index=-100):
    real = targets != ignore_index
    targets[~real] = 0
    return mean_of_real(word_losses(logits, targets, real), real)


@mistake(
    "logits-shifted-in-place",
    caught_by="hygiene",
    says=N_(
        "You take the largest logit away in place (`-=`), and the caller's logits with it. With logits that require "
        "gradients it even raises an error: make a new tensor instead."
    ),
)
def logits_shifted_in_place(logits, targets, ignore_index=-100):
    real = targets != ignore_index
    logits -= logits.amax(-1, keepdim=True)
    return mean_of_real(logits.exp().sum(-1).log() - picked(logits, targets, real), real)
