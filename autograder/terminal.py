"""Reports for people, in a terminal: at most 80 columns wide, readable without colour and in plain ASCII."""

from __future__ import annotations

import gettext
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from autograder.messages import N_, Message, message
from autograder.report import CheckReport, ExerciseReport, GradeReport, Outcome
from autograder.wording import WORDS, Line, lines, points, statement

WIDTH = 80
BAR_WIDTH = 30

# Characters that move the cursor, change colours, or reorder the text around them.
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_ESCAPE_SEQUENCE = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?)")

Sign = Literal["passed", "failed", "not_attempted", "skipped", "trouble", "ungraded", "by_hand", "bar", "rest", "dot"]
_SIGNS: dict[Sign, tuple[str, str]] = {  # as it should be, and where the terminal can't show that
    "passed": ("✓", "+"),
    "failed": ("✗", "x"),
    "not_attempted": ("·", "."),
    "skipped": ("–", "-"),
    "trouble": ("!", "!"),
    "ungraded": ("?", "?"),
    "by_hand": ("*", "*"),
    "bar": ("━", "#"),
    "rest": ("─", "."),
    "dot": ("·", "-"),
}
_STYLES = {"passed": "green", "failed": "red", "trouble": "red", "ungraded": "magenta"}


@dataclass(frozen=True)
class ClassRow:
    """One line of the table of a class; `settled` are signs for exercises without a score that wait for nobody."""

    student: str
    report: GradeReport
    seconds: float
    settled: Mapping[str, Sign] = field(default_factory=dict)


def show_report(report: GradeReport, console: Console, translations: gettext.NullTranslations | None = None) -> None:
    """Print one submission's report: the score, then each exercise with its checks and what to try next."""
    page = _Page(console, translations)
    page.headline(report)
    if report.status == "graded" or report.exercises:
        for exercise in report.exercises:
            page.exercise(exercise)
        page.footer(report)


def show_class(
    rows: Iterable[ClassRow], console: Console, translations: gettext.NullTranslations | None = None
) -> None:
    """Print a class as one table, sorted by name, and a summary below it."""
    page = _Page(console, translations)
    ordered = sorted(rows, key=lambda row: row.student)
    if not ordered:
        page.line(page.say(N_("No submissions.")))
        return
    page.table(ordered)
    page.summary(ordered)


def show_totals(
    scores: Mapping[str, Mapping[str, float | None]],
    console: Console,
    translations: gettext.NullTranslations | None = None,
) -> None:
    """Print each student's scores in several assignments, and their sum.

    Args:
        scores: by student, then by assignment; None where there is a submission without a score.
    """
    _Page(console, translations).totals(scores)


def show_lines(lines: Iterable[str], console: Console) -> None:
    """Print sentences that may hold anyone's words, wrapped."""
    page = _Page(console, None)
    for line in lines:
        page.line(line)


