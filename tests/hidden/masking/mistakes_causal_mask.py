"""What learners get wrong in a causal mask, each with the check that catches it."""

import numpy
import torch

from autograder.suite import N_, mistake


def future(T):
    return torch.ones(T, T, dtype=torch.bool).triu(1)


# Which places


@mistake(
    "inverted",
    caught_by="future",
    says=N_(
        "Your mask is True where looking is allowed: at the word itself and before it, as tril gives it. Here True "
        "means forbidden, so it belongs to the future."
    ),
)
def inverted(T):
    return ~future(T)


@mistake(
    "past-hidden",
    caught_by="future",
    says=N_(
        "Your mask hides the past and leaves the future open: it is the right one transposed. Rows are queries, "
        "columns keys."
    ),
)
def past_hidden(T):
    return future(T).T


@mistake(
    "itself-hidden",
    caught_by="itself",
    says=N_(
        "The diagonal of your mask is True, so that no word may look at itself, and the first one at nothing at all. "
        "The triangle begins one place above the diagonal."
    ),
)
def itself_hidden(T):
    return torch.ones(T, T, dtype=torch.bool).triu()


@mistake(
    "next-word-seen",
    caught_by="future",
    says=N_(
        "Your triangle begins two places above the diagonal, so that each word sees the next one, which is the word "
        "that it should predict."
    ),
)
def next_word_seen(T):
    return torch.ones(T, T, dtype=torch.bool).triu(2)


@mistake(
    "next-word-only",
    caught_by="future",
    says=N_("Only the very next word is hidden from each query. All that come after it are the future too."),
)
def next_word_only(T):
    return future(T) & torch.ones(T, T, dtype=torch.bool).tril(1)


@mistake(
    "all-but-itself",
    caught_by="past",
    says=N_("Each word sees nothing but itself: your mask hides the past together with the future."),
)
def all_but_itself(T):
    return ~torch.eye(T, dtype=torch.bool)


@mistake(
    "everything-hidden",
    caught_by="past",
    says=N_(
        "Your mask is True everywhere, so that nobody may look at anything: was a triangle cut out, and given a name?"
    ),
)
def everything_hidden(T):
    return torch.ones(T, T, dtype=torch.bool)


@mistake(
    "nothing-hidden",
    caught_by="future",
    says=N_(
        "Your mask is False everywhere, so that nothing is hidden: for example, a triangle cut out of zeros is made of "
        "zeros."
    ),
)
def nothing_hidden(T):
    return torch.zeros(T, T, dtype=torch.bool).triu(1)


@mistake(
    "mirrored",
    caught_by="future",
    says=N_("Your triangle lies in the wrong corner, along the other diagonal. Row 0 hides all keys but its first."),
)
def mirrored(T):
    return future(T).flip(1)


@mistake(
    "begins-below-the-diagonal",
    caught_by="past",
    says=N_(
        "Your triangle begins one place below the diagonal, so that each word sees neither itself nor the word before "
        "it. A diagonal of 1 lies above the main one, a diagonal of -1 below it."
    ),
)
def begins_below_the_diagonal(T):
    return torch.ones(T, T, dtype=torch.bool).triu(-1)


# The shape


@mistake(
    "no-axis-for-the-queries",
    caught_by="shape",
    says=N_(
        "The row of places is compared with itself, entry by entry. Every query has to meet every key: one of the two "
        "rows has to stand up, with an axis of its own."
    ),
)
def no_axis_for_the_queries(T):
    places = torch.arange(T)
    return places > places


@mistake(
    "axis-for-the-batch",
    caught_by="shape",
    says=N_("Your mask has an axis for the batch: (1, T, T). It is the same for all sentences, and (T, T) is due."),
)
def axis_for_the_batch(T):
    return future(T).unsqueeze(0)


@mistake(
    "one-too-large",
    caught_by="shape",
    says=N_("Your mask has a row and a column too many: for T words it is (T, T)."),
)
def one_too_large(T):
    return future(T + 1)


@mistake(
    "always-the-same-size",
    caught_by="shape",
    says=N_("Your mask is for four words, whatever T is: a size is written down that should be asked for."),
)
def always_the_same_size(T):
    return future(4)


@mistake(
    "squeezed",
    caught_by="any_length",
    says=N_("Your mask loses every axis of size 1, as through squeeze(): for one word nothing of its shape is left."),
)
def squeezed(T):
    return future(T).squeeze()


@mistake(
    "no-single-word",
    caught_by="any_length",
    says=N_(
        "For a single word your function gives up. It has a mask like any other sentence: one row, one column, False."
    ),
)
def no_single_word(T):
    if T < 2:
        return None
    return future(T)


# What the mask is made of


@mistake(
    "ones-and-zeros",
    caught_by="dtype",
    says=N_(
        "Your mask is made of whole numbers, 1 and 0. masked_fill and `~` want True and False: say dtype=torch.bool."
    ),
)
def ones_and_zeros(T):
    return future(T).long()


@mistake(
    "floats",
    caught_by="dtype",
    says=N_(
        "Your mask is made of floating numbers, 1.0 and 0.0, as torch.ones makes them unless it is told otherwise. A "
        "mask is True and False."
    ),
)
def floats(T):
    return torch.ones(T, T).triu(1)


@mistake(
    "bytes",
    caught_by="dtype",
    says=N_("Your mask is of dtype uint8, as masks were in old versions of PyTorch. Today they are of dtype bool."),
)
def as_bytes(T):
    return future(T).to(torch.uint8)


@mistake(
    "to-be-added",
    caught_by="dtype",
    says=N_(
        "Your mask holds 0 and minus infinity, to be added to scores. Here a mask is True and False; what is done "
        "with the scores is another function's business."
    ),
)
def to_be_added(T):
    return torch.full((T, T), float("-inf")).triu(1)


@mistake(
    "numpy-result",
    caught_by="shape",
    says=N_("You return a numpy array. A tensor is due."),
)
def numpy_result(T):
    return numpy.triu(numpy.ones((T, T), dtype=bool), 1)


@mistake(
    "list-of-rows",
    caught_by="shape",
    says=N_("You return a list of rows. One tensor is due."),
)
def list_of_rows(T):
    return [[key > query for key in range(T)] for query in range(T)]


@mistake(
    "no-return",
    caught_by="shape",
    says=N_("Your function returns None: does every way through it end with a `return`?"),
)
def no_return(T):
    mask = future(T)  # noqa: F841 - computed, and never returned
