"""Correct ways to count the bytes of attention weights; all of them earn full marks."""

import math

import numpy
import torch

from autograder.suite import correct, correct_source


@correct("itemsize")
def itemsize(batch, num_heads, query_len, key_len, dtype=torch.float32):
    return batch * num_heads * query_len * key_len * dtype.itemsize


@correct("made-and-measured")
def made_and_measured(batch, num_heads, query_len, key_len, dtype=torch.float32):
    return torch.zeros(batch, num_heads, query_len, key_len, dtype=dtype).nbytes


@correct("entries-times-element-size")
def entries_times_element_size(batch, num_heads, query_len, key_len, dtype=torch.float32):
    weights = torch.empty((batch, num_heads, query_len, key_len), dtype=dtype)
    print("weights:", tuple(weights.shape))
    return weights.numel() * weights.element_size()


@correct("bits-over-eight")
def bits_over_eight(batch, num_heads, query_len, key_len, dtype=torch.float32):
    return math.prod((batch, num_heads, query_len, key_len)) * torch.finfo(dtype).bits // 8


@correct("numpy-integer")
def numpy_integer(batch, num_heads, query_len, key_len, dtype=torch.float32):
    return numpy.prod([batch, num_heads, query_len, key_len, torch.empty(0, dtype=dtype).element_size()])


@correct("on-the-meta-device")
def on_the_meta_device(batch, num_heads, query_len, key_len, dtype=torch.float32):
    queries = torch.empty(batch, num_heads, query_len, 1, dtype=dtype, device="meta")
    return queries.expand(-1, -1, -1, key_len).clone().nbytes


@correct("a-tensor-and-item")
def a_tensor_and_item(batch, num_heads, query_len, key_len, dtype=torch.float32):
    return int((torch.tensor([batch, num_heads, query_len, key_len]).prod() * dtype.itemsize).item())


@correct("summed-up")
def summed_up(batch, num_heads, query_len, key_len, dtype=torch.float32):
    total = 0
    for _ in range(batch * num_heads):
        for _ in range(query_len):
            total += key_len * dtype.itemsize
    return total


callable_object = correct_source(
    "callable-object",
    """\
import torch

class AttentionBytes:
    def __call__(self, batch, num_heads, query_len, key_len, dtype=torch.float32):
        one = torch.tensor(1.0).to(dtype).untyped_storage().nbytes()
        return one * batch * num_heads * query_len * key_len

attention_bytes = AttentionBytes()
""",
)

a_lambda = correct_source(
    "lambda",
    """\
import torch
attention_bytes = lambda B, H, Tq, Tk, dtype=torch.float32: int(B * H * Tq * Tk * dtype.itemsize)
""",
)
