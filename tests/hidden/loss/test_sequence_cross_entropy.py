"""Proves that an answer is the mean cross-entropy of a batch's real words, forwards and backwards.

A loss is one number, in which every slip shows. The checks are cut so that it is paid for once all the same:

- what one word costs is asked first, of a batch of one word;
- how words are put together is then compared with the answer's *own* losses of single words, of the same words without
  padding, or of the same words in other sentences, where the number itself is not the right one: a forgotten minus is
  no matter of padding, and a wrong divisor none of short sentences;
- that ignored places are silent is asked apart from what they do to the mean;
- where something must have no say, words that must have one are asked as well: those in the middle of a sentence that
  is neither the first nor the last. Else a loss of the first word alone, or a count of hits, would be as silent;
- other values of `ignore_index` are compared with the default;
- a batch in which nothing is real stands in checks of its own, forwards and backwards, and in none of the others;
- an answer that takes float32 only is asked in float32, and loses the check on dtypes. A loss in float32 for logits in
  float64 is none the worse: it only has to be floating;
- the last word has `gradients`, which compares with the reference in float64, once all of these numbers are right.

All sizes differ from one another, except where all are equal: a softmax along the wrong axis runs there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F

from autograder.messages import Message
from autograder.suite import (
    N_,
    Draws,
    Student,
    StudentRaised,
    ask,
    ask_exactly,
    check,
    expect_close,
    expect_finite,
    expect_inputs_unchanged,
    expect_same_number,
    fail,
    number_text,
    one_number,
    results,
    same_number,
    with_last,
)

B, T, V = 3, 6, 5
IGNORED = -100
MORE = 10
"""Pads that are added."""
SURE = 60
"""A word whose label stands so far above the other classes costs exactly 0, in float64 as well."""


AXES = (N_("position"), N_("class"))

Batch = tuple[torch.Tensor, torch.Tensor]


def reference(logits: torch.Tensor, targets: torch.Tensor, ignore_index: int = IGNORED) -> torch.Tensor:
    """The mean of torch's own cross-entropy, over the real words alone, all in one row."""
    real = targets != ignore_index
    return F.cross_entropy(logits[real], targets[real])


def draw(rng: Draws, real: torch.Tensor, v: int = V, ignore_index: int = IGNORED) -> Batch:
    """Logits that are not saturated, and targets that are real where `real` says so.

    Every class that may be a label occurs, class 0 among them, about as often as the others.
    """
    classes = torch.tensor([label for label in range(v) if label != ignore_index])
    count = int(real.sum())
    labels = classes[torch.arange(count)[rng.normal(count).argsort()] % len(classes)]
    targets = torch.full(real.shape, ignore_index).masked_scatter(real, labels)
    return rng.normal(*real.shape, v), targets


def all_real(b: int, t: int) -> torch.Tensor:
    """(b, t): no padding."""
    return torch.ones(b, t, dtype=torch.bool)


def in_front(lengths: Sequence[int] | torch.Tensor, t: int = T) -> torch.Tensor:
    """(B, t): so many words, and the padding behind them."""
    return torch.arange(t) < torch.as_tensor(lengths).unsqueeze(1)


def ragged(rng: Draws) -> torch.Tensor:
    """(B, T): each sentence has another number of words."""
    return in_front(rng.shuffled((1, 3, 5)))


def long_in_the_middle(rng: Draws) -> torch.Tensor:
    """(B, T): each sentence has another number of words, and the one between two others has the most."""
    short, other = rng.shuffled((1, 3)).tolist()
    return in_front((short, 5, other))


def scattered(rng: Draws, b: int = B, t: int = T, words: int = 3) -> torch.Tensor:
    """(b, t): so many real words in every sentence, and in each an ignored place before a real one."""
    while True:
        real = rng.normal(b, t).argsort(-1).argsort(-1) < words
        if not (real == in_front([words] * b, t)).all(-1).any():
            return real


def with_inner_words(rng: Draws, shape: Callable[[Draws], torch.Tensor], ignore_index: int = IGNORED) -> Batch:
    """A batch that asks for its inner words: none is guessed, some is of another class than 0, or has a neighbour."""
    while True:
        logits, targets = draw(rng, shape(rng), ignore_index=ignore_index)
        inner, real = inner_words(targets, ignore_index), targets != ignore_index
        missed = logits.argmax(-1) != targets
        if missed[inner].all() and targets[inner].any() and (inner & real.roll(-1, 1)).any():
            return logits, targets


