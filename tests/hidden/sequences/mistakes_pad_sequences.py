"""What learners get wrong when they pad sentences to a batch, each with the check that catches it."""

import torch
import torch.nn.functional as F

from autograder.suite import N_, mistake


def padded(sequences, padding_value=0):
    if len(sequences) == 0:
        raise ValueError("no sentences")
    longest = max(len(sequence) for sequence in sequences)
    rows = []
    for sequence in sequences:
        pads = sequence.new_full((longest - len(sequence), *sequence.shape[1:]), padding_value)
        rows.append(torch.cat([sequence, pads]))
    return torch.stack(rows)


def lengths_of(sequences):
    return torch.tensor([len(sequence) for sequence in sequences])


# The batch


@mistake(
    "joined-end-to-end",
    caught_by="rows",
    says=N_(
        "You join the sentences end to end. In a batch each of them has a row of its own, and the short ones are made "
        "longer first, so that the rows fit on top of one another."
    ),
)
def joined_end_to_end(sequences, padding_value=0):
    return torch.cat(sequences), lengths_of(sequences)


@mistake(
    "room-for-the-first",
    caught_by="padding",
    says=N_("You make room for as many words as the first sentence has. Another one may be longer: ask all of them."),
)
def room_for_the_first(sequences, padding_value=0):
    if len(sequences) == 0:
        raise ValueError("no sentences")
    T = len(sequences[0])
    batch = sequences[0].new_full((len(sequences), T, *sequences[0].shape[1:]), padding_value)
    for b, sequence in enumerate(sequences):
        batch[b, : len(sequence)] = sequence
    return batch, lengths_of(sequences)


@mistake(
    "room-for-the-shortest",
    caught_by="padding",
    says=N_("You make room for as many words as the shortest sentence has. The longest has to fit in."),
)
def room_for_the_shortest(sequences, padding_value=0):
    T = min(len(sequence) for sequence in sequences)
    batch = sequences[0].new_full((len(sequences), T, *sequences[0].shape[1:]), padding_value)
    for b, sequence in enumerate(sequences):
        batch[b, : len(sequence)] = sequence
    return batch, lengths_of(sequences)


@mistake(
    "cut-at-the-shortest",
    caught_by="padding",
    says=N_(
        "You cut all sentences to the shortest one. No word may be lost: padding makes the short ones as long as the "
        "longest."
    ),
)
def cut_at_the_shortest(sequences, padding_value=0):
    shortest = min(len(sequence) for sequence in sequences)
    return torch.stack([sequence[:shortest] for sequence in sequences]), lengths_of(sequences)


@mistake(
    "rows-not-stacked",
    caught_by="any_batch",
    says=N_("You pad every sentence rightly, and return a list of rows. One tensor is due: stack them."),
)
def rows_not_stacked(sequences, padding_value=0):
    return list(padded(sequences, padding_value)), lengths_of(sequences)


@mistake(
    "padding-in-front",
    caught_by="words",
    says=N_("You put the padding in front of the words. It belongs behind them: sentences begin at place 0."),
)
def padding_in_front(sequences, padding_value=0):
    backwards = padded([sequence.flip(0) for sequence in sequences], padding_value)
    return backwards.flip(1), lengths_of(sequences)


@mistake(
    "sorted-by-length",
    caught_by="words",
    says=N_(
        "You sort the sentences by length, the longest first, as some packing functions want it. Row b has to stay "
        "sentence b: labels and all else come in that order."
    ),
)
def sorted_by_length(sequences, padding_value=0):
    sequences = sorted(sequences, key=len, reverse=True)
    return padded(sequences, padding_value), lengths_of(sequences)


@mistake(
    "sorted-in-place",
    caught_by="sources",
    says=N_(
        "You sort the list that you were given, with its own sort(): the caller's list has another order afterwards, "
        "and so have your rows. Row b has to stay sentence b; nothing needs to be sorted here."
    ),
)
def sorted_in_place(sequences, padding_value=0):
    sequences.sort(key=len, reverse=True)
    return padded(sequences, padding_value), lengths_of(sequences)


@mistake(
    "always-zeros",
    caught_by="padding",
    says=N_("You pad with 0, whatever padding_value says. It is only the default."),
)
def always_zeros(sequences, padding_value=0):
    return padded(sequences), lengths_of(sequences)


@mistake(
    "places-first",
    caught_by="any_batch",
    says=N_(
        "Your batch has the places first, and the sentences second, as PyTorch's recurrent layers have it unless "
        "they are told batch_first=True. In this course the batch comes first."
    ),
)
def places_first(sequences, padding_value=0):
    return padded(sequences, padding_value).transpose(0, 1), lengths_of(sequences)


@mistake(
    "word-ids-only",
    caught_by="any_batch",
    says=N_(
        "You make room for one number per word. A word may have D numbers, in sentences of shape (T_i, D): the batch "
        "has a third axis then."
    ),
)
def word_ids_only(sequences, padding_value=0):
    lengths = [len(sequence) for sequence in sequences]
    batch = torch.full((len(sequences), max(lengths)), padding_value, dtype=sequences[0].dtype)
    for b, sequence in enumerate(sequences):
        batch[b, : lengths[b]] = sequence
    return batch, torch.tensor(lengths)


