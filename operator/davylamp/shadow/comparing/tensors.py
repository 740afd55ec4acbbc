"""Two answers of tensors."""

import numpy as np

from davylamp.shadow.comparing.closeness import look_at_distance, ulps
from davylamp.shadow.comparing.decisions import look_at_floats, look_at_labels
from davylamp.shadow.comparing.findings import Findings
from davylamp.shadow.comparison import Difference, Measure
from davylamp.shadow.formats.reading import Tensor, Tensors
from davylamp.shadow.task import Rules


def compare_tensors(first: Tensors, second: Tensors, rules: Rules) -> Findings:
    """Compare outputs by their names.

    Parameters
    ----------
    first, second
        The baseline's and the candidate's.
    rules
        With tolerances, threshold and k.
    """
    findings = Findings()
    left, right = ({tensor.name: tensor for tensor in side.tensors} for side in (first, second))
    findings.differ(Difference.STRUCTURE, left.keys() != right.keys() or len(first.tensors) != len(second.tensors))
    for name, tensor in left.items():
        if name in right:
            _look_at(tensor, right[name], rules, findings)
    return findings


def _look_at(first: Tensor, second: Tensor, rules: Rules, findings: Findings) -> None:
    findings.differ(Difference.DATATYPE, first.datatype != second.datatype)
    left, right = first.values, second.values
    if left.shape != right.shape:
        findings.differ(Difference.SHAPE, found=True)
        return
    if (left.dtype.kind == "O") is not (right.dtype.kind == "O"):
        findings.differ(Difference.STRUCTURE, found=True)
        return
    if left.dtype.kind != "f" and right.dtype.kind != "f":
        look_at_labels(left, right, findings)
        return
    if first.datatype and first.datatype == second.datatype:
        steps = ulps(left, right, first.datatype)
        if steps is not None:
            findings.measure_most(Measure.ULPS, steps)
    wide, other = left.astype(np.float64), right.astype(np.float64)
    look_at_distance(wide, other, rules, findings)
    look_at_floats(wide, other, rules, findings)
