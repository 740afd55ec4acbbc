"""A classifier in shadow whose labels come late and out of order, seen by sex, race and both, as in the Adult census.

Labels come after some looks or never; how late depends on the label, never on a variant. Shares of the positive label
and what the baseline gets right drift for both variants. Pairs are counted when their label comes.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from e2e.bench.statistics.paths import _mixture
from e2e.bench.statistics.scene import FloatArray
from gatestats.arrays import as_array
from gatestats.combine import guarded_weights
from gatestats.late_change import FIRST_STAKE
from gatestats.paired import PairedDesign
from gatestats.paired_relative import RelativePairedDesign
from gatestats.process import Process
from gatestats.ticks import PairedOutcomes, Tick

IntArray = NDArray[np.int64]

#: Sex, race, how many of the 45,222 people of the census, and how many of them earn over 50K: the positive label.
ADULT: Final = (
    ("Female", "Amer-Indian-Eskimo", 166, 14),
    ("Female", "Asian-Pac-Islander", 436, 65),
    ("Female", "Black", 2084, 126),
    ("Female", "Other", 126, 9),
    ("Female", "White", 11883, 1455),
    ("Male", "Amer-Indian-Eskimo", 269, 39),
    ("Male", "Asian-Pac-Islander", 867, 304),
    ("Male", "Black", 2144, 408),
    ("Male", "Other", 227, 36),
    ("Male", "White", 27020, 8752),
)
POSITIVE, NEGATIVE = 0, 1
#: What the baseline gets right, of positives and of negatives, by sex.
_RIGHT: Final = {"Female": (0.58, 0.98), "Male": (0.64, 0.92)}
#: Shares of pairs in which either variant alone is right, before any loss.
_UNLIKE: Final = 0.02
REQUESTS: Final = 550
LOOKS: Final = 120
#: Mean looks until the label of a positive and of a negative comes; longer than the longest, it never does.
_DELAYS: Final = (10.0, 5.0)
_LONGEST: Final = 40
_NEVER: Final = 0.08
_PERIOD: Final = 45.0
POINTS, PART = 0.015, 0.05


@dataclass(frozen=True, slots=True)
class Stream:
    """A gate's test: which intersections and labels it counts, and its design."""

    design: Process
    inside: tuple[int, ...]
    labels: tuple[int, ...]


def losses(points: float, sex: str = "", race: str = "") -> FloatArray:
    """Return how much more of the positives the candidate loses in each intersection, 0 for all negatives; (10, 2)."""
    hit = [(not sex or group[0] == sex) and (not race or group[1] == race) for group in ADULT]
    return np.stack([points * as_array(hit), np.zeros(len(ADULT))], axis=1)


def everywhere(points: float) -> FloatArray:
    """Return the same loss for each intersection and label."""
    return np.full((len(ADULT), 2), points)


def slices() -> Mapping[str, tuple[int, ...]]:
    """Return the twelve slices, each with its intersections."""
    both = {f"sex={sex} & race={race}": (place,) for place, (sex, race, *_) in enumerate(ADULT)}
    sexes = {
        f"sex={sex}": tuple(place for place, group in enumerate(ADULT) if group[0] == sex) for sex in ("Female", "Male")
    }
    return {**sexes, **both}


def streams() -> tuple[Mapping[str, Stream], Mapping[str, float]]:
    """Return all streams by name, and their weights: half for three of everybody, half for those of the slices."""
    kinds = {"TPR": (POSITIVE,), "FPR": (NEGATIVE,), "accuracy": (POSITIVE, NEGATIVE)}
    points = PairedDesign(POINTS, LOOKS)
    everybody = tuple(range(len(ADULT)))
    guardrails = {f"{kind} of all": Stream(points, everybody, labels) for kind, labels in kinds.items()}
    found = {}
    for name, inside in slices().items():
        for kind, labels in kinds.items():
            found[f"{kind} of {name}, points"] = Stream(points, inside, labels)
            if kind != "FPR":
                found[f"{kind} of {name}, part"] = Stream(RelativePairedDesign(PART, LOOKS), inside, labels)
    return {**guardrails, **found}, guarded_weights(list(guardrails), dict.fromkeys(found, True))


