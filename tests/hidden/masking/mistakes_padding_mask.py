"""What learners get wrong in a padding mask, each with the check that catches it."""

import torch

from autograder.suite import N_, mistake


def places(lengths, max_len):
    return torch.arange(int(lengths.max()) if max_len is None else max_len, device=lengths.device)


# Which places


@mistake(
    "inverted",
    caught_by="values",
    says=N_(
        "Your mask is True at the words and False at the padding. Here True means forbidden, so it belongs to the "
        "padding."
    ),
)
def inverted(lengths, max_len=None):
    return places(lengths, max_len) < lengths.unsqueeze(1)


@mistake(
    "first-pad-left",
    caught_by="values",
    says=N_(
        "The first empty place of each sentence is not masked. Places count from 0, so a sentence of n words ends at "
        "place n - 1, and n is padding already."
    ),
)
def first_pad_left(lengths, max_len=None):
    return places(lengths, max_len) > lengths.unsqueeze(1)


@mistake(
    "last-word-masked",
    caught_by="values",
    says=N_(
        "The last word of each sentence is masked as well. Places count from 0: a sentence of n words fills places 0 "
        "to n - 1."
    ),
)
def last_word_masked(lengths, max_len=None):
    return places(lengths, max_len) >= lengths.unsqueeze(1) - 1


@mistake(
    "first-pad-only",
    caught_by="values",
    says=N_("Only the first empty place of each sentence is masked, as `==` gives it. All that follow are empty too."),
)
def first_pad_only(lengths, max_len=None):
    return places(lengths, max_len) == lengths.unsqueeze(1)


@mistake(
    "last-place-left",
    caught_by="values",
    says=N_(
        "The last column of your mask is never True: for example, a slice that ends at -1 leaves the last place out."
    ),
)
def last_place_left(lengths, max_len=None):
    mask = torch.zeros(len(lengths), len(places(lengths, max_len)), dtype=torch.bool)
    for row, length in zip(mask, lengths.tolist(), strict=True):
        row[length:-1] = True
    return mask


@mistake(
    "padding-in-front",
    caught_by="values",
    says=N_("Your mask is True at the beginning of each sentence. The padding stands after the words."),
)
def padding_in_front(lengths, max_len=None):
    return (places(lengths, max_len) >= lengths.unsqueeze(1)).flip(1)


@mistake(
    "first-length-for-all",
    caught_by="values",
    says=N_("Every row of your mask is the first sentence's. Each sentence has a length of its own."),
)
def first_length_for_all(lengths, max_len=None):
    return (places(lengths, max_len) >= lengths[0]).expand(len(lengths), -1)


@mistake(
    "sorted",
    caught_by="values",
    says=N_("The rows of your mask are sorted by length. Row b belongs to sentence b, wherever that stands."),
)
def rows_sorted(lengths, max_len=None):
    return places(lengths, max_len) >= lengths.sort(descending=True).values.unsqueeze(1)


@mistake(
    "nothing-masked",
    caught_by="values",
    says=N_("Your mask is False everywhere: no place is marked as padding."),
)
def nothing_masked(lengths, max_len=None):
    return torch.zeros(len(lengths), len(places(lengths, max_len)), dtype=torch.bool)


# The shape


@mistake(
    "transposed",
    caught_by="shape",
    says=N_("Your mask has a row for every place and a column for every sentence: it is the other way round."),
)
def transposed(lengths, max_len=None):
    return places(lengths, max_len).unsqueeze(1) >= lengths


@mistake(
    "no-axis-for-the-sentences",
    caught_by="shape",
    says=N_(
        "The places meet the lengths entry by entry. Every place has to meet every length: one of the two needs "
        "another axis."
    ),
)
def no_axis_for_the_sentences(lengths, max_len=None):
    return places(lengths, max_len) >= lengths


@mistake(
    "one-flag-a-sentence",
    caught_by="shape",
    says=N_(
        "Your mask says for each sentence whether it has padding at all. Attention needs to know where: True or False "
        "for every place."
    ),
)
def one_flag_a_sentence(lengths, max_len=None):
    return lengths < (lengths.max() if max_len is None else max_len)


@mistake(
    "axis-for-the-queries",
    caught_by="shape",
    says=N_(
        "Your mask has an axis for the queries already: (B, 1, max_len). Here (B, max_len) is due; whoever uses "
        "the mask adds that axis."
    ),
)
def axis_for_the_queries(lengths, max_len=None):
    return (places(lengths, max_len) >= lengths.unsqueeze(1)).unsqueeze(1)


@mistake(
    "row-for-every-query",
    caught_by="shape",
    says=N_(
        "You return a whole table of queries and keys for every sentence. A padding mask says it once for each "
        "sentence: (B, max_len)."
    ),
)
def row_for_every_query(lengths, max_len=None):
    mask = places(lengths, max_len) >= lengths.unsqueeze(1)
    return mask.unsqueeze(1) | mask.unsqueeze(2)


@mistake(
    "squeezed",
    caught_by="any_batch",
    says=N_("Your mask loses every axis of size 1, as through squeeze(): a batch of one sentence loses its axis."),
)
def squeezed(lengths, max_len=None):
    return (places(lengths, max_len) >= lengths.unsqueeze(1)).squeeze()


# The length of the mask


