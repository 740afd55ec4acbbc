"""Two answers of any JSON."""

import math
from typing import Any

import numpy as np

from davylamp.shadow.comparing.closeness import floats_of, look_at_distance
from davylamp.shadow.comparing.findings import Findings
from davylamp.shadow.comparison import Difference
from davylamp.shadow.formats.reading import Document
from davylamp.shadow.task import Rules


def compare_documents(first: Document, second: Document, rules: Rules) -> Findings:
    """Compare JSON place by place: floats by tolerance, all else exactly.

    Nothing in it is known to be the decision, so everything counts that the rules do not leave out.

    Parameters
    ----------
    first, second
        The baseline's and the candidate's, within the bounds.
    rules
        With the tolerances.
    """
    findings = Findings()
    pending = [(first.value, second.value)]
    while pending:
        left, right = pending.pop()
        if type(left) is dict and type(right) is dict:
            findings.differ(Difference.STRUCTURE, left.keys() != right.keys())
            pending.extend((value, right[key]) for key, value in left.items() if key in right)
        elif type(left) is list and type(right) is list:
            findings.differ(Difference.STRUCTURE, len(left) != len(right))
            if set(map(type, left)) == set(map(type, right)) == {float} and len(left) == len(right):
                look_at_distance(floats_of(np.array((left, right))), rules, findings)
            else:
                pending.extend(zip(left, right, strict=False))
        else:
            _look_at(left, right, rules, findings)
    return findings


def _look_at(left: Any, right: Any, rules: Rules, findings: Findings) -> None:
    """Compare two values of which one at most is an object or a list."""
    kinds = {type(left), type(right)}
    if kinds in ({float}, {float, int}):
        _look_at_numbers(left, right, rules, findings)
    elif kinds in ({int}, {bool}):
        findings.differ(Difference.DECISION, left != right)
        findings.differ(Difference.VALUES, left != right)
    elif kinds == {str}:
        findings.differ(Difference.TEXT, left != right)
    elif len(kinds) > 1:
        findings.differ(Difference.STRUCTURE, found=True)


def _look_at_numbers(left: Any, right: Any, rules: Rules, findings: Findings) -> None:
    try:
        before, after = float(left), float(right)
    except OverflowError:  # a whole number that no float comes near
        findings.differ(Difference.VALUES, found=True)
        return
    if math.isfinite(before) and math.isfinite(after):
        distance = abs(after - before)
        findings.distance.add(distance, distance, 1)
        findings.differ(Difference.VALUES, distance > rules.absolute + rules.relative * abs(before))
    else:
        same = before == after or (math.isnan(before) and math.isnan(after))
        findings.differ(Difference.NOT_FINITE, not same)
