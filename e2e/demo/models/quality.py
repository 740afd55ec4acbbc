"""How well a variant decides.

Of people: accuracy, and by sex how many of those who earn over 50K it finds. Of digits: accuracy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

#: A probability of at least this decides for an income over 50K.
THRESHOLD: Final = 0.5

Flags = NDArray[np.bool_]
Classes = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Quality:
    """How one variant decides over the held-out people; all are shares in [0, 1].

    Parameters
    ----------
    accuracy
        Right decisions, of all.
    positive
        Decisions for an income over 50K, of all.
    recall_women, recall_men
        Decisions for an income over 50K, of the women (men) who have one.
    differs
        Decisions unlike the fp32 network's, of all.
    """

    accuracy: float
    positive: float
    recall_women: float
    recall_men: float
    differs: float


def quality(decisions: Flags, *, truth: Flags, men: Flags, fp32: Flags) -> Quality:
    """Judge decisions against the truth; every argument has the shape (n,)."""
    return Quality(
        accuracy=_share(decisions == truth),
        positive=_share(decisions),
        recall_women=_share(decisions[truth & ~men]),
        recall_men=_share(decisions[truth & men]),
        differs=_share(decisions != fp32),
    )


@dataclass(frozen=True, slots=True)
class Top1:
    """How one variant names the class of what was held out; both are shares in [0, 1].

    Parameters
    ----------
    accuracy
        Right decisions, of all.
    differs
        Decisions unlike the fp32 network's, of all.
    """

    accuracy: float
    differs: float


def top1(decisions: Classes, *, truth: Classes, fp32: Classes) -> Top1:
    """Judge decisions among classes against the truth; every argument has the shape (n,)."""
    return Top1(accuracy=_share(decisions == truth), differs=_share(decisions != fp32))


def _share(flags: Flags) -> float:
    if not flags.size:
        raise ValueError("a share of nobody is not a number")
    return float(flags.mean())
