"""Two answers of tensors."""

from davylamp.shadow.comparing.closeness import floats_of, look_at_distance, side_by_side, ulps
from davylamp.shadow.comparing.decisions import look_at_floats, look_at_labels
from davylamp.shadow.comparing.findings import Findings
from davylamp.shadow.comparison import Difference, Measure
from davylamp.shadow.formats.reading import Tensor, Tensors
from davylamp.shadow.task import Rules


def compare_tensors(first: Tensors, second: Tensors, rules: Rules) -> Findings:
    """Compare outputs by their names; where several decide, each of them counts.

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
    kinds = {left.dtype.kind, right.dtype.kind}
    if left.shape != right.shape:
        findings.differ(Difference.SHAPE, found=True)
    elif "O" in kinds and len(kinds) > 1:
        findings.differ(Difference.STRUCTURE, found=True)
    elif "f" not in kinds:
        look_at_labels(left, right, findings)
    else:
        both = side_by_side(left, right)
        floats = floats_of(both)
        if first.datatype and first.datatype == second.datatype:
            steps = ulps(both, first.datatype, floats)
            if steps is not None:
                findings.measure_most(Measure.ULPS, steps)
        look_at_distance(floats, rules, findings)
        look_at_floats(floats, rules, findings)
