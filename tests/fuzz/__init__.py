"""Damaged files of every format through every reader: `python -m tests.fuzz`."""