def inner_words(targets: torch.Tensor, ignore_index: int = IGNORED) -> torch.Tensor:
    """(B, T), True for the real words of the sentences between the first and the last, without their first and last."""
    real = targets != ignore_index
    count = real.cumsum(1)
    inner = real & (count > 1) & (count < count[:, -1:])
    inner[[0, -1]] = False
    return inner


def expect_inner_words_to_count(
    student: Student, logits: torch.Tensor, targets: torch.Tensor, loss: torch.Tensor, ignore_index: int = IGNORED
) -> None:
    """The loss is another where inner words are missed by more; a count of hits is not."""
    inner = inner_words(targets, ignore_index)
    own = torch.arange(logits.shape[-1]) == targets.unsqueeze(-1)
    # All classes of a word are moved: whoever reads the logits in another order sees some of them at a real place.
    missed = logits + (0.5 - own.to(logits.dtype)) * inner.unsqueeze(-1)
    if same_number(loss_of(student, missed, targets, ignore_index), loss):
        b, position = inner.nonzero()[0].tolist()
        fail(
            N_(
                "your loss stays {seen} where words in the middle of sentence {b} (such as the one at position "
                "{position}) are missed by more than before"
            ),
            seen=number_text(loss),
            b=b,
            position=position,
        )


def loss_of(student: Student, logits: torch.Tensor, targets: torch.Tensor, ignore_index: int = IGNORED) -> torch.Tensor:
    """The student's loss as a tensor without axes. Copies are passed: a change does not pile up.

    A plain number, or a tensor with one entry, will do: the check on dtypes is stricter.
    """
    if ignore_index == IGNORED:
        return one_number(with_last(ask_exactly, student, logits, targets, last=IGNORED))
    return one_number(ask_exactly(student, logits, targets, ignore_index))


EXPECTED = N_("your loss of {words} in a batch of {b} sentences: {seen}, expected {expected}")
ONE_BY_ONE = N_(
    "your loss of {words} in a batch of {b} sentences: {seen}, while your own losses of the same words, fed one by "
    "one, have the mean {expected}"
)
ALONE = N_(
    "your loss of {words} and {ignored} ignored places: {seen}, while your own loss of the same words alone, without "
    "ignored places, is {expected}"
)
REARRANGED = N_(
    "your loss of sentences of {lengths} words: {seen}, while your own loss of the same words in sentences of {n} "
    "words each is {expected}"
)


def _words(count: int) -> Message:
    return Message(N_("{count} words"), {"count": count})


@check(
    points=0.5,
    title=N_("One number comes back for the whole batch, and it depends on the labels"),
    hint=N_("Every word has a loss, and the batch has one: what is left to do with the losses of the words?"),
)
def test_one_number(student: Student, rng: Draws) -> None:
    # Equal sizes first: there nearly every slip runs, and shows which one it is.
    loss_of(student, *draw(rng, all_real(4, 4), 4))
    logits, targets = draw(rng, all_real(B, T))
    loss = loss_of(student, logits, targets)
    # Not even a count of hits is the same for all of these: V does not divide the number of words.
    if all(same_number(loss_of(student, logits, (targets + other) % V), loss) for other in range(1, V)):
        fail(N_("your loss is {seen}, whatever the labels are"), says_all=True, seen=number_text(loss))


@check(
    points=1,
    title=N_("A word's loss is minus the logarithm of the share that its label gets"),
    hint=N_(
        "Take one word and the logits 0, 0: both classes get one half, and -log(1/2) is 0.693. What does yours give, "
        "and after which step does it part from this?"
    ),
    needs="one_number",
)
def test_one_word(student: Student, rng: Draws) -> None:
    for v, ends in ((V, (torch.argmin, torch.argmax)), (3, (torch.argmin,))):
        logits = one_word(rng, v)
        for end in ends:
            targets = end(logits, -1)
            expect_same_number(
                loss_of(student, logits, targets),
                reference(logits, targets),
                N_("your loss of a single word, whose label is class {label} of {v}: {seen}, expected {expected}"),
                label=int(targets),
                v=v,
            )


def one_word(rng: Draws, v: int) -> torch.Tensor:
    """(1, 1, v): neither the least likely class nor the likeliest is class 0, which is asked elsewhere."""
    while True:
        logits = rng.normal(1, 1, v)
        if logits.argmin() and logits.argmax():
            return logits


