"""The command line: its options, its help, and what every command does about errors."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

from autograder import __version__, _class_commands, _commands
from autograder.errors import AutograderError

CHECK_CODES = "exit code: 0 all automatic points earned, 1 not all, 2 unusable input, 3 fault of the grader"
INTERRUPTED, READER_GONE = 130, 141  # as a shell reports SIGINT and SIGPIPE


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    options = _parser().parse_args(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):  # a sign that the terminal lacks is no reason to stop
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = cast("Callable[[argparse.Namespace], int]", options.run)(options)
        sys.stdout.flush()
    except AutograderError as fault:
        print(f"autograder: {fault}", file=sys.stderr)
        return fault.exit_code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has gone, as `head` does; closing stdout at the end would complain once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_GONE
    except OSError as fault:  # a folder that may not be written, a full disk
        print(f"autograder: {fault.filename or 'a file'}: {fault.strerror or fault}.", file=sys.stderr)
        return 2
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="autograder",
        description="Check and grade the notebooks of a course.",
        epilog="`autograder COMMAND --help` says what a command prints and what its exit codes mean.",
    )
    parser.add_argument("--version", action="version", version=f"autograder {__version__}")
    parser.add_argument(
        "--course",
        type=Path,
        metavar="DIR",
        help="the folder with course.yml (default: found from here upwards)",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_check(commands)
    _add_grade(commands)
    _add_feedback(commands)
    _add_export(commands)
    _add_release(commands)
    _add_verify(commands)
    _add_doctor(commands)
    for command in commands.choices.values():  # it may also stand behind the command
        command.add_argument("--course", type=Path, default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    return parser


def _add_check(commands: Any) -> None:
    command = commands.add_parser(
        "check",
        help="check notebooks and say what to try next",
        description="Check one or more notebooks against the hidden tests. "
        "Prints a report for each: the points, what is right, and what to try next.",
        epilog=CHECK_CODES + "; with several notebooks, the highest",
    )
    command.add_argument("notebook", nargs="+", type=Path, metavar="NOTEBOOK", help="a notebook file")
    command.add_argument("--assignment", metavar="NAME", help="its assignment (default: recognised from the cells)")
    _add_output(command, "print JSON alone on stdout, one object a line for each notebook")
    command.set_defaults(run=_commands.check)


def _add_grade(commands: Any) -> None:
    command = commands.add_parser(
        "grade",
        help="grade the submissions of a class, into the gradebook",
        description="Grade a folder of submissions, DIR/<student>/<assignment>/<assignment>.ipynb, and record the "
        "class in nbgrader's gradebook and autograded/, as `nbgrader autograde` does. Unchanged submissions keep their "
        "result. Prints a table for each assignment, then who was repaired and who needs a human.",
        epilog="exit code: 0 every submission was graded or is listed for a human, 2 unusable input, "
        "3 fault of the grader: some submissions stay ungraded",
    )
    _add_assignments(command)
    command.add_argument(
        "--submissions", type=Path, metavar="DIR", help="the folder of submissions (default: submitted/)"
    )
    _add_into(command)
    _add_students(command)
    command.add_argument(
        "--fresh", "--force", action="store_true", help="examine again what was graded before, and keep the new results"
    )
    _add_workers(command, default=min(_cores(), 8), said="the machine's cores, 8 at the most")
    command.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="have the workers of this Dask cluster grade, such as tcp://10.0.0.1:8786; --workers then has no effect",
    )
    _add_output(command, "print JSON alone on stdout, one object a line for each submission")
    command.set_defaults(run=_class_commands.grade)


def _add_feedback(commands: Any) -> None:
    command = commands.add_parser(
        "feedback",
        help="write a page for each student",
        description="Write feedback/<student>/<assignment>/<assignment>.html for each graded submission: what was "
        "checked, what to try next, marks and comments given by hand, and the notebook as it ran.",
        epilog="exit code: 0 done, 2 nothing is graded yet",
    )
    _add_assignments(command)
    _add_into(command)
    _add_students(command)
    _add_workers(command, default=min(_cores(), 8), said="the machine's cores, 8 at the most", what="pages written")
    _add_language(command)
    command.set_defaults(run=_class_commands.feedback)


def _add_export(commands: Any) -> None:
    command = commands.add_parser(
        "export",
        help="print the gradebook as CSV or JSON",
        description="Print the scores in the gradebook, a row for each student and assignment. What is not graded yet "
        "is left empty.",
        epilog="exit code: 0 done, 2 the file can't be written",
    )
    _add_assignments(command)
    command.add_argument("--to", type=Path, metavar="FILE", help="write this file (default: print)")
    command.add_argument(
        "--format", choices=("csv", "json"), help="the format (default: json for a FILE that ends in .json, else csv)"
    )
    _add_into(command)
    _add_students(command)
    command.set_defaults(run=_class_commands.export)


def _add_release(commands: Any) -> None:
    command = commands.add_parser(
        "release",
        help="write the students' notebooks from the instructors'",
        description="Write release/<assignment>/<assignment>.ipynb from source/, without solutions and "
        "outputs. Prints the files that changed.",
        epilog="exit code: 0 done, or in step; 1 out of step (with --check); 2 a source notebook is wrong",
    )
    _add_assignments(command)
    command.add_argument(
        "--check",
        action="store_true",
        help="write nothing; tell which notebooks are out of step with their sources",
    )
    command.set_defaults(run=_commands.release)


def _add_verify(commands: Any) -> None:
    command = commands.add_parser(
        "verify",
        help="prove the hidden tests",
        description="Prove the course: every solution and every other right answer gets all points, "
        "an untouched notebook none, and every known mistake is caught and named. Prints what does not hold.",
        epilog="exit code: 0 all of it holds, 1 not, 2 the course's files are wrong, 3 fault of the grader",
    )
    _add_assignments(command)
    _add_workers(command)
    _add_seed(command)
    command.add_argument(
        "--table", type=Path, metavar="FILE", help="also write down which check caught which mistake, as Markdown"
    )
    command.add_argument(
        "--check", action="store_true", help="with --table: write nothing; tell whether the file is out of step"
    )
    command.set_defaults(run=_commands.verify)


def _add_doctor(commands: Any) -> None:
    command = commands.add_parser(
        "doctor",
        help="tell how well this machine can confine student code",
        description="Print how well this machine can confine student code, and what is missing for more.",
        epilog="exit code: 0",
    )
    command.set_defaults(run=_commands.doctor)


def _add_assignments(command: argparse.ArgumentParser) -> None:
    command.add_argument("assignments", nargs="*", metavar="ASSIGNMENT", help="a name from course.yml (default: all)")


def _add_into(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--into",
        type=Path,
        metavar="DIR",
        help="the folder of gradebook.db, autograded/ and feedback/ (default: the course's own)",
    )


def _add_students(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--student", action="append", default=[], metavar="ID", help="this student alone; may be given more than once"
    )


def _add_workers(
    command: argparse.ArgumentParser, default: int = 1, said: str = "1", what: str = "notebooks graded"
) -> None:
    command.add_argument(
        "--workers", type=_positive, default=default, metavar="N", help=f"{what} at once (default: {said})"
    )


def _add_output(command: argparse.ArgumentParser, json_help: str) -> None:
    command.add_argument("--json", action="store_true", help=json_help)
    _add_language(command)
    _add_seed(command)


def _add_language(command: argparse.ArgumentParser) -> None:
    command.add_argument("--language", metavar="L", help="the language of the report (default: the course's)")


def _add_seed(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--seed", type=_seed_number, metavar="N", help="the seed of the random draws (default: the course's)"
    )


def _cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _positive(text: str) -> int:
    if text.isdecimal() and 0 < int(text) <= 256:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to 256")


def _seed_number(text: str) -> int:
    if text.isdecimal() and len(text) <= 10 and int(text) < 2**31:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to 2147483647")