@mistake(
    "max-len-ignored",
    caught_by="max_len",
    says=N_("Your mask is as long as the longest sentence, whatever max_len says."),
)
def max_len_ignored(lengths, max_len=None):
    return places(lengths, None) >= lengths.unsqueeze(1)


@mistake(
    "extra-columns-free",
    caught_by="max_len",
    says=N_(
        "The columns between the longest sentence and max_len are False. No word stands there: they are padding too."
    ),
)
def extra_columns_free(lengths, max_len=None):
    mask = torch.zeros(len(lengths), len(places(lengths, max_len)), dtype=torch.bool)
    longest = int(lengths.max())
    mask[:, :longest] = torch.arange(longest) >= lengths.unsqueeze(1)
    return mask


@mistake(
    "max-len-none",
    caught_by="default_length",
    says=N_("You use max_len before you have asked whether it is None. Without it, the longest sentence decides."),
)
def max_len_none(lengths, max_len=None):
    return torch.arange(max_len) >= lengths.unsqueeze(1)


@mistake(
    "batch-size-as-default",
    caught_by="default_length",
    says=N_(
        "Without max_len your mask has as many columns as there are sentences, as len(lengths) gives it. It should "
        "have one for each place of the longest sentence."
    ),
)
def batch_size_as_default(lengths, max_len=None):
    max_len = len(lengths) if max_len is None else max_len
    return torch.arange(max_len) >= lengths.unsqueeze(1)


@mistake(
    "default-one-longer",
    caught_by="default_length",
    says=N_(
        "Without max_len your mask is one column longer than the longest sentence, and the last column is all padding."
    ),
)
def default_one_longer(lengths, max_len=None):
    max_len = int(lengths.max()) + 1 if max_len is None else max_len
    return torch.arange(max_len) >= lengths.unsqueeze(1)


@mistake(
    "first-length-as-default",
    caught_by="default_length",
    says=N_("Without max_len your mask is as long as the first sentence, which need not be the longest."),
)
def first_length_as_default(lengths, max_len=None):
    max_len = int(lengths[0]) if max_len is None else max_len
    return torch.arange(max_len) >= lengths.unsqueeze(1)


# What the mask is made of


@mistake(
    "ones-and-zeros",
    caught_by="dtype",
    says=N_(
        "Your mask is made of whole numbers, 1 and 0. masked_fill and `~` want True and False: a comparison gives "
        "them, and so does a tensor that is made with dtype=torch.bool."
    ),
)
def ones_and_zeros(lengths, max_len=None):
    return (places(lengths, max_len) >= lengths.unsqueeze(1)).long()


@mistake(
    "floats",
    caught_by="dtype",
    says=N_(
        "Your mask is made of floating numbers, 1.0 and 0.0. A mask is True and False: a comparison gives them, and so "
        "does a tensor that is made with dtype=torch.bool."
    ),
)
def floats(lengths, max_len=None):
    return (places(lengths, max_len) >= lengths.unsqueeze(1)).float()


@mistake(
    "bytes",
    caught_by="dtype",
    says=N_("Your mask is of dtype uint8, as masks were in old versions of PyTorch. Today they are of dtype bool."),
)
def as_bytes(lengths, max_len=None):
    return (places(lengths, max_len) >= lengths.unsqueeze(1)).to(torch.uint8)


@mistake(
    "to-be-added",
    caught_by="dtype",
    says=N_(
        "Your mask holds 0 and minus infinity, to be added to scores. Here a mask is True and False; what is done "
        "with the scores is another function's business."
    ),
)
def to_be_added(lengths, max_len=None):
    mask = places(lengths, max_len) >= lengths.unsqueeze(1)
    return torch.zeros(mask.shape).masked_fill(mask, float("-inf"))


@mistake(
    "numpy-result",
    caught_by="shape",
    says=N_("You return a numpy array. A tensor is due."),
)
def numpy_result(lengths, max_len=None):
    return (places(lengths, max_len) >= lengths.unsqueeze(1)).numpy()


@mistake(
    "list-of-rows",
    caught_by="shape",
    says=N_("You return a list of rows. One tensor is due: stack them."),
)
def list_of_rows(lengths, max_len=None):
    return [places(lengths, max_len) >= length for length in lengths]


@mistake(
    "no-return",
    caught_by="shape",
    says=N_("Your function returns None: does every way through it end with a `return`?"),
)
def no_return(lengths, max_len=None):
    mask = places(lengths, max_len) >= lengths.unsqueeze(1)  # noqa: F841 - computed, and never returned


# What is left behind


@mistake(
    "lengths-counted-down",
    caught_by="hygiene",
    says=N_(
        "The caller's lengths are smaller by 1 after your function has run, as after `-= 1`. Make a new tensor instead."
    ),
)
def lengths_counted_down(lengths, max_len=None):
    columns = places(lengths, max_len)
    lengths -= 1
    return columns > lengths.unsqueeze(1)


@mistake(
    "lengths-reshaped",
    caught_by="hygiene",
    says=N_(
        "The caller's lengths have another shape after your function has run: `unsqueeze_`, with its underscore, does "
        "that. Without it you get a new view."
    ),
)
def lengths_reshaped(lengths, max_len=None):
    columns = places(lengths, max_len)
    return columns >= lengths.unsqueeze_(1)
