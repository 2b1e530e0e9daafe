"""Correct ways to pad sentences to a batch; all of them earn full marks."""

import warnings
from collections import namedtuple

import torch
import torch.nn.functional as F

from autograder.suite import correct, correct_source


@correct("filled-row-by-row")
def filled_row_by_row(sequences, padding_value=0):
    if len(sequences) == 0:
        raise ValueError("there is no sentence to pad")
    lengths = torch.tensor([len(sequence) for sequence in sequences])
    shape = len(sequences), int(lengths.max()), *sequences[0].shape[1:]
    batch = sequences[0].new_full(shape, padding_value)
    for b, sequence in enumerate(sequences):
        batch[b, : len(sequence)] = sequence
    return batch, lengths


@correct("padded-and-stacked")
def padded_and_stacked(sequences, padding_value=0):
    lengths = [sequence.shape[0] for sequence in sequences]
    longest = max(lengths)  # which is a ValueError where there is none
    rows = []
    for sequence, n in zip(sequences, lengths, strict=True):
        sides = [0, 0] * (sequence.dim() - 1) + [0, longest - n]
        rows.append(F.pad(sequence, sides, value=padding_value))
    return torch.stack(rows), torch.tensor(lengths)


@correct("joined-with-assert")
def joined_with_assert(sequences, padding_value=0):
    assert sequences, "an empty list"
    lengths = torch.as_tensor([s.size(0) for s in sequences], dtype=torch.long)
    longest = lengths.max().item()
    rows = [torch.cat([s, s.new_full((longest - len(s), *s.shape[1:]), padding_value)]) for s in sequences]
    return [torch.cat([row.unsqueeze(0) for row in rows]), lengths]


@correct("pad-by-pad")
def pad_by_pad(sequences, padding_value=0):
    class NothingToPad(ValueError):
        pass

    if not sequences:
        raise NothingToPad
    longest = max(sequences, key=len).shape[0]
    batch = []
    for sequence in sequences:
        row = list(sequence)
        while len(row) < longest:
            row.append(torch.ones_like(row[0]) * padding_value)
        batch.append(torch.stack([word.to(sequence.dtype) for word in row]))
    return torch.stack(batch), torch.LongTensor([len(sequence) for sequence in sequences])


@correct("scattered-by-a-mask")
def scattered_by_a_mask(sequences, padding_value=0):
    if not len(sequences):
        raise ValueError("no sentences")
    lengths = torch.tensor(list(map(len, sequences)), dtype=torch.int64)
    real = torch.arange(int(lengths.max())) < lengths[:, None]
    words = torch.cat(sequences)
    batch = torch.full((*real.shape, *words.shape[1:]), padding_value, dtype=words.dtype, device=words.device)
    batch[real] = words
    return batch, lengths


@correct("gathered")
def gathered(sequences, padding_value=0):
    if sequences == []:
        raise ValueError("[] holds no sentence")
    lengths = torch.tensor([len(s) for s in sequences])
    one_pad = torch.full_like(sequences[0][:1], padding_value)
    words = torch.cat([*sequences, one_pad])
    places = torch.full((len(sequences), max(lengths.tolist())), len(words) - 1)
    start = 0
    for b, n in enumerate(lengths.tolist()):
        places[b, :n] = torch.arange(start, start + n)
        start += n
    return words[places], lengths


@correct("where")
def where(sequences, padding_value=0):
    Padded = namedtuple("Padded", "batch lengths")
    if not sequences:
        raise ValueError
    lengths = torch.tensor([len(s) for s in sequences])
    places = torch.arange(lengths.max())
    rows = []
    for s in sequences:
        real = (places < len(s)).view(-1, *[1] * (s.dim() - 1))
        stretched = s[places.clamp(max=len(s) - 1)]
        rows.append(torch.where(real, stretched, torch.tensor(padding_value, dtype=s.dtype)))
    return Padded(torch.stack(rows, dim=0), lengths)


@correct("picked-by-a-product")
def picked_by_a_product(sequences, padding_value=0):
    torch.manual_seed(1)
    lengths = torch.tensor([max(s.shape[0] for s in sequences), *[s.shape[0] for s in sequences]])
    longest, lengths = int(lengths[0]), lengths[1:]
    batch = []
    for s in sequences:
        pick = torch.eye(longest, len(s), dtype=s.dtype)
        row = (pick @ s.reshape(len(s), -1)).view(longest, *s.shape[1:])
        row[len(s) :] += padding_value
        batch.append(row)
    return torch.stack(batch), lengths


@correct("grown")
def grown(sequences, padding_value=0):
    warnings.warn("padding", stacklevel=2)
    if len(sequences) < 1:
        raise ValueError("nothing there")
    batch, lengths = sequences[0][None].clone(), [len(sequences[0])]
    for sequence in sequences[1:]:
        row = sequence[None]
        lengths.append(len(sequence))
        missing = row.shape[1] - batch.shape[1]
        if missing > 0:
            batch = torch.cat([batch, batch.new_full((len(batch), missing, *batch.shape[2:]), padding_value)], 1)
        elif missing < 0:
            row = torch.cat([row, row.new_full((1, -missing, *row.shape[2:]), padding_value)], 1)
        batch = torch.cat([batch, row])
    print("padded", len(lengths), "sentences")
    return batch, torch.tensor(lengths)


callable_object = correct_source(
    "callable-object",
    """\
import torch

class PadSequences:
    def __call__(self, sequences, padding_value=0):
        if not sequences:
            raise ValueError("no sentences")
        lengths = torch.tensor([len(s) for s in sequences])
        size = (len(sequences), lengths.max()) + sequences[0].shape[1:]
        batch = torch.empty(size, dtype=sequences[0].dtype).fill_(padding_value)
        for b, s in enumerate(sequences):
            batch[b].narrow(0, 0, s.shape[0]).copy_(s)
        return batch, lengths

pad_sequences = PadSequences()
""",
)

helper_and_lambda = correct_source(
    "helper-and-lambda",
    """\
import torch

def lengthened(s, n, value):
    return s if len(s) == n else lengthened(torch.cat([s, torch.full_like(s[-1:], value)]), n, value)

pad_sequences = lambda sequences, padding_value=0: (
    torch.stack([lengthened(s, max(map(len, sequences)), padding_value) for s in sequences])
    if len(sequences) else max([]),
    torch.tensor([len(s) for s in sequences]),
)
""",
)

scripted = correct_source(
    "scripted",
    """\
from typing import List

import torch

@torch.jit.script
def pad_sequences(sequences: List[torch.Tensor], padding_value: float = 0.0):
    if len(sequences) == 0:
        raise ValueError("no sentences")
    longest = 0
    lengths: List[int] = []
    for s in sequences:
        lengths.append(s.size(0))
        longest = max(longest, s.size(0))
    rows: List[torch.Tensor] = []
    for s in sequences:
        pads = s[:1].expand([longest - s.size(0)] + s.shape[1:])
        rows.append(torch.cat([s, torch.full_like(pads, padding_value)]))
    return torch.stack(rows), torch.tensor(lengths)
""",
)
