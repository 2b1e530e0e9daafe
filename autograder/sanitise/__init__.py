"""Makes what a student wrote harmless in every page that is made of a graded notebook.

nbconvert puts Markdown and HTML outputs into its page as they are, and nbgrader's formgrader shows that page in the
Jupyter server's own origin. So whatever came from a student passes here before it is written into the notebook.
"""

from autograder.sanitise.frozen import as_text
from autograder.sanitise.html import clean_html
from autograder.sanitise.markdown import clean_markdown
from autograder.sanitise.outputs import clean_outputs

__all__ = ["as_text", "clean_html", "clean_markdown", "clean_outputs"]
