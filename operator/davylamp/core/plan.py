"""What a rollout runs by: the ladder, the gates and the limits, as values with units."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum
from typing import Final

from davylamp.core.model import Pair, Weight
from davylamp.core.moves import Diversion
from davylamp.core.slices import Slice


class SignalKind(StrEnum):
    """What a signal counts."""

    #: Failed requests among all requests.
    ERRORS = "Errors"
    #: Requests by duration.
    LATENCY = "Latency"
    #: An own pair of counters.
    COUNTER = "Counter"
    #: Shadow pairs of a kind among all pairs, against a limit.
    SHADOW_SHARE = "ShadowShare"
    #: Shadow pairs of a kind, against the same between the baseline and itself.
    SHADOW_NOISE = "ShadowNoise"
    #: Shadow pairs whose score crosses an edge upwards and downwards.
    SHADOW_MOVES = "ShadowMoves"
    #: Decisions on the same requests, by slice, most of them once their labels are known.
    SLICE = "Slice"


#: What is seen on shadow traffic alone, and only while it is mirrored.
SHADOW_KINDS: Final = frozenset({SignalKind.SHADOW_SHARE, SignalKind.SHADOW_NOISE, SignalKind.SHADOW_MOVES})


class SliceMeasure(StrEnum):
    """What is compared between the variants inside a slice; the last two between the slice and everybody else."""

    TRUE_POSITIVE_RATE = "truePositiveRate"
    FALSE_POSITIVE_RATE = "falsePositiveRate"
    ACCURACY = "accuracy"
    PRECISION = "precision"
    SELECTION_RATE = "selectionRate"
    EQUALIZED_ODDS = "equalizedOddsDifference"
    DEMOGRAPHIC_PARITY = "demographicParityDifference"


#: Measures that look at how a slice differs from everybody else.
BETWEEN_GROUPS: Final = frozenset({SliceMeasure.EQUALIZED_ODDS, SliceMeasure.DEMOGRAPHIC_PARITY})
#: Measures of decisions alone, which need no labels.
WITHOUT_LABELS: Final = frozenset({SliceMeasure.SELECTION_RATE, SliceMeasure.DEMOGRAPHIC_PARITY})


class Direction(StrEnum):
    """Which way a share moves when the candidate is worse."""

    HIGHER = "Higher"
    LOWER = "Lower"
    EITHER = "Either"


@dataclass(frozen=True, slots=True)
class OddsRatioMargin:
    """Largest accepted odds ratio in the worse direction, > 1."""

    ratio: float


@dataclass(frozen=True, slots=True)
class AbsoluteMargin:
    """Largest accepted difference of two shares, as a fraction in (0, 0.5]."""

    difference: float


@dataclass(frozen=True, slots=True)
class RelativeMargin:
    """Largest accepted difference of two shares as part of the baseline's, a fraction in (0, 1]."""

    part: float


@dataclass(frozen=True, slots=True)
class SlowdownMargin:
    """Largest accepted slowdown of the whole distribution, as a fraction in (0, 1]: 0.1 is 10 % slower."""

    part: float


@dataclass(frozen=True, slots=True)
class LimitMargin:
    """Largest accepted share of the candidate alone, a fraction in (0, 1)."""

    share: float


Margin = OddsRatioMargin | AbsoluteMargin | RelativeMargin | SlowdownMargin | LimitMargin


@dataclass(frozen=True, slots=True)
class Sliced:
    """What of which slice a gate judges.

    Parameters
    ----------
    measure
        What is compared.
    slice
        Whose requests; its label is empty for everybody's.
    relative
        A second margin, as part of the baseline's rate, in (0, 1]; None for none.
    beyond_both
        Whether a loss must be beyond both margins to count; otherwise one of them is enough.
    """

    measure: SliceMeasure
    slice: Slice
    relative: float | None = None
    beyond_both: bool = False


@dataclass(frozen=True, slots=True)
class Gate:
    """One thing that the candidate must show.

    Parameters
    ----------
    name
        ``errors``, ``latency`` or the name of an own metric.
    kind
        What the signal counts.
    worse
        Direction of a loss.
    margin
        Largest loss that is accepted.
    allowance
        Difference of the error shares that promotion forgives whatever the margin, a fraction; None for the default.
        Rolling back is not affected.
    required
        Whether promotion waits for this gate.
    edges
        Of the score that SHADOW_MOVES looks at, in (0, 1), rising.
    sliced
        For SLICE: what of which slice.
    """

    name: str
    kind: SignalKind
    worse: Direction
    margin: Margin
    allowance: float | None = None
    required: bool = True
    edges: tuple[float, ...] = ()
    sliced: Sliced | None = None

    @property
    def shadow(self) -> bool:
        """Whether it is judged on shadow traffic."""
        return self.kind in SHADOW_KINDS


@dataclass(frozen=True, slots=True)
class Shadow:
    """How requests are mirrored at a step.

    Parameters
    ----------
    sample
        Share of the requests that both variants answer, a fraction in (0, 1].
    min_pairs
        Least pairs of answers that are compared here, >= 1.
    max_duration
        How long a step without live traffic waits for its pairs and its proof.
    """

    sample: float
    min_pairs: int
    max_duration: timedelta


@dataclass(frozen=True, slots=True)
class Step:
    """One rung: a weight to reach, or (weight None) a stay at the weight before: a pause, or a step of shadow traffic.

    Parameters
    ----------
    weight
        The candidate's share; None to stay.
    bake
        Least time under observation here, or the length of the pause.
    min_samples
        Least requests that each variant must have served here, >= 0.
    shadow
        How requests are mirrored here; None if they are not.
    """

    weight: Weight | None
    bake: timedelta
    min_samples: int = 0
    shadow: Shadow | None = None


