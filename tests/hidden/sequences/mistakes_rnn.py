"""What learners get wrong in a recurrent network, each with the check that catches it."""

import torch

from autograder.suite import N_, mistake


def start(x, b, h0):
    return x.new_zeros(b.shape) if h0 is None else h0


def words_of(x):
    return x.unbind(-2)


# What comes back


@mistake(
    "last-state-only",
    caught_by="shape",
    says=N_("You return the last state alone. Every word leaves a state, and all of them are due, side by side."),
)
def last_state_only(x, W_xh, W_hh, b, h0=None):
    h = start(x, b, h0)
    for word in words_of(x):
        h = torch.tanh(word @ W_xh + h @ W_hh + b)
    return h


@mistake(
    "last-state-beside",
    caught_by="shape",
    says=N_(
        "You return the last state beside all of them, as PyTorch's recurrent layers do. Here the states alone are "
        "due: the last one is among them."
    ),
)
def last_state_beside(x, W_xh, W_hh, b, h0=None):
    h, states = start(x, b, h0), []
    for word in words_of(x):
        h = torch.tanh(word @ W_xh + h @ W_hh + b)
        states.append(h)
    return torch.stack(states, dim=-2), h


@mistake(
    "state-before-among-them",
    caught_by="shape",
    says=N_(
        "You return the state before the first word as well, so that there are T + 1 of them. A state is due for each "
        "word, after it was read."
    ),
)
def state_before_among_them(x, W_xh, W_hh, b, h0=None):
    states = [start(x, b, h0).expand(*x.shape[:-2], -1)]
    for word in words_of(x):
        states.append(torch.tanh(word @ W_xh + states[-1] @ W_hh + b))
    return torch.stack(states, dim=-2)


@mistake(
    "return-inside-the-loop",
    caught_by="shape",
    says=N_(
        "Your function ends with the first word: the return stands inside the loop. It belongs behind it, as far left "
        "as the loop itself."
    ),
)
def return_inside_the_loop(x, W_xh, W_hh, b, h0=None):
    h, states = start(x, b, h0), []
    for word in words_of(x):
        h = torch.tanh(word @ W_xh + h @ W_hh + b)
        states.append(h)
        return torch.stack(states, dim=-2)
    return None


@mistake(
    "joined-along-an-axis",
    caught_by="shape",
    says=N_(
        "You join the states along an axis that they have already, as torch.cat does. The words need an axis of their "
        "own: torch.stack makes a new one."
    ),
)
def joined_along_an_axis(x, W_xh, W_hh, b, h0=None):
    h, states = start(x, b, h0), []
    for word in words_of(x):
        h = torch.tanh(word @ W_xh + h @ W_hh + b)
        states.append(h)
    return torch.cat(states)


@mistake(
    "words-matrix-transposed",
    caught_by="shape",
    says=N_(
        "You multiply the words by W_xh transposed. PyTorch's layers keep their weights that way round; here W_xh is "
        "(D, H), and x_t @ W_xh fits as it stands. Where D and H are equal nothing stops you."
    ),
)
def words_matrix_transposed(x, W_xh, W_hh, b, h0=None):
    h, states = start(x, b, h0), []
    for word in words_of(x):
        h = torch.tanh(word @ W_xh.T + h @ W_hh + b)
        states.append(h)
    return torch.stack(states, dim=-2)


# A step


@mistake(
    "never-handed-on",
    caught_by="memory",
    says=N_(
        "Each of your states is made from its own word alone, and none from the state before it. The loop has to end "
        "with the state that the next word begins with."
    ),
)
def never_handed_on(x, W_xh, W_hh, b, h0=None):
    return torch.tanh(x @ W_xh + (start(x, b, h0) @ W_hh).unsqueeze(-2) + b)


@mistake(
    "no-tanh",
    caught_by="first_state",
    says=N_(
        "Your steps lack the tanh. Without it, a network that reads a long sentence is only a product of matrices, and "
        "its states grow beyond all bounds or vanish."
    ),
)
def no_tanh(x, W_xh, W_hh, b, h0=None):
    h, states = start(x, b, h0), []
    for word in words_of(x):
        h = word @ W_xh + h @ W_hh + b
        states.append(h)
    return torch.stack(states, dim=-2)


@mistake(
    "no-bias",
    caught_by="first_state",
    says=N_("You forget b. It is added in every step, before the tanh."),
)
def no_bias(x, W_xh, W_hh, b, h0=None):
    h, states = start(x, b, h0), []
    for word in words_of(x):
        h = torch.tanh(word @ W_xh + h @ W_hh)
        states.append(h)
    return torch.stack(states, dim=-2)


@mistake(
    "one-word-late",
    caught_by="first_state",
    says=N_(
        "Your states come one word late: what stands at a word is the state from before it was read. A state is due "
        "after each word, and the last word has a say in the last one."
    ),
)
def one_word_late(x, W_xh, W_hh, b, h0=None):
    h, states = start(x, b, h0), []
    for word in words_of(x):
        states.append(h.expand(*x.shape[:-2], -1))
        h = torch.tanh(word @ W_xh + h @ W_hh + b)
    return torch.stack(states, dim=-2)


