"""What learners get wrong when they cut features into heads, each with the check that catches it."""

import torch

from autograder.suite import N_, mistake


def width_of(x, num_heads):
    if x.shape[-1] % num_heads != 0:
        raise ValueError("num_heads must divide the embedding")
    return x.shape[-1] // num_heads


# Which numbers a head gets


@mistake(
    "view-without-transposing",
    caught_by="words",
    says=N_(
        "You cut (B, T, E) straight into (B, H, T, E/H). The shape is right, but the numbers are cut in the order in "
        "which they lie in memory: head 0 gets the first words, not the first features of every word. Cut the last "
        "axis alone, and then exchange two axes."
    ),
)
def view_without_transposing(x, num_heads):
    return x.reshape(x.shape[0], num_heads, x.shape[1], width_of(x, num_heads))


@mistake(
    "exchanged-too-early",
    caught_by="words",
    says=N_(
        "You exchange words and features before you cut (B, E, T) into (B, H, T, E/H). The shape is right, but a "
        "head then holds whole columns of x, one number of every word after the other. Cut the last axis of x "
        "alone, and then exchange two axes."
    ),
)
def exchanged_too_early(x, num_heads):
    return x.transpose(1, 2).reshape(x.shape[0], num_heads, x.shape[1], width_of(x, num_heads))


@mistake(
    "interleaved",
    caught_by="blocks",
    says=N_(
        "You deal the features out to the heads like cards: each head gets every H-th one. A head is a block of "
        "neighbours: when the last axis is cut in two, the heads come first and the width second."
    ),
)
def interleaved(x, num_heads):
    return x.reshape(*x.shape[:2], width_of(x, num_heads), num_heads).permute(0, 3, 1, 2)


# The shape


@mistake(
    "not-transposed",
    caught_by="order",
    says=N_("Your result is (B, T, H, E/H): the heads still stand behind the words. They belong before them."),
)
def not_transposed(x, num_heads):
    return x.reshape(*x.shape[:2], num_heads, width_of(x, num_heads))


@mistake(
    "last-two-exchanged",
    caught_by="order",
    says=N_(
        "You exchange the last two axes, which gives (B, T, E/H, H). The heads have to change places with the words."
    ),
)
def last_two_exchanged(x, num_heads):
    return x.reshape(*x.shape[:2], num_heads, width_of(x, num_heads)).transpose(-1, -2)


@mistake(
    "width-before-words",
    caught_by="order",
    says=N_("Your heads are (E/H, T) each: a row for every feature. A row for every word is due: (T, E/H)."),
)
def width_before_words(x, num_heads):
    return x.reshape(*x.shape[:2], num_heads, width_of(x, num_heads)).permute(0, 2, 3, 1)


@mistake(
    "heads-first",
    caught_by="order",
    says=N_("Your heads come before the batch: (H, B, T, E/H). The batch stays in front."),
)
def heads_first(x, num_heads):
    return x.reshape(*x.shape[:2], num_heads, width_of(x, num_heads)).permute(2, 0, 1, 3)


@mistake(
    "batch-and-heads-in-one",
    caught_by="axes",
    says=N_("Your batch and your heads share one axis: (B·H, T, E/H). Here each has its own: (B, H, T, E/H)."),
)
def batch_and_heads_in_one(x, num_heads):
    d = width_of(x, num_heads)
    return x.reshape(*x.shape[:2], num_heads, d).transpose(1, 2).reshape(-1, x.shape[1], d)


@mistake(
    "number-for-width",
    caught_by="order",
    says=N_("You make E/H heads of width H: num_heads is how many there are, not how wide each one is."),
)
def number_for_width(x, num_heads):
    return x.reshape(*x.shape[:2], width_of(x, num_heads), num_heads).transpose(1, 2)


@mistake(
    "words-shared-out",
    caught_by="axes",
    says=N_(
        "You share out the words: each head gets some of them, with all features. It is the other way round: each head "
        "gets all words, with some of their features."
    ),
)
def words_shared_out(x, num_heads):
    width_of(x, num_heads)
    return torch.stack(x.tensor_split(num_heads, dim=1), dim=1)


@mistake(
    "list-of-heads",
    caught_by="axes",
    says=N_("You return a list of heads. One tensor is due, with an axis for them: stack them."),
)
def list_of_heads(x, num_heads):
    return x.split(width_of(x, num_heads), dim=-1)


