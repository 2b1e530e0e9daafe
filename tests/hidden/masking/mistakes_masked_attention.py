"""What learners get wrong in masked attention, each with the check that catches it."""

import torch
import torch.nn.functional as F

from autograder.suite import N_, mistake


def scaled_scores(Q, K):
    return Q @ K.transpose(-2, -1) / Q.shape[-1] ** 0.5


def union(scores, key_padding_mask, attn_mask):
    forbidden = torch.zeros_like(scores, dtype=torch.bool)
    if key_padding_mask is not None:
        forbidden = forbidden | key_padding_mask.unsqueeze(1)
    if attn_mask is not None:
        forbidden = forbidden | attn_mask
    return forbidden


def masked_softmax(scores, forbidden):
    weights = F.softmax(scores.masked_fill(forbidden, torch.finfo(scores.dtype).min), dim=-1)
    return weights.masked_fill(forbidden, 0.0)


# What True means


@mistake(
    "inverted",
    caught_by="padded_keys",
    says=N_(
        "Under a mask, your queries look only where it is forbidden: both masks are read the other way round. Here "
        "True means forbidden; F.scaled_dot_product_attention has it the other way."
    ),
)
def inverted(Q, K, V, key_padding_mask=None, attn_mask=None):
    padding = None if key_padding_mask is None else ~key_padding_mask
    attn = None if attn_mask is None else ~attn_mask
    scores = scaled_scores(Q, K)
    weights = masked_softmax(scores, union(scores, padding, attn))
    return weights @ V, weights


@mistake(
    "padding-inverted",
    caught_by="padded_keys",
    says=N_(
        "key_padding_mask is read the other way round: your queries look at the padding alone. True stands at the "
        "padding, not at the words."
    ),
)
def padding_inverted(Q, K, V, key_padding_mask=None, attn_mask=None):
    padding = None if key_padding_mask is None else ~key_padding_mask
    scores = scaled_scores(Q, K)
    weights = masked_softmax(scores, union(scores, padding, attn_mask))
    return weights @ V, weights


