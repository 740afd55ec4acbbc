"""The comparator: the same request to both variants, off the live path.

Rule 1: nothing here can slow a user's request; what does not fit into a bound is dropped, newest first, and counted.
Rule 2: what cannot be compared is counted as such, with a reason; it is never silently equal.
Rule 3: formats and comparisons are pure; only what receives and replays does I/O.
"""
