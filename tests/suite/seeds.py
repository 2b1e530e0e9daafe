"""The hidden suites under many seeds: no correct answer may ever fail, no known mistake ever slip through.

    python -m tests.suite.seeds --seeds 200

goes through all suites, in this process's children and without confinement, and prints what does not hold. A mistake
is put through the check that must catch it; under the first few seeds also through all others, and it must then be
told from all mistakes of its suite.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import multiprocessing
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from autograder.course import load_course
from autograder.examiner.diagnosis import find_mistakes
from tests.suite.exam import HIDDEN, Suite, answer_of

Task = tuple[str, str, int, bool]
"""Assignment, exercise, seed, and whether mistakes are to be told apart."""


@dataclass
class Tally:
    """What came of one exercise's suite under all seeds."""

    seeds: int = 0
    seconds: float = 0.0
    problems: int = 0


@cache
def load(assignment: str, exercise: str) -> Suite:
    """A suite, once in each process."""
    return Suite.load(assignment, exercise)


def problems(task: Task) -> tuple[Task, list[str], float]:
    """What does not hold under one seed, and the seconds of processor time that it took."""
    assignment, exercise, seed, telling = task
    started = time.process_time()
    suite = load(assignment, exercise)
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [*_correct(suite, seed), *_mistakes(suite, seed, telling)]
    return task, [f"{exercise}, seed {seed}: {problem}" for problem in found], time.process_time() - started


def _correct(suite: Suite, seed: int) -> Iterator[str]:
    for correct in suite.correct:
        outcome = suite.exam(answer_of(correct, suite.exercise), seed)
        for check, result in outcome.outcomes.items():
            if result == "failed":
                yield f"the correct answer {correct.id} fails {check}: {outcome.messages[check]}"


def _mistakes(suite: Suite, seed: int, telling: bool) -> Iterator[str]:
    for mistake in suite.mistakes:
        outcome = suite.exam(mistake.answer, seed, None if telling else mistake.caught_by)
        if mistake.caught_by not in outcome.failed:
            yield f"{mistake.id} slips through {mistake.caught_by}, which was {outcome.outcomes[mistake.caught_by]}"
        if telling:
            named = [found.id for found in find_mistakes(outcome.calls, suite.mistakes, suite.reference)]
            if named != [mistake.id] and mistake.unnamed_because is None:
                yield f"{mistake.id} can't be told from {', '.join(named) or 'none'}"


def main(arguments: list[str] | None = None) -> int:
    """Go through the suites; 0 where everything holds."""
    parser = argparse.ArgumentParser(prog="python -m tests.suite.seeds", description=__doc__.split("\n")[0])
    parser.add_argument("exercises", nargs="*", help="all of the course, by default")
    parser.add_argument("--seeds", type=int, default=200, help="how many")
    parser.add_argument("--first", type=int, default=1, help="the first of them")
    parser.add_argument("--tell-apart", type=int, default=2, help="under how many of them mistakes are told apart")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args(arguments)
    tasks = list(_tasks(options))
    if not tasks:
        parser.error("the course has no such exercise")
    tallies: dict[str, Tally] = {}
    with multiprocessing.get_context("spawn").Pool(options.processes, _quieten) as pool:
        for (_, exercise, _, _), found, seconds in pool.imap_unordered(problems, tasks):
            tally = tallies.setdefault(exercise, Tally())
            tally.seeds, tally.seconds = tally.seeds + 1, tally.seconds + seconds
            tally.problems += len(found)
            for problem in found:
                print(problem, flush=True)
            if tally.seeds == options.seeds:
                suite = load(*next(task[:2] for task in tasks if task[1] == exercise))
                print(f"{exercise}: {tally.seeds} seeds from {options.first}, {len(suite.correct)} correct answers, "
                      f"{len(suite.mistakes)} known mistakes, {len(suite.checks)} checks: {tally.problems} problems "
                      f"({tally.seconds:.0f} s of processor time)", flush=True)  # fmt: skip
    return 1 if any(tally.problems for tally in tallies.values()) else 0


def _tasks(options: Any) -> Iterator[Task]:
    course = load_course(HIDDEN.parents[1])
    for name in course.assignments:
        for exercise in course.suites(name):
            if not options.exercises or exercise in options.exercises:
                for seed in range(options.first, options.first + options.seeds):
                    yield name, exercise, seed, seed < options.first + options.tell_apart


def _quieten() -> None:
    torch.set_num_threads(1)


if __name__ == "__main__":
    sys.exit(main())
