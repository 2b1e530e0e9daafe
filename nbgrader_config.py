# nbgrader's settings for this course, derived from course.yml; lines below these may change any of them.
from autograder.nbgrader.config import configure

c = get_config()  # noqa: F821 - nbgrader provides it
configure(c, __file__)
