"""The feedback that a student receives: a table of checks, and a page of its own."""
