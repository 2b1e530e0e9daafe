"""What learners get wrong when they count the bytes of attention weights, each with the check that catches it."""

import sys

import torch

from autograder.suite import N_, mistake

# What is counted


@mistake(
    "queries-squared",
    caught_by="lengths",
    says=N_(
        "You take query_len twice and never key_len. T² is right for self-attention only: every query has a weight for "
        "every key, and there may be more keys than queries, or fewer."
    ),
)
def queries_squared(batch, num_heads, query_len, key_len, dtype=torch.float32):
    return batch * num_heads * query_len**2 * dtype.itemsize


@mistake(
    "keys-squared",
    caught_by="lengths",
    says=N_(
        "You take key_len twice and never query_len. T² is right for self-attention only: every query has a weight for "
        "every key, and there may be more queries than keys, or fewer."
    ),
)
def keys_squared(batch, num_heads, query_len, key_len, dtype=torch.float32):
    return batch * num_heads * key_len * key_len * dtype.itemsize


@mistake(
    "heads-forgotten",
    caught_by="heads",
    says=N_(
        "Your number is the same for any num_heads: it counts one table of weights a sentence, such as the averaged "
        "one that nn.MultiheadAttention returns by default. Every head makes a table of its own."
    ),
)
def heads_forgotten(batch, num_heads, query_len, key_len, dtype=torch.float32):
    return batch * query_len * key_len * dtype.itemsize


@mistake(
    "batch-forgotten",
    caught_by="batch",
    says=N_("Your number is the same for any batch: it counts the weights of one sentence, and each has its own."),
)
def batch_forgotten(batch, num_heads, query_len, key_len, dtype=torch.float32):
    return num_heads * query_len * key_len * dtype.itemsize


@mistake(
    "sizes-added",
    caught_by="lengths",
    says=N_(
        "You add the sizes. Two queries and three keys are not five weights but six: one for each query and each key, "
        "and so it goes on with heads and sentences."
    ),
)
def sizes_added(batch, num_heads, query_len, key_len, dtype=torch.float32):
    return (batch + num_heads + query_len + key_len) * dtype.itemsize


@mistake(
    "lengths-added",
    caught_by="lengths",
    says=N_(
        "You add the two lengths. Queries and keys of that length are as many rows, but the weights are a table: one "
        "for each query and each key."
    ),
)
def lengths_added(batch, num_heads, query_len, key_len, dtype=torch.float32):
    return batch * num_heads * (query_len + key_len) * dtype.itemsize


@mistake(
    "counted-twice",
    caught_by="bytes",
    says=N_(
        "Your number is twice what it should be, as when the scores are counted beside the weights. Here the weights "
        "alone are asked for."
    ),
)
def counted_twice(batch, num_heads, query_len, key_len, dtype=torch.float32):
    scores = weights = batch * num_heads * query_len * key_len * dtype.itemsize
    return scores + weights


@mistake(
    "width-multiplied-in",
    caught_by="bytes",
    says=N_(
        "Your number is 64 times what it should be, as when a width of 64 is multiplied in. A weight is one number, "
        "however wide the query and the key are that it comes from."
    ),
)
def width_multiplied_in(batch, num_heads, query_len, key_len, dtype=torch.float32):
    head_width = 64
    return batch * num_heads * query_len * key_len * head_width * dtype.itemsize


@mistake(
    "python-object-measured",
    caught_by="number",
    says=N_(
        "You measure the Python object, a few dozen bytes for any tensor: sys.getsizeof does not look at the numbers "
        "that it refers to. Count them, or ask the tensor itself."
    ),
)
def python_object_measured(batch, num_heads, query_len, key_len, dtype=torch.float32):
    return sys.getsizeof(torch.empty(batch, num_heads, query_len, key_len, dtype=dtype))


# In which unit


@mistake(
    "entries-only",
    caught_by="bytes",
    says=N_("You return how many weights there are. Each of them takes some bytes, and how many the dtype knows."),
)
def entries_only(batch, num_heads, query_len, key_len, dtype=torch.float32):
    return batch * num_heads * query_len * key_len


@mistake(
    "always-four-bytes",
    caught_by="dtypes",
    says=N_(
        "You count four bytes for every weight, whatever the dtype. That is float32: float64 takes twice as many, "
        "bfloat16 and float16 half."
    ),
)
def always_four_bytes(batch, num_heads, query_len, key_len, dtype=torch.float32):
    return 4 * batch * num_heads * query_len * key_len


@mistake(
    "bits",
    caught_by="bytes",
    says=N_("You return bits, eight for every byte: finfo, for example, tells bits. Bytes are asked for."),
)
def bits(batch, num_heads, query_len, key_len, dtype=torch.float32):
    return batch * num_heads * query_len * key_len * torch.finfo(dtype).bits


@mistake(
    "kibibytes",
    caught_by="bytes",
    says=N_("You divide by 1024 and return KiB. Bytes are asked for; what is easy to read is the caller's business."),
)
def kibibytes(batch, num_heads, query_len, key_len, dtype=torch.float32):
    return batch * num_heads * query_len * key_len * dtype.itemsize / 1024


@mistake(
    "eight-bits-unknown",
    caught_by="dtypes",
    says=N_(
        "Your answer knows the dtypes of 64, 32 and 16 bits, and gives up on those of 8 (float8). A dtype can tell its "
        "size itself, and needs no table."
    ),
)
def eight_bits_unknown(batch, num_heads, query_len, key_len, dtype=torch.float32):
    sizes = {torch.float64: 8, torch.float32: 4, torch.float16: 2, torch.bfloat16: 2}
    return batch * num_heads * query_len * key_len * sizes[dtype]


@mistake(
    "float64-by-default",
    caught_by="dtypes",
    says=N_("Without a dtype your function counts as for float64. The default is float32, torch's own."),
)
def float64_by_default(batch, num_heads, query_len, key_len, dtype=torch.float64):
    return batch * num_heads * query_len * key_len * dtype.itemsize


# What comes back


@mistake(
    "float-result",
    caught_by="whole_number",
    says=N_(
        "Your number is right, and a float: `/` gives one even where nothing is left over. Bytes are whole: divide "
        "with `//`, or not at all."
    ),
)
def float_result(batch, num_heads, query_len, key_len, dtype=torch.float32):
    return batch * num_heads * query_len * key_len * torch.finfo(dtype).bits / 8


@mistake(
    "tensor-result",
    caught_by="whole_number",
    says=N_(
        "You return a tensor with the right number in it. An int is asked for: take the number out, as with item()."
    ),
)
def tensor_result(batch, num_heads, query_len, key_len, dtype=torch.float32):
    return torch.tensor([batch, num_heads, query_len, key_len]).prod() * dtype.itemsize


@mistake(
    "no-return",
    caught_by="number",
    says=N_(
        "Your function computes something, and perhaps prints it, and returns nothing: `return` is missing, so that it "
        "returns None."
    ),
)
def no_return(batch, num_heads, query_len, key_len, dtype=torch.float32):
    print(batch * num_heads * query_len * key_len * dtype.itemsize, "bytes")
