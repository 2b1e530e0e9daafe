"""What learners get wrong when they put heads together again, each with the check that catches it."""

import torch

from autograder.suite import N_, mistake

# Which numbers stand where


@mistake(
    "reshape-without-transposing",
    caught_by="values",
    says=N_(
        "You turn (B, H, T, d) straight into (B, T, H·d). The shape is right, but the numbers stay in the order in "
        "which they lie in memory: the first row holds several words of head 0. Exchange heads and words first."
    ),
)
def reshape_without_transposing(x):
    return x.reshape(x.shape[0], x.shape[2], -1)


@mistake(
    "interleaved",
    caught_by="values",
    says=N_(
        "You put the first number of every head first, then the second of every head. Each head's numbers stay "
        "together: all of head 0, then all of head 1."
    ),
)
def interleaved(x):
    return x.permute(0, 2, 3, 1).reshape(x.shape[0], x.shape[2], -1)


@mistake(
    "outer-axes-exchanged",
    caught_by="values",
    says=N_(
        "You exchange the heads with the width (axes 1 and 3) before you flatten. It is heads and words, 1 and 2, that "
        "change places."
    ),
)
def outer_axes_exchanged(x):
    return x.transpose(1, 3).reshape(x.shape[0], x.shape[2], -1)


@mistake(
    "inner-axes-exchanged",
    caught_by="values",
    says=N_(
        "You exchange the last two axes, words and width, before you flatten. It is heads and words, 1 and 2, that "
        "change places."
    ),
)
def inner_axes_exchanged(x):
    return x.transpose(2, 3).reshape(x.shape[0], x.shape[2], -1)


# The shape


@mistake(
    "not-flattened",
    caught_by="sizes",
    says=N_("You exchange heads and words and leave it at that: (B, T, H, d). The last two axes become one."),
)
def not_flattened(x):
    return x.transpose(1, 2)


@mistake(
    "heads-summed",
    caught_by="rows",
    says=N_("You add up the heads, so that a word keeps d numbers. They stand side by side: H·d numbers."),
)
def heads_summed(x):
    return x.sum(dim=1)


@mistake(
    "heads-averaged",
    caught_by="rows",
    says=N_("You average the heads, so that a word keeps d numbers. They stand side by side: H·d numbers."),
)
def heads_averaged(x):
    return x.mean(dim=1)


@mistake(
    "first-head-alone",
    caught_by="rows",
    says=N_("Only the first head is left in your result. All of them stand side by side."),
)
def first_head_alone(x):
    return x[:, 0]


@mistake(
    "heads-one-below-the-other",
    caught_by="rows",
    says=N_("You put the heads one below the other, as if they were further words. They belong side by side."),
)
def heads_one_below_the_other(x):
    return x.flatten(1, 2)


@mistake(
    "contiguous-too-early",
    caught_by="rows",
    says=N_(
        "You call contiguous() before you exchange the axes, and view after it. It is the exchange that leaves the "
        "numbers out of order: contiguous() belongs behind it."
    ),
)
def contiguous_too_early(x):
    return x.contiguous().transpose(1, 2).view(x.shape[0], x.shape[2], -1)


@mistake(
    "axes-misread",
    caught_by="rows",
    says=N_(
        "You take the shape of x for (B, T, H, d), and exchange two axes as if it were (B, H, T, d). The heads "
        "stand before the words."
    ),
)
def axes_misread(x):
    B, T, H, d = x.shape
    return x.transpose(1, 2).reshape(B, T, H * d)


@mistake(
    "no-return",
    caught_by="rows",
    says=N_("Your function computes something and returns nothing: `return` is missing, so that it returns None."),
)
def no_return(x):
    merged = x.transpose(1, 2).flatten(2)  # noqa: F841 - computed, and never returned


# Memory, sizes, types, gradients, inputs


@mistake(
    "view-after-transposing",
    caught_by="layouts",
    says=N_(
        "You call view right after the exchange of axes. That only works where the numbers happen to lie in the new "
        "order already, as after a split; fresh heads do not. reshape copies where it must."
    ),
)
def view_after_transposing(x):
    return x.transpose(1, 2).view(x.shape[0], x.shape[2], -1)


@mistake(
    "squeezed",
    caught_by="sizes",
    says=N_(
        "Your result goes through squeeze(), which drops every axis of size 1: a batch of one sentence, or a sentence "
        "of one word, loses an axis."
    ),
)
def squeezed(x):
    return x.transpose(1, 2).flatten(2).squeeze()


@mistake(
    "float32-zeros",
    caught_by="dtypes",
    says=N_(
        "Your result is float32 whatever x is. For example, the heads are written into a new tensor (torch.zeros,"
        " torch.empty) without a dtype: give it the dtype and device of x."
    ),
)
def float32_zeros(x):
    B, H, T, d = x.shape
    merged = torch.zeros(B, T, H * d)
    for h in range(H):
        merged[..., h * d : (h + 1) * d] = x[:, h]
    return merged


@mistake(
    "no-gradients",
    caught_by="gradients",
    says=N_(
        "Your result carries no gradients (detach, .data, no_grad, or a copy through torch.tensor): nothing before it "
        "could learn."
    ),
)
def no_gradients(x):
    return x.detach().transpose(1, 2).flatten(2)


@mistake(
    "transposed-in-place",
    caught_by="hygiene",
    says=N_("`transpose_` with its underscore exchanges the axes of the caller's x. Without it you get a new view."),
)
def transposed_in_place(x):
    x.transpose_(1, 2)
    return x.flatten(2)
