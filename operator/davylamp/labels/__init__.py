"""Labels that come late, joined with what both variants had said.

Rule 1: a label and the counts that it changes are one transaction; a counter is never ahead of the join, nor behind it.
Rule 2: writers take turns. Whatever comes twice, late, out of order or in a crash ends as if it had come one by one.
Rule 3: a label that cannot be used is counted by the reason why; it is never right, wrong or lost in silence.
Rule 4: what a join counts is pure; only the store and what receives do I/O, and the time is an argument.
"""
