"""Hostile submissions that lie in tags, metadata, ids, magics and outputs of the notebook."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.engine import ATTENTION, GOOD
from tests.redteam.attempts import ANSWER, helpers
from tests.redteam.bank import COURSE, END, START, Case, code_cell, document, file_of

Document = dict[str, Any]
Change = Callable[[Document], None]

TEST = f"test_{ATTENTION}"
WRONG = f"def {ATTENTION}(Q, K, V):\n    return V * 0, V * 0"
"""Earns nothing."""


def lying(id: str, tries: str, *changes: Change, answer: str = WRONG, score: float | None = 0, **required: Any) -> Case:
    """A case whose document is changed; the answer is wrong and must earn nothing if nothing else is given."""

    def notebook() -> bytes:
        made = document(required.get("assignment", "attention"), {ATTENTION: answer})
        for change in changes:
            change(made)
        return json.dumps(made).encode()  # with escapes: they can hold what is no text

    return Case(id, "metadata", tries, score, notebook=notebook, **required)


def cell(made: Document, grade_id: str) -> dict[str, Any]:
    """The first cell of that name."""
    found: dict[str, Any] = next(
        one for one in made["cells"] if one["metadata"].get("nbgrader", {}).get("grade_id") == grade_id
    )
    return found


def tagged(grade_id: str, *tags: Any) -> Change:
    """Give a cell these tags."""
    return lambda made: cell(made, grade_id)["metadata"].update(tags=[*tags])


def claiming(grade_id: str, **claims: Any) -> Change:
    """Change what a cell tells nbgrader."""
    return lambda made: cell(made, grade_id)["metadata"]["nbgrader"].update(claims)


def saying(grade_id: str, source: str) -> Change:
    """Change a cell's text."""
    return lambda made: cell(made, grade_id).update(source=source)


def showing(grade_id: str, *outputs: dict[str, Any]) -> Change:
    """Give a cell these outputs."""
    return lambda made: cell(made, grade_id).update(outputs=[*outputs], execution_count=1)


def result(text: str, **data: Any) -> dict[str, Any]:
    """An output as a kernel makes it of an expression's value."""
    return {
        "output_type": "execute_result",
        "execution_count": 1,
        "metadata": {},
        "data": {"text/plain": text, **data},
    }


def of_notebook(**metadata: Any) -> Change:
    """Change the notebook's own metadata."""
    return lambda made: made["metadata"].update(metadata)


def swap_ids(made: Document) -> None:
    """The answer claims to be the graded cell, and the graded cell the answer."""
    answer, test = cell(made, ATTENTION), cell(made, TEST)
    answer["metadata"]["nbgrader"]["grade_id"], test["metadata"]["nbgrader"]["grade_id"] = TEST, ATTENTION


def take_the_others_id(made: Document) -> None:
    """The wrong answer claims to be the graded cell of the other exercise."""
    cell(made, ATTENTION)["metadata"]["nbgrader"]["grade_id"] = "test_project_qkv"


def many_of_both(made: Document) -> None:
    """Thirty copies of the graded cell that pass anything, and of the answer."""
    for number in range(30):
        copied = json.loads(json.dumps([cell(made, TEST), cell(made, ATTENTION)]))
        for place, one in enumerate(copied):
            one["id"] = f"copy-{number}-{place}"
        copied[0]["source"] = "pass"
        made["cells"] += copied


def without(grade_id: str) -> Change:
    """Leave a cell out."""
    return lambda made: made["cells"].remove(cell(made, grade_id))


def as_kind(grade_id: str, kind: str) -> Change:
    """Make a cell one of another kind."""
    return lambda made: cell(made, grade_id).update(cell_type=kind)


def with_another_assignment(made: Document) -> None:
    """Cells of another assignment too, with its ids."""
    made["cells"] = document("masking")["cells"] + made["cells"]


def wrong_types(made: Document) -> None:
    """Values of every wrong type where a notebook has metadata."""
    odd: tuple[Any, ...] = (None, [], 0, "text", True, [[[]]], {"nbgrader": [1]}, {"tags": {"a": 1}}, 1e999, -0.0)
    for number, value in enumerate(odd):
        made["cells"].append({**code_cell("pass", f"odd-{number}"), "metadata": value, "attachments": value})
        odd_one = code_cell("pass", f"odder-{number}")
        made["cells"].append(odd_one | {"metadata": {"nbgrader": {"grade_id": value, "points": value}, "tags": value}})
        made["cells"].append(code_cell("pass", f"oddest-{number}") | {"outputs": value, "execution_count": value})
        made["metadata"][f"odd-{number}"] = value
    del made["cells"][-1]["metadata"]


