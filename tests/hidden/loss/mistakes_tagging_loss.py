"""What learners get wrong when padding has to stay out of attention and loss, each with the check that catches it."""

import torch
import torch.nn.functional as F

from autograder.suite import N_, mistake


def padding_of(x, lengths):
    return torch.arange(x.shape[1], device=x.device) >= lengths.unsqueeze(1)


def attended(x, forbidden, W_q, W_k, W_v):
    """Scaled dot-product attention of x with itself; True in `forbidden`, (B, T, T), forbids."""
    return F.scaled_dot_product_attention(x @ W_q, x @ W_k, x @ W_v, attn_mask=~forbidden)


def keys_of(padding):
    """(B, T, T), True where the key is padding."""
    return padding.unsqueeze(1).expand(-1, padding.shape[1], -1)


def loss_over_words(logits, targets, padding, ignore_index):
    targets = targets.masked_fill(padding, ignore_index)
    return F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=ignore_index)


# One end without the other


@mistake(
    "no-mask",
    caught_by="padded_words",
    says=N_(
        "The padding's labels are ignored, but your words still look at the padding: there is no mask along the keys. "
        "(A mask along the queries, or an output set to 0 at the padding, stops only the padding itself.) The two ends "
        "belong together."
    ),
)
def no_mask(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
    output = F.scaled_dot_product_attention(x @ W_q, x @ W_k, x @ W_v)
    return loss_over_words(output @ W_out, targets, padding_of(x, lengths), ignore_index)


@mistake(
    "padding-in-the-loss",
    caught_by="padded_labels",
    says=N_(
        "Your attention is masked, but whatever label stands at the padding goes into the loss. Nobody promises that "
        "it is ignore_index: the lengths tell where the words end. Mask and ignore_index belong together."
    ),
)
def padding_in_the_loss(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
    output = attended(x, keys_of(padding_of(x, lengths)), W_q, W_k, W_v)
    return F.cross_entropy((output @ W_out).transpose(1, 2), targets, ignore_index=ignore_index)


@mistake(
    "lengths-not-used",
    caught_by="padded_words",
    says=N_(
        "You do not use the lengths: words look at the padding, and the padding's labels go into the loss. Both ends "
        "have to know where the words end."
    ),
)
def lengths_not_used(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
    output = F.scaled_dot_product_attention(x @ W_q, x @ W_k, x @ W_v)
    return F.cross_entropy((output @ W_out).transpose(1, 2), targets, ignore_index=ignore_index)


# The mask


@mistake(
    "mask-inverted",
    caught_by="padded_words",
    says=N_(
        'Your words look at nothing but the padding. True means "may be looked at" in '
        'F.scaled_dot_product_attention, while in the padding masks of this course it means "not allowed": one of the '
        "two has to be turned round."
    ),
)
def mask_inverted(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
    padding = padding_of(x, lengths)
    output = F.scaled_dot_product_attention(x @ W_q, x @ W_k, x @ W_v, attn_mask=padding.unsqueeze(1))
    return loss_over_words(output @ W_out, targets, padding, ignore_index)


@mistake(
    "mask-without-an-axis-for-queries",
    caught_by="one_number",
    says=N_(
        "You put a (B, T) mask on (B, T, T) scores as it is. Axes are matched from the right, so that sentence b's row "
        "lands on query b: it needs an axis for the queries in the middle."
    ),
)
def mask_without_an_axis(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
    padding = padding_of(x, lengths)
    output = F.scaled_dot_product_attention(x @ W_q, x @ W_k, x @ W_v, attn_mask=~padding)
    return loss_over_words(output @ W_out, targets, padding, ignore_index)


@mistake(
    "scores-set-to-zero",
    caught_by="padded_words",
    says=N_(
        "You set the padding's scores to 0 (or to 1e-9) before the softmax. e to the power of 0 is 1, so that padding "
        "still gets a share of the weight: only minus infinity has the power 0."
    ),
)
def scores_set_to_zero(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
    padding = padding_of(x, lengths)
    scores = x @ W_q @ (x @ W_k).mT / W_q.shape[1] ** 0.5
    weights = scores.masked_fill(padding.unsqueeze(1), 0.0).softmax(-1)
    return loss_over_words(weights @ (x @ W_v) @ W_out, targets, padding, ignore_index)


@mistake(
    "penalty-that-loses-to-large-scores",
    caught_by="padded_words",
    says=N_(
        "You add a penalty such as -10000 to the padding's scores. A large score makes up for it, and the padding is "
        "back: replace the score instead of lowering it."
    ),
)
def penalty_that_loses(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
    padding = padding_of(x, lengths)
    scores = x @ W_q @ (x @ W_k).mT / W_q.shape[1] ** 0.5
    weights = (scores - 1e4 * padding.unsqueeze(1).to(x.dtype)).softmax(-1)
    return loss_over_words(weights @ (x @ W_v) @ W_out, targets, padding, ignore_index)


@mistake(
    "number-written-over-the-scores",
    caught_by="padded_words",
    says=N_(
        "You write a number such as -100 over the padding's scores. Where all words of a sentence have scores below "
        "that, the padding wins: only minus infinity, or the lowest number of the dtype, is low enough."
    ),
)
def number_written_over(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
    padding = padding_of(x, lengths)
    scores = x @ W_q @ (x @ W_k).mT / W_q.shape[1] ** 0.5
    weights = scores.masked_fill(padding.unsqueeze(1), -100.0).softmax(-1)
    return loss_over_words(weights @ (x @ W_v) @ W_out, targets, padding, ignore_index)


@mistake(
    "mask-times-infinity",
    caught_by="a_number",
    says=N_(
        "Your loss is NaN in every batch. A mask times minus infinity, for example, is NaN wherever nothing is "
        "forbidden (0 times infinity), and it spreads: write minus infinity where padding is, and leave the other "
        "scores alone."
    ),
)
def mask_times_infinity(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
    padding = padding_of(x, lengths)
    scores = x @ W_q @ (x @ W_k).mT / W_q.shape[1] ** 0.5
    weights = (scores + padding.unsqueeze(1) * float("-inf")).softmax(-1)
    return loss_over_words(weights @ (x @ W_v) @ W_out, targets, padding, ignore_index)


@mistake(
    "mask-of-ones-and-zeros-added",
    caught_by="padded_words",
    says=N_(
        "Your mask is added to the scores as ones and zeros. F.scaled_dot_product_attention does so with a mask that "
        "is not bool: a score that is 1 higher or lower forbids nothing. Give it True and False."
    ),
)
def mask_added(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
    padding = padding_of(x, lengths)
    mask = (~padding).unsqueeze(1).to(x.dtype)
    output = F.scaled_dot_product_attention(x @ W_q, x @ W_k, x @ W_v, attn_mask=mask)
    return loss_over_words(output @ W_out, targets, padding, ignore_index)


@mistake(
    "words-set-to-zero",
    caught_by="more_padding",
    says=N_(
        "You set x to 0 at the padding and use no mask. Then it no longer matters what stands there, but how much of "
        "it: a score of 0 still takes its share of the weight."
    ),
)
def words_set_to_zero(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
    padding = padding_of(x, lengths)
    x = x.masked_fill(padding.unsqueeze(-1), 0.0)
    output = F.scaled_dot_product_attention(x @ W_q, x @ W_k, x @ W_v)
    return loss_over_words(output @ W_out, targets, padding, ignore_index)


@mistake(
    "values-set-to-zero",
    caught_by="padded_words",
    says=N_(
        "The padding adds nothing to your output, but it still takes a share of the weight, which the words lose (you "
        "set its values to 0, or its weights after the softmax): mask the scores instead."
    ),
)
def values_set_to_zero(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
    padding = padding_of(x, lengths)
    values = (x @ W_v).masked_fill(padding.unsqueeze(-1), 0.0)
    output = F.scaled_dot_product_attention(x @ W_q, x @ W_k, values)
    return loss_over_words(output @ W_out, targets, padding, ignore_index)


@mistake(
    "one-more-key",
    caught_by="padded_words",
    says=N_(
        "The first pad of each sentence may still be looked at. Positions count from 0: a sentence of n words ends at "
        "position n - 1, and n is padding already."
    ),
)
def one_more_key(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
    output = attended(x, keys_of(padding_of(x, lengths + 1)), W_q, W_k, W_v)
    return loss_over_words(output @ W_out, targets, padding_of(x, lengths), ignore_index)


# The loss


@mistake(
    "ignore-index-not-passed-on",
    caught_by="ignore_index",
    says=N_(
        "Your loss ignores -100, whatever ignore_index says: words that are marked with another number count as a "
        "class, or raise an error. ignore_index has to be passed on to whoever computes the loss (-100 is only the "
        "default there)."
    ),
)
def ignore_index_not_passed_on(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
    padding = padding_of(x, lengths)
    output = attended(x, keys_of(padding), W_q, W_k, W_v)
    return loss_over_words(output @ W_out, targets, padding, -100)


@mistake(
    "ignore-index-written-but-not-told",
    caught_by="ignore_index",
    says=N_(
        "You write ignore_index at the padding, but whoever computes the loss is not told of it, and goes on ignoring "
        "-100, the default there."
    ),
)
def ignore_index_not_told(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
    padding = padding_of(x, lengths)
    output = attended(x, keys_of(padding), W_q, W_k, W_v)
    return F.cross_entropy((output @ W_out).transpose(1, 2), targets.masked_fill(padding, ignore_index))


@mistake(
    "padding-marked-with-minus-100",
    caught_by="ignore_index",
    says=N_(
        "You write -100 at the padding, whatever ignore_index says. With another ignore_index the loss does not ignore "
        "-100 any more, and there is no such class."
    ),
)
def padding_marked_with_minus_100(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
    padding = padding_of(x, lengths)
    output = attended(x, keys_of(padding), W_q, W_k, W_v)
    targets = targets.masked_fill(padding, -100)
    return F.cross_entropy((output @ W_out).transpose(1, 2), targets, ignore_index=ignore_index)


@mistake(
    "words-always-count",
    caught_by="ignore_index",
    says=N_(
        "You count every word within the length, those with the label ignore_index too. Such a word is in the "
        "sentence, and others look at it, but its label says that it does not count."
    ),
)
def words_always_count(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
    padding = padding_of(x, lengths)
    shares = (attended(x, keys_of(padding), W_q, W_k, W_v) @ W_out).log_softmax(-1)
    labels = targets.clamp(0, W_out.shape[1] - 1)
    losses = -shares.gather(-1, labels.unsqueeze(-1)).squeeze(-1)
    return losses[~padding].mean()


@mistake(
    "marked-words-masked",
    caught_by="ignore_index",
    says=N_(
        "You take words with the label ignore_index out of attention as well. They are words of the sentence: others "
        "may look at them, only their own label does not count."
    ),
)
def marked_words_masked(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
    padding = padding_of(x, lengths)
    output = attended(x, keys_of(padding | (targets == ignore_index)), W_q, W_k, W_v)
    return loss_over_words(output @ W_out, targets, padding, ignore_index)


@mistake(
    "mean-over-all-places",
    caught_by="more_padding",
    says=N_(
        "Your mean divides by the number of all places, so that every pad makes the loss smaller. reduction='none' "
        "leaves zeros at ignored places, and these do not leave the mean by themselves."
    ),
)
def mean_over_all_places(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
    padding = padding_of(x, lengths)
    logits = attended(x, keys_of(padding), W_q, W_k, W_v) @ W_out
    targets = targets.masked_fill(padding, ignore_index)
    return F.cross_entropy(logits.mT, targets, ignore_index=ignore_index, reduction="none").mean()


@mistake(
    "divided-by-the-lengths",
    caught_by="ignore_index",
    says=N_(
        "You divide by the sum of the lengths. A word whose label is ignore_index adds 0 to the sum, and must not "
        "count in the mean either."
    ),
)
def divided_by_the_lengths(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
    padding = padding_of(x, lengths)
    logits = attended(x, keys_of(padding), W_q, W_k, W_v) @ W_out
    targets = targets.masked_fill(padding, ignore_index)
    return F.cross_entropy(logits.mT, targets, ignore_index=ignore_index, reduction="sum") / lengths.sum()


@mistake(
    "mean-of-sentence-means",
    caught_by="more_padding",
    says=N_(
        "You average each sentence first, and then over the sentences: a word of a short sentence counts more than one "
        "of a long sentence. Every word of the batch should weigh the same."
    ),
)
def mean_of_sentence_means(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
    padding = padding_of(x, lengths)
    logits = attended(x, keys_of(padding), W_q, W_k, W_v) @ W_out
    targets = targets.masked_fill(padding, ignore_index)
    losses = [F.cross_entropy(rows, labels, ignore_index=ignore_index) for rows, labels in zip(logits, targets)]  # noqa: B905
    return torch.stack(losses).mean()


@mistake(
    "sum",
    caught_by="unpadded",
    says=N_("You add the losses of the words up. Their mean is due: the sum of a larger batch is larger."),
)
def as_sum(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
    padding = padding_of(x, lengths)
    logits = attended(x, keys_of(padding), W_q, W_k, W_v) @ W_out
    targets = targets.masked_fill(padding, ignore_index)
    return F.cross_entropy(logits.mT, targets, ignore_index=ignore_index, reduction="sum")


@mistake(
    "classes-last",
    caught_by="one_number",
    says=N_(
        "F.cross_entropy gets logits of shape (B, T, V), and looks for the classes on axis 1, where your positions "
        "are. It wants (B, V, T), or all words in one long row, (B*T, V). With T = V it even runs."
    ),
)
def classes_last(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
    padding = padding_of(x, lengths)
    output = attended(x, keys_of(padding), W_q, W_k, W_v)
    return F.cross_entropy(output @ W_out, targets.masked_fill(padding, ignore_index), ignore_index=ignore_index)


@mistake(
    "reshaped-instead-of-transposed",
    caught_by="unpadded",
    says=N_(
        "You bring the logits into the shape (B, V, T) by reshape or view. That keeps the numbers in their order and "
        "only counts them off anew: classes and words get mixed up. To swap axes is another thing."
    ),
)
def reshaped(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
    padding = padding_of(x, lengths)
    logits = attended(x, keys_of(padding), W_q, W_k, W_v) @ W_out
    B, T, V = logits.shape
    targets = targets.masked_fill(padding, ignore_index)
    return F.cross_entropy(logits.reshape(B, V, T), targets, ignore_index=ignore_index)


@mistake(
    "softmax-before-cross-entropy",
    caught_by="unpadded",
    says=N_(
        "The logits go through softmax before F.cross_entropy, which contains one already. Shares of shares are nearly "
        "alike: the loss hardly moves."
    ),
)
def softmax_before(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
    padding = padding_of(x, lengths)
    logits = attended(x, keys_of(padding), W_q, W_k, W_v) @ W_out
    return loss_over_words(logits.softmax(-1), targets, padding, ignore_index)


# The attention itself


@mistake(
    "no-scale",
    caught_by="unpadded",
    says=N_("Your attention lacks its scale: scores are divided by the root of d, the width of one query."),
)
def no_scale(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
    padding = padding_of(x, lengths)
    scores = (x @ W_q @ (x @ W_k).mT).masked_fill(padding.unsqueeze(1), float("-inf"))
    return loss_over_words(scores.softmax(-1) @ (x @ W_v) @ W_out, targets, padding, ignore_index)


@mistake(
    "scaled-twice",
    caught_by="unpadded",
    says=N_("Your scores are scaled twice: F.scaled_dot_product_attention divides by the root of d by itself."),
)
def scaled_twice(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
    padding = padding_of(x, lengths)
    output = attended(x, keys_of(padding), W_q / W_q.shape[1] ** 0.5, W_k, W_v)
    return loss_over_words(output @ W_out, targets, padding, ignore_index)


@mistake(
    "queries-and-keys-swapped",
    caught_by="unpadded",
    says=N_("Queries and keys have changed places: W_q makes the queries, which look, and W_k the keys."),
)
def queries_and_keys_swapped(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
    padding = padding_of(x, lengths)
    output = attended(x, keys_of(padding), W_k, W_q, W_v)
    return loss_over_words(output @ W_out, targets, padding, ignore_index)


@mistake(
    "no-attention",
    caught_by="a_number",
    says=N_("Every word has only its own value: there is no attention between x @ W_v and @ W_out."),
)
def no_attention(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
    return loss_over_words(x @ W_v @ W_out, targets, padding_of(x, lengths), ignore_index)


@mistake(
    "logits-left-out",
    caught_by="one_number",
    says=N_("The output of attention goes into the loss as it is: @ W_out, which makes logits of it, is missing."),
)
def logits_left_out(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
    padding = padding_of(x, lengths)
    output = attended(x, keys_of(padding), W_q, W_k, W_v)
    return loss_over_words(output, targets, padding, ignore_index)


# What comes back, and what is left behind


@mistake(
    "losses-of-words-returned",
    caught_by="one_number",
    says=N_("You return the loss of every word. One number is due: their mean over the real words of the batch."),
)
def losses_of_words(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
    padding = padding_of(x, lengths)
    logits = attended(x, keys_of(padding), W_q, W_k, W_v) @ W_out
    targets = targets.masked_fill(padding, ignore_index)
    return F.cross_entropy(logits.mT, targets, ignore_index=ignore_index, reduction="none")


@mistake(
    "attention-detached",
    caught_by="gradients",
    says=N_(
        "Your loss is the right number, but attention is cut off from it (detach, no_grad or .data): only W_out could "
        "learn."
    ),
)
def attention_detached(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
    padding = padding_of(x, lengths)
    output = attended(x, keys_of(padding), W_q, W_k, W_v).detach()
    return loss_over_words(output @ W_out, targets, padding, ignore_index)


@mistake(
    "naive-softmax",
    caught_by="any_batch",
    says=N_(
        "You compute e to the power of the scores as they are, which is infinite for large ones. Take each row's "
        "largest score away first: the shares stay the same."
    ),
)
def naive_softmax(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
    padding = padding_of(x, lengths)
    scores = x @ W_q @ (x @ W_k).mT / W_q.shape[1] ** 0.5
    powers = scores.masked_fill(padding.unsqueeze(1), float("-inf")).exp()
    weights = powers / powers.sum(-1, keepdim=True)
    return loss_over_words(weights @ (x @ W_v) @ W_out, targets, padding, ignore_index)


@mistake(
    "float32-mask",
    caught_by="any_batch",
    says=N_(
        "Your mask is a new tensor of zeros and minus infinities, which is float32 whatever x is, and the weights "
        "with it: bfloat16 does not go in. Say what dtype it should have, or use a mask of True and False."
    ),
)
def float32_mask(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
    padding = padding_of(x, lengths)
    mask = torch.zeros(padding.shape).masked_fill(padding, float("-inf")).unsqueeze(1)
    weights = (x @ W_q @ (x @ W_k).mT / W_q.shape[1] ** 0.5 + mask).softmax(-1)
    return loss_over_words(weights @ (x @ W_v) @ W_out, targets, padding, ignore_index)


@mistake(
    "targets-overwritten",
    caught_by="hygiene",
    says=N_("You write ignore_index into the targets that you were given. Make a copy, and write into that."),
)
def targets_overwritten(x, targets, lengths, W_q, W_k, W_v, W_out, ignore_index=-100):
    padding = padding_of(x, lengths)
    targets[padding] = ignore_index
    output = attended(x, keys_of(padding), W_q, W_k, W_v)
    return F.cross_entropy((output @ W_out).mT, targets, ignore_index=ignore_index)