@mistake(
    "new-tensor-in-float32",
    caught_by="dtypes",
    says=N_(
        "Your batch is float32, whatever the sentences are: that is what a new tensor is when nobody says otherwise. "
        "Word ids have to stay whole numbers, or no embedding can look them up."
    ),
)
def new_tensor_in_float32(sequences, padding_value=0):
    lengths = [len(sequence) for sequence in sequences]
    batch = torch.full((len(sequences), max(lengths), *sequences[0].shape[1:]), float(padding_value))
    for b, sequence in enumerate(sequences):
        batch[b, : lengths[b]] = sequence
    return batch, torch.tensor(lengths)


@mistake(
    "dtype-of-the-padding-value",
    caught_by="dtypes",
    says=N_(
        "Your batch has the dtype of padding_value, as torch.full gives it unless it is told another one. With the "
        "whole number 0 everything behind the point of a word's numbers is cut off. Let a sentence say the dtype."
    ),
)
def dtype_of_the_padding_value(sequences, padding_value=0):
    lengths = [len(sequence) for sequence in sequences]
    batch = torch.full((len(sequences), max(lengths), *sequences[0].shape[1:]), padding_value)
    for b, sequence in enumerate(sequences):
        batch[b, : lengths[b]] = sequence
    return batch, torch.tensor(lengths)


# The lengths


@mistake(
    "no-lengths",
    caught_by="lengths",
    says=N_(
        "You return the batch alone. Who gets it can't tell words from padding any more: the lengths are due as well."
    ),
)
def no_lengths(sequences, padding_value=0):
    return padded(sequences, padding_value)


@mistake(
    "lengths-in-a-list",
    caught_by="lengths",
    says=N_("Your lengths are right, and a Python list. A tensor is due, in int64: masks are computed from it."),
)
def lengths_in_a_list(sequences, padding_value=0):
    return padded(sequences, padding_value), [len(sequence) for sequence in sequences]


@mistake(
    "shapes-for-lengths",
    caught_by="lengths",
    says=N_(
        "You return the whole shape of each sentence. A length is one number, how many words there are: how wide a "
        "word is does not belong to it."
    ),
)
def shapes_for_lengths(sequences, padding_value=0):
    return padded(sequences, padding_value), torch.tensor([sequence.shape for sequence in sequences])


@mistake(
    "numbers-counted",
    caught_by="lengths",
    says=N_("You count all numbers of a sentence. A length counts words, and a word may have many numbers."),
)
def numbers_counted(sequences, padding_value=0):
    return padded(sequences, padding_value), torch.tensor([sequence.numel() for sequence in sequences])


@mistake(
    "longest-for-all",
    caught_by="lengths",
    says=N_("All your lengths are that of the longest sentence. What is due is how many words each one had before."),
)
def longest_for_all(sequences, padding_value=0):
    batch = padded(sequences, padding_value)
    return batch, torch.tensor([len(row) for row in batch])


@mistake(
    "pads-counted-in-the-batch",
    caught_by="lengths",
    says=N_(
        "You find the lengths by counting what differs from padding_value in the batch. A word may look just like "
        "padding, such as the word with id 0: ask the sentences themselves."
    ),
)
def pads_counted_in_the_batch(sequences, padding_value=0):
    batch = padded(sequences, padding_value)
    words = (batch != padding_value).flatten(2).any(2) if batch.dim() > 2 else batch != padding_value
    return batch, words.sum(1)


# What is left behind


@mistake(
    "graph-cut",
    caught_by="sources",
    says=N_(
        "Your batch is right, and the graph is cut on the way to it, so that no gradient comes back to the sentences: "
        "detach(), tolist(), or a new tensor made of plain numbers do that, for example."
    ),
)
def graph_cut(sequences, padding_value=0):
    return torch.tensor(padded(sequences, padding_value).tolist(), dtype=sequences[0].dtype), lengths_of(sequences)


@mistake(
    "rows-written-while-going-through",
    caught_by="sources",
    says=N_(
        "You go through the rows of the batch and write into each. That works until the sentences require gradients: "
        "autograd refuses changes to rows that were taken out like that. Write into the batch itself, by its index."
    ),
)
def rows_written_while_going_through(sequences, padding_value=0):
    if len(sequences) == 0:
        raise ValueError("no sentences")
    lengths = lengths_of(sequences)
    batch = sequences[0].new_full((len(sequences), lengths.max(), *sequences[0].shape[1:]), padding_value)
    for row, sequence in zip(batch, sequences, strict=True):
        row[: len(sequence)] = sequence
    return batch, lengths


@mistake(
    "list-overwritten",
    caught_by="sources",
    says=N_(
        "The list that you were given is another one after the call, for example because you put the padded rows back "
        "into it. Begin a list of your own."
    ),
)
def list_overwritten(sequences, padding_value=0):
    lengths = lengths_of(sequences)
    longest = max(len(sequence) for sequence in sequences)
    for b, sequence in enumerate(sequences):
        sides = [0, 0] * (sequence.dim() - 1) + [0, longest - len(sequence)]
        sequences[b] = F.pad(sequence, sides, value=padding_value)
    return torch.stack(sequences), lengths


@mistake(
    "error-left-to-chance",
    caught_by="empty_list",
    says=N_(
        "An empty list ends in whatever error comes up by itself. A ValueError of yours, with a word on what is wrong, "
        "helps the caller more."
    ),
)
def error_left_to_chance(sequences, padding_value=0):
    lengths = lengths_of(sequences)
    batch = sequences[0].new_full((len(sequences), lengths.max(), *sequences[0].shape[1:]), padding_value)
    for b, sequence in enumerate(sequences):
        batch[b, : len(sequence)] = sequence
    return batch, lengths