@check(
    points=1,
    title=N_("Without padding the loss is the mean over all words"),
    hint=N_(
        "Compute the loss of each word of a batch (2, 3, 4) by itself, and average. Where do the logits of one word "
        "lie, along which axis? And by what do you divide?"
    ),
    needs="one_number",
)
def test_every_word(student: Student, rng: Draws) -> None:
    for b, t, v in ((3, 3, 3), (2, 3, 4)):
        logits, targets = draw(rng, all_real(b, t), v)
        if b < t:
            logits[0, 1, targets[0, 1]] += SURE  # it costs exactly 0, and counts all the same
        seen, wanted, says = loss_of(student, logits, targets), reference(logits, targets), EXPECTED
        if not same_number(seen, wanted):
            # What one word costs was paid for elsewhere: what counts here is what the batch makes of it.
            words = _one_by_one(student, logits, targets)
            if len({number_text(word) for word in words}) > 1:
                wanted, says = torch.stack(words).mean(), ONE_BY_ONE
        expect_same_number(seen, wanted, says, words=_words(b * t), b=b)


def _one_by_one(student: Student, logits: torch.Tensor, targets: torch.Tensor) -> list[torch.Tensor]:
    """The student's losses of single words; none where they can't be had."""
    try:
        return [
            loss_of(student, logits[b : b + 1, t : t + 1], targets[b : b + 1, t : t + 1]).detach().double()
            for b in range(len(targets))
            for t in range(targets.shape[1])
        ]
    except StudentRaised:
        return []


@check(
    points=0.5,
    title=N_("Logits at ignored places have no say and a gradient of exactly 0; those of real words have a say"),
    hint=N_(
        "Change the logits where the label is ignore_index, and look at the loss. Which of your steps still sees these "
        "places: a softmax over several places, or a look-up of their label? Then change those of one real word after "
        "the other: does each of them move the loss?"
    ),
    needs="one_number",
)
def test_ignored_places(student: Student, rng: Draws) -> None:
    logits, targets = with_inner_words(rng, long_in_the_middle)
    real = targets != IGNORED
    loss = loss_of(student, logits, targets)
    if not loss.isfinite():
        fail(N_("your loss of a batch with ignored places: {seen}"), seen=number_text(loss))
    other = torch.where(real.unsqueeze(-1), logits, 3 * rng.normal(*logits.shape))
    expect_same_number(
        loss_of(student, other, targets),
        loss,
        N_("other logits at ignored places turn your loss from {expected} into {seen}, expected no change"),
    )
    expect_inner_words_to_count(student, logits, targets, loss)
    _expect_silence(student, logits, targets, ~real)


def _expect_silence(student: Student, logits: torch.Tensor, targets: torch.Tensor, ignored: torch.Tensor) -> None:
    """Gradients at ignored places are exactly 0, where there are any: whether there are is another check's business."""
    gradient = _gradient_of(student, logits, targets)
    if gradient is None:
        return
    wrong = (gradient != 0).any(-1) & ignored
    if wrong.any():
        b, position = wrong.nonzero()[0].tolist()
        fail(
            N_(
                "the gradient of your loss at sentence {b}, position {position} has an entry {seen}, expected "
                "exactly 0, since the label there is ignored ({count} of {total} ignored places)"
            ),
            b=b,
            position=position,
            seen=f"{float(gradient[b, position].abs().max()):.3g}",
            count=int(wrong.sum()),
            total=int(ignored.sum()),
        )


