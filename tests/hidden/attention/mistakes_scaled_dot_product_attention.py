"""What learners get wrong in scaled dot-product attention, each with the check that catches it."""

import numpy
import torch
import torch.nn.functional as F

from autograder.suite import N_, mistake


def scaled_scores(Q, K):
    return Q @ K.transpose(-2, -1) / Q.shape[-1] ** 0.5


# The softmax


@mistake(
    "softmax-over-queries",
    caught_by="rows_sum_to_one",
    says=N_(
        "Your softmax shares each key out among the queries. It is each query that shares its attention out "
        "among the keys."
    ),
)
def softmax_over_queries(Q, K, V):
    weights = F.softmax(scaled_scores(Q, K), dim=-2)
    return weights @ V, weights


@mistake(
    "softmax-over-first-axis",
    caught_by="rows_sum_to_one",
    says=N_(
        "Your softmax runs over the first axis, the batch: sentences compete with one another, and a batch "
        "of one gets nothing but ones."
    ),
)
def softmax_over_first_axis(Q, K, V):
    weights = F.softmax(scaled_scores(Q, K), dim=0)
    return weights @ V, weights


@mistake(
    "softmax-without-axis",
    caught_by="rows_sum_to_one",
    says=N_(
        "You leave it to softmax to choose an axis (no dim). It takes the last one for one sentence, and the "
        "batch for a batch: say which axis you mean."
    ),
)
def softmax_without_axis(Q, K, V):
    weights = F.softmax(scaled_scores(Q, K))
    return weights @ V, weights


@mistake(
    "softmax-over-axis-1",
    caught_by="rows_sum_to_one",
    says=N_(
        "Your softmax runs over axis 1. That is the keys' axis for one sentence, but the queries' axis for a "
        "batch: count from the back."
    ),
)
def softmax_over_axis_1(Q, K, V):
    weights = F.softmax(scaled_scores(Q, K), dim=1)
    return weights @ V, weights


@mistake(
    "softmax-over-axis-2",
    caught_by="leading_axes",
    says=N_(
        "Your softmax runs over axis 2. That is the keys' axis for a batch of sentences only: count from the "
        "back, and it is right for any number of axes."
    ),
)
def softmax_over_axis_2(Q, K, V):
    weights = F.softmax(scaled_scores(Q, K), dim=2)
    return weights @ V, weights


@mistake(
    "softmax-over-the-whole-matrix",
    caught_by="rows_sum_to_one",
    says=N_(
        "Your whole weight matrix sums to 1. Each of its rows should: every query has a whole unit of "
        "attention to give."
    ),
)
def softmax_over_the_whole_matrix(Q, K, V):
    scores = scaled_scores(Q, K)
    weights = F.softmax(scores.flatten(-2), dim=-1).view(scores.shape)
    return weights @ V, weights


@mistake(
    "softmax-over-everything",
    caught_by="rows_sum_to_one",
    says=N_(
        "All your weights together, over all sentences, sum to 1. Each row should: every query has a whole "
        "unit of attention to give."
    ),
)
def softmax_over_everything(Q, K, V):
    scores = scaled_scores(Q, K)
    weights = F.softmax(scores.reshape(-1), dim=0).view(scores.shape)
    return weights @ V, weights


@mistake(
    "no-softmax",
    caught_by="rows_sum_to_one",
    says=N_(
        "Your weights are the scaled scores themselves: they can be negative and sum to anything. The "
        "softmax is missing."
    ),
)
def no_softmax(Q, K, V):
    weights = scaled_scores(Q, K)
    return weights @ V, weights


@mistake(
    "returns-scores",
    caught_by="rows_sum_to_one",
    says=N_("Your output is right, but what you return beside it are the scores from before the softmax."),
)
def returns_scores(Q, K, V):
    scores = scaled_scores(Q, K)
    return F.softmax(scores, dim=-1) @ V, scores


