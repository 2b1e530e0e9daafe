"""The doors to nbgrader: its configuration, preprocessors, gradebook and plugins."""