@mistake(
    "no-return",
    caught_by="axes",
    says=N_("Your function computes something and returns nothing: `return` is missing, so that it returns None."),
)
def no_return(x, num_heads):
    heads = x.reshape(*x.shape[:2], num_heads, width_of(x, num_heads)).transpose(1, 2)  # noqa: F841 - never returned


# Heads that don't come out even


@mistake(
    "left-over-dropped",
    caught_by="uneven",
    says=N_(
        "Where the heads don't come out even, you drop the features that are left over, and nobody notices. Raise a "
        "ValueError instead."
    ),
)
def left_over_dropped(x, num_heads):
    d = x.shape[-1] // num_heads
    return torch.stack([x[..., h * d : (h + 1) * d] for h in range(num_heads)], dim=1)


@mistake(
    "error-not-raised",
    caught_by="uneven",
    says=N_("You notice heads that don't come out even, but raise no error: whoever called goes on with None."),
)
def error_not_raised(x, num_heads):
    if x.shape[-1] % num_heads != 0:
        print("num_heads must divide the embedding")
        return None
    return x.reshape(*x.shape[:2], num_heads, x.shape[-1] // num_heads).transpose(1, 2)


@mistake(
    "error-returned",
    caught_by="uneven",
    says=N_(
        "Where the heads don't come out even, you hand the ValueError over with return, as if it were a result. "
        "return hands it over, raise throws it: only then the caller is stopped."
    ),
)
def error_returned(x, num_heads):
    if x.shape[-1] % num_heads != 0:
        return ValueError("num_heads must divide the embedding")
    return x.reshape(*x.shape[:2], num_heads, x.shape[-1] // num_heads).transpose(1, 2)


@mistake(
    "error-left-to-torch",
    caught_by="value_error",
    says=N_(
        "You leave it to torch to fail where the heads don't come out even: a RuntimeError about shapes, which doesn't "
        "say what the caller did wrong. Check it yourself, and raise a ValueError that does."
    ),
)
def error_left_to_torch(x, num_heads):
    return x.reshape(*x.shape[:2], num_heads, x.shape[-1] // num_heads).transpose(1, 2)


@mistake(
    "error-left-to-stack",
    caught_by="value_error",
    says=N_(
        "Where the heads don't come out even, your pieces are of unequal width, and it is left to torch to notice"
        " when they are put together: a RuntimeError about sizes. Check it yourself, and raise a ValueError that "
        "says what the caller did wrong."
    ),
)
def error_left_to_stack(x, num_heads):
    return torch.stack(x.chunk(num_heads, dim=-1), dim=1)


# Sizes, types, gradients, inputs


@mistake(
    "squeezed",
    caught_by="sizes",
    says=N_(
        "Your heads go through squeeze(), which drops every axis of size 1: a batch of one sentence, a single head or "
        "a single word loses its axis."
    ),
)
def squeezed(x, num_heads):
    return x.reshape(*x.shape[:2], num_heads, width_of(x, num_heads)).transpose(1, 2).squeeze()


@mistake(
    "float32-zeros",
    caught_by="dtypes",
    says=N_(
        "Your heads are float32 whatever x is. For example, they are written into a new tensor (torch.zeros, "
        "torch.empty) without a dtype: give it the dtype and device of x."
    ),
)
def float32_zeros(x, num_heads):
    d = width_of(x, num_heads)
    heads = torch.zeros(x.shape[0], num_heads, x.shape[1], d)
    for h in range(num_heads):
        heads[:, h] = x[..., h * d : (h + 1) * d]
    return heads


@mistake(
    "no-gradients",
    caught_by="gradients",
    says=N_(
        "Your heads carry no gradients (detach, .data, no_grad, or a copy through torch.tensor): nothing before them "
        "could learn."
    ),
)
def no_gradients(x, num_heads):
    return x.detach().reshape(*x.shape[:2], num_heads, width_of(x, num_heads)).transpose(1, 2)


@mistake(
    "reshaped-in-place",
    caught_by="hygiene",
    says=N_(
        "A function with an underscore at its end (transpose_, unsqueeze_, resize_) gives the caller's x another "
        "shape. Without it you get a new view."
    ),
)
def reshaped_in_place(x, num_heads):
    b, t, _ = x.shape
    d = width_of(x, num_heads)
    x.transpose_(1, 2)
    return x.reshape(b, num_heads, d, t).transpose(2, 3)