@mistake(
    "log-softmax",
    caught_by="rows_sum_to_one",
    says=N_("Your weights are logarithms of weights: log_softmax where softmax is due."),
)
def log_softmax(Q, K, V):
    weights = F.log_softmax(scaled_scores(Q, K), dim=-1)
    return weights @ V, weights


@mistake(
    "sigmoid",
    caught_by="rows_sum_to_one",
    says=N_("You squash each score on its own, with a sigmoid. Keys should compete: a softmax looks at the whole row."),
)
def sigmoid(Q, K, V):
    weights = torch.sigmoid(scaled_scores(Q, K))
    return weights @ V, weights


@mistake(
    "divided-by-the-sum-of-scores",
    caught_by="rows_sum_to_one",
    says=N_(
        "You divide the scores by their sum, without the exponential: rows sum to 1, but with negative "
        "entries and, now and then, a division by nearly zero."
    ),
)
def divided_by_the_sum_of_scores(Q, K, V):
    scores = scaled_scores(Q, K)
    weights = scores / scores.sum(-1, keepdim=True)
    return weights @ V, weights


@mistake(
    "softmax-twice",
    caught_by="weights",
    says=N_("Your weights have been through softmax twice: the second time flattens them."),
)
def softmax_twice(Q, K, V):
    weights = F.softmax(F.softmax(scaled_scores(Q, K), dim=-1), dim=-1)
    return weights @ V, weights


@mistake(
    "negated-scores",
    caught_by="weights",
    says=N_("The keys that fit a query least get the most weight: the sign of your scores is turned around."),
)
def negated_scores(Q, K, V):
    weights = F.softmax(-scaled_scores(Q, K), dim=-1)
    return weights @ V, weights


@mistake(
    "equal-weights",
    caught_by="output",
    says=N_(
        "Every query shares its attention out equally among all keys, whatever Q and K hold: attention is the mean of "
        "the values, unless the scores decide about the shares."
    ),
)
def equal_weights(Q, K, V):
    scores = torch.zeros_like(scaled_scores(Q, K))
    weights = F.softmax(scores, dim=-1)
    return weights @ V, weights


@mistake(
    "hard-attention",
    caught_by="weights",
    says=N_(
        "Each of your queries takes the best key alone. Attention is soft: every key gets a share, so that "
        "there is a gradient to learn from."
    ),
)
def hard_attention(Q, K, V):
    scores = scaled_scores(Q, K)
    weights = F.one_hot(scores.argmax(-1), K.shape[-2]).to(Q.dtype)
    return weights @ V, weights


@mistake(
    "softmax-one-more",
    caught_by="rows_sum_to_one",
    says=N_("You add 1 to the softmax's denominator, so that your rows sum to less than 1."),
)
def softmax_one_more(Q, K, V):
    exponentials = torch.exp(scaled_scores(Q, K))
    weights = exponentials / (exponentials.sum(-1, keepdim=True) + 1)
    return weights @ V, weights


@mistake(
    "naive-exp",
    caught_by="huge_logits",
    says=N_(
        "Ordinary scores come out right, huge ones as NaN: for example, exp is taken of the scores as they are. Above "
        "a score of 88, exp is infinite in float32, and infinity divided by infinity is NaN."
    ),
)
def naive_exp(Q, K, V):
    exponentials = torch.exp(scaled_scores(Q, K))
    weights = exponentials / exponentials.sum(-1, keepdim=True)
    return weights @ V, weights


@mistake(
    "global-maximum",
    caught_by="huge_logits",
    says=N_(
        "A row whose own scores are far below the largest score of all becomes NaN, 0 divided by 0: for example, "
        "because that largest score is subtracted from every row. Each row needs its own maximum."
    ),
)
def global_maximum(Q, K, V):
    scores = scaled_scores(Q, K)
    exponentials = torch.exp(scores - scores.max())
    weights = exponentials / exponentials.sum(-1, keepdim=True)
    return weights @ V, weights