@mistake(
    "states-matrix-transposed",
    caught_by="later_states",
    says=N_(
        "You multiply the state by W_hh transposed. W_hh is square, so that no error tells you: the state is a row, "
        "and state @ W_hh fits as it stands."
    ),
)
def states_matrix_transposed(x, W_xh, W_hh, b, h0=None):
    h, states = start(x, b, h0), []
    for word in words_of(x):
        h = torch.tanh(word @ W_xh + h @ W_hh.T + b)
        states.append(h)
    return torch.stack(states, dim=-2)


@mistake(
    "matrix-before-the-state",
    caught_by="later_states",
    says=N_(
        "You write W_hh before the state. W_hh is square, so that a single state goes through, and meets the rows of "
        "W_hh instead of its columns. The state is a row, and stands on the left, as the word does."
    ),
)
def matrix_before_the_state(x, W_xh, W_hh, b, h0=None):
    h, states = start(x, b, h0), []
    for word in words_of(x):
        h = torch.tanh(word @ W_xh + W_hh @ h + b)
        states.append(h)
    return torch.stack(states, dim=-2)


@mistake(
    "tanh-around-the-word",
    caught_by="later_states",
    says=N_(
        "Your tanh ends too early: it is taken of the word's part alone, and the rest is added behind it. All three "
        "parts are added first, and tanh squeezes their sum."
    ),
)
def tanh_around_the_word(x, W_xh, W_hh, b, h0=None):
    h, states = start(x, b, h0), []
    for word in words_of(x):
        h = torch.tanh(word @ W_xh) + h @ W_hh + b
        states.append(h)
    return torch.stack(states, dim=-2)


@mistake(
    "tanh-outside-the-loop",
    caught_by="later_states",
    says=N_(
        "You squeeze by tanh what you return, and hand on to the next word what was not squeezed yet. The tanh belongs "
        "into the step: the next word gets the state itself."
    ),
)
def tanh_outside_the_loop(x, W_xh, W_hh, b, h0=None):
    h, states = start(x, b, h0), []
    for word in words_of(x):
        h = word @ W_xh + h @ W_hh + b
        states.append(h)
    return torch.tanh(torch.stack(states, dim=-2))


@mistake(
    "backwards",
    caught_by="later_states",
    says=N_(
        "You read the sentence from its end. Words come in their order: a state knows those before it, and none later."
    ),
)
def backwards(x, W_xh, W_hh, b, h0=None):
    h, states = start(x, b, h0), []
    for word in reversed(words_of(x)):
        h = torch.tanh(word @ W_xh + h @ W_hh + b)
        states.append(h)
    return torch.stack(states, dim=-2)


@mistake(
    "one-state-overwritten",
    caught_by="later_states",
    says=N_(
        "All your states are the last one, for example because they are one tensor, which every step overwrites: a "
        "list of it holds that tensor many times. Make a new one in each step."
    ),
)
def one_state_overwritten(x, W_xh, W_hh, b, h0=None):
    h, states = start(x, b, h0).expand(*x.shape[:-2], -1).clone(), []
    for word in words_of(x):
        h.copy_(torch.tanh(word @ W_xh + h @ W_hh + b))
        states.append(h)
    return torch.stack(states, dim=-2)


# The state before the first word


@mistake(
    "h0-ignored",
    caught_by="h0",
    says=N_("You begin with zeros, whatever h0 says. They are only meant for h0 = None."),
)
def h0_ignored(x, W_xh, W_hh, b, h0=None):
    h, states = start(x, b, None), []
    for word in words_of(x):
        h = torch.tanh(word @ W_xh + h @ W_hh + b)
        states.append(h)
    return torch.stack(states, dim=-2)


@mistake(
    "first-h0-for-all",
    caught_by="h0",
    says=N_("Given an h0 for each sentence, you begin them all with the first. Each has a state of its own."),
)
def first_h0_for_all(x, W_xh, W_hh, b, h0=None):
    h, states = start(x, b, h0).reshape(-1, len(b))[0], []
    for word in words_of(x):
        h = torch.tanh(word @ W_xh + h @ W_hh + b)
        states.append(h)
    return torch.stack(states, dim=-2)


# Axes


@mistake(
    "sentences-for-words",
    caught_by="leading_axes",
    says=N_(
        "You go through the first axis of x. For a batch those are the sentences, so that each of them begins where "
        "the last one ended. Words stand on the last axis but one."
    ),
)
def sentences_for_words(x, W_xh, W_hh, b, h0=None):
    h, states = start(x, b, h0), []
    for word in x:
        h = torch.tanh(word @ W_xh + h @ W_hh + b)
        states.append(h)
    return torch.stack(states)


