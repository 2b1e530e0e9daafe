# Belongs into etc/jupyter of the environment that grades: `make` puts it there. A course's own nbgrader_config.py comes
# after it; where that one fails, nbgrader goes on without it, and must not grade as if there were no confinement.
from autograder.nbgrader.config import confine

c = get_config()  # type: ignore[name-defined]  # noqa: F821 - nbgrader provides it
confine(c)
