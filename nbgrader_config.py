# nbgrader's settings for this course, derived from course.yml; lines below these may change any of them.
from autograder.nbgrader.config import configure

configure(get_config(), __file__)  # noqa: F821 - nbgrader provides it