@mistake(
    "first-axis-counted",
    caught_by="leading_axes",
    says=N_(
        "You count the words along the first axis of x. For a batch that is the number of sentences. Words stand on "
        "the last axis but one."
    ),
)
def first_axis_counted(x, W_xh, W_hh, b, h0=None):
    h, states = start(x, b, h0), []
    for t in range(x.shape[0]):
        h = torch.tanh(x[..., t, :] @ W_xh + h @ W_hh + b)
        states.append(h)
    return torch.stack(states, dim=-2)


@mistake(
    "stacked-in-front",
    caught_by="leading_axes",
    says=N_(
        "You stack the states along a new first axis, so that words come before sentences. They belong where the words "
        "of x stand, on the last axis but one."
    ),
)
def stacked_in_front(x, W_xh, W_hh, b, h0=None):
    h, states = start(x, b, h0), []
    for word in words_of(x):
        h = torch.tanh(word @ W_xh + h @ W_hh + b)
        states.append(h)
    return torch.stack(states)


@mistake(
    "words-on-axis-1",
    caught_by="leading_axes",
    says=N_(
        "You take the words from axis 1 of x. That is right for a batch, and for nothing else: a sentence alone has "
        "its words on axis 0, a batch of batches on axis 2. Which axis is it always, counted from the back?"
    ),
)
def words_on_axis_1(x, W_xh, W_hh, b, h0=None):
    h, states = start(x, b, h0), []
    for word in x.unbind(1):
        h = torch.tanh(word @ W_xh + h @ W_hh + b)
        states.append(h)
    return torch.stack(states, dim=1)


@mistake(
    "batches-only",
    caught_by="leading_axes",
    says=N_(
        "You count on x having exactly three axes. There may be any number before the words, none included: take those "
        "as they come, and count from the back."
    ),
)
def batches_only(x, W_xh, W_hh, b, h0=None):
    _, T, _ = x.shape
    h, states = start(x, b, h0), []
    for t in range(T):
        h = torch.tanh(x[:, t] @ W_xh + h @ W_hh + b)
        states.append(h)
    return torch.stack(states, dim=1)


# What is left behind


@mistake(
    "graph-cut-between-steps",
    caught_by="gradients",
    says=N_(
        "You cut the graph between the steps, as by detach(). The states are right, and no gradient gets from a later "
        "word to an earlier one."
    ),
)
def graph_cut_between_steps(x, W_xh, W_hh, b, h0=None):
    h, states = start(x, b, h0), []
    for word in words_of(x):
        h = torch.tanh(word @ W_xh + h @ W_hh + b)
        states.append(h)
        h = h.detach()
    return torch.stack(states, dim=-2)


@mistake(
    "read-back-from-the-box",
    caught_by="gradients",
    says=N_(
        "You write each state into one big tensor, and read the state before from there. The numbers are right, but "
        "autograd refuses: a step has read from a tensor that the next step writes into. Keep the state in a variable "
        "of its own."
    ),
)
def read_back_from_the_box(x, W_xh, W_hh, b, h0=None):
    states = x.new_zeros(*x.shape[:-1], len(b))
    for t in range(x.shape[-2]):
        before = start(x, b, h0) if t == 0 else states[..., t - 1, :]
        states[..., t, :] = torch.tanh(x[..., t, :] @ W_xh + before @ W_hh + b)
    return states


@mistake(
    "zeros-in-float32",
    caught_by="as_given",
    says=N_(
        "Your zeros for the first step are float32, whatever x is, and matrices refuse to meet another dtype than "
        "their own. Let x say which dtype a new tensor has."
    ),
)
def zeros_in_float32(x, W_xh, W_hh, b, h0=None):
    h, states = torch.zeros(len(b)) if h0 is None else h0, []
    for word in words_of(x):
        h = torch.tanh(word @ W_xh + h @ W_hh + b)
        states.append(h)
    return torch.stack(states, dim=-2)


@mistake(
    "tanh-by-exponentials",
    caught_by="as_given",
    says=N_(
        "You compute tanh as a fraction of exponentials. exp(1000) is inf, and inf / inf is NaN: huge numbers break "
        "it. PyTorch's own tanh doesn't mind them."
    ),
)
def tanh_by_exponentials(x, W_xh, W_hh, b, h0=None):
    h, states = start(x, b, h0), []
    for word in words_of(x):
        h = word @ W_xh + h @ W_hh + b
        h = (torch.exp(h) - torch.exp(-h)) / (torch.exp(h) + torch.exp(-h))
        states.append(h)
    return torch.stack(states, dim=-2)


@mistake(
    "h0-reshaped-in-place",
    caught_by="as_given",
    says=N_(
        "You give h0 another axis in place, and the caller's h0 keeps that shape: a method whose name ends with an "
        "underscore changes the tensor itself. The one without it makes a new view."
    ),
)
def h0_reshaped_in_place(x, W_xh, W_hh, b, h0=None):
    h = x.new_zeros(b.shape) if h0 is None else h0.unsqueeze_(-2)
    states = []
    for t in range(x.shape[-2]):
        h = torch.tanh(x[..., t : t + 1, :] @ W_xh + h @ W_hh + b)
        states.append(h)
    return torch.cat(states, dim=-2)
