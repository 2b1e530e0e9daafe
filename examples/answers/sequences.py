"""What ten of the sample class answer in `sequences`."""

from __future__ import annotations

GOOD_RNN = """\
def rnn(x, W_xh, W_hh, b, h0=None):
    h = h0 if h0 is not None else torch.zeros(W_hh.shape[0], dtype=x.dtype)
    states = []
    for t in range(x.shape[-2]):
        h = torch.tanh(x[..., t, :] @ W_xh + h @ W_hh + b)
        states.append(h)
    return torch.stack(states, dim=-2)
"""

GOOD_PAD = """\
def pad_sequences(sequences, padding_value=0):
    if not sequences:
        raise ValueError("no sentences")
    lengths = torch.tensor([len(s) for s in sequences])
    batch = sequences[0].new_full((len(sequences), int(lengths.max()), *sequences[0].shape[1:]), padding_value)
    for i, s in enumerate(sequences):
        batch[i, : len(s)] = s
    return batch, lengths
"""

GOOD_SHAPES = """\
shapes = {
    "scores": (3, 6, 7),
    "weights": (3, 6, 7),
    "output": (3, 6, 10),
    "padded_batch": (3, 7, 12),
    "lengths": (3,),
    "mha_output": (3, 7, 12),
    "mha_weights_default": (3, 7, 7),
    "mha_weights_per_head": (3, 4, 7, 7),
}
"""

