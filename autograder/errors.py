"""What can go wrong, one class for each thing that a caller would handle differently.

AutograderError            a sentence for the user: what, where, what to do
├── CourseError            course.yml, or a file that it names, can't be used
├── UnusableNotebook       the submitted file is no notebook that we can grade
├── ConfinementUnavailable this machine can't confine student code as the course demands
└── GraderFault            our own fault; never a student's zero
"""

from __future__ import annotations


class AutograderError(Exception):
    """Its text is one sentence for people; `exit_code` is what a command ends with."""

    exit_code = 2


class CourseError(AutograderError):
    """The course's own files are wrong."""


class UnusableNotebook(AutograderError):
    """The submission can't be read as a notebook of this course."""


class ConfinementUnavailable(AutograderError):
    """Student code may not run here; the text says which tier is required and what is missing."""

    exit_code = 3


class GraderFault(AutograderError):
    """The grader failed; the submission stays ungraded and a human looks at it."""

    exit_code = 3
