"""What tensors decide: labels, the highest class of a row, or the side of the threshold that a score is on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from davylamp.shadow.comparing.distributions import are_distributions, js, kl, rank_correlation, softmax, top_overlap
from davylamp.shadow.comparing.findings import MOST_ITEMS, Findings
from davylamp.shadow.comparison import Difference, Measure
from davylamp.shadow.formats.reading import Array
from davylamp.shadow.task import Rules

_FEWEST_RANKED: Final = 3


@dataclass(frozen=True, slots=True, eq=False)
class _Judged:
    """Rows of probabilities, the class that is chosen in each, and by how much.

    Parameters
    ----------
    probabilities
        Shape (items, classes).
    chosen
        Shape (items,).
    margin
        Shape (items,): of the best from the second best class, or of the score from the threshold.
    """

    probabilities: Array
    chosen: Array
    margin: Array


def look_at_labels(first: Array, second: Array, findings: Findings) -> None:
    """Compare labels of the same shape; each is a decision."""
    findings.decides = True
    different = (first != second).any()
    findings.differ(Difference.DECISION, different)
    findings.differ(Difference.VALUES, different)


def look_at_floats(first: Array, second: Array, rules: Rules, findings: Findings) -> None:
    """Compare floats of the same shape as classes, if they have a last axis of two or more, or else as scores.

    Parameters
    ----------
    first, second
        Float64. Numbers that are neither classes nor scores from 0 to 1 decide nothing.
    rules
        With the threshold and k.
    findings
        Where what is found goes.
    """
    if not first.size:
        return
    classes = first.shape[-1] if first.ndim > 1 else 1
    first, second = first.reshape(-1, classes), second.reshape(-1, classes)
    finite = np.isfinite(first).all(axis=1) & np.isfinite(second).all(axis=1)
    if not finite.all():
        _look_at_infinite(first[~finite], second[~finite], findings)
        first, second = first[finite], second[finite]
    if not len(first):
        return
    if classes > 1:
        _look_at_classes(first, second, rules, findings)
    elif all(side.min() >= 0 and side.max() <= 1 for side in (first, second)):
        both = (np.hstack((1 - side, side)) for side in (first, second))
        _note([_by_threshold(side, rules.threshold) for side in both], findings)
        _note_ranks(first.T, second.T, findings)


def _look_at_infinite(first: Array, second: Array, findings: Findings) -> None:
    """Compare rows that are not all finite: the highest class decides, but nothing is higher or lower than NaN."""
    empty = np.isnan(first)
    findings.differ(Difference.DECISION, (empty != np.isnan(second)).any())
    if first.shape[1] > 1:
        findings.decides = True
        highest = (np.where(empty, -np.inf, side).argmax(axis=1) for side in (first, second))
        findings.differ(Difference.DECISION, np.not_equal(*highest).any())


def _look_at_classes(first: Array, second: Array, rules: Rules, findings: Findings) -> None:
    ready = are_distributions(first) and are_distributions(second)
    probabilities = (first, second) if ready else (softmax(first), softmax(second))
    if first.shape[1] == 2:
        _note([_by_threshold(side, rules.threshold) for side in probabilities], findings)
        return
    sides = ((first, probabilities[0]), (second, probabilities[1]))
    _note([_by_highest(rows, shares) for rows, shares in sides], findings)
    first, second = first[:MOST_ITEMS], second[:MOST_ITEMS]
    if rules.top_k < first.shape[1]:
        findings.measure(Measure.TOP_K_OVERLAP, top_overlap(first, second, rules.top_k))
    _note_ranks(first, second, findings)


def _by_threshold(probabilities: Array, threshold: float) -> _Judged:
    scores = probabilities[:, 1]
    return _Judged(probabilities, (scores >= threshold).astype(np.intp), np.abs(scores - threshold))


def _by_highest(rows: Array, probabilities: Array) -> _Judged:
    best = np.partition(probabilities, -2, axis=1)[:, -2:]
    return _Judged(probabilities, rows.argmax(axis=1), best[:, 1] - best[:, 0])


def _note(judged: Sequence[_Judged], findings: Findings) -> None:
    """Write down what the judgements of either side on the same items have in common and what not."""
    first, second = judged
    findings.decides = True
    flipped = first.chosen != second.chosen
    if flipped.any():
        findings.differ(Difference.DECISION, found=True)
        findings.measure_most(Measure.FLIP_MARGIN, float(first.margin[flipped].max()))
    left, right = first.probabilities[:MOST_ITEMS], second.probabilities[:MOST_ITEMS]
    findings.measure(Measure.KL, kl(left, right))
    findings.measure(Measure.JS, js(left, right))
    items = np.arange(len(left))
    confident = (
        (rows[items, side.chosen[:MOST_ITEMS]]).clip(0, 1).tolist() for rows, side in ((left, first), (right, second))
    )
    findings.confidences.extend(zip(*confident, strict=True))
    if left.shape[1] == 2:
        before, after = left[:, 1].clip(0, 1), right[:, 1].clip(0, 1)
        findings.scores.extend(zip(before.tolist(), after.tolist(), strict=True))
        findings.measure(Measure.SCORE_CHANGE, float((after - before).mean()))


def _note_ranks(first: Array, second: Array, findings: Findings) -> None:
    if first.shape[1] >= _FEWEST_RANKED:
        found = rank_correlation(first, second)
        if found is not None:
            findings.measure(Measure.RANK_CORRELATION, found)