def truth(loss: FloatArray, look: FloatArray) -> FloatArray:
    """Return the shares of pairs by what they come to, in the order of `PairedOutcomes`, neither last.

    Parameters
    ----------
    loss
        Shape (10, 2): of the positives and negatives of each intersection, what only the baseline gets right beyond
        what only the candidate does.
    look
        Times, shape (looks,).

    Returns
    -------
    FloatArray
        Shape (looks, 10, 2, 4).
    """
    right = as_array([side for sex, *_ in ADULT for side in _RIGHT[sex]]).reshape(len(ADULT), 2)
    drifting = right * (1 - 0.06 * (1 + np.sin(look / _PERIOD)))[:, None, None]
    worse = np.minimum(_UNLIKE + loss, drifting)
    better = np.broadcast_to(np.minimum(_UNLIKE, 1 - drifting), worse.shape)
    return np.stack([drifting - worse, worse, better, 1 - drifting - better], axis=-1)


def labelled(loss: FloatArray, looks: int, random: np.random.Generator) -> IntArray:
    """Return the pairs whose label comes in each look; shape (looks, 10, 2, 4), see `truth`."""
    look = np.arange(looks, dtype=np.float64)
    people = as_array([count for *_, count, _ in ADULT])
    positive = as_array([over for *_, over in ADULT]) / people * (1 + 0.3 * np.sin(look / 20))[:, None]
    shares = (people / people.sum())[:, None] * np.stack([positive, 1 - positive], axis=-1)
    served = random.poisson(REQUESTS * shares)
    laws = truth(loss, look)
    arrived = [
        delayed(random.multinomial(served[:, :, label], laws[:, :, label]), label, random)
        for label in (POSITIVE, NEGATIVE)
    ]
    return np.stack(arrived, axis=2)


def delayed(served: IntArray, label: int, random: np.random.Generator) -> IntArray:
    """Return how many of the requests served in each look get their label in each look; same shape, looks first."""
    late, looks = random.multinomial(served, _law(_DELAYS[label])), len(served)
    found = np.zeros_like(served)
    for delay in range(min(_LONGEST, looks)):
        found[delay:] += late[: looks - delay, ..., delay]
    return found


def _law(mean: float) -> FloatArray:
    """Return the chances of each delay in looks, the last that the label never comes."""
    law = np.exp(-np.arange(_LONGEST) / mean)
    return np.append(law / law.sum() * (1 - _NEVER), _NEVER)


def counted(stream: Stream, pairs: IntArray) -> IntArray:
    """Return what one stream counts of `labelled` pairs; shape (looks, 4)."""
    counts: IntArray = pairs[:, list(stream.inside)][:, :, list(stream.labels)].sum(axis=(1, 2))
    return counts


def tick_of(stream: Stream, counts: IntArray) -> Tick:
    """Return one look's counts as the stream's design takes them."""
    both, worse, better, _ = counts.tolist()
    outcomes = PairedOutcomes(both, worse, better, int(counts.sum()))
    return outcomes.counts if isinstance(stream.design, PairedDesign) else outcomes


def evidence(named: Mapping[str, Stream], pairs: IntArray) -> FloatArray:
    """Return ln E against "within the margin" of each stream after each look; (looks, streams), nats."""
    factors = np.stack([counted(stream, pairs) @ _gains(stream) for stream in named.values()], axis=1)
    seen = np.ones(factors.shape[:2], np.bool_)
    return _mixture(factors, seen, _WEIGHTS, LOOKS)


def mean_of(named: Mapping[str, Stream], weights: Mapping[str, float], pairs: IntArray) -> FloatArray:
    """Return ln of the weighted mean of all streams after each look; (looks,), nats."""
    shares = np.log(as_array([weights[name] for name in named]))
    return np.asarray(np.logaddexp.reduce(evidence(named, pairs) + shares, axis=1), dtype=np.float64)


#: Both designs weigh their bets alike.
_WEIGHTS: Final = as_array((0.1, 0.15, 0.2, 0.25, 0.2, 0.1))


def _gains(stream: Stream) -> FloatArray:
    """Return what one pair of each outcome adds to the wealth of each bet, by the library itself; (4, bets), nats."""
    design = cast("Process", replace(cast("Any", stream.design), planned_ticks=0))
    after = [design.update(design.start(), tick_of(stream, one)) for one in np.eye(4, dtype=np.int64)]
    return np.array([state.wealth for state in after]) - math.log(FIRST_STAKE)
