"""What learners get wrong when they fill in the results of an experiment, each with the check that catches it."""

import torch
from torch import nn

from autograder.suite import N_, mistake


def train(num_heads, steps=6, lr=0.1, learn=True):
    """Trains a small model to give each word back; its losses, step by step, and its weights of the last batch."""
    torch.manual_seed(num_heads)
    attention = nn.MultiheadAttention(8, num_heads, batch_first=True)
    x, losses = torch.randn(2, 5, 8), []
    for _ in range(steps):
        output, weights = attention(x, x, x, average_attn_weights=False)
        loss = (output - x).pow(2).mean()
        losses.append(loss.item())
        if learn:
            gradients = torch.autograd.grad(loss, list(attention.parameters()))
            with torch.no_grad():
                for parameter, gradient in zip(attention.parameters(), gradients, strict=True):
                    parameter -= lr * gradient
    return losses, weights.detach()


def results_from(one, eight):
    runs = {1: one, 8: eight}
    return {
        "final_loss": {heads: losses[-1] for heads, (losses, _) in runs.items()},
        "steps": {heads: len(losses) for heads, (losses, _) in runs.items()},
        "bytes": {heads: weights.nbytes for heads, (_, weights) in runs.items()},
    }


@mistake(
    "typed-in",
    caught_by="trained",
    says=N_(
        "These numbers were typed in: your notebook trains nothing before they stand there. They should come out of "
        "your training loop, with every run of the notebook anew."
    ),
    unnamed_because="anybody types numbers of their own",
)
def typed_in():
    return {"final_loss": {1: 0.43, 8: 0.29}, "steps": {1: 300, 8: 300}, "bytes": {1: 204800, 8: 1638400}}


@mistake(
    "never-learned",
    caught_by="trained",
    says=N_("Your loop computes losses and no gradients: without backward() no step changes the model."),
    unnamed_because="the losses hang on the task, which is anybody's own",
)
def never_learned():
    return results_from(train(1, learn=False), train(8, learn=False))


@mistake(
    "one-training-for-both",
    caught_by="two_losses",
    says=N_(
        "One training stands under both numbers of heads. Two models are asked for, one with 1 head and one with 8, "
        "each with its own training."
    ),
    unnamed_because="the losses hang on the task, which is anybody's own",
)
def one_training_for_both():
    losses, weights = train(8)
    return results_from((losses, weights[:, :1]), (losses, weights))


@mistake(
    "curves-for-losses",
    caught_by="losses",
    says=N_("Under final_loss stand whole curves. One number each is asked for: the last one."),
    unnamed_because="the losses hang on the task, which is anybody's own",
)
def curves_for_losses():
    one, eight = train(1), train(8)
    return {**results_from(one, eight), "final_loss": {1: one[0], 8: eight[0]}}


@mistake(
    "diverged",
    caught_by="losses",
    says=N_("Your training ended on a loss that is no number any more (NaN). Try a smaller learning rate."),
    unnamed_because="the losses hang on the task, which is anybody's own",
)
def diverged():
    return results_from(train(1, lr=1e6), train(8, lr=1e6))


@mistake(
    "averaged-weights",
    caught_by="bytes",
    says=N_(
        "Your bytes are those of the weights averaged over heads, which nn.MultiheadAttention returns by default. Each "
        "head's own weights come with average_attn_weights=False."
    ),
    unnamed_because="the losses hang on the task, which is anybody's own",
)
def averaged_weights():
    (one, weights_of_one), (eight, weights_of_eight) = train(1), train(8)
    return results_from((one, weights_of_one.mean(1)), (eight, weights_of_eight.mean(1)))


@mistake(
    "one-number-alone",
    caught_by="bytes",
    says=N_("Your bytes are those of one number of the weights. Count all of them, as nbytes does."),
    unnamed_because="the losses hang on the task, which is anybody's own",
)
def one_number_alone():
    (one, weights_of_one), (eight, weights_of_eight) = train(1), train(8)
    return results_from((one, weights_of_one[0, 0, 0, 0]), (eight, weights_of_eight[0, 0, 0, 0]))


@mistake(
    "kibibytes",
    caught_by="bytes",
    says=N_("Your bytes are KiB, and no whole numbers any more: leave them as nbytes tells them."),
    unnamed_because="the losses hang on the task, which is anybody's own",
)
def kibibytes():
    found = results_from(train(1), train(8))
    return {**found, "bytes": {heads: size / 1024 for heads, size in found["bytes"].items()}}


@mistake(
    "examples-counted",
    caught_by="steps",
    says=N_("Under steps stands how many examples were seen. A step is one batch: one time that the weights change."),
    unnamed_because="the losses hang on the task, which is anybody's own",
)
def examples_counted():
    found = results_from(train(1), train(8))
    return {**found, "steps": {heads: 64 * steps for heads, steps in found["steps"].items()}}


@mistake(
    "numbers-of-the-steps",
    caught_by="steps",
    says=N_("Under steps stand the numbers of all steps. How many there were is asked for, one number each."),
    unnamed_because="the losses hang on the task, which is anybody's own",
)
def numbers_of_the_steps():
    found = results_from(train(1), train(8))
    return {**found, "steps": {heads: list(range(steps)) for heads, steps in found["steps"].items()}}


@mistake(
    "heads-as-text",
    caught_by="filled_in",
    says=N_("The heads in your results are text, '1' and '8'. They should be the numbers 1 and 8, without quotes."),
    unnamed_because="the losses hang on the task, which is anybody's own",
)
def heads_as_text():
    found = results_from(train(1), train(8))
    return {key: {str(heads): value for heads, value in each.items()} for key, each in found.items()}


@mistake(
    "sorted-by-heads",
    caught_by="filled_in",
    says=N_("Your results are sorted by heads first. They should be sorted by final_loss, steps and bytes first."),
    unnamed_because="the losses hang on the task, which is anybody's own",
)
def sorted_by_heads():
    found = results_from(train(1), train(8))
    return {heads: {key: each[heads] for key, each in found.items()} for heads in (1, 8)}


@mistake(
    "only-one-head-yet",
    caught_by="filled_in",
    says=N_("What you measured with 1 head stands there. The model with 8 heads is still to be trained."),
    unnamed_because="the losses hang on the task, which is anybody's own",
)
def only_one_head_yet():
    found = results_from(train(1), train(1))
    return {key: {1: each[1], 8: None} for key, each in found.items()}
