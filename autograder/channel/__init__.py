"""The border between grader and student: length-prefixed frames of JSON and raw tensors, bounded both ways."""
