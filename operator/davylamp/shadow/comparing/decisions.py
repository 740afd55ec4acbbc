"""What tensors decide: labels, the highest class of a row, or the side of the threshold that a score is on.

Both sides are looked at together: the first axis of ``both`` is the side, the baseline's first.
"""

from typing import Final

import numpy as np

from davylamp.shadow.comparing.closeness import Floats
from davylamp.shadow.comparing.distributions import are_distributions, divergences, rankings, softmax
from davylamp.shadow.comparing.findings import MOST_ITEMS, Findings
from davylamp.shadow.comparison import Difference, Measure
from davylamp.shadow.formats.reading import Array
from davylamp.shadow.task import Rules

_FEWEST_RANKED: Final = 3
_SIDES: Final = np.array([[0], [1]])


def look_at_labels(first: Array, second: Array, findings: Findings) -> None:
    """Compare labels of the same shape; each is a decision."""
    findings.decides = True
    if not findings.classes:
        findings.classes.extend(zip(_texts(first), _texts(second), strict=True))
    different = (first != second).any()
    findings.differ(Difference.DECISION, different)
    findings.differ(Difference.VALUES, different)


def _texts(labels: Array) -> list[str]:
    return [str(label) for label in labels.reshape(-1)[:MOST_ITEMS].tolist()]


def look_at_floats(floats: Floats, rules: Rules, findings: Findings) -> None:
    """Compare floats as classes, if they have a last axis of two or more beside that of the items, else as scores.

    Parameters
    ----------
    floats
        Numbers that are neither classes nor scores from 0 to 1 decide nothing.
    rules
        With the threshold and k.
    findings
        Where what is found goes.
    """
    shape = floats.finite.shape
    classes = shape[-1] if len(shape) > 1 else 1
    if not floats.finite.size:
        return
    both = floats.both.reshape(2, -1, classes)
    if not floats.whole:
        finite = floats.finite.reshape(-1, classes).all(axis=1)
        _look_at_infinite(both[:, ~finite], findings)
        both = both[:, finite]
    if not both.size:
        return
    if classes > 1:
        _look_at_classes(both, rules, findings)
    elif both.min() >= 0 and both.max() <= 1:
        _look_at_scores(np.concatenate((1 - both, both), axis=2), rules, findings)
        _note_rankings(both[:, :MOST_ITEMS].reshape(2, 1, -1), rules, findings)


def _look_at_infinite(both: Array, findings: Findings) -> None:
    """Compare rows that are not all finite: the highest class decides, but nothing is higher or lower than NaN."""
    empty = np.isnan(both)
    findings.differ(Difference.DECISION, (empty[0] != empty[1]).any())
    if both.shape[2] < _FEWEST_RANKED:
        # The threshold has to do with the score itself, and an infinite one is none.
        endless = np.where(np.isinf(both), both, 0)
        findings.differ(Difference.DECISION, (endless[0] != endless[1]).any())
    if both.shape[2] > 1:
        findings.decides = True
        highest = np.where(empty, -np.inf, both).argmax(axis=2)
        findings.differ(Difference.DECISION, (highest[0] != highest[1]).any())


def _look_at_classes(both: Array, rules: Rules, findings: Findings) -> None:
    shares = both if are_distributions(both) else softmax(both)
    if both.shape[2] < _FEWEST_RANKED:
        _look_at_scores(shares, rules, findings)
        return
    chosen = both.argmax(axis=2)
    if not findings.classes:
        findings.classes.extend(zip(_texts(chosen[0]), _texts(chosen[1]), strict=True))
    flipped = chosen[0] != chosen[1]
    if flipped.any():
        best = np.sort(shares[0, flipped], axis=1)
        _note_flips(best[:, -1] - best[:, -2], findings)
    _note_shares(shares[:, :MOST_ITEMS], chosen[:, :MOST_ITEMS], findings)
    _note_rankings(both[:, :MOST_ITEMS], rules, findings)


def _look_at_scores(shares: Array, rules: Rules, findings: Findings) -> None:
    """Compare shares of two classes, of which the second is the positive one."""
    scores = shares[:, :, 1]
    chosen = (scores >= rules.threshold).astype(np.intp)
    if not findings.sides:
        before, after = (scores[:, :MOST_ITEMS] >= rules.threshold).tolist()
        findings.sides.extend(zip(before, after, strict=True))
    flipped = chosen[0] != chosen[1]
    if flipped.any():
        _note_flips(np.abs(scores[0, flipped] - rules.threshold), findings)
    _note_shares(shares[:, :MOST_ITEMS], chosen[:, :MOST_ITEMS], findings)
    before, after = np.minimum(scores[:, :MOST_ITEMS], 1)
    findings.scores.extend(zip(before.tolist(), after.tolist(), strict=True))
    findings.measure(Measure.SCORE_CHANGE, float((after - before).sum()) / len(before))


def _note_flips(margins: Array, findings: Findings) -> None:
    findings.differ(Difference.DECISION, found=True)
    findings.measure_most(Measure.FLIP_MARGIN, float(margins.max()))


def _note_shares(shares: Array, chosen: Array, findings: Findings) -> None:
    findings.decides = True
    kl, js = divergences(shares)
    findings.measure_most(Measure.KL, kl)
    findings.measure_most(Measure.JS, js)
    before, after = np.minimum(shares[_SIDES, np.arange(shares.shape[1]), chosen], 1).tolist()
    findings.confidences.extend(zip(before, after, strict=True))


def _note_rankings(both: Array, rules: Rules, findings: Findings) -> None:
    classes = both.shape[2]
    if classes < _FEWEST_RANKED:
        return
    found = rankings(both, rules.top_k)
    if found.correlation is not None:
        findings.measure_least(Measure.RANK_CORRELATION, found.correlation)
    if rules.top_k < classes:
        findings.measure_least(Measure.TOP_K_OVERLAP, found.overlap)
