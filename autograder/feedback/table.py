"""The checks of an exercise as a piece of HTML that brings its own style: for pages that are not ours.

It is the output of a graded cell, so it stands on the white pages of nbgrader's formgrader and in JupyterLab, light or
dark. It sets no background, and takes the text's colour from the page.
"""

from __future__ import annotations

from html import escape

from autograder.feedback.rows import Row, Tone, Translations, marked, rows, say, sentence
from autograder.messages import N_
from autograder.report import ExerciseReport, GradeReport
from autograder.wording import points, statement

# Each is readable on white and on nearly black: a contrast of 4 and more on both.
_COLOURS: dict[Tone, str] = {"passed": "#2b8a4b", "lost": "#d4483d", "waiting": "inherit", "fault": "#a86a00"}
_BAR = "4px solid"
_LINE = "1px solid rgba(127, 127, 127, 0.3)"
# Notebook pages stripe, centre and right-align the cells of tables: everything that they set is set again here.
_TABLE = "border-collapse: collapse; border: 0; margin: 0; width: 100%; table-layout: auto; text-align: left"
_CELL = (
    f"border: 0; border-top: {_LINE}; padding: 0.3em 0.6em 0.3em 0; text-align: left; vertical-align: top; "
    "white-space: normal; overflow-wrap: anywhere; background: transparent; max-width: none"
)
_QUIET = "opacity: 0.75"
# Bootstrap paints code pink on rose.
_CODE = "color: inherit; background: transparent; padding: 0"


def check_table(exercise: ExerciseReport, translations: Translations = None) -> str:
    """The score of an exercise and its checks; an HTML fragment with inline style only."""
    body = "".join(_row(row, translations) for row in rows(exercise, translations))
    return (
        f'<div style="max-width: 60em; text-align: left">'
        f'<p style="margin: 0.2em 0 0.5em"><strong>{_score(exercise, translations)}</strong></p>'
        f"{_statement(exercise, translations)}"
        f'<table style="{_TABLE}"><thead style="border: 0">{_head(translations)}</thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def fault_note(report: GradeReport, translations: Translations = None) -> str:
    """What stands in a graded cell that has no score: why, and what to do; for instructors.

    Args:
        report: of a submission that could not be read, or where the grader failed.
        translations: the language.
    """
    said = N_("No score: the grader failed, and the answer is not at fault. Grade again, or give the points by hand.")
    if report.status == "unusable":
        said = N_("No score: this notebook could not be graded. Ask for another file, or give the points by hand.")
    failed = [check for exercise in report.exercises for check in exercise.checks if check.outcome == "ungraded"]
    reasons = [sentence(message, translations) for message in (report.error, *(check.message for check in failed))]
    listed = "".join(
        f'<li style="overflow-wrap: anywhere">{escape(reason)}</li>' for reason in dict.fromkeys(filter(None, reasons))
    )
    return (
        f'<div style="max-width: 60em; text-align: left; border-left: {_BAR} {_COLOURS["fault"]}; padding-left: 0.8em">'
        f'<p style="margin: 0.2em 0"><strong>{escape(say(said, translations))}</strong></p>'
        + (f'<ul style="margin: 0.2em 0; {_QUIET}">{listed}</ul>' if listed else "")
        + "</div>"
    )


def _score(exercise: ExerciseReport, translations: Translations) -> str:
    if exercise.score is None:
        return escape(say(N_("not graded yet; {most} points"), translations, most=points(exercise.max_score)))
    said = N_("{score} of {most} points")
    return escape(say(said, translations, score=points(exercise.score), most=points(exercise.max_score)))


def _statement(exercise: ExerciseReport, translations: Translations) -> str:
    said = marked(sentence(statement(exercise), translations), _CODE)
    if not said:
        return ""
    return (
        f'<p style="margin: 0.2em 0 0.7em; border-left: {_BAR} {_COLOURS["lost"]}; padding-left: 0.8em">'
        f"<strong>{said}</strong></p>"
    )


def _head(translations: Translations) -> str:
    words = (N_("result"), N_("check"), N_("points"))
    cells = "".join(
        f'<th scope="col" style="{_CELL}; border-top: 0; font-weight: normal; {_QUIET}'
        f'{"; text-align: right; padding-right: 0" if place == 2 else ""}">{escape(say(word, translations))}</th>'
        for place, word in enumerate(words)
    )
    return f'<tr style="background: transparent">{cells}</tr>'


def _row(row: Row, translations: Translations) -> str:
    below = ""
    if row.message:
        below += f'<div style="margin-top: 0.2em">{marked(row.message, _CODE)}</div>'
    if row.hint:
        hint = say(N_("hint: {hint}"), translations, hint=row.hint)
        below += f'<div style="margin-top: 0.2em; {_QUIET}"><em>{marked(hint, _CODE)}</em></div>'
    weight = "bold" if row.tone in ("lost", "fault") else "normal"
    quiet = f"; {_QUIET}" if row.tone == "waiting" else ""
    return (
        '<tr style="background: transparent">'
        f'<td style="{_CELL}; width: 3.5em; color: {_COLOURS[row.tone]}; font-weight: bold">'
        f'<span role="img" aria-label="{escape(row.spoken)}" title="{escape(row.spoken)}">{row.sign}</span></td>'
        f'<td style="{_CELL}{quiet}"><span style="font-weight: {weight}">{marked(row.title, _CODE)}</span>{below}</td>'
        f'<td style="{_CELL}; width: 6em; text-align: right; white-space: nowrap; padding-right: 0{quiet}">'
        f"{points(row.score)}/{points(row.most)}</td></tr>"
    )
