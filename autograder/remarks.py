"""What an instructor should know of the files that a student handed in, beside what they are worth."""

from __future__ import annotations

from collections.abc import Sequence

from autograder.course import Course
from autograder.errors import UnusableNotebook
from autograder.mend import recognise
from autograder.messages import N_, Message, message
from autograder.notebook import read_notebook
from autograder.submissions import Submission, checkpoints_in, notebooks_in, visible

MAX_NAMES = 3
"""How many files of a folder without a notebook are told."""


def why_unusable(submission: Submission, course: Course, assignment: str) -> Message | None:
    """What a teacher sees in the folder, where it is more than the sentence about the file."""
    path = submission.path
    if path.is_symlink() or path.exists():
        try:
            whose = recognise(read_notebook(path, follow=False), course)
        except UnusableNotebook:
            return None
        if whose == assignment:
            return None
        said = N_("{name} is a notebook of {whose}, not of {assignment}")
        return message(said, name=_shown(path.name), whose=whose, assignment=assignment)
    several = [one.relative_to(submission.folder).as_posix() for one in notebooks_in(submission.folder)]
    if several:
        said = N_("the folder holds {names} and no {notebook}")
        return message(said, names=_listed(several), notebook=path.name)
    if copies := checkpoints_in(submission.folder):
        said = N_("the folder holds no notebook, but a copy that Jupyter made earlier: {names} in .ipynb_checkpoints")
        return message(said, names=_listed(copies))
    if not (names := visible(submission.folder)):
        return message(N_("the folder is empty"))
    return message(N_("the folder holds {names} and no notebook"), names=_listed(names))


def remarks_on(submission: Submission, assignment: str, has_odd_timestamp: bool) -> tuple[str, ...]:
    """What is told of a submission that costs nothing."""
    said = []
    if submission.name != f"{assignment}.ipynb" and submission.path.exists():
        said.append(f"took {_shown(submission.name)}, for there is no {assignment}.ipynb")
    if has_odd_timestamp:
        said.append("timestamp.txt tells no time, so it is not known whether this is late")
    return tuple(said)


def left_out(submission: Submission, course: Course, assignment: str) -> tuple[str, ...]:
    """The notebooks beside a submission that the course knows nothing of."""
    found = notebooks_in(submission.folder)
    if submission.path not in found:
        return ()  # the sentence about the missing one tells of them
    known = {one.name for one in course.source_notebook(assignment).parent.glob("*.ipynb")}
    known -= {f"{assignment}.ipynb"}
    others = [path for path in found if path != submission.path and path.name not in known]
    return tuple(path.relative_to(submission.folder).as_posix() for path in others)


def _listed(names: Sequence[str]) -> str:
    """The first few of a folder's names."""
    more = [f"{len(names) - MAX_NAMES} more"] if len(names) > MAX_NAMES else []
    return ", ".join([*map(_shown, names[:MAX_NAMES]), *more])


def _shown(name: str) -> str:
    """A file's name as text, whatever it is."""
    return name.encode(errors="replace").decode()