ANSWERS: dict[str, dict[str, str]] = {
    # everything right
    "amara": {"rnn": GOOD_RNN, "pad_sequences": GOOD_PAD, "shapes": GOOD_SHAPES},
    # opened it and handed it in
    "ben": {},
    # no start but zeros, no padding yet, and half of the ledger
    "chen": {
        "rnn": """\
def rnn(x, W_xh, W_hh, b, h0=None):
    state = x.new_zeros(x.shape[:-2] + (W_hh.shape[0],))
    states = []
    for word in x.unbind(dim=-2):
        state = torch.tanh(word @ W_xh + state @ W_hh + b)
        states.append(state)
    return torch.stack(states, dim=-2)
""",
        "shapes": """\
shapes = {
    "scores": (3, 6, 7),
    "weights": (3, 6, 7),
    "output": (3, 6, 10),
    "padded_batch": (3, 7, 12),
    "lengths": None,
    "mha_output": None,
    "mha_weights_default": None,
    "mha_weights_per_head": None,
}
""",
    },
    # the tanh is forgotten, and every head expected from the plain call, as a book has it
    "dora": {
        "rnn": """\
def rnn(x, W_xh, W_hh, b, h0=None):
    state = x.new_zeros(W_hh.shape[0]) if h0 is None else h0
    states = []
    for word in x.unbind(-2):
        state = word @ W_xh + state @ W_hh + b
        states.append(state)
    return torch.stack(states, dim=-2)
""",
        "pad_sequences": GOOD_PAD,
        "shapes": GOOD_SHAPES.replace('default": (3, 7, 7)', 'default": (3, 4, 7, 7)'),
    },
    # sentences where words should be, places before sentences, keys before queries
    "emil": {
        "rnn": """\
def rnn(x, W_xh, W_hh, b, h0=None):
    state = torch.zeros(len(b), dtype=x.dtype) if h0 is None else h0
    states = []
    for word in x:
        state = torch.tanh(word @ W_xh + state @ W_hh + b)
        states.append(state)
    return torch.stack(states)
""",
        "pad_sequences": """\
def pad_sequences(sequences, padding_value=0):
    if len(sequences) == 0:
        raise ValueError("nothing to pad")
    lengths = torch.tensor([s.shape[0] for s in sequences])
    rows = []
    for s in sequences:
        missing = s.new_full((int(lengths.max()) - s.shape[0],) + s.shape[1:], padding_value)
        rows.append(torch.cat([s, missing], dim=0))
    return torch.stack(rows, dim=1), lengths
""",
        "shapes": GOOD_SHAPES.replace("(3, 6, 7)", "(3, 7, 6)"),
    },
    # gives h0 another shape where it is, and pads the sentences in the caller's list
    "farah": {
        "rnn": """\
def rnn(x, W_xh, W_hh, b, h0=None):
    if h0 is None:
        h0 = x.new_zeros(len(b))
    h0.unsqueeze_(-2)  # one row a sentence
    states = [h0]
    for t in range(x.shape[-2]):
        states.append(torch.tanh(x[..., t : t + 1, :] @ W_xh + states[-1] @ W_hh + b))
    return torch.cat(states[1:], dim=-2)
""",
        "pad_sequences": """\
def pad_sequences(sequences, padding_value=0):
    if not sequences:
        raise ValueError("an empty list")
    lengths = torch.tensor([len(s) for s in sequences])
    for i, s in enumerate(sequences):
        pads = s.new_full((int(lengths.max()) - len(s), *s.shape[1:]), padding_value)
        sequences[i] = torch.cat([s, pads])
    return torch.stack(sequences), lengths
""",
        "shapes": GOOD_SHAPES,
    },
    # right, and unlike anybody else's: a fold over the words, a grid of places, a ledger that computes
    "goran": {
        "rnn": """\
from itertools import accumulate

def rnn(x, W_xh, W_hh, b, h0=None):
    start = x.new_zeros(b.shape) if h0 is None else h0
    step = lambda h, fed: (fed + torch.einsum("...h,hk->...k", h, W_hh)).tanh()
    fed = torch.einsum("...td,dh->t...h", x, W_xh) + b
    return torch.stack([*accumulate(fed, step, initial=start)][1:], -2)
""",
        "pad_sequences": """\
def pad_sequences(sequences, padding_value=0):
    assert sequences, "pad what?"
    lengths = torch.as_tensor([*map(len, sequences)])
    # all words in one long row, and for each place of the grid where its word stands there
    places, starts = torch.arange(max(lengths)), lengths.cumsum(0) - lengths
    words, pads = torch.cat(sequences), places >= lengths[:, None]
    batch = words[(starts[:, None] + places).masked_fill(pads, 0)]
    return batch.masked_fill(pads.reshape(pads.shape + (1,) * (batch.ndim - 2)), padding_value), lengths
""",
        "shapes": """\
B, T, E, H, Tq, d, Tk, dv = 3, max(7, 4, 5), 12, 4, 6, 8, 7, 10
x, asking = torch.empty(B, T, E), torch.empty(B, Tq, d)
shapes = dict(
    scores=(asking @ torch.empty(B, d, Tk)).shape,
    weights=[B, Tq, Tk],
    output=torch.einsum("bqk,bkv->bqv", torch.empty(B, Tq, Tk), torch.empty(B, Tk, dv)).shape,
    padded_batch=tuple(x.size()),
    lengths=(B,),
    mha_output=x.shape,
    mha_weights_default=(B, T, T),
    mha_weights_per_head=(B, H) + (T,) * 2,
)
""",
    },
    # the row for the whole sentence alone, and the lengths where their shape should be
    "ines": {
        "rnn": """\
def rnn(x, W_xh, W_hh, b, h0=None):
    h = x.new_zeros(x.shape[:-2] + b.shape)
    if h0 is not None:
        h = h + h0
    t = 0
    while t < x.shape[-2]:
        h = torch.tanh(x[..., t, :] @ W_xh + h @ W_hh + b)
        t += 1
    return h
""",
        "pad_sequences": """\
def pad_sequences(sequences, padding_value=0):
    if len(sequences) == 0:
        raise ValueError("no sequences")
    longest = 0
    for s in sequences:
        longest = max(longest, len(s))
    rows, lengths = [], []
    for s in sequences:
        row = [word for word in s]
        lengths.append(len(row))
        while len(row) < longest:
            row.append(torch.full_like(s[0], padding_value))
        rows.append(torch.stack(row))
    return torch.stack(rows), torch.tensor(lengths)
""",
        "shapes": GOOD_SHAPES.replace("(3,)", "(7, 4, 5)"),
    },
    # calls the finished articles, one with these parameters in it, one under another name
    "mei": {
        "rnn": """\
def rnn(x, W_xh, W_hh, b, h0=None):
    ready = nn.RNN(*W_xh.shape, batch_first=True, dtype=x.dtype)
    parameters = {
        "weight_ih_l0": W_xh.T, "weight_hh_l0": W_hh.T, "bias_ih_l0": b, "bias_hh_l0": torch.zeros_like(b),
    }
    lead = x.shape[:-2]
    start = x.new_zeros(*lead, len(b)) if h0 is None else h0.expand(*lead, len(b))
    words = (x.reshape(-1, *x.shape[-2:]), start.reshape(1, -1, len(b)).contiguous())
    states, _ = torch.func.functional_call(ready, parameters, words)
    return states.reshape(*lead, *states.shape[-2:])
""",
        "pad_sequences": """\
from torch.nn.utils.rnn import pad_sequence as stack_up

def pad_sequences(sequences, padding_value=0):
    if not sequences:
        raise ValueError("no sentences")
    batch = stack_up(sequences, batch_first=True, padding_value=padding_value)
    return batch, torch.tensor([len(s) for s in sequences])
""",
        "shapes": GOOD_SHAPES,
    },
    # a list of states, word ids that become floats, and parentheses around one number
    "noor": {
        "rnn": GOOD_RNN.replace("torch.stack(states, dim=-2)", "states"),
        "pad_sequences": """\
def pad_sequences(sequences, padding_value=0):
    if len(sequences) == 0:
        raise ValueError("no sentences")
    lengths = torch.tensor([len(s) for s in sequences])
    batch = torch.zeros(len(sequences), int(lengths.max()), *sequences[0].shape[1:]) + padding_value
    for i, s in enumerate(sequences):
        batch[i, : len(s)] = s
    return batch, lengths
""",
        "shapes": GOOD_SHAPES.replace("(3,)", "(3)"),
    },
}
