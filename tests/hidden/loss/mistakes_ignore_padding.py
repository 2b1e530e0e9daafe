"""What learners get wrong when they take the padding out of the targets, each with the check that catches it."""

import torch

from autograder.suite import N_, mistake


def padding_of(targets, lengths):
    return torch.arange(targets.shape[1], device=targets.device) >= lengths.unsqueeze(1)


# Which places


@mistake(
    "words-replaced",
    caught_by="words",
    says=N_("You replace the labels of the words and leave the padding as it is: it is the other way round."),
)
def words_replaced(targets, lengths, ignore_index=-100):
    return targets.masked_fill(~padding_of(targets, lengths), ignore_index)


@mistake(
    "everything-replaced",
    caught_by="shape",
    says=N_(
        "You put ignore_index everywhere, and no word has a label left. Only the places behind the words are padding: "
        "positions from lengths[b] on."
    ),
)
def everything_replaced(targets, lengths, ignore_index=-100):
    return torch.full_like(targets, ignore_index)


@mistake(
    "first-pad-left",
    caught_by="padding",
    says=N_(
        "The first empty place of each sentence keeps its label. Positions count from 0, so a sentence of n words ends "
        "at position n - 1, and n is padding already."
    ),
)
def first_pad_left(targets, lengths, ignore_index=-100):
    places = torch.arange(targets.shape[1])
    return targets.masked_fill(places > lengths.unsqueeze(1), ignore_index)


@mistake(
    "last-word-replaced",
    caught_by="words",
    says=N_(
        "The last word of each sentence loses its label as well. Positions count from 0: a sentence of n words fills "
        "positions 0 to n - 1."
    ),
)
def last_word_replaced(targets, lengths, ignore_index=-100):
    places = torch.arange(targets.shape[1])
    return targets.masked_fill(places >= lengths.unsqueeze(1) - 1, ignore_index)


@mistake(
    "last-place-left",
    caught_by="padding",
    says=N_("The last position is never replaced. For example, a slice that ends at -1 leaves the last place out."),
)
def last_place_left(targets, lengths, ignore_index=-100):
    result = targets.clone()
    for row, n in zip(result, lengths.tolist(), strict=True):
        row[n:-1] = ignore_index
    return result


@mistake(
    "behind-the-longest-left",
    caught_by="padding",
    says=N_(
        "Positions that are empty in every sentence keep their labels: you look only as far as the longest sentence, "
        "and the batch may be wider."
    ),
)
def behind_the_longest_left(targets, lengths, ignore_index=-100):
    result = targets.clone()
    longest = int(lengths.max())
    result[:, :longest][torch.arange(longest) >= lengths.unsqueeze(1)] = ignore_index
    return result


@mistake(
    "first-length-for-all",
    caught_by="padding",
    says=N_("You use the first sentence's length for every sentence. Each has one of its own."),
)
def first_length_for_all(targets, lengths, ignore_index=-100):
    result = targets.clone()
    result[:, lengths[0] :] = ignore_index
    return result


@mistake(
    "cut-at-the-longest-for-all",
    caught_by="padding",
    says=N_(
        "You replace what lies behind the longest sentence, in all sentences alike. The shorter ones have empty places "
        "before that."
    ),
)
def cut_at_the_longest(targets, lengths, ignore_index=-100):
    result = targets.clone()
    result[:, int(lengths.max()) :] = ignore_index
    return result


@mistake(
    "wherever-class-0-stands",
    caught_by="words",
    says=N_(
        "You replace every label that is 0. 0 is a class like any other here: what is padding is told by the lengths, "
        "not by the labels."
    ),
)
def wherever_class_0_stands(targets, lengths, ignore_index=-100):
    return targets.masked_fill(targets == 0, ignore_index)


@mistake(
    "no-axis-for-the-sentences",
    caught_by="shape",
    says=N_(
        "You compare the positions with the lengths as they are, entry by entry, so that length b lands on position b. "
        "Every position has to meet every length: one of the two needs another axis."
    ),
)
def no_axis_for_the_sentences(targets, lengths, ignore_index=-100):
    return targets.masked_fill(torch.arange(targets.shape[1]) >= lengths, ignore_index)


@mistake(
    "mask-transposed",
    caught_by="shape",
    says=N_(
        "Your mask has a row for every position and a column for every sentence: it is the other way round. With as "
        "many sentences as positions it even runs."
    ),
)
def mask_transposed(targets, lengths, ignore_index=-100):
    return targets.masked_fill(torch.arange(targets.shape[1]).unsqueeze(1) >= lengths, ignore_index)


@mistake(
    "nothing-replaced",
    caught_by="padding",
    says=N_(
        "Nothing is replaced: the targets that you return are as they were. For example, `masked_fill` without an "
        "underscore leaves its tensor as it is, and what it returns is the new one; or the copy was changed, and the "
        "original returned."
    ),
)
def nothing_replaced(targets, lengths, ignore_index=-100):
    result = targets.clone()
    result.masked_fill(padding_of(targets, lengths), ignore_index)
    return result


