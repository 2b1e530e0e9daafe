"""Auto-graded exercises on attention.

This file imports nothing: the confined worker imports the package too, and must not meet the grader there.
"""

__version__ = "0.1.0"
