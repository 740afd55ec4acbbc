"""A margin in points and one in per cent on the same pairs, both of which must be exceeded to count as worse.

H0 of rollback: one of the margins is kept throughout (the same one in every tick), a union, so the evidence is the
smaller of two e-processes. H0 of promotion: in every tick both are exceeded, an intersection, for which either
e-process is valid, and so is their mean, which is the evidence (it costs at most ln 2); their maximum would not be.
Beyond either needs no design: take a stream of `gatestats.paired` and one of `gatestats.paired_relative`; each is valid
against "within both", and so is their weighted mean for rollback, while promotion needs both. Anytime, exact.
"""

import dataclasses
import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from gatestats.paired import PairedDesign
from gatestats.paired_relative import RelativePairedDesign
from gatestats.state import State, mark, must_belong
from gatestats.ticks import Estimate, Interval, PairedOutcomes, Tick, Worse, tick_as


@dataclass(frozen=True, slots=True)
class BothPairedDesign:
    """Two margins, the more lenient of which decides; a process for `PairedOutcomes`.

    Parameters
    ----------
    margin
        Largest accepted mean loss (share of pairs lost minus share won), 0..0.9.
    part
        Largest accepted change relative to the baseline's rate; see `gatestats.paired_relative`.
    planned_ticks
        Ticks within which a late regression is expected, >= 0; None for an open end.
    worse
        Of which rate ``part`` is meant: LOWER, of right answers; HIGHER, of wrong ones.
    """

    margin: float
    part: float
    planned_ticks: int | None = None
    worse: Worse = Worse.LOWER

    def __post_init__(self) -> None:
        self.difference()  # checks the parameters
        self.ratio()

    def difference(self) -> PairedDesign:
        """Return the test of the margin in points alone."""
        return PairedDesign(self.margin, self.planned_ticks)

    def ratio(self) -> RelativePairedDesign:
        """Return the test of the relative margin alone."""
        return RelativePairedDesign(self.part, self.planned_ticks, self.worse)

    def start(self) -> State:
        """Return the state before the first tick."""
        return _fresh(self)

    def update(self, state: State, tick: Tick) -> State:
        """Return the state after one more tick; see `gatestats.process.Process`."""
        must_belong(state, _fresh(self))
        pairs, (difference, ratio) = tick_as(PairedOutcomes, tick), state.parts
        parts = self.difference().update(difference, pairs.counts), self.ratio().update(ratio, pairs)
        return dataclasses.replace(state, ticks=state.ticks + 1, informative=parts[0].informative, parts=parts)

    def log_e(self, state: State) -> float:
        """Return ln E against "one of the margins is kept in every tick", nats."""
        difference, ratio = state.parts
        return min(self.difference().log_e(difference), self.ratio().log_e(ratio))

    def log_e_non_inferior(self, state: State) -> float:
        """Return ln E against "both margins are reached or exceeded in every tick", nats."""
        difference, ratio = state.parts
        theirs, ours = self.difference().log_e_non_inferior(difference), self.ratio().log_e_non_inferior(ratio)
        return float(np.logaddexp(theirs, ours)) - math.log(2)

    def estimate(self, state: State) -> Estimate | None:
        """Return the mean loss, or None without pairs."""
        return self.difference().estimate(state.parts[0])

    def interval(self, state: State, level: float) -> Interval | None:
        """Return the confidence sequence of a constant mean loss; None without pairs."""
        return self.difference().interval(state.parts[0], level)

    def ratio_interval(self, state: State, level: float) -> Interval | None:
        """Return the confidence sequence of a constant ratio of the rates; None until one of them is above 0."""
        return self.ratio().interval(state.parts[1], level)


@lru_cache(maxsize=512)
def _fresh(design: BothPairedDesign) -> State:
    parts = design.difference().start(), design.ratio().start()
    return State(mark("paired-both", design), 0, 0, 0.0, (), (), (), (), parts)
