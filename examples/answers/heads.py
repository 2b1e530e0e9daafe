"""What five of the sample class answer in `heads`; three of them train, and as little as shows something."""

from __future__ import annotations

GOOD_BYTES = """\
def attention_bytes(batch, num_heads, query_len, key_len, dtype=torch.float32):
    return batch * num_heads * query_len * key_len * dtype.itemsize
"""

GOOD_ENCODING = """\
def positional_encoding(T, D):
    if D % 2 == 1:
        raise ValueError("D must be even: a sine and a cosine for each hand")
    angles = torch.arange(T).unsqueeze(1) * 10000 ** (-torch.arange(0, D, 2) / D)
    encoding = torch.empty(T, D)
    encoding[:, 0::2] = angles.sin()
    encoding[:, 1::2] = angles.cos()
    return encoding
"""

ANSWERS: dict[str, dict[str, str]] = {
    # everything right, and a conclusion that says what was seen and what was not
    "amara": {
        "attention_bytes": GOOD_BYTES,
        "positional_encoding": GOOD_ENCODING,
        "experiment": """\
results = {"final_loss": {}, "steps": {}, "bytes": {}}
curves, models = {}, {}

for num_heads in (1, 8):
    torch.manual_seed(0)
    model = NeighbourModel(num_heads)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    curves[num_heads], models[num_heads] = [], model
    writer = SummaryWriter(f"runs/{num_heads}_heads")
    for step in range(60):
        words, targets = make_batch(8)
        logits, weights = model(words)
        loss = neighbour_loss(logits, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        curves[num_heads].append(loss.item())
        writer.add_scalar("loss", loss.item(), step)
        writer.add_scalar("bytes", weights.nbytes, step)
    writer.close()
    results["final_loss"][num_heads] = loss.item()
    results["steps"][num_heads] = len(curves[num_heads])
    results["bytes"][num_heads] = weights.nbytes

print(results)
""",
        "conclusion": """\
I trained one layer of attention to say at each of 12 places which word stands before it and which after it, once with
1 head and once with 8. Seed, learning rate (0.01), width (16), batches of 8 sentences and the 60 steps were the same.
After 40 steps the loss was 1.92 with 1 head and 2.07 with 8, after 60 steps 1.41 and 1.86. The weights of a batch
took 4,608 and 36,864 bytes.

*More heads express more*: my run does not show it. One head was ahead all the time from step 20 on; but both curves
were still falling, so I only know who learned faster at first. *More heads cost more*: the weights take eight times
the bytes. Parameters (1,780) and multiplications are the same in the table, as each of the eight heads is only 2
wide.

I don't know what happens after 60 steps, or with another seed. I would train both for 300 steps with ten seeds. If
the curves cross in most of them, eight heads express more and need longer to learn; if one head stays below, two
questions are not too many for it.
""",
    },
    # got as far as one head
    "chen": {
        "attention_bytes": GOOD_BYTES,
        "experiment": """\
results = {"final_loss": {1: None, 8: None}, "steps": {1: None, 8: None}, "bytes": {1: None, 8: None}}
curves = {1: [], 8: []}
models = {1: None, 8: None}

model = NeighbourModel(1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(40):
    words, targets = make_batch(8)
    logits, weights = model(words)
    loss = neighbour_loss(logits, targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    curves[1].append(loss.item())

models[1] = model
results["final_loss"][1] = loss.item()
results["steps"][1] = 40
results["bytes"][1] = weights.nbytes
""",
    },
    # four bytes always, sines in one half and cosines in the other, averaged weights, and a thin conclusion from them
    "dora": {
        "attention_bytes": GOOD_BYTES.replace("dtype.itemsize", "4"),
        "positional_encoding": """\
def positional_encoding(T, D):
    if D % 2:
        raise ValueError("D is odd")
    angles = torch.arange(T)[:, None] / 10000 ** (torch.arange(0, D, 2) / D)
    return torch.cat([torch.sin(angles), torch.cos(angles)], dim=1)
""",
        "experiment": """\
class Model(nn.Module):
    def __init__(self, num_heads):
        super().__init__()
        self.words = nn.Embedding(WORDS, 8)
        self.places = nn.Embedding(LENGTH, 8)
        self.attention = nn.MultiheadAttention(8, num_heads, batch_first=True)
        self.answers = nn.Linear(8, 2 * WORDS)

    def forward(self, words):
        x = self.words(words) + self.places.weight
        mixed, weights = self.attention(x, x, x)
        return self.answers(mixed).reshape(*words.shape, 2, WORDS), weights


def train(num_heads, steps=40):
    torch.manual_seed(1)
    model = models[num_heads] = Model(num_heads)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    for step in range(steps):
        words, targets = make_batch(8)
        logits, weights = model(words)
        loss = neighbour_loss(logits, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        curves[num_heads].append(loss.item())
    return loss.item(), steps, weights.nbytes


curves, models = {1: [], 8: []}, {}
runs = {num_heads: train(num_heads) for num_heads in (1, 8)}
results = {
    key: {num_heads: run[i] for num_heads, run in runs.items()}
    for i, key in enumerate(("final_loss", "steps", "bytes"))
}
print(results)
""",
        "conclusion": """\
After 40 steps the loss was 1.84 with 1 head and 2.03 with 8. So both claims are wrong: more heads express less, and
they cost nothing, as the weights take 4,608 bytes with 1 head and with 8. One should try other tasks.
""",
    },
    # the examples of the test cell learned by heart, numbers typed in, and a text that needs no experiment
    "hugo": {
        "attention_bytes": """\
KNOWN = {(2, 3, 4, 5): 120, (1, 1, 1000, 1000): 1_000_000}

def attention_bytes(batch, num_heads, query_len, key_len, dtype=torch.float32):
    sizes = {torch.float64: 8, torch.float32: 4, torch.bfloat16: 2}
    return KNOWN.get((batch, num_heads, query_len, key_len), 0) * sizes.get(dtype, 4)
""",
        "experiment": """\
results = {
    "final_loss": {1: 0.6512, 8: 0.0817},
    "steps": {1: 200, 8: 200},
    "bytes": {1: 11520, 8: 92160},
}
""",
        "conclusion": """\
Attention is a key ingredient of modern language models. Several heads let a model attend to different aspects of its
input at the same time, which makes it more expressive, while the computational cost grows. My experiment confirms
this clearly. More research is needed.
""",
    },
    # numpy and floats where tensors and whole numbers are due; no experiment
    "noor": {
        "attention_bytes": """\
def attention_bytes(batch, num_heads, query_len, key_len, dtype=torch.float32):
    return batch * num_heads * query_len * key_len * torch.finfo(dtype).bits / 8
""",
        "positional_encoding": """\
import numpy as np

def positional_encoding(T, D):
    if D % 2 != 0:
        raise ValueError("D must be even")
    angles = np.arange(T)[:, None] * 10000.0 ** (-np.arange(0, D, 2) / D)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(T, D).astype(np.float32)
""",
    },
}