class _Page:
    """Prints in one language, to one console, with the signs that it can show."""

    def __init__(self, console: Console, translations: gettext.NullTranslations | None) -> None:
        self.console = console
        self.translations = translations
        self.width = min(console.width, WIDTH)
        self.plain = not all(self._showable(sign) for sign, _ in _SIGNS.values())

    def say(self, id: str, **args: object) -> str:
        """One of our own sentences, in the page's language."""
        return Message(id, args).render(self.translations)

    def render(self, message: Message) -> str:
        return message.render(self.translations)

    def text(self, text: str, style: str = "") -> Text:
        """Text of anyone's making: no markup is read in it and no control character survives."""
        text = _CONTROL.sub("\ufffd", _ESCAPE_SEQUENCE.sub("", text.replace("\t", "    ").strip()))
        encoding = self.console.encoding
        return Text(text.encode(encoding, "replace").decode(encoding), style=style)

    def line(self, text: str, style: str = "", indent: int = 0) -> None:
        for wrapped in self.text(text, style).wrap(self.console, self.width - indent):
            wrapped.rstrip()
            wrapped.pad_left(indent)
            self._print(wrapped)

    def sign(self, sign: Sign) -> str:
        return _SIGNS[sign][self.plain]

    def headline(self, report: GradeReport) -> None:
        place = [report.notebook] + ([report.assignment] if report.assignment else [])
        error = self.render(report.error) if report.error is not None else ""
        if not error.startswith(report.notebook):  # which it names itself
            self.line(f" {self.sign('dot')} ".join(place), "bold")
        if error:
            self.line(error, "red" if report.status == "unusable" else "magenta")
        if report.status == "graded":
            self._print(self._score(report.score, report.max_score))
        elif report.status == "ungraded":
            self.line(self.say(N_("Not graded yet; nothing is lost, and a person will look at it.")))
        for repair in report.repairs:
            self.line(self.say(N_("Repaired: {what}"), what=self.render(repair)), "yellow")

    def exercise(self, exercise: ExerciseReport) -> None:
        self.console.print()
        by_hand = exercise.manual and exercise.score is None
        score = self.say(N_("by hand")) if by_hand else f"{points(exercise.score)}/{points(exercise.max_score)}"
        self._row(self.text(exercise.id, "bold"), score, "bold")
        if (said := statement(exercise)) is not None:
            self.line(self.render(said), "bold yellow", indent=2)
            self.console.print()
        if len(exercise.checks) > 1 and all(check.outcome == "passed" for check in exercise.checks):
            said = message(N_("all {count} checks passed"), count=len(exercise.checks))
            self._several(Line(exercise.checks, said))
            return
        for line in lines(exercise.checks):
            if line.said is None:
                self._check(line.checks[0])
            else:
                self._several(line)

    def footer(self, report: GradeReport) -> None:
        self.console.print()
        for note in report.notes:
            self.line(self.render(note), "dim")
        if report.complete:
            self.line(self.say(N_("Everything is right. Well done!")), "green")
        facts = [self.say(N_("seed {seed}"), seed=report.seed)]
        facts.append(self.say(N_("confinement {tier}"), tier=report.confinement))
        self.line(f" {self.sign('dot')} ".join(facts), "dim")

    def table(self, rows: Sequence[ClassRow]) -> None:
        exercises = _columns(rows)
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        table.add_column(self.say(N_("student")), no_wrap=True, overflow="ellipsis", max_width=24)
        table.add_column(self.say(N_("score")), justify="right", no_wrap=True)
        for place in range(len(exercises)):
            table.add_column(f"[{place + 1}]", justify="right", no_wrap=True)
        table.add_column(self.say(N_("time")), justify="right", no_wrap=True)
        table.add_column(self.say(N_("note")), overflow="fold")
        for row in rows:
            scores = {exercise.id: points(exercise.score) for exercise in row.report.exercises}
            scores |= {name: self.sign(sign) for name, sign in row.settled.items()}
            complete = "green" if row.report.complete else ""
            cells = [row.student, points(row.report.score), *(scores.get(name, "") for name in exercises)]
            cells += [f"{row.seconds:.1f} s", self._note(row.report)]
            table.add_row(*(self.text(cell) for cell in cells), style=complete)
        for place, (name, most) in enumerate(exercises.items(), start=1):
            self.line(self.say(N_("[{place}] {exercise}, out of {most}"), place=place, exercise=name, most=most))
        self.console.print()
        self._print(table)

    def totals(self, scores: Mapping[str, Mapping[str, float | None]]) -> None:
        assignments = list(dict.fromkeys(name for each in scores.values() for name in each))
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        table.add_column(self.say(N_("student")), no_wrap=True, overflow="ellipsis", max_width=24)
        for name in assignments:
            table.add_column(self.text(name), justify="right", overflow="fold")
        table.add_column(self.say(N_("all")), justify="right", no_wrap=True)
        for student, each in sorted(scores.items()):
            # What is open may still become anything: a sum without it would look like a mark.
            total = None if None in each.values() else sum(score for score in each.values() if score is not None)
            missing = self.sign("skipped")
            cells = [student, *(points(each[name]) if name in each else missing for name in assignments), points(total)]
            table.add_row(*(self.text(cell) for cell in cells))
        self._print(table)
        told = []
        if any(None in each.values() for each in scores.values()):
            told.append(self.say(N_("?: no score yet, a human looks at it")))
        if any(len(each) < len(assignments) for each in scores.values()):
            told.append(self.say(N_("{sign}: not handed in"), sign=self.sign("skipped")))
        if told:
            self.line("; ".join(told))

    def summary(self, rows: Sequence[ClassRow]) -> None:
        scores = [row.report.score for row in rows if row.report.score is not None]
        self.console.print()
        facts = [self.say(N_("submissions: {count}"), count=len(rows))]
        if scores:
            most = max(row.report.max_score for row in rows)
            mean = f"{sum(scores) / len(scores):.1f}"
            facts.append(self.say(N_("mean: {mean} of {most}"), mean=mean, most=points(most)))
            complete = sum(row.report.complete for row in rows)
            facts.append(self.say(N_("with all points: {count}"), count=complete))
        if len(scores) < len(rows):
            facts.append(self.say(N_("without a score: {count}"), count=len(rows) - len(scores)))
        self.line(", ".join(facts))
        signs = {sign for row in rows for sign in row.settled.values()}
        if "by_hand" in signs:
            said = N_("{sign}: marked by hand; `autograder export` counts it in")
            self.line(self.say(said, sign=self.sign("by_hand")))
        if "not_attempted" in signs:
            said = N_("{sign}: for a human to mark, but left as it was released")
            self.line(self.say(said, sign=self.sign("not_attempted")))
        mistakes = Counter(name for row in rows for name in _mistakes(row.report))
        frequent = [f"{name} ({count})" for name, count in mistakes.most_common(3) if count > 1]
        if frequent:
            listed = ", ".join(frequent)
            self.line(self.say(N_("most frequent mistakes: {mistakes}"), mistakes=listed))

    def _check(self, check: CheckReport) -> None:
        sign = _sign_of(check.outcome)
        self._row(
            self.text(self.render(check.title)),
            f"{points(check.score)}/{points(check.max_score)}",
            "" if check.outcome == "passed" else "dim" if sign == "skipped" else _STYLES.get(sign, ""),
            sign,
        )
        if check.outcome == "passed":
            return
        explanation = self.render(check.message) if check.message else self.say(WORDS[check.outcome])
        self.line(explanation, "dim" if check.outcome == "skipped" else "", indent=6)
        if check.hint is not None:
            self.line(self.say(N_("hint: {hint}"), hint=self.render(check.hint)), "dim", indent=6)

    def _several(self, line: Line) -> None:
        """One line for several checks."""
        sign = _sign_of(line.outcome)
        style = "" if sign == "passed" else "dim"
        said = self.render(line.said) if line.said else ""
        self._row(self.text(said, style), f"{points(line.score)}/{points(line.max_score)}", style, sign)

    def _row(self, text: Text, score: str, style: str, sign: Sign | None = None) -> None:
        grid = Table.grid(padding=(0, 1, 0, 0))
        if sign is not None:
            grid.add_column(width=1)
        grid.add_column(ratio=1, overflow="fold")
        grid.add_column(justify="right", no_wrap=True)
        grid.expand = True
        cells = [text, Text(score, style)]
        if sign is not None:
            cells.insert(0, Text(self.sign(sign), _STYLES.get(sign, "dim")))
        grid.add_row(*cells)
        self._print(Padding(grid, (0, 0, 0, 2 if sign is not None else 0)))

    def _score(self, score: float | None, most: float) -> Text:
        share = score / most if score is not None and most else 0.0
        filled = BAR_WIDTH if share >= 1 else min(int(share * BAR_WIDTH), BAR_WIDTH - 1)
        bar = Text(self.sign("bar") * filled, "green")
        bar.append(self.sign("rest") * (BAR_WIDTH - filled), "dim")
        bar.append("  ")
        bar.append(self.say(N_("{score} of {most} points"), score=points(score), most=points(most)), "bold")
        return bar

    def _note(self, report: GradeReport) -> str:
        """What a teacher should know first: why there is no score, the mistake, or the worst outcome."""
        if report.error is not None:
            return self.render(report.error).removeprefix(report.notebook).strip()
        mistakes = _mistakes(report)
        if mistakes:
            return ", ".join(mistakes)
        outcomes = {check.outcome for exercise in report.exercises for check in exercise.checks}
        worst = [outcome for outcome in WORDS if outcome in outcomes and outcome not in ("passed", "skipped")]
        return self.say(WORDS[worst[-1]]) if worst else ""

    def _print(self, item: Text | Padding | Table) -> None:
        self.console.print(item, width=self.width)

    def _showable(self, sign: str) -> bool:
        try:
            sign.encode(self.console.encoding)
        except UnicodeEncodeError:
            return False
        return True


def _sign_of(outcome: Outcome) -> Sign:
    if outcome in ("passed", "failed", "not_attempted", "skipped", "ungraded"):
        return outcome
    return "trouble"


def _mistakes(report: GradeReport) -> list[str]:
    # One mistake may be made in two exercises.
    return list(dict.fromkeys(exercise.mistake for exercise in report.exercises if exercise.mistake))


def _columns(rows: Sequence[ClassRow]) -> dict[str, str]:
    """All exercises of these reports, in order, with what each is worth."""
    return {exercise.id: points(exercise.max_score) for row in rows for exercise in row.report.exercises}