@mistake(
    "only-as-wide-as-the-longest",
    caught_by="padding",
    says=N_(
        "Your mask is as wide as the longest sentence. The targets may be wider still, since a batch may have empty "
        "places behind its longest sentence too."
    ),
)
def only_as_wide_as_the_longest(targets, lengths, ignore_index=-100):
    return targets.masked_fill(torch.arange(int(lengths.max())) >= lengths.unsqueeze(1), ignore_index)


@mistake(
    "full-sentences-replaced",
    caught_by="words",
    says=N_(
        "A sentence without padding loses all of its labels. For example, a slice that begins at -n takes the last n "
        "places, but for n = 0 it takes the whole row."
    ),
)
def full_sentences_replaced(targets, lengths, ignore_index=-100):
    result = targets.clone()
    for row, n in zip(result, lengths.tolist(), strict=True):
        row[-(len(row) - n) :] = ignore_index
    return result


# By what they are replaced


@mistake(
    "always-minus-100",
    caught_by="ignore_index",
    says=N_("You write -100, whatever ignore_index says. It is only the default."),
)
def always_minus_100(targets, lengths, ignore_index=-100):
    return targets.masked_fill(padding_of(targets, lengths), -100)


@mistake(
    "another-default",
    caught_by="ignore_index",
    says=N_("Without ignore_index your function writes -1. The default is -100, which F.cross_entropy ignores."),
)
def another_default(targets, lengths, ignore_index=-1):
    return targets.masked_fill(padding_of(targets, lengths), ignore_index)


@mistake(
    "zero-taken-for-nothing",
    caught_by="ignore_index",
    says=N_(
        "ignore_index = 0 is taken for no ignore_index at all: `or` and `if ignore_index`, for example, can't tell 0 "
        "from nothing."
    ),
)
def zero_taken_for_nothing(targets, lengths, ignore_index=-100):
    return targets.masked_fill(padding_of(targets, lengths), ignore_index or -100)


@mistake(
    "multiplied-by-the-mask",
    caught_by="padding",
    says=N_("The padding gets 0 instead of ignore_index, and 0 is a class. (A mask times a label is 0, for example.)"),
)
def multiplied_by_the_mask(targets, lengths, ignore_index=-100):
    return targets * ~padding_of(targets, lengths)


@mistake(
    "added-to-the-label",
    caught_by="padding",
    says=N_(
        "You add ignore_index to the padding's labels, so that they are replaced only where they were 0. Nobody says "
        "what stands there before."
    ),
)
def added_to_the_label(targets, lengths, ignore_index=-100):
    return targets + ignore_index * padding_of(targets, lengths)


# What comes back


@mistake(
    "floats",
    caught_by="dtype",
    says=N_(
        "Your labels have become floating numbers on the way. F.cross_entropy reads those as shares of classes, and "
        "refuses them: labels are whole numbers."
    ),
)
def floats(targets, lengths, ignore_index=-100):
    return torch.where(padding_of(targets, lengths), torch.tensor(float(ignore_index)), targets)


@mistake(
    "always-int64",
    caught_by="dtype",
    says=N_(
        "Your labels come back in int64, whatever they came in. They should keep their dtype, such as int32: look for "
        "`long()`, or for a new tensor that is not told its dtype."
    ),
)
def always_int64(targets, lengths, ignore_index=-100):
    return targets.masked_fill(padding_of(targets, lengths), ignore_index).long()


@mistake(
    "words-picked-out",
    caught_by="shape",
    says=N_(
        "You return the labels of the words alone, in one long row. The targets keep their shape (B, T): padding stays "
        "where it is, with another label."
    ),
)
def words_picked_out(targets, lengths, ignore_index=-100):
    return targets[~padding_of(targets, lengths)]


@mistake(
    "list-of-rows",
    caught_by="shape",
    says=N_("You return a list of rows. One tensor is due: stack them."),
)
def list_of_rows(targets, lengths, ignore_index=-100):
    return list(targets.masked_fill(padding_of(targets, lengths), ignore_index))


@mistake(
    "no-return",
    caught_by="shape",
    says=N_("Your function computes something and returns nothing: `return` is missing, so that it returns None."),
)
def no_return(targets, lengths, ignore_index=-100):
    targets = targets.masked_fill(padding_of(targets, lengths), ignore_index)  # and that is all


@mistake(
    "squeezed",
    caught_by="any_batch",
    says=N_(
        "Axes of size 1 are lost, as by squeeze(): the targets of a single sentence are (1, T), and have to stay so."
    ),
)
def squeezed(targets, lengths, ignore_index=-100):
    return targets.masked_fill(padding_of(targets, lengths), ignore_index).squeeze()


# What is left behind


@mistake(
    "in-place",
    caught_by="copy",
    says=N_(
        "You write into the targets that you were given, and the caller's targets are overwritten. Make a copy first, "
        "or use what makes one."
    ),
)
def in_place(targets, lengths, ignore_index=-100):
    targets[padding_of(targets, lengths)] = ignore_index
    return targets