@mistake(
    "clamped-scores",
    caught_by="huge_logits",
    says=N_(
        "Large scores all look equal in your softmax, as if they were clamped to keep exp from overflowing. To take "
        "away the row's maximum instead changes nothing."
    ),
)
def clamped_scores(Q, K, V):
    exponentials = torch.exp(scaled_scores(Q, K).clamp(-50, 50))
    weights = exponentials / exponentials.sum(-1, keepdim=True)
    return weights @ V, weights


@mistake(
    "nan-to-num",
    caught_by="huge_logits",
    says=N_(
        "Where scores are huge, your rows lose their weight, and the best key most of all: for example, exp "
        "overflowed, and NaN was replaced by 0. Keep exp from overflowing instead."
    ),
)
def nan_to_num(Q, K, V):
    exponentials = torch.exp(scaled_scores(Q, K))
    weights = torch.nan_to_num(exponentials / exponentials.sum(-1, keepdim=True))
    return weights @ V, weights


@mistake(
    "exponentials-alone",
    caught_by="rows_sum_to_one",
    says=N_("Your weights are the exponentials of the scores, not yet divided by their row's sum."),
)
def exponentials_alone(Q, K, V):
    weights = torch.exp(scaled_scores(Q, K))
    return weights @ V, weights


# The scale


@mistake(
    "no-scale",
    caught_by="scale",
    says=N_("Your weights are those of attention without the 1/√d scale."),
)
def no_scale(Q, K, V):
    weights = F.softmax(Q @ K.transpose(-2, -1), dim=-1)
    return weights @ V, weights


@mistake(
    "scale-by-d",
    caught_by="scale",
    says=N_(
        "You divide by d, not by √d: your weights are too flat. The spread of a dot product of d terms grows "
        "with the root of d."
    ),
)
def scale_by_d(Q, K, V):
    weights = F.softmax(Q @ K.transpose(-2, -1) / Q.shape[-1], dim=-1)
    return weights @ V, weights


@mistake(
    "multiplied-by-root-d",
    caught_by="scale",
    says=N_("You multiply by √d where you should divide: your weights are far too sharp."),
)
def multiplied_by_root_d(Q, K, V):
    weights = F.softmax(Q @ K.transpose(-2, -1) * Q.shape[-1] ** 0.5, dim=-1)
    return weights @ V, weights


@mistake(
    "d-squared",
    caught_by="scale",
    says=N_("You divide by d², not by √d: is it `** 2` where `** 0.5` was meant?"),
)
def d_squared(Q, K, V):
    weights = F.softmax(Q @ K.transpose(-2, -1) / Q.shape[-1] ** 2, dim=-1)
    return weights @ V, weights


@mistake(
    "integer-root",
    caught_by="scale",
    says=N_("√d is cut down to a whole number in yours, so that only square numbers such as 16 and 64 come out right."),
)
def integer_root(Q, K, V):
    weights = F.softmax(Q @ K.transpose(-2, -1) / int(Q.shape[-1] ** 0.5), dim=-1)
    return weights @ V, weights