@dataclass(frozen=True, slots=True)
class SliceRules:
    """What holds of all slices together.

    Parameters
    ----------
    min_support
        Pairs below which a slice is too small to judge, >= 1.
    min_labels
        Labelled pairs in all before any slice may be called too small, >= 1.
    hold_when_small
        Whether promotion waits for slices that are too small as well.
    diversions
        By the label of a slice, what a route sends to the baseline when the slice alone has regressed; empty if all
        traffic goes back then. A slice that a route cannot see is not among them.
    """

    min_support: int
    min_labels: int
    hold_when_small: bool = False
    diversions: Mapping[str, Diversion] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TripWires:
    """Gross faults that take the traffic back at once: ``error_share`` (fraction) over ``ticks`` ticks in a row."""

    error_share: float
    ticks: int
    min_requests: int


@dataclass(frozen=True, slots=True)
class Plan:
    """All settings of an attempt, complete.

    Parameters
    ----------
    spec_hash, candidate_digest
        What makes an attempt a new one, and what the candidate is recognised by.
    pair
        What traffic is shared between.
    steps
        The ladder, at least one with a weight; weights rise.
    gates
        At least one.
    interval
        Time between two looks.
    false_rollback_rate, false_promotion_rate
        Probabilities in (0, 0.5], of the whole rollout.
    promotion_bake, promotion_deadline
        Time under observation at 100 %, and how long the last step waits for evidence.
    cooldown
        How long a rolled-back candidate stays in quarantine.
    no_data_tell_after, no_data_roll_back_after
        Counted from the last complete data; the latter None if the weight is held until a person decides.
    trip_wires
        Hard limits.
    paused
        Whether raises are suspended.
    comparator
        Where requests are mirrored to, as ``name:port`` of a Service; empty if they never are.
    slices
        What holds of all slices; None if none is judged.
    """

    spec_hash: str
    candidate_digest: str
    pair: Pair
    steps: tuple[Step, ...]
    gates: tuple[Gate, ...]
    interval: timedelta
    false_rollback_rate: float
    false_promotion_rate: float
    promotion_bake: timedelta
    promotion_deadline: timedelta
    cooldown: timedelta
    no_data_tell_after: timedelta
    no_data_roll_back_after: timedelta | None
    trip_wires: TripWires
    paused: bool = False
    comparator: str = ""
    slices: SliceRules | None = None

    @property
    def weights(self) -> tuple[Weight, ...]:
        """The weights of the ladder, lowest first."""
        return tuple(step.weight for step in self.steps if step.weight is not None)

    @property
    def live_gates(self) -> tuple[Gate, ...]:
        """The gates on live traffic."""
        return tuple(gate for gate in self.gates if not gate.shadow and gate.sliced is None)

    @property
    def shadow_gates(self) -> tuple[Gate, ...]:
        """The gates on shadow traffic."""
        return tuple(gate for gate in self.gates if gate.shadow)

    @property
    def slice_gates(self) -> tuple[Gate, ...]:
        """The gates on slices."""
        return tuple(gate for gate in self.gates if gate.sliced is not None)

    @property
    def live(self) -> "Plan":
        """The part of it that live traffic decides: no mirror, no gate on pairs of answers, no step of shadow alone."""
        steps = tuple(
            replace(step, shadow=None) for step in self.steps if step.shadow is None or step.weight is not None
        )
        return replace(self, steps=steps, gates=self.live_gates, comparator="", slices=None)

    @property
    def planned_looks(self) -> int:
        """Looks of a rollout that nothing holds, at least 1: the bakes and the proof at the end."""
        longest = sum((step.bake for step in self.steps), self.promotion_bake)
        return max(1, math.ceil(longest / self.interval))

    def weight_at(self, step: int) -> Weight:
        """Return the weight that holds at step ``step``: its own, or for a pause that of the step before."""
        for index in range(min(step, len(self.steps) - 1), -1, -1):
            weight = self.steps[index].weight
            if weight is not None:
                return weight
        return Weight(0)

    def samples_at(self, step: int) -> int:
        """Return the requests that step ``step`` asks of each variant; a pause asks what the step before it does."""
        for index in range(min(step, len(self.steps) - 1), -1, -1):
            if self.steps[index].weight is not None:
                return self.steps[index].min_samples
        return 0

    def shadow_at(self, step: int) -> Shadow | None:
        """Return how requests are mirrored at step ``step``: after the last of them as there, before the first none."""
        if step < 0:
            return None
        return self.steps[min(step, len(self.steps) - 1)].shadow

    def shadow_alone(self, step: int) -> Shadow | None:
        """Return how requests are mirrored at a step that changes no weight; None if ``step`` is none of these."""
        if not 0 <= step < len(self.steps) or self.steps[step].weight is not None:
            return None
        return self.steps[step].shadow

    def proves_shadow(self, step: int) -> bool:
        """Whether step ``step`` waits for the proof on shadow traffic: it changes no weight, or no later step mirrors.

        The last step of the ladder need not, since promotion waits for every gate.
        """
        later = self.steps[step + 1 :]
        last = self.shadow_at(step) is not None and bool(later) and all(each.shadow is None for each in later)
        return last or self.shadow_alone(step) is not None

    def rung_below(self, weight: Weight) -> int:
        """Return the highest step whose weight is at most ``weight``; -1 if there is none."""
        fitting = [i for i, step in enumerate(self.steps) if step.weight is not None and step.weight <= weight]
        return max(fitting, default=-1)