def huge_ids(made: Document) -> None:
    """Ids of a megabyte, with paths, terminal codes, NUL and lone surrogates."""
    for number, name in enumerate(
        ("x" * 1_000_000, "../../../etc/passwd", "\x1b]0;redteam\a", "\0", "\ud800", "%s{}$")
    ):
        one = code_cell("pass", name, tags=[name], nbgrader={"grade_id": name, "grade": True, "points": 1e308})
        made["cells"] += [one, {**one, "id": f"id-{number}"}]
        made["metadata"][name] = name


def handed_back(made: Document) -> None:
    """What a graded notebook has in its metadata, with full marks in it."""
    made["metadata"]["autograder"] = {
        "schema": 1,
        "submission": "0" * 64,
        "report": {"status": "graded", "score": 20, "max_score": 20, "exercises": [{"id": ATTENTION, "score": 16}]},
    }
    cell(made, TEST)["metadata"]["autograder"] = {"score": 16, "checks": []}
    showing(TEST, result("16.0"))(made)


def of_version(major: Any, minor: Any = 5) -> Change:
    """Say another format."""
    return lambda made: made.update(nbformat=major, nbformat_minor=minor)


MAGICS = r"""
import subprocess
shell = get_ipython()
TOLD = []


def magic(line, body=None):
    try:
        got = shell.run_line_magic(*line) if body is None else shell.run_cell_magic(*line, body)
    except BaseException:
        return
    if isinstance(got, (list, str)) and "redteam-told" in str(got):
        CAME_THROUGH.append(f"{line}: {got}")


def planted():
    for place in (COURSE, "."):
        if os.path.exists(place + "/redteam-planted"):
            CAME_THROUGH.append("planted")


for place in ("redteam-planted", COURSE + "/redteam-planted"):
    for name in ("bash", "sh", "system", "sx", "perl", "ruby"):
        magic((name, ""), f"echo redteam-told; touch {place}")
    magic(("script", "bash"), f"touch {place}")
    magic(("script", "--bg --out redteam_out bash"), f"touch {place}")
    magic(("python3", ""), f"open({place!r}, 'w')")
    magic(("system", f"echo redteam-told; touch {place}"))
    magic(("sx", f"echo redteam-told; touch {place}"))
    shell.system(f"touch {place}")
    if "redteam-told" in str(shell.getoutput(f"echo redteam-told; touch {place}")):
        CAME_THROUGH.append("getoutput")
    planted()
magic(("pip", "install redteam"))
magic(("conda", "install redteam"))
magic(("cd", COURSE))
magic(("load", COURSE + "/source/attention/attention.ipynb"))
magic(("run", COURSE + "/source/attention/attention.ipynb"))
magic(("edit", COURSE + "/course.yml"))
magic(("store", "CAME_THROUGH"))
magic(("logstart", COURSE + "/redteam-log"))
magic(("history", "-g -f " + COURSE + "/redteam-history"))
magic(("save", "-f " + COURSE + "/redteam-saved 1"))
magic(("writefile", COURSE + "/redteam-written"), "redteam")
magic(("notebook", COURSE + "/redteam.ipynb"))
magic(("debug", ""))
magic(("pdb", "on"))
magic(("killbgscripts", ""))
"""

SHELL_LINES = """
!touch redteam-planted
told = !echo redteam-told
%system touch redteam-planted
!!touch redteam-planted
%pip install redteam
"""

RELOADING = f"""
%load_ext autoreload
%autoreload 2
%reset -f
%precision 0
%config InteractiveShell.ast_node_interactivity = 'all'
%pdb on
get_ipython().run_cell("def {TEST}(*args): return 16.0")
get_ipython().run_cell("tiny_compare = tiny_rows_sum_to_one = lambda *args, **kwargs: None")
get_ipython().events.register("post_run_cell", lambda result: setattr(result, "error_in_exec", None))
get_ipython().user_ns["__score__"] = get_ipython().user_ns["score"] = 16.0
"""

RUN_A_FILE = f"""
open("redteam_answer.py", "w").write('''{WRONG}
score = points = 16.0
''')
%run -i redteam_answer.py
%run -n redteam_answer.py
"""


def magicked(id: str, tries: str, place: int, source: str, *, answer: str = WRONG, score: float = 0) -> Case:
    """A case with one more cell."""
    return Case(id, "metadata", tries, score, answers={ATTENTION: answer}, cells=((place, source),))


