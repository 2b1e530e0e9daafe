"""The examiner: a trusted process of its own that holds the hidden suites and never runs student code.

`job` and `client` belong to the door and import neither torch nor pytest; the rest lives in the examiner's process.
"""