def _gradient_of(student: Student, logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor | None:
    """The gradient with respect to the logits; None where there is none, or where it can't be had."""
    logits.requires_grad_()
    try:
        loss = loss_of(student, logits, targets)
    except StudentRaised:
        return None
    return _gradient(loss, logits) if loss.requires_grad else None


def _gradient(loss: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
    (gradient,) = torch.autograd.grad(loss, [logits], allow_unused=True)
    return torch.zeros_like(logits) if gradient is None else gradient


@check(
    points=1,
    title=N_("Ignored places do not count in the mean, behind the words and among them"),
    hint=N_(
        "Take a batch of 2 words and 2 ignored places, then the same with 10 more of these. Should the loss get "
        "smaller? By what number do you divide?"
    ),
    needs="ignored_places",
)
def test_padding(student: Student, rng: Draws) -> None:
    # As many words in each sentence: how sentences of different lengths are weighed is asked below.
    for real, v in (
        (in_front([2] * 4, 4), 4),
        (in_front([2] * B, 2 + MORE), V),
        (scattered(rng), V),
    ):
        logits, targets = draw(rng, real, v)
        seen, wanted = loss_of(student, logits, targets), reference(logits, targets)
        if not same_number(seen, wanted):
            # As many sentences as before: that is asked elsewhere, too.
            words = targets != IGNORED
            wanted = loss_of(student, logits[words].view(len(real), -1, v), targets[words].view(len(real), -1))
        count = int(real.sum())
        expect_same_number(seen, wanted, ALONE, words=_words(count), ignored=real.numel() - count)


@check(
    points=1,
    title=N_("Every real word of the batch weighs the same, in short sentences and in long ones"),
    hint=N_(
        "A sentence of one word and a sentence of five: how much of the mean is the single word's, if you average the "
        "sentences first? And how much should be?"
    ),
    needs="ignored_places",
)
def test_batch_mean(student: Student, rng: Draws) -> None:
    for lengths, n, t, v in ((rng.shuffled((1, 2, 2, 3)), 2, 4, 4), (rng.shuffled((1, 3, 5)), 3, T, V)):
        logits, targets = draw(rng, in_front(lengths, t), v)
        seen, wanted, says = loss_of(student, logits, targets), reference(logits, targets), EXPECTED
        if not same_number(seen, wanted):
            wanted, says = loss_of(student, *_in_equal_sentences(logits, targets, n)), REARRANGED
        texts = {"lengths": ", ".join(map(str, lengths.tolist())), "n": n, "b": len(lengths)}
        expect_same_number(seen, wanted, says, words=_words(int(lengths.sum())), **texts)


def _in_equal_sentences(logits: torch.Tensor, targets: torch.Tensor, n: int) -> Batch:
    """The same words in a batch of the same size, n in each sentence."""
    before, after = targets != IGNORED, in_front([n] * len(targets), targets.shape[1])
    moved = torch.zeros_like(logits).masked_scatter(after.unsqueeze(-1), logits[before])
    return moved, torch.full_like(targets, IGNORED).masked_scatter(after, targets[before])


@check(
    points=1.5,
    title=N_("What ignore_index says is ignored: -100 by default, -1, 0, a number that is a class as well"),
    hint=N_(
        "Mark the padding with -1 instead of -100 and say so: does the loss stay the same? And with 0, in a batch "
        "where no word is of class 0? Look for a number in your code that should be ignore_index."
    ),
    needs="one_number",
)
def test_ignore_index(student: Student, rng: Draws) -> None:
    logits, targets = draw(rng, scattered(rng))
    by_default = one_number(ask_exactly(student, logits, targets))
    says = N_("your loss without ignore_index: {seen}; with ignore_index = -100, which is the default: {expected}")
    _expect_as_with_the_default(student, by_default, logits, targets, says)
    logits, targets = draw(rng, scattered(rng), ignore_index=-1)
    by_name = one_number(ask_exactly(student, logits, targets, ignore_index=-1))
    _expect_as_with_the_default(student, by_name, logits, targets, OTHER_MARK, -1)
    for ignore_index in (V - 2, 0):
        logits, targets = with_inner_words(rng, scattered, ignore_index)
        loss = loss_of(student, logits, targets, ignore_index)
        _expect_as_with_the_default(student, loss, logits, targets, OTHER_MARK, ignore_index)
    expect_inner_words_to_count(student, logits, targets, loss, ignore_index)


OTHER_MARK = N_(
    "your loss with ignore_index = {ignore_index}: {seen}; the same places ignored by -100, the default: {expected}"
)


def _expect_as_with_the_default(
    student: Student,
    seen: torch.Tensor,
    logits: torch.Tensor,
    targets: torch.Tensor,
    says: str,
    ignore_index: int = IGNORED,
) -> None:
    """The right loss, or the answer's own where the same places are marked by the default."""
    wanted = reference(logits, targets, ignore_index)
    if not same_number(seen, wanted):
        wanted = loss_of(student, logits, torch.where(targets == ignore_index, IGNORED, targets))
    expect_same_number(seen, wanted, says, ignore_index=ignore_index)


@check(
    points=1,
    title=N_("Logits of 10000 give a finite loss, the right one, and finite gradients"),
    hint=N_(
        "What is e to the power of 1000 on a computer, and what is the logarithm of a share that was rounded to 0? "
        "All logits of a word may be shifted by the same number: which one helps, and is it the same for each word?"
    ),
    needs="one_word",
)
def test_huge_logits(student: Student, rng: Draws) -> None:
    logits = huge(rng)
    targets = logits.topk(3, -1).indices[..., 2]
    first, second = logits[:, :1], logits[:, 1:]
    own = []
    for word, label in ((first, first.argmax(-1)), (first, targets[:, :1]), (second, targets[:, 1:])):
        own.append(loss_of(student, word, label))
        says = N_("your loss of a word with huge logits: {seen}, expected {expected}")
        expect_same_number(own[-1], reference(word, label), says)
    places = torch.tensor([[0, 1], [0, 0]])
    logits, targets = logits[0, places], targets[0, places]
    for dtype in (torch.float64, torch.float32):
        loss = loss_of(student, logits.to(dtype), targets)
        if not loss.isfinite():
            fail(N_("your loss of four words with huge logits: {seen}"), seen=number_text(loss))
        if dtype == torch.float64:
            _expect_all_four_to_count(loss, *own[1:])
    gradient = _gradient_of(student, logits, targets)
    if gradient is not None:
        expect_finite(gradient, N_("gradient for huge logits"), AXES)


def _expect_all_four_to_count(loss: torch.Tensor, one: torch.Tensor, other: torch.Tensor) -> None:
    """The loss is not that of a word, a sentence or a position alone. One word stands at three of four places."""
    if any(same_number(loss, part) for part in (one, other, (one + other) / 2)):
        says = N_(
            "your loss of four words with huge logits: {seen}, while your own loss of three of them is {one} each, and "
            "{other} of the other: not all four count"
        )
        fail(says, seen=number_text(loss), one=number_text(one), other=number_text(other))


def huge(rng: Draws) -> torch.Tensor:
    """(1, 2, V): the largest logit of the first word is 10000, that of the second lies far below; no two are close.

    Class 0 is neither the likeliest nor the third, and to be of the third costs one word far more than the other.
    """
    while True:
        logits = rng.normal(1, 2, V)
        logits = logits * 1e4 / logits.abs().amax(-1, keepdim=True)
        first, second = logits[0]
        apart = logits.sort(-1).values.diff(dim=-1).min() > 500
        top = logits.topk(3, -1)
        costs = top.values[..., 0] - top.values[..., 2]
        unlike = costs.diff().abs() > 500 and top.indices[..., ::2].all()
        if apart and unlike and first.max() > 9999 and second.max() < 8000:
            return logits


@check(
    points=1.5,
    title=N_("Gradients reach the logits, and are those of the mean"),
    hint=N_(
        "Call backward() on the loss and print logits.grad. If it is None, which of your steps leaves the graph? If it "
        "holds other numbers, which of them lets only a part of the gradient through?"
    ),
    needs=("one_word", "every_word", "padding", "batch_mean"),
)
def test_gradients(student: Student, rng: Draws) -> None:
    for real in (all_real(B, T), scattered(rng)):
        logits, targets = draw(rng, real)
        logits.requires_grad_()
        loss = loss_of(student, logits, targets)
        if not loss.requires_grad:
            fail(N_("no gradients flow through your loss: it is a plain number, or the graph is cut on the way to it"))
        seen, wanted = (_gradient(result, logits) for result in (loss, reference(logits, targets)))
        if not seen.any():
            fail(N_("no gradient of your loss arrives at the logits"))
        expect_close(seen, wanted, N_("gradient of the loss with respect to the logits"), AXES)


@check(
    points=1,
    title=N_("Where no label is real, the loss is 0, never NaN"),
    hint=N_("Give it a batch whose labels are all ignore_index. Which two numbers do you divide then?"),
    needs="one_number",
)
def test_nothing_real(student: Student, rng: Draws) -> None:
    for b, t in ((2, 3), (1, 1)):
        loss = loss_of(student, *draw(rng, ~all_real(b, t)))
        if loss != 0:
            fail(N_("your loss of a batch in which every label is ignored: {seen}, expected 0"), seen=number_text(loss))


@check(
    points=0.5,
    title=N_("Where no label is real, backward() does no harm: its gradients are 0, or there are none"),
    hint=N_(
        "Call backward() on the loss of a batch whose labels are all ignore_index, and print logits.grad. Training "
        "goes on after such a batch: what may it find there?"
    ),
    needs="nothing_real",
)
def test_nothing_real_gradients(student: Student, rng: Draws) -> None:
    logits, targets = draw(rng, ~all_real(2, 3))
    logits.requires_grad_()
    loss = with_last(ask_exactly, student, logits, targets, last=IGNORED)
    if not isinstance(loss, torch.Tensor):
        fail(
            N_("your loss of a batch in which every label is ignored is a plain number, expected a tensor"),
            says_all=True,
        )
    if not loss.requires_grad:
        return  # no gradients at all: none that could do harm
    gradient = _gradient(one_number(loss), logits)
    expect_close(gradient, torch.zeros_like(gradient), N_("gradient where every label is ignored"), AXES)


@check(
    points=0.5,
    title=N_("A floating tensor without axes comes back, for logits in float32, float64 and bfloat16"),
    hint=N_(
        "Print the loss, its shape and its dtype, for logits of each dtype. Does one of your steps make a new tensor? "
        "Which dtype does it get? Does another one turn the loss into a plain number?"
    ),
    needs="one_number",
)
def test_dtypes(student: Student, rng: Draws) -> None:
    logits, targets = draw(rng, all_real(B, T))
    found = {}
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        (loss,) = results((with_last(ask, student, logits.to(dtype), targets, last=IGNORED),), loss=None)
        if loss.dim():
            fail(N_("the shape of your loss is {seen}, expected no axes at all: ()"), seen=str(tuple(loss.shape)))
        if not loss.is_floating_point():
            fail(N_("the dtype of your loss is {seen}, expected a floating one"), seen=str(loss.dtype)[6:])
        if not loss.isfinite():
            fail(N_("your loss in {dtype}: {seen}"), dtype=str(dtype)[6:], seen=number_text(loss))
        found[dtype] = loss
    says = N_("your loss in float32: {seen}, in float64: {expected}")
    expect_same_number(found[torch.float32].float(), found[torch.float64], says)


@check(
    points=0.5,
    title=N_("Any batch will do: one sentence, one word each, another order, everything twice"),
    hint=N_(
        "Feed the same words as one sentence, and as sentences of one word each. Then feed a batch twice over: should "
        "its mean change?"
    ),
    needs="one_number",
)
def test_any_batch(student: Student, rng: Draws) -> None:
    logits, targets = draw(rng, all_real(1, 4))
    row, column = loss_of(student, logits, targets), loss_of(student, logits.transpose(0, 1), targets.T)
    expect_same_number(
        column, row, N_("your loss of 4 sentences of one word: {seen}, of one sentence of 4: {expected}")
    )
    logits, targets = draw(rng, all_real(B, T))
    loss = loss_of(student, logits, targets)
    twice = loss_of(student, *(each.roll(1, 0).repeat(2, *[1] * (each.dim() - 1)) for each in (logits, targets)))
    says = N_("your loss of the same sentences twice over, in another order: {seen}, once: {expected}")
    expect_same_number(twice, loss, says)
    by_column = loss_of(student, logits.mT.contiguous().mT, targets.T.contiguous().T)
    expect_same_number(
        by_column, loss, N_("your loss of inputs that are stored column by column: {seen}, else: {expected}")
    )


@check(
    points=0.5,
    title=N_("The logits and the targets stay as they were, and the same call gives the same again"),
    hint=N_(
        "Print logits and targets before and after the call. Which of your steps writes into a tensor that it was "
        "given, or draws random numbers?"
    ),
    needs="ignored_places",
)
def test_hygiene(student: Student, rng: Draws) -> None:
    logits, targets = draw(rng, scattered(rng))
    logits = logits.float()
    first = one_number(with_last(student, logits, targets, last=IGNORED))
    _expect_unchanged(student)
    with_last(ask, student, *(x[:2, :3] for x in (logits, targets)), last=IGNORED)
    again = one_number(with_last(student, logits, targets, last=IGNORED))
    expect_same_number(
        again, first, N_("your loss at the second call with the same inputs: {seen}, at the first: {expected}")
    )
    _expect_unchanged(student)


def _expect_unchanged(student: Student) -> None:
    """Over all calls of the exercise so far, those in which nothing is real among them."""
    expect_inputs_unchanged(student.changed_inputs)