CASES = [
    lying("skip-execution", "has the graded cells skipped by a tag, which nbgrader takes for full marks",
          tagged(TEST, "skip-execution"), tagged(ATTENTION, "skip-execution", "raises-exception")),
    lying("points", "gives its own exercise a thousand points, and the others a negative number",
          claiming(TEST, points=1000), claiming(ATTENTION, points=1000), claiming("test_project_qkv", points=-50),
          answer=GOOD, score=16),
    lying("points-of-other-types", "gives points that are no numbers",
          claiming(TEST, points="16"), claiming("test_project_qkv", points=[1e999]), answer=GOOD, score=16),
    lying("unlocked-tests", "unlocks the graded cell and puts one that prints full marks in its place",
          claiming(TEST, locked=False), saying(TEST, "print('16.0')\n16.0")),
    lying("flags-flipped", "makes the graded cell an answer, and the answer one that a human grades",
          claiming(TEST, solution=True, grade=False), claiming(ATTENTION, grade=True, solution=False, points=16)),
    lying("task-cells", "says that a human has to grade the answer, as a task",
          claiming(TEST, task=True, points=16), claiming(ATTENTION, task=True, grade=True)),
    lying("ids-swapped", "gives the answer and its graded cell each other's ids", swap_ids),
    lying("id-of-the-other", "gives its wrong answer the id of the other exercise's graded cell", take_the_others_id),
    lying("ids-copied", "has thirty copies of each id, the graded cells among them passing anything", many_of_both),
    lying("no-graded-cell", "has no graded cell for its wrong answer", without(TEST)),
    lying("no-setup", "leaves out and empties the cells that the course itself put there",
          without("sentence"), saying("setup", "raise SystemExit"), answer=GOOD, score=16),
    lying("answer-in-a-raw-cell", "has its answer in a raw cell, its tests in markdown",
          as_kind(ATTENTION, "raw"), as_kind(TEST, "markdown"), answer=GOOD, score=16),
    lying("answer-as-illustration", "has its wrong answer taken for a picture, which is not run",
          tagged(ATTENTION, "illustration"), tagged(TEST, "illustration")),
    lying("another-assignment", "brings the cells of another assignment along, with their ids",
          with_another_assignment, answer=GOOD, score=16),
    Case("only-another-assignment", "metadata", "hands in another assignment under this one's name", None,
         notebook=lambda: file_of(document("masking")), status="unusable"),
    lying("claims-of-identity", "says that it is the work of another student, and graded already",
          of_notebook(nbgrader={"student_id": "honest", "score": 20, "student": "honest"}, student="honest",
                      celltoolbar="Create Assignment", timestamp="1970-01-01"), answer=GOOD, score=16),
    lying("kernelspec", "asks for another kernel, by a path, with a command of its own",
          of_notebook(kernelspec={"name": "../../redteam", "language": "bash", "argv": ["touch", f"{COURSE}/redteam"],
                                  "display_name": "x" * 100_000}, language_info={"name": "R", "version": []}),
          answer=GOOD, score=16),
    lying("metadata-of-wrong-types", "has values of every wrong type where metadata is due",
          wrong_types, answer=GOOD, score=16),
    lying("huge-ids", "has ids of a megabyte, with paths, terminal codes and what is no text",
          huge_ids, answer=GOOD, score=16),
    lying("format-of-tomorrow", "says that it is in format 99", of_version(99), score=None, status="unusable"),
    lying("minor-format", "says that its minor format is a billion", of_version(4, 10**9), answer=GOOD, score=16),
    lying("graded-already", "looks like a graded notebook with full marks", handed_back, unsaid="0" * 64),
    lying("outputs-that-claim", "shows full marks in the outputs of its graded cell, in every form",
          showing(TEST, result("16.0", **{"text/html": "<b>16 / 16</b>"}), result("16"),
                  {"output_type": "stream", "name": "stdout", "text": "16.0\nAll tests passed\n"},
                  {"output_type": "display_data", "metadata": {}, "data": {"application/json": {"score": 16}}})),
    magicked("shell-lines", "runs shell commands by lines with ! and %", START, helpers() + SHELL_LINES + """
if "redteam-told" in str(told) or os.path.exists("redteam-planted"):
    CAME_THROUGH.append("shell")
""", answer=ANSWER, score=16),
    magicked("magics", "runs commands, writes and reads files by every magic that could", START, helpers() + MAGICS,
             answer=ANSWER, score=16),
    magicked("bash-cell", "is a cell for bash", START, f"%%bash\ntouch {COURSE}/redteam-bash; kill -9 $PPID\n",
             answer=GOOD, score=16),
    magicked("javascript-cell", "presses buttons by a cell for the browser", START,
             "%%javascript\nJupyter.notebook.kernel.execute('score = 16.0')", answer=WRONG),
    magicked("html-cell", "shows full marks by a cell for the browser", END,
             "%%html\n<script>document.title = '16 / 16'</script>", answer=WRONG),
    magicked("capture-and-reload", "reloads, resets and redefines what the graded cell uses, by run_cell and magics",
             10**6, RELOADING, answer=WRONG),
    magicked("run-a-file", "defines its answer anew by %run, behind the graded cell", END, RUN_A_FILE),
    magicked("redefines-the-tests", "redefines what the graded cell calls, before and behind it", START,
             "import builtins\ntiny_compare = tiny_rows_sum_to_one = print\n"
             f"builtins.tiny_compare = builtins.{TEST} = lambda *args: 16.0"),
]  # fmt: skip
