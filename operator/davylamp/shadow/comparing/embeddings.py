"""Two answers of embeddings."""

import numpy as np

from davylamp.shadow.comparing.findings import Findings
from davylamp.shadow.comparison import Difference, Measure
from davylamp.shadow.formats.reading import Array, Embeddings
from davylamp.shadow.task import Notion, Rules


def compare_embeddings(first: Embeddings, second: Embeddings, rules: Rules) -> Findings:
    """Compare vectors by their cosine; the least of a batch is measured.

    Parameters
    ----------
    first, second
        The baseline's and the candidate's.
    rules
        With the least cosine.
    """
    findings = Findings()
    findings.differ(Difference.STRUCTURE, len(first.vectors) != len(second.vectors))
    found = [_look_at(*pair, rules, findings) for pair in zip(first.vectors, second.vectors, strict=False)]
    known = [cosine for cosine in found if cosine is not None]
    if known:
        findings.measure(Measure.COSINE, min(known))
    return findings


def _look_at(first: Array, second: Array, rules: Rules, findings: Findings) -> float | None:
    if first.shape != second.shape:
        findings.differ(Difference.SHAPE, found=True)
        return None
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        findings.differ(Difference.NOT_FINITE, not np.array_equal(first, second, equal_nan=True))
        return None
    if np.array_equal(first, second):
        return 1.0
    cosine = _cosine(first, second)
    exact = rules.notion is Notion.EXACT
    findings.differ(Difference.EMBEDDING, exact or cosine is None or cosine < rules.cosine)
    return cosine


def _cosine(first: Array, second: Array) -> float | None:
    """Return the cosine of two vectors; None if one of them has no direction."""
    if not (first.any() and second.any()):
        return None
    left, right = (vector / np.abs(vector).max() for vector in (first, second))  # so that no square overflows
    return float(np.clip(left @ right / np.sqrt((left @ left) * (right @ right)), -1, 1))
