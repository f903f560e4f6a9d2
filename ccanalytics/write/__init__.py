"""The write side: record, remove, mend.

Nothing here is imported by the read side, and none of it imports polars before it needs a frame, so that
a recording process stays small.
"""