@mistake(
    "bans-inverted",
    caught_by="padded_keys",
    says=N_(
        "Under a mask your queries look only where it is forbidden, and without masks nowhere at all: all bans "
        "together are turned round. Here True means forbidden, and where nothing is True everything is allowed."
    ),
)
def bans_inverted(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    weights = masked_softmax(scores, ~union(scores, key_padding_mask, attn_mask))
    return weights @ V, weights


@mistake(
    "attn-mask-inverted",
    caught_by="attn_mask",
    says=N_(
        "attn_mask is read the other way round: your queries look only where it is True. True stands where a query may "
        "not look."
    ),
)
def attn_mask_inverted(Q, K, V, key_padding_mask=None, attn_mask=None):
    attn = None if attn_mask is None else ~attn_mask
    scores = scaled_scores(Q, K)
    weights = masked_softmax(scores, union(scores, key_padding_mask, attn))
    return weights @ V, weights


# What is put in the place of forbidden scores


@mistake(
    "scores-set-to-zero",
    caught_by="padded_keys",
    says=N_(
        "In your softmax a forbidden key counts with a score of 0, or as good as 0 (such as 1e-9, or finfo.tiny). e to "
        "the power of 0 is 1, so it still gets its share. Which score has a power of e that is 0?"
    ),
)
def scores_set_to_zero(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    scores = scores.masked_fill(union(scores, key_padding_mask, attn_mask), 0.0)
    weights = F.softmax(scores, dim=-1)
    return weights @ V, weights


@mistake(
    "filled-with-plus",
    caught_by="padded_keys",
    says=N_(
        "Forbidden keys get all the weight, in equal parts: for example, because their scores were filled with a large "
        "positive number, and its minus sign is missing."
    ),
)
def filled_with_plus(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    weights = F.softmax(scores.masked_fill(union(scores, key_padding_mask, attn_mask), 1e9), dim=-1)
    return weights @ V, weights


@mistake(
    "small-penalty",
    caught_by="padded_keys",
    says=N_(
        "Forbidden scores are lowered by 10 only. A little weight still leaks to forbidden keys: it should be exactly "
        "0."
    ),
)
def small_penalty(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    weights = F.softmax(scores - 10 * union(scores, key_padding_mask, attn_mask).to(scores.dtype), dim=-1)
    return weights @ V, weights


@mistake(
    "penalty-that-loses-to-large-scores",
    caught_by="huge_logits",
    says=N_(
        "Forbidden scores are lowered by 10000. A score of 10000 makes up for it, and the padding is back: replace the "
        "score instead of lowering it."
    ),
)
def penalty_that_loses(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    forbidden = union(scores, key_padding_mask, attn_mask)
    weights = F.softmax(scores + forbidden.to(scores.dtype) * -1e4, dim=-1)
    weights = weights * ~forbidden.all(-1, keepdim=True)
    return weights @ V, weights


@mistake(
    "infinity-times-zero",
    caught_by="padded_keys",
    says=N_(
        "As soon as there is a mask, all your weights are NaN. For example, a mask times minus infinity: wherever the "
        "mask is False that is 0 times infinity, which is NaN."
    ),
)
def infinity_times_zero(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    if key_padding_mask is not None:
        scores = scores + key_padding_mask.unsqueeze(1).to(scores.dtype) * float("-inf")
    if attn_mask is not None:
        scores = scores + attn_mask.to(scores.dtype) * float("-inf")
    weights = F.softmax(scores, dim=-1)
    return weights @ V, weights


@mistake(
    "infinity-times-zero-without-masks",
    caught_by="unmasked",
    says=N_(
        "All your weights are NaN, with masks and without. For example, a table of bans times minus infinity: wherever "
        "nothing is forbidden that is 0 times infinity, which is NaN."
    ),
)
def infinity_times_zero_without_masks(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    bans = union(scores, key_padding_mask, attn_mask).to(scores.dtype)
    weights = F.softmax(scores + bans * float("-inf"), dim=-1)
    return weights @ V, weights


@mistake(
    "lowest-number-times-a-mask",
    caught_by="dtypes",
    says=N_(
        "Your weights are right in float32 and NaN in float64. For example, a bool tensor times a number is float32: "
        "the lowest number of float64 becomes minus infinity there, and 0 times infinity is NaN."
    ),
)
def lowest_number_times_a_mask(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    forbidden = union(scores, key_padding_mask, attn_mask)
    weights = F.softmax(scores + forbidden * torch.finfo(scores.dtype).min, dim=-1)
    weights = weights.masked_fill(forbidden, 0.0)
    return weights @ V, weights


@mistake(
    "mask-added-as-numbers",
    caught_by="padded_keys",
    says=N_(
        "A forbidden score grows by 1 for each mask that forbids it: for example, where a mask is added as it is, and "
        "True counts as 1. To be added, it would have to hold 0 and minus infinity."
    ),
)
def mask_added_as_numbers(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    if key_padding_mask is not None:
        scores = scores + key_padding_mask.unsqueeze(1)
    if attn_mask is not None:
        scores = scores + attn_mask
    weights = F.softmax(scores, dim=-1)
    return weights @ V, weights


@mistake(
    "fill-not-used",
    caught_by="padded_keys",
    says=N_(
        "Your masks have no effect at all: the weights are those without masks. For example, `masked_fill` without an "
        "underscore returns a new tensor, which has to be given a name; or bans that are joined by `&` with a table of "
        "nothing but False."
    ),
)
def fill_not_used(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    scores.masked_fill(union(scores, key_padding_mask, attn_mask), float("-inf"))
    weights = F.softmax(scores, dim=-1)
    return weights @ V, weights


# When it is done


@mistake(
    "masked-after-softmax",
    caught_by="rows_sum_to_one",
    says=N_(
        "Forbidden weights are 0, but the allowed ones are what they would be without a mask: the share of the "
        "forbidden keys is lost, and rows sum to less than 1. Your softmax still saw the forbidden scores: for "
        "example, because the mask comes after it, or because what `masked_fill` returns before it is not used."
    ),
)
def masked_after_softmax(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    weights = F.softmax(scores, dim=-1).masked_fill(union(scores, key_padding_mask, attn_mask), 0.0)
    return weights @ V, weights


@mistake(
    "emptied-but-not-forbidden",
    caught_by="rows_sum_to_one",
    says=N_(
        "In your softmax a forbidden key counts with a score of 0, or as good as 0 (finfo.tiny is the smallest number "
        "above 0, not the lowest of all). Its share is emptied afterwards, and rows sum to less than 1."
    ),
)
def emptied_but_not_forbidden(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    forbidden = union(scores, key_padding_mask, attn_mask)
    weights = F.softmax(scores.masked_fill(forbidden, torch.finfo(scores.dtype).tiny), dim=-1)
    weights = weights.masked_fill(forbidden, 0.0)
    return weights @ V, weights


@mistake(
    "renormalised-after-softmax",
    caught_by="huge_logits",
    says=N_(
        "If a forbidden key has by far the largest score, nothing is left for the allowed ones: the forbidden scores "
        "still take part in your softmax. For example, the mask comes after it and the rest is divided by its sum; or, "
        "in a softmax by hand, the largest score that is subtracted is a forbidden one."
    ),
)
def renormalised_after_softmax(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    weights = F.softmax(scores, dim=-1).masked_fill(union(scores, key_padding_mask, attn_mask), 0.0)
    weights = weights / weights.sum(-1, keepdim=True).clamp(min=1e-12)
    return weights @ V, weights


@mistake(
    "divided-by-nothing",
    caught_by="fully_masked",
    says=N_(
        "Where no allowed key has any weight, 0 is divided by 0, which is NaN: in a row without allowed keys, and "
        "where a forbidden score is by far the largest. For example, the mask comes after the softmax, and what is "
        "left is divided by its sum."
    ),
)
def divided_by_nothing(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    weights = F.softmax(scores, dim=-1).masked_fill(union(scores, key_padding_mask, attn_mask), 0.0)
    weights = weights / weights.sum(-1, keepdim=True)
    return weights @ V, weights


@mistake(
    "filled-after-softmax",
    caught_by="padded_keys",
    says=N_(
        "Your forbidden weights are minus infinity. It belongs into the scores, before the softmax, which turns it "
        "into 0."
    ),
)
def filled_after_softmax(Q, K, V, key_padding_mask=None, attn_mask=None):
    weights = F.softmax(scaled_scores(Q, K), dim=-1)
    weights = weights.masked_fill(union(weights, key_padding_mask, attn_mask), float("-inf"))
    return weights @ V, weights


@mistake(
    "softmax-again",
    caught_by="padded_keys",
    says=N_(
        "Your weights are the softmax of weights that were masked already. A weight of 0 becomes a positive one again: "
        "mask the scores, and one softmax does."
    ),
)
def softmax_again(Q, K, V, key_padding_mask=None, attn_mask=None):
    weights = F.softmax(scaled_scores(Q, K), dim=-1)
    weights = F.softmax(weights.masked_fill(union(weights, key_padding_mask, attn_mask), 0.0), dim=-1)
    return weights @ V, weights


@mistake(
    "softmax-again-under-masks",
    caught_by="weights",
    says=N_(
        "Where there is a mask, your weights have been through softmax twice, which flattens them: mask the scores, "
        "and one softmax does."
    ),
)
def softmax_again_under_masks(Q, K, V, key_padding_mask=None, attn_mask=None):
    weights = F.softmax(scaled_scores(Q, K), dim=-1)
    if key_padding_mask is not None or attn_mask is not None:
        weights = masked_softmax(weights, union(weights, key_padding_mask, attn_mask))
    return weights @ V, weights


@mistake(
    "leak-tidied-up",
    caught_by="more_padding",
    says=N_(
        "The weights that you return are 0 where it is forbidden, but those that made the output leak a little: large "
        "numbers in the padding still shine through."
    ),
)
def leak_tidied_up(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    forbidden = union(scores, key_padding_mask, attn_mask)
    weights = F.softmax(scores - 25 * forbidden.to(scores.dtype), dim=-1)
    return weights @ V, weights.masked_fill(forbidden, 0.0)


@mistake(
    "output-from-unmasked-weights",
    caught_by="output",
    says=N_(
        "You return masked weights, but the output is made with weights that know of no mask: the padding is still in "
        "it."
    ),
)
def output_from_unmasked_weights(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    weights = masked_softmax(scores, union(scores, key_padding_mask, attn_mask))
    return F.softmax(scores, dim=-1) @ V, weights


@mistake(
    "unmasked-weights-returned",
    caught_by="padded_keys",
    says=N_("Your output is right, but the weights that you return beside it know of no mask."),
)
def unmasked_weights_returned(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    weights = masked_softmax(scores, union(scores, key_padding_mask, attn_mask))
    return weights @ V, F.softmax(scores, dim=-1)


@mistake(
    "keys-zeroed",
    caught_by="padded_keys",
    says=N_(
        "A padded key counts with a score of 0: for example, because it was set to 0 in K. e to the power of 0 is 1, "
        "so it still gets a share. It is the scores that have to be masked."
    ),
)
def keys_zeroed(Q, K, V, key_padding_mask=None, attn_mask=None):
    if key_padding_mask is not None:
        K = K.masked_fill(key_padding_mask.unsqueeze(-1), 0.0)
    scores = scaled_scores(Q, K)
    weights = masked_softmax(scores, union(scores, None, attn_mask))
    return weights @ V, weights


@mistake(
    "values-zeroed",
    caught_by="padded_keys",
    says=N_(
        "Padded values add nothing to your output, but the padding still takes its share of the weight, which the "
        "words lose. It is the scores that have to be masked, not V."
    ),
)
def values_zeroed(Q, K, V, key_padding_mask=None, attn_mask=None):
    if key_padding_mask is not None:
        V = V.masked_fill(key_padding_mask.unsqueeze(-1), 0.0)
    scores = scaled_scores(Q, K)
    weights = masked_softmax(scores, union(scores, None, attn_mask))
    return weights @ V, weights


# Along which axis


@mistake(
    "padding-along-queries",
    caught_by="padded_keys",
    says=N_(
        "key_padding_mask lies along the queries' axis: padded queries are stopped from looking, and the words still "
        "look at the padding. It belongs along the keys."
    ),
)
def padding_along_queries(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    forbidden = union(scores, None, attn_mask)
    if key_padding_mask is not None:
        forbidden = forbidden | key_padding_mask.unsqueeze(-1)
    weights = masked_softmax(scores, forbidden)
    return weights @ V, weights


@mistake(
    "padding-without-an-axis-for-queries",
    caught_by="padded_keys",
    says=N_(
        "key_padding_mask, (B, Tk), meets the (B, Tq, Tk) scores as it is. Axes are matched from the right, so that "
        "sentence b's row lands on query b: it needs an axis for the queries in the middle."
    ),
)
def padding_without_an_axis(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    forbidden = union(scores, None, attn_mask)
    if key_padding_mask is not None:
        forbidden = forbidden | key_padding_mask
    weights = masked_softmax(scores, forbidden)
    return weights @ V, weights


@mistake(
    "padded-queries-too",
    caught_by="padded_keys",
    says=N_(
        "Padded places are stopped from looking as well. key_padding_mask speaks of keys alone; queries may even be "
        "another sentence, of another length."
    ),
)
def padded_queries_too(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    forbidden = union(scores, key_padding_mask, attn_mask)
    if key_padding_mask is not None:
        forbidden = forbidden | key_padding_mask.unsqueeze(2)
    weights = masked_softmax(scores, forbidden)
    return weights @ V, weights


@mistake(
    "first-padding-for-all",
    caught_by="padded_keys",
    says=N_("Every sentence gets the first sentence's padding. Each has a row of its own in key_padding_mask."),
)
def first_padding_for_all(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    padding = None if key_padding_mask is None else key_padding_mask[:1]
    weights = masked_softmax(scores, union(scores, padding, attn_mask))
    return weights @ V, weights


@mistake(
    "padding-of-any-sentence",
    caught_by="padded_keys",
    says=N_(
        "A key that is padding in one sentence is masked in all of them. Each has a row of its own in key_padding_mask."
    ),
)
def padding_of_any_sentence(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    padding = None if key_padding_mask is None else key_padding_mask.any(0, keepdim=True)
    weights = masked_softmax(scores, union(scores, padding, attn_mask))
    return weights @ V, weights


@mistake(
    "attn-mask-transposed",
    caught_by="attn_mask",
    says=N_("attn_mask is used transposed: its rows are queries and its columns keys, just as in the scores."),
)
def attn_mask_transposed(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    attn = None if attn_mask is None else attn_mask.T
    weights = masked_softmax(scores, union(scores, key_padding_mask, attn))
    return weights @ V, weights


@mistake(
    "attn-mask-along-the-batch",
    caught_by="attn_mask",
    says=N_(
        "Row q of attn_mask lands on sentence q, as if its new axis were in the middle. The mask is the same for all "
        "sentences: it fits (B, Tq, Tk) as it is."
    ),
)
def attn_mask_along_the_batch(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    attn = None if attn_mask is None else attn_mask.unsqueeze(1)
    weights = masked_softmax(scores, union(scores, key_padding_mask, attn))
    return weights @ V, weights


# Which of the two masks


@mistake(
    "padding-alone",
    caught_by="attn_mask",
    says=N_("attn_mask has no effect in your function: only the padding is masked."),
)
def padding_alone(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    weights = masked_softmax(scores, union(scores, key_padding_mask, None))
    return weights @ V, weights


@mistake(
    "attn-mask-alone",
    caught_by="padded_keys",
    says=N_("key_padding_mask has no effect in your function: only what attn_mask forbids is masked."),
)
def attn_mask_alone(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    weights = masked_softmax(scores, union(scores, None, attn_mask))
    return weights @ V, weights


@mistake(
    "and-instead-of-or",
    caught_by="both_masks",
    says=N_(
        "With both masks, you forbid only what both of them forbid (as `&` does). A key is forbidden as soon as either "
        "says so."
    ),
)
def and_instead_of_or(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    if key_padding_mask is not None and attn_mask is not None:
        forbidden = key_padding_mask.unsqueeze(1) & attn_mask
    else:
        forbidden = union(scores, key_padding_mask, attn_mask)
    weights = masked_softmax(scores, forbidden)
    return weights @ V, weights


@mistake(
    "padding-or-else-attn-mask",
    caught_by="both_masks",
    says=N_(
        "With both masks, only key_padding_mask has an effect: for example, because attn_mask comes in an `elif`. Both "
        "count."
    ),
)
def padding_or_else_attn_mask(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    if key_padding_mask is not None:
        attn_mask = None
    weights = masked_softmax(scores, union(scores, key_padding_mask, attn_mask))
    return weights @ V, weights


@mistake(
    "last-mask-wins",
    caught_by="both_masks",
    says=N_(
        "With both masks, only attn_mask has an effect: for example, because the second masking starts from the scores "
        "as they were, and the first one is lost."
    ),
)
def last_mask_wins(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    if attn_mask is not None:
        key_padding_mask = None
    weights = masked_softmax(scores, union(scores, key_padding_mask, attn_mask))
    return weights @ V, weights


@mistake(
    "exclusive-or",
    caught_by="both_masks",
    says=N_(
        "A key that both masks forbid is free in yours: two bans cancel, as with `^` or `!=`. A key is forbidden as "
        "soon as either says so."
    ),
)
def exclusive_or(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    if key_padding_mask is not None and attn_mask is not None:
        forbidden = key_padding_mask.unsqueeze(1) ^ attn_mask
    else:
        forbidden = union(scores, key_padding_mask, attn_mask)
    weights = masked_softmax(scores, forbidden)
    return weights @ V, weights


@mistake(
    "masks-swapped",
    caught_by="padded_keys",
    says=N_(
        "You take each mask for the other. The fourth argument is key_padding_mask, with a row for each sentence; the "
        "fifth is attn_mask, with a row for each query."
    ),
)
def masks_swapped(Q, K, V, attn_mask=None, key_padding_mask=None):
    scores = scaled_scores(Q, K)
    weights = masked_softmax(scores, union(scores, key_padding_mask, attn_mask))
    return weights @ V, weights


@mistake(
    "always-causal",
    caught_by="unmasked",
    says=N_("Your queries see only the keys at their own place and before, even if nobody gave you a mask."),
)
def always_causal(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    forbidden = union(scores, key_padding_mask, attn_mask) | torch.ones_like(scores, dtype=torch.bool).triu(1)
    weights = masked_softmax(scores, forbidden)
    return weights @ V, weights


@mistake(
    "truth-of-a-mask",
    caught_by="padded_keys",
    says=N_("A whole mask is asked whether it is true, as `if mask:` does. Ask whether it is there: `is not None`."),
)
def truth_of_a_mask(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    key_padding_mask = key_padding_mask if key_padding_mask else None
    attn_mask = attn_mask if attn_mask else None
    weights = masked_softmax(scores, union(scores, key_padding_mask, attn_mask))
    return weights @ V, weights


@mistake(
    "one-minus-a-mask",
    caught_by="padded_keys",
    says=N_("A bool mask is subtracted, as in `1 - mask`, which torch refuses: `~mask` turns True and False round."),
)
def one_minus_a_mask(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    keep = torch.ones_like(scores)
    if key_padding_mask is not None:
        keep = keep * (1 - key_padding_mask).unsqueeze(1)
    if attn_mask is not None:
        keep = keep * (1 - attn_mask)
    weights = masked_softmax(scores, keep == 0)
    return weights @ V, weights


@mistake(
    "masks-needed",
    caught_by="unmasked",
    says=N_("You use a mask before you have asked whether it is None. Without masks, this is plain attention."),
)
def masks_needed(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    weights = masked_softmax(scores, key_padding_mask.unsqueeze(1) | attn_mask)
    return weights @ V, weights


# Queries with no allowed key


@mistake(
    "nan-rows",
    caught_by="fully_masked",
    says=N_(
        "A query with no allowed key gets NaN: for example, the softmax of nothing but minus infinities divides 0 by "
        "0. It should get zero weights and a zero output."
    ),
)
def nan_rows(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    weights = F.softmax(scores.masked_fill(union(scores, key_padding_mask, attn_mask), float("-inf")), dim=-1)
    return weights @ V, weights


@mistake(
    "uniform-rows",
    caught_by="fully_masked",
    says=N_(
        "A query with no allowed key shares itself out evenly among forbidden ones: where all scores are the same low "
        "number, none is lower than another. It should get zero weights."
    ),
)
def uniform_rows(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    weights = F.softmax(scores.masked_fill(union(scores, key_padding_mask, attn_mask), -1e9), dim=-1)
    return weights @ V, weights


@mistake(
    "penalty-on-whole-rows",
    caught_by="fully_masked",
    says=N_(
        "A query with no allowed key gets the weights that it would have without masks: if the same number (such as "
        "-1e9) is added to all scores of a row, the softmax does not see it. It should get zero weights."
    ),
)
def penalty_on_whole_rows(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    weights = F.softmax(scores + union(scores, key_padding_mask, attn_mask).to(scores.dtype) * -1e9, dim=-1)
    return weights @ V, weights


@mistake(
    "nan-replaced-afterwards",
    caught_by="fully_masked_gradients",
    says=N_(
        "What you return is right, but the gradients of a query with no allowed key are NaN: for example, minus "
        "infinity was added, and NaN replaced by 0 afterwards. The way back still goes through the NaN: keep it from "
        "arising."
    ),
)
def nan_replaced_afterwards(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    added = torch.zeros_like(scores).masked_fill(union(scores, key_padding_mask, attn_mask), float("-inf"))
    weights = torch.nan_to_num(F.softmax(scores + added, dim=-1), nan=0.0)
    return weights @ V, weights


@mistake(
    "zeroed-after-the-output",
    caught_by="fully_masked",
    says=N_(
        "The weights that you return for a query with no allowed key are 0, but its output is still an average of "
        "forbidden values: it was made before the weights became 0."
    ),
)
def zeroed_after_the_output(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    forbidden = union(scores, key_padding_mask, attn_mask)
    weights = F.softmax(scores.masked_fill(forbidden, -1e9), dim=-1)
    return weights @ V, weights.masked_fill(forbidden, 0.0)


@mistake(
    "output-cleaned-alone",
    caught_by="fully_masked",
    says=N_("Your output is 0 where no key is allowed, but the weights that you return there are still NaN."),
)
def output_cleaned_alone(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    weights = F.softmax(scores.masked_fill(union(scores, key_padding_mask, attn_mask), float("-inf")), dim=-1)
    return torch.nan_to_num(weights) @ V, weights


@mistake(
    "empty-sentences-alone",
    caught_by="fully_masked",
    says=N_(
        "You take care of sentences that are all padding, but a query can also lose its last key to attn_mask, or to "
        "both masks together: then it still gets NaN."
    ),
)
def empty_sentences_alone(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    forbidden = union(scores, key_padding_mask, attn_mask)
    empty = torch.zeros(len(Q), 1, 1, dtype=torch.bool)
    if key_padding_mask is not None:
        empty = key_padding_mask.all(-1).view(-1, 1, 1)
    weights = F.softmax(scores.masked_fill(forbidden & ~empty, float("-inf")), dim=-1).masked_fill(empty, 0.0)
    return weights @ V, weights


@mistake(
    "only-if-all-are-empty",
    caught_by="fully_masked",
    says=N_(
        "You take care of the case that nothing at all is allowed. A single query with no allowed key, beside others, "
        "still gets NaN: look at each row."
    ),
)
def only_if_all_are_empty(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    forbidden = union(scores, key_padding_mask, attn_mask)
    if forbidden.all():
        weights = torch.zeros_like(scores) * scores
    else:
        weights = F.softmax(scores.masked_fill(forbidden, float("-inf")), dim=-1)
    return weights @ V, weights


@mistake(
    "refuses-empty-rows",
    caught_by="fully_masked",
    says=N_("You raise an error when a query has no allowed key. It is no mistake of the caller's: zeros are due."),
)
def refuses_empty_rows(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    forbidden = union(scores, key_padding_mask, attn_mask)
    if forbidden.all(-1).any():
        raise ValueError("a query has no allowed key")
    weights = masked_softmax(scores, forbidden)
    return weights @ V, weights


# Attention itself


@mistake(
    "mask-alone",
    caught_by="padded_keys",
    says=N_(
        "All keys that a query may look at get the same weight: your softmax hears the masks, but not the scores. Did "
        "the mask go on a table of zeros instead of the scores?"
    ),
)
def mask_alone(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = torch.zeros_like(scaled_scores(Q, K))
    weights = masked_softmax(scores, union(scores, key_padding_mask, attn_mask))
    return weights @ V, weights


@mistake(
    "no-scale",
    caught_by="unmasked",
    says=N_("Your weights are those of attention without the 1/√d scale."),
)
def no_scale(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = Q @ K.transpose(-2, -1)
    weights = masked_softmax(scores, union(scores, key_padding_mask, attn_mask))
    return weights @ V, weights


@mistake(
    "scale-by-d",
    caught_by="unmasked",
    says=N_("You divide by d, not by √d: your weights are too flat."),
)
def scale_by_d(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = Q @ K.transpose(-2, -1) / Q.shape[-1]
    weights = masked_softmax(scores, union(scores, key_padding_mask, attn_mask))
    return weights @ V, weights


@mistake(
    "scale-by-number-of-queries",
    caught_by="unmasked",
    says=N_("You divide by the root of the number of queries. It is d, the width of one query, that counts."),
)
def scale_by_number_of_queries(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = Q @ K.transpose(-2, -1) / Q.shape[1] ** 0.5
    weights = masked_softmax(scores, union(scores, key_padding_mask, attn_mask))
    return weights @ V, weights


@mistake(
    "all-axes-reversed",
    caught_by="shapes",
    says=N_(
        "All axes of K are turned round, as `.T` does it: the batch axis moves to the end. Only the last two axes "
        "should change places."
    ),
)
def all_axes_reversed(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = Q @ K.T / Q.shape[-1] ** 0.5
    weights = masked_softmax(scores, union(scores, key_padding_mask, attn_mask))
    return weights @ V, weights


@mistake(
    "scale-after-softmax",
    caught_by="unmasked",
    says=N_("You divide by √d after the softmax, so that rows sum to 1/√d. The scores are what is to be scaled."),
)
def scale_after_softmax(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = Q @ K.transpose(-2, -1)
    weights = masked_softmax(scores, union(scores, key_padding_mask, attn_mask)) / Q.shape[-1] ** 0.5
    return weights @ V, weights


@mistake(
    "softmax-over-queries",
    caught_by="unmasked",
    says=N_(
        "Your softmax shares each key out among the queries. It is each query that shares its attention out among "
        "the keys."
    ),
)
def softmax_over_queries(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    forbidden = union(scores, key_padding_mask, attn_mask)
    weights = F.softmax(scores.masked_fill(forbidden, -1e9), dim=-2).masked_fill(forbidden, 0.0)
    return weights @ V, weights


@mistake(
    "softmax-over-the-batch",
    caught_by="unmasked",
    says=N_("Your softmax runs over the first axis, the batch: sentences compete with one another."),
)
def softmax_over_the_batch(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    forbidden = union(scores, key_padding_mask, attn_mask)
    weights = F.softmax(scores.masked_fill(forbidden, -1e9), dim=0).masked_fill(forbidden, 0.0)
    return weights @ V, weights


@mistake(
    "no-softmax",
    caught_by="unmasked",
    says=N_("Your weights are masked scores, which can be negative and sum to anything: the softmax is missing."),
)
def no_softmax(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    weights = scores.masked_fill(union(scores, key_padding_mask, attn_mask), 0.0)
    return weights @ V, weights


@mistake(
    "naive-exp",
    caught_by="huge_logits",
    says=N_(
        "Ordinary scores come out right, huge ones as NaN: for example, exp is taken of the scores as they are. Above "
        "a score of 88, exp is infinite in float32, and infinity divided by infinity is NaN."
    ),
)
def naive_exp(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    exponentials = torch.exp(scores).masked_fill(union(scores, key_padding_mask, attn_mask), 0.0)
    weights = exponentials / exponentials.sum(-1, keepdim=True).clamp(min=1e-20)
    return weights @ V, weights


# Batches, types, inputs, gradients


@mistake(
    "squeezed",
    caught_by="batches",
    says=N_(
        "Your results lose every axis of size 1, as squeeze() does: a batch of one sentence, or a sentence of one "
        "word, has an axis too few."
    ),
)
def squeezed(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    weights = masked_softmax(scores, union(scores, key_padding_mask, attn_mask))
    return (weights @ V).squeeze(), weights.squeeze()


@mistake(
    "batch-mean",
    caught_by="unmasked",
    says=N_("Your scores are averaged over the batch before the softmax, so that sentences influence one another."),
)
def batch_mean(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    scores = scores.mean(0, keepdim=True).expand(scores.shape)
    weights = masked_softmax(scores, union(scores, key_padding_mask, attn_mask))
    return weights @ V, weights


@mistake(
    "float32-mask",
    caught_by="dtypes",
    says=N_(
        "With bfloat16 inputs, your weights become float32 and do not fit V any more: something that is added to the "
        "scores is float32 whatever the inputs are. For example, a mask made of numbers: make it with the dtype of the "
        "scores."
    ),
)
def float32_mask(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    forbidden = union(scores, key_padding_mask, attn_mask)
    weights = F.softmax(scores + torch.zeros(scores.shape).masked_fill(forbidden, -1e9), dim=-1)
    weights = weights.masked_fill(forbidden, 0.0)
    return weights @ V, weights


@mistake(
    "float32-zeros-for-weights",
    caught_by="dtypes",
    says=N_(
        "Your weights are float32 whatever the inputs are: for example, because they are written into new zeros. Make "
        "these with the dtype and device of an input."
    ),
)
def float32_zeros_for_weights(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    weights = torch.zeros(scores.shape)
    weights[...] = masked_softmax(scores, union(scores, key_padding_mask, attn_mask))
    return weights @ V, weights


@mistake(
    "float32-results",
    caught_by="dtypes",
    says=N_("Your results are float32 whatever the inputs are. They should have the dtype of the inputs."),
)
def float32_results(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q.float(), K.float())
    weights = masked_softmax(scores, union(scores, key_padding_mask, attn_mask))
    return weights @ V.float(), weights


@mistake(
    "mask-turned-in-place",
    caught_by="hygiene",
    says=N_(
        "The caller's key_padding_mask is turned round by your function, as logical_not_ does it in place. `~` makes a "
        "new one."
    ),
)
def mask_turned_in_place(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    forbidden = union(scores, key_padding_mask, attn_mask)
    if key_padding_mask is not None:
        key_padding_mask.logical_not_()
    weights = masked_softmax(scores, forbidden)
    return weights @ V, weights


@mistake(
    "scaled-in-place",
    caught_by="hygiene",
    says=N_("The caller's Q is scaled by your function, as `/=` does it in place. Make a new tensor instead."),
)
def scaled_in_place(Q, K, V, key_padding_mask=None, attn_mask=None):
    Q /= Q.shape[-1] ** 0.5
    scores = Q @ K.transpose(-2, -1)
    weights = masked_softmax(scores, union(scores, key_padding_mask, attn_mask))
    return weights @ V, weights


@mistake(
    "values-cleared-in-place",
    caught_by="hygiene",
    says=N_(
        "The caller's V holds zeros at the padding after your function has run. Make a new tensor instead; besides, "
        "weights of 0 are enough."
    ),
)
def values_cleared_in_place(Q, K, V, key_padding_mask=None, attn_mask=None):
    if key_padding_mask is not None:
        with torch.no_grad():
            V[key_padding_mask] = 0
    scores = scaled_scores(Q, K)
    weights = masked_softmax(scores, union(scores, key_padding_mask, attn_mask))
    return weights @ V, weights


@mistake(
    "dropout",
    caught_by="hygiene",
    says=N_("Your weights go through dropout on every call, so that the same call gives different results."),
)
def dropout(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    weights = masked_softmax(scores, union(scores, key_padding_mask, attn_mask))
    return F.dropout(weights, p=0.1) @ V, weights


@mistake(
    "detached-weights",
    caught_by="gradients",
    says=N_(
        "The weights that you return are detached, while the output is not: a loss on the weights teaches nothing."
    ),
)
def detached_weights(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    weights = masked_softmax(scores, union(scores, key_padding_mask, attn_mask))
    return weights @ V, weights.detach()


@mistake(
    "detached-scores",
    caught_by="gradients",
    says=N_("Your scores are cut off from Q and K (detach, .data, torch.tensor or no_grad), so that only V can learn."),
)
def detached_scores(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K).detach()
    weights = masked_softmax(scores, union(scores, key_padding_mask, attn_mask))
    return weights @ V, weights


@mistake(
    "no-gradients",
    caught_by="gradients",
    says=N_(
        "Nothing that you return carries gradients (no_grad, detach, .data or a copy through torch.tensor): nothing "
        "could learn from it."
    ),
)
def no_gradients(Q, K, V, key_padding_mask=None, attn_mask=None):
    with torch.no_grad():
        scores = scaled_scores(Q, K)
        weights = masked_softmax(scores, union(scores, key_padding_mask, attn_mask))
        return weights @ V, weights


# What comes back


@mistake(
    "output-alone",
    caught_by="shapes",
    says=N_("You return the output alone. The weights are due as well: (output, weights)."),
)
def output_alone(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    return masked_softmax(scores, union(scores, key_padding_mask, attn_mask)) @ V


@mistake(
    "results-swapped",
    caught_by="shapes",
    says=N_("You return (weights, output). The order is (output, weights)."),
)
def results_swapped(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    weights = masked_softmax(scores, union(scores, key_padding_mask, attn_mask))
    return weights, weights @ V


@mistake(
    "no-return",
    caught_by="shapes",
    says=N_("Your function returns None: does every way through it end with a `return`?"),
)
def no_return(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    weights = masked_softmax(scores, union(scores, key_padding_mask, attn_mask))
    output = weights @ V  # noqa: F841 - computed, and never returned


@mistake(
    "numpy-results",
    caught_by="shapes",
    says=N_("You return numpy arrays. Tensors are due, with their gradients."),
)
def numpy_results(Q, K, V, key_padding_mask=None, attn_mask=None):
    scores = scaled_scores(Q, K)
    weights = masked_softmax(scores, union(scores, key_padding_mask, attn_mask))
    return (weights @ V).detach().numpy(), weights.detach().numpy()