@mistake(
    "floor-division",
    caught_by="weights",
    says=N_("Your scores are cut down to whole numbers, as `//` does it: and whole numbers have no gradients."),
)
def floor_division(Q, K, V):
    weights = F.softmax(Q @ K.transpose(-2, -1) // Q.shape[-1] ** 0.5, dim=-1)
    return weights @ V, weights


@mistake(
    "root-of-the-quotient",
    caught_by="rows_sum_to_one",
    says=N_("You take the root of the scores as well as of d: negative scores become NaN. Look at the brackets."),
)
def root_of_the_quotient(Q, K, V):
    weights = F.softmax((Q @ K.transpose(-2, -1) / Q.shape[-1]) ** 0.5, dim=-1)
    return weights @ V, weights


@mistake(
    "scale-by-number-of-keys",
    caught_by="scale",
    says=N_(
        "You divide by the root of the number of keys. A longer sentence doesn't make a single dot product "
        "any larger: it is d, the width of one key, that counts."
    ),
)
def scale_by_number_of_keys(Q, K, V):
    weights = F.softmax(Q @ K.transpose(-2, -1) / K.shape[-2] ** 0.5, dim=-1)
    return weights @ V, weights


@mistake(
    "scale-by-number-of-queries",
    caught_by="scale",
    says=N_("You divide by the root of the number of queries. It is d, the width of one query, that counts."),
)
def scale_by_number_of_queries(Q, K, V):
    weights = F.softmax(Q @ K.transpose(-2, -1) / Q.shape[-2] ** 0.5, dim=-1)
    return weights @ V, weights


@mistake(
    "scale-by-length",
    caught_by="scale",
    says=N_(
        "You divide by the number of keys. A longer sentence doesn't make a single dot product any larger: "
        "it is the root of d, the width of one key, that counts."
    ),
)
def scale_by_length(Q, K, V):
    weights = F.softmax(Q @ K.transpose(-2, -1) / K.shape[-2], dim=-1)
    return weights @ V, weights


@mistake(
    "scale-by-value-width",
    caught_by="scale",
    says=N_(
        "You divide by the root of the width of a value. The dot products are of queries and keys, and it is "
        "their width that counts."
    ),
)
def scale_by_value_width(Q, K, V):
    weights = F.softmax(Q @ K.transpose(-2, -1) / V.shape[-1] ** 0.5, dim=-1)
    return weights @ V, weights


@mistake(
    "scale-by-first-axis",
    caught_by="scale",
    says=N_(
        "You divide by the root of the size of the first axis, which is the number of sentences for a batch. "
        "It is the last axis, d, that counts."
    ),
)
def scale_by_first_axis(Q, K, V):
    weights = F.softmax(Q @ K.transpose(-2, -1) / Q.shape[0] ** 0.5, dim=-1)
    return weights @ V, weights


@mistake(
    "scale-by-number-of-numbers",
    caught_by="scale",
    says=N_(
        "You divide by the root of how many numbers K holds altogether. Each dot product has d terms, and it "
        "is d alone that counts."
    ),
)
def scale_by_number_of_numbers(Q, K, V):
    weights = F.softmax(Q @ K.transpose(-2, -1) / K.numel() ** 0.5, dim=-1)
    return weights @ V, weights


@mistake(
    "scale-after-softmax",
    caught_by="rows_sum_to_one",
    says=N_("You divide by √d after the softmax, so that your rows sum to 1/√d. The scores are what is to be scaled."),
)
def scale_after_softmax(Q, K, V):
    weights = F.softmax(Q @ K.transpose(-2, -1), dim=-1) / Q.shape[-1] ** 0.5
    return weights @ V, weights


@mistake(
    "scaled-before-and-after",
    caught_by="rows_sum_to_one",
    says=N_("You scale the scores, and then the weights again: your rows sum to 1/√d."),
)
def scaled_before_and_after(Q, K, V):
    weights = F.softmax(scaled_scores(Q, K), dim=-1) / Q.shape[-1] ** 0.5
    return weights @ V, weights


@mistake(
    "divided-output",
    caught_by="output",
    says=N_(
        "Your weights are right, but you divide the output by √d. Once the scores are scaled, nothing is left to scale."
    ),
)
def divided_output(Q, K, V):
    weights = F.softmax(scaled_scores(Q, K), dim=-1)
    return weights @ V / Q.shape[-1] ** 0.5, weights


# Who looks at whom


@mistake(
    "keys-not-transposed",
    caught_by="shapes",
    says=N_(
        "You multiply Q by K as it stands. Every query is to meet every key: write down both shapes, and see "
        "which two numbers have to be equal."
    ),
)
def keys_not_transposed(Q, K, V):
    weights = F.softmax(Q @ K / Q.shape[-1] ** 0.5, dim=-1)
    return weights @ V, weights


@mistake(
    "all-axes-reversed",
    caught_by="batch_independence",
    says=N_(
        "All axes of K are turned round, as `.T` does it. For one sentence that is what you want; for a batch it moves "
        "the batch axis to the end. Only the last two axes should change places."
    ),
)
def all_axes_reversed(Q, K, V):
    weights = F.softmax(Q @ K.T / Q.shape[-1] ** 0.5, dim=-1)
    return weights @ V, weights


@mistake(
    "keys-reshaped",
    caught_by="scale",
    says=N_(
        "K becomes (d, Tk) without its axes changing places, as by a reshape: the numbers keep their order, so that "
        "keys are cut up and glued together anew."
    ),
)
def keys_reshaped(Q, K, V):
    flat = K.reshape(*K.shape[:-2], K.shape[-1], K.shape[-2])
    weights = F.softmax(Q @ flat / Q.shape[-1] ** 0.5, dim=-1)
    return weights @ V, weights


@mistake(
    "scores-transposed",
    caught_by="shapes",
    says=N_(
        "Your scores are K Qᵀ: Q and K have changed places, so that rows stand for keys. They should stand "
        "for the queries, since it is they who look."
    ),
)
def scores_transposed(Q, K, V):
    weights = F.softmax(K @ Q.transpose(-2, -1) / Q.shape[-1] ** 0.5, dim=-1)
    return weights @ V, weights


@mistake(
    "queries-alone",
    caught_by="shapes",
    says=N_("Your scores are Q Qᵀ: the queries look at one another, and the keys are never asked."),
)
def queries_alone(Q, K, V):
    weights = F.softmax(scaled_scores(Q, Q), dim=-1)
    return weights @ V, weights


@mistake(
    "sums-multiplied",
    caught_by="scale",
    says=N_(
        "Each query and each key is added up on its own and the sums are multiplied, as by an einsum whose last two "
        "letters differ. A dot product multiplies place by place first."
    ),
)
def sums_multiplied(Q, K, V):
    weights = F.softmax(torch.einsum("...qd,...ke->...qk", Q, K) / Q.shape[-1] ** 0.5, dim=-1)
    return weights @ V, weights


@mistake(
    "cosine",
    caught_by="weights",
    says=N_(
        "You compare queries and keys by the angle between them alone: their lengths are divided out. "
        "Attention takes the dot product as it is."
    ),
)
def cosine(Q, K, V):
    weights = F.softmax(scaled_scores(F.normalize(Q, dim=-1), F.normalize(K, dim=-1)), dim=-1)
    return weights @ V, weights


@mistake(
    "distance",
    caught_by="weights",
    says=N_("You score by the distance between query and key. Attention scores by their dot product."),
)
def distance(Q, K, V):
    apart = (Q.unsqueeze(-2) - K.unsqueeze(-3)).square().sum(-1)
    weights = F.softmax(-apart / Q.shape[-1] ** 0.5, dim=-1)
    return weights @ V, weights


@mistake(
    "causal",
    caught_by="weights",
    says=N_(
        "Your queries see only the keys at their own place and before. Nobody asked for a causal mask here: "
        "every query may look at every key."
    ),
)
def causal(Q, K, V):
    scores = scaled_scores(Q, K)
    future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    weights = F.softmax(scores.masked_fill(future, float("-inf")), dim=-1)
    return weights @ V, weights


@mistake(
    "dropout",
    caught_by="hygiene",
    says=N_(
        "Your weights go through dropout on every call, so that the same call gives different results. "
        "Nothing is random in attention itself."
    ),
)
def dropout(Q, K, V):
    weights = F.dropout(F.softmax(scaled_scores(Q, K), dim=-1), p=0.1)
    return weights @ V, weights


# What is handed over


@mistake(
    "keys-as-values",
    caught_by="shapes",
    says=N_("You average the keys. What a query takes home are the values: keys are there to be found by."),
)
def keys_as_values(Q, K, V):
    weights = F.softmax(scaled_scores(Q, K), dim=-1)
    return weights @ K, weights


@mistake(
    "output-from-scores",
    caught_by="output",
    says=N_("Your weights are right, but the output is made with the scores from before the softmax."),
)
def output_from_scores(Q, K, V):
    scores = scaled_scores(Q, K)
    return scores @ V, F.softmax(scores, dim=-1)


@mistake(
    "output-from-exponentials",
    caught_by="output",
    says=N_(
        "Your weights are right, but the output is made with the exponentials from before they were divided "
        "by their sum."
    ),
)
def output_from_exponentials(Q, K, V):
    exponentials = torch.exp(scaled_scores(Q, K))
    return exponentials @ V, exponentials / exponentials.sum(-1, keepdim=True)


@mistake(
    "weights-transposed-for-output",
    caught_by="shapes",
    says=N_(
        "You transpose the weights before you multiply them by V. Row i of the weights belongs to query i, "
        "and makes row i of the output."
    ),
)
def weights_transposed_for_output(Q, K, V):
    weights = F.softmax(scaled_scores(Q, K), dim=-1)
    return weights.transpose(-2, -1) @ V, weights


# Batches and sizes


@mistake(
    "first-sentence-for-all",
    caught_by="batch_independence",
    says=N_("Every sentence of the batch gets the first sentence's weights."),
)
def first_sentence_for_all(Q, K, V):
    weights = F.softmax(scaled_scores(Q, K), dim=-1)
    if weights.dim() > 2:
        weights = weights[:1].expand(weights.shape)
    return weights @ V, weights


@mistake(
    "batch-mean",
    caught_by="batch_independence",
    says=N_("Your scores are averaged over the batch before the softmax, so that sentences influence one another."),
)
def batch_mean(Q, K, V):
    scores = scaled_scores(Q, K)
    if scores.dim() > 2:
        scores = scores.mean(0, keepdim=True).expand(scores.shape)
    weights = F.softmax(scores, dim=-1)
    return weights @ V, weights


@mistake(
    "batch-glued-together",
    caught_by="shapes",
    says=N_(
        "You glue all sentences into one long one, so that the queries of one sentence look at the words of another."
    ),
)
def batch_glued_together(Q, K, V):
    weights = F.softmax(scaled_scores(Q.reshape(-1, Q.shape[-1]), K.reshape(-1, K.shape[-1])), dim=-1)
    return (weights @ V.reshape(-1, V.shape[-1])).view(*Q.shape[:-1], -1), weights


@mistake(
    "three-axes-only",
    caught_by="leading_axes",
    says=N_(
        "Your function wants exactly three axes: for example, because sizes are unpacked into three names. One "
        "sentence alone, or a batch of heads, has two or four."
    ),
)
def three_axes_only(Q, K, V):
    _, _, d = Q.shape
    weights = F.softmax(torch.bmm(Q, K.transpose(1, 2)) / d**0.5, dim=-1)
    return torch.bmm(weights, V), weights


@mistake(
    "two-axes-only",
    caught_by="batch_independence",
    says=N_(
        "Your function wants exactly two axes: one sentence at a time. A batch has an axis in front of these two, and "
        "a batch of heads has two."
    ),
)
def two_axes_only(Q, K, V):
    _, d = Q.shape
    weights = F.softmax(torch.mm(Q, K.t()) / d**0.5, dim=-1)
    return torch.mm(weights, V), weights


@mistake(
    "axes-1-and-2-swapped",
    caught_by="leading_axes",
    says=N_(
        "You swap axes 1 and 2 of K. These are the last two for a batch of sentences only: count from the "
        "back, and it is right for any number of axes."
    ),
)
def axes_1_and_2_swapped(Q, K, V):
    weights = F.softmax(Q @ K.transpose(1, 2) / Q.shape[-1] ** 0.5, dim=-1)
    return weights @ V, weights


@mistake(
    "squeezed",
    caught_by="batch_independence",
    says=N_(
        "Your results lose every axis of size 1, as squeeze() does: a batch of one sentence, or a sentence of one "
        "word, has an axis too few."
    ),
)
def squeezed(Q, K, V):
    weights = F.softmax(scaled_scores(Q, K), dim=-1)
    return (weights @ V).squeeze(), weights.squeeze()


@mistake(
    "flattened-with-view",
    caught_by="leading_axes",
    says=N_(
        "`view` needs numbers that lie in memory in the order of the axes, and raises an error after a "
        "transpose. Ask for `reshape`, or leave the leading axes as they are."
    ),
)
def flattened_with_view(Q, K, V):
    leading = Q.shape[:-2]
    q, k, v = (x.view(-1, *x.shape[-2:]) for x in (Q, K, V))
    weights = F.softmax(scaled_scores(q, k), dim=-1)
    return (weights @ v).view(*leading, *(weights @ v).shape[-2:]), weights.view(*leading, *weights.shape[-2:])


# Types, inputs, gradients


@mistake(
    "float32-inside",
    caught_by="dtypes",
    says=N_("Your results are float32 whatever the inputs are. They should have the dtype of the inputs."),
)
def float32_inside(Q, K, V):
    weights = F.softmax(scaled_scores(Q.float(), K.float()), dim=-1)
    return weights @ V.float(), weights


@mistake(
    "weights-in-float32",
    caught_by="dtypes",
    says=N_(
        "Your output has the dtype of the inputs, but the weights come back as float32: for example, softmax(..., "
        "dtype=torch.float32) needs the way back as well."
    ),
)
def weights_in_float32(Q, K, V):
    weights = F.softmax(scaled_scores(Q, K), dim=-1, dtype=torch.float32)
    return weights.to(V.dtype) @ V, weights


@mistake(
    "root-of-a-1d-tensor",
    caught_by="dtypes",
    says=N_(
        "With bfloat16 inputs your scores become float32, and then do not fit V: for example, `torch.Tensor([d])` is "
        "float32 and has an axis, which is enough to change them. A plain Python root of d has no dtype to spread."
    ),
)
def root_of_a_1d_tensor(Q, K, V):
    weights = F.softmax(Q @ K.transpose(-2, -1) / torch.sqrt(torch.Tensor([Q.shape[-1]])), dim=-1)
    return weights @ V, weights


@mistake(
    "new-tensor-in-float32",
    caught_by="dtypes",
    says=N_(
        "Your weights are float32 whatever the inputs are: for example, because they are written into a new tensor. "
        "Make it with the dtype and device of an input."
    ),
)
def new_tensor_in_float32(Q, K, V):
    weights = torch.zeros(*Q.shape[:-1], K.shape[-2])
    weights[...] = F.softmax(scaled_scores(Q, K), dim=-1)
    return weights @ V, weights


@mistake(
    "scaled-in-place",
    caught_by="hygiene",
    says=N_("The caller's Q is scaled by your function, as `/=` does it in place. Make a new tensor instead."),
)
def scaled_in_place(Q, K, V):
    Q /= Q.shape[-1] ** 0.5
    weights = F.softmax(Q @ K.transpose(-2, -1), dim=-1)
    return weights @ V, weights


@mistake(
    "detached-weights",
    caught_by="gradients",
    says=N_(
        "The weights that you return are detached, while the output is not: a loss on the weights teaches nothing."
    ),
)
def detached_weights(Q, K, V):
    weights = F.softmax(scaled_scores(Q, K), dim=-1)
    return weights @ V, weights.detach()


@mistake(
    "detached-scores",
    caught_by="gradients",
    says=N_("Your scores are cut off from Q and K (detach, .data, torch.tensor or no_grad), so that only V can learn."),
)
def detached_scores(Q, K, V):
    weights = F.softmax(scaled_scores(Q, K).detach(), dim=-1)
    return weights @ V, weights


@mistake(
    "detached-queries",
    caught_by="gradients",
    says=N_("Your scores are cut off from Q (detach or .data), so that the queries cannot learn."),
)
def detached_queries(Q, K, V):
    weights = F.softmax(scaled_scores(Q.detach(), K), dim=-1)
    return weights @ V, weights


@mistake(
    "detached-keys",
    caught_by="gradients",
    says=N_("Your scores are cut off from K (detach or .data), so that the keys cannot learn."),
)
def detached_keys(Q, K, V):
    weights = F.softmax(scaled_scores(Q, K.detach()), dim=-1)
    return weights @ V, weights


@mistake(
    "detached-values",
    caught_by="gradients",
    says=N_("Your output is cut off from V (detach or .data), so that the values cannot learn."),
)
def detached_values(Q, K, V):
    weights = F.softmax(scaled_scores(Q, K), dim=-1)
    return weights @ V.detach(), weights


@mistake(
    "no-gradients",
    caught_by="gradients",
    says=N_(
        "Nothing that you return carries gradients (no_grad, detach, .data or a copy through torch.tensor): "
        "nothing could learn from it."
    ),
)
def no_gradients(Q, K, V):
    with torch.no_grad():
        weights = F.softmax(scaled_scores(Q, K), dim=-1)
        return weights @ V, weights


@mistake(
    "through-numpy",
    caught_by="gradients",
    says=N_(
        "You go through numpy, which knows nothing of gradients: it refuses tensors that need them. "
        "Everything here can be done in torch."
    ),
)
def through_numpy(Q, K, V):
    q, k, v = Q.numpy(), K.numpy(), V.numpy()
    scores = q @ numpy.swapaxes(k, -2, -1) / q.shape[-1] ** 0.5
    exponentials = numpy.exp(scores - scores.max(-1, keepdims=True))
    weights = exponentials / exponentials.sum(-1, keepdims=True)
    return torch.from_numpy(weights @ v), torch.from_numpy(weights)


# What comes back


@mistake(
    "output-alone",
    caught_by="shapes",
    says=N_("You return the output alone. The weights are due as well: (output, weights)."),
)
def output_alone(Q, K, V):
    return F.softmax(scaled_scores(Q, K), dim=-1) @ V


@mistake(
    "results-swapped",
    caught_by="shapes",
    says=N_("You return (weights, output). The order is (output, weights)."),
)
def results_swapped(Q, K, V):
    weights = F.softmax(scaled_scores(Q, K), dim=-1)
    return weights, weights @ V


@mistake(
    "three-results",
    caught_by="shapes",
    says=N_("You return the scores as a third result. Two are due: (output, weights)."),
)
def three_results(Q, K, V):
    scores = scaled_scores(Q, K)
    weights = F.softmax(scores, dim=-1)
    return weights @ V, weights, scores


@mistake(
    "no-return",
    caught_by="shapes",
    says=N_("Your function returns None: does every way through it end with a `return`?"),
)
def no_return(Q, K, V):
    weights = F.softmax(scaled_scores(Q, K), dim=-1)
    output = weights @ V  # noqa: F841 - computed, and never returned


@mistake(
    "numpy-results",
    caught_by="shapes",
    says=N_("You return numpy arrays. Tensors are due, with their gradients."),
)
def numpy_results(Q, K, V):
    weights = F.softmax(scaled_scores(Q, K), dim=-1)
    return (weights @ V).detach().numpy(), weights.detach().numpy()


@mistake(
    "yields",
    caught_by="shapes",
    says=N_("Your function yields its results one by one, which makes it a generator. Return both at once."),
)
def yields(Q, K, V):
    weights = F.softmax(scaled_scores(Q, K), dim=-1)
    yield weights @ V
    yield weights


@mistake(
    "transposed-weights-returned",
    caught_by="shapes",
    says=N_(
        "Your output is right, but you return the weights transposed: rows should stand for queries, columns for keys."
    ),
)
def transposed_weights_returned(Q, K, V):
    weights = F.softmax(scaled_scores(Q, K), dim=-1)
    return weights @ V, weights.transpose(-2, -1)


@mistake(
    "weights-averaged",
    caught_by="shapes",
    says=N_("Your weights are averaged over the first axis. Every sentence has weights of its own."),
)
def weights_averaged(Q, K, V):
    weights = F.softmax(scaled_scores(Q, K), dim=-1)
    return weights @ V, weights.mean(0)
