"""Hostile submissions, each with what it must come to."""
