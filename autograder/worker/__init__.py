"""Everything that lives in the untrusted process. It imports nothing of the trusted side."""
