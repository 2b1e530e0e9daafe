"""Known mistakes and correct answers, read as text."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograder.catalogue import correct_answers, known_mistakes
from autograder.course import Exercise
from autograder.errors import CourseError
from tests.engine import course
from tests.suite.test_clinic import SICK

MISTAKES = '''
"""Docstring."""
import math
from autograder.suite import N_, mistake

def helper(x):
    return math.sqrt(x)

@mistake("root", caught_by="values", says=N_("You take the root."))
def root(x):
    """Mine."""
    return helper(x)

@mistake("random", caught_by="twice", says="Random.", unnamed_because="it is random")
def at_random(x):
    return id(object())
'''
CORRECT = """
from autograder.suite import correct, correct_source

@correct("plain")
def plain(x):
    return x

scripted = correct_source("scripted", "echo = lambda x: x\\n")
"""


@pytest.fixture
def hidden(tmp_path: Path) -> Path:
    (tmp_path / "mistakes_echo.py").write_text(MISTAKES)
    (tmp_path / "correct_echo.py").write_text(CORRECT)
    return tmp_path


def test_a_mistake_becomes_the_cell_of_a_student_who_made_it(hidden: Path) -> None:
    root, random = known_mistakes(hidden, Exercise("echo"))
    assert (root.id, root.caught_by, root.named) == ("root", "values", True)
    assert (random.id, random.named) == ("random", False)
    assert "autograder" not in root.source and "at_random" not in root.source
    names: dict[str, object] = {}
    exec(root.source, names)
    assert names["echo"](16) == 4  # type: ignore[operator]


def test_a_correct_answer_may_be_text(hidden: Path) -> None:
    plain, scripted = correct_answers(hidden, Exercise("echo"))
    assert plain.source.endswith("echo = plain\n")
    assert (scripted.id, scripted.source) == ("scripted", "echo = lambda x: x\n")


def test_a_missing_catalogue_is_named(tmp_path: Path) -> None:
    with pytest.raises(CourseError, match=r"mistakes_echo\.py can't be read"):
        known_mistakes(tmp_path, Exercise("echo"))


def test_the_course_knows_enough_mistakes_and_correct_answers_with_names_of_their_own() -> None:
    enough = {
        "sequences": {"rnn": (12, 8), "pad_sequences": (12, 8), "shapes": (8, 4)},
        "attention": {"project_qkv": (5, 5), "scaled_dot_product_attention": (25, 22)},
        "masking": {"padding_mask": (5, 5), "causal_mask": (5, 5), "masked_attention": (15, 10)},
        "loss": {"ignore_padding": (4, 4), "sequence_cross_entropy": (12, 10), "tagging_loss": (8, 4)},
        "multihead": {"split_heads": (5, 5), "merge_heads": (4, 4), "multi_head_attention": (18, 8)},
        "heads": {"attention_bytes": (10, 6), "positional_encoding": (15, 8), "experiment": (8, 4)},
        "clinic": dict.fromkeys(SICK, (2, 2)),
    }
    counted = [(name, exercise, *least) for name, each in enough.items() for exercise, least in each.items()]
    assert [(name, exercise) for name, exercise, *_ in counted] == [
        (name, exercise) for name in course().assignments for exercise in course().suites(name)
    ]
    for name, exercise, mistakes, correct in counted:
        hidden, exercise = course().hidden_folder(name), course().assignment(name).exercises[exercise]
        found, right = known_mistakes(hidden, exercise), correct_answers(hidden, exercise)
        assert len(found) >= mistakes and len(right) >= correct
        assert len({one.id for one in found}) == len(found)
        assert len({one.id for one in right}) == len(right)
