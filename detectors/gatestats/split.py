"""Is traffic split as asked: the sample-ratio check, at every look, while the asked weight changes.

H0: in every tick, given their number, requests fall on the variants independently with the shares asked for.
A split that is not as asked says that routing, retries or counting treat the variants unlike, and that no comparison
between them can be trusted. Requests that stick together (sessions, connections, round robin within one client) break
H0 without any harm: then ask for a split of sessions.
Each tick is predicted by a Dirichlet-multinomial law of the past: all of it, and the recent past. When the asked
shares change, what was learnt is carried over as the same skew. Predictions are made before the tick, so the ratio of
the two laws is a martingale; validity: anytime, exact.
Source: statistics.md 1.11; Lindon and Malek (2022), arXiv:2011.03567.
"""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from gatestats.arrays import as_array
from gatestats.late_change import FIRST_STAKE, first_wealth, log_evidence, refuse_bad_plan, step_wealth
from gatestats.state import State, mark, must_belong
from gatestats.ticks import Estimate, Interval, Measure, SplitCounts, Tick, refuse_bad_level, tick_as

#: Share of the past that each prediction keeps from tick to tick, and the prior mass of each prediction.
_MEMORY: Final = (1.0, 0.98)
_WEIGHTS: Final = (0.5, 0.5)


@dataclass(frozen=True, slots=True)
class SplitDesign:
    """A check of the traffic split; a process for `SplitCounts`.

    Parameters
    ----------
    variants
        How many variants traffic is split between, >= 2.
    concentration
        How close to the asked shares the first predictions are, in requests, > 0. The default suits skews of a
        tenth and more; larger for smaller ones.
    planned_ticks
        Ticks within which a late skew is expected, >= 0; None for an open end.
    """

    variants: int = 2
    concentration: float = 100.0
    planned_ticks: int | None = None

    def __post_init__(self) -> None:
        if self.variants < 2:
            raise ValueError(f"variants must be at least 2, got {self.variants}")
        if not 0 < self.concentration < math.inf:
            raise ValueError(f"concentration must be a finite number of requests above 0, got {self.concentration}")
        refuse_bad_plan(self.planned_ticks)

    def start(self) -> State:
        """Return the state before the first tick."""
        return _fresh(self)

    def update(self, state: State, tick: Tick) -> State:
        """Return the state after one more tick; see `gatestats.process.Process`.

        Raises
        ------
        ValueError
            As every process, and if the tick has another number of variants.
        """
        must_belong(state, _fresh(self))
        split = tick_as(SplitCounts, tick)
        if len(split.counts) != self.variants:
            raise ValueError(f"this design splits between {self.variants} variants, got {len(split.counts)}")
        requests, (pasts, rest) = sum(split.counts), _pasts(self, state, split)
        factors = [_log_factor(split, self.concentration, past) for past in pasts]
        wealth, spent = step_wealth(state, as_array(factors), self.planned_ticks)
        sums = state.sums if not requests else (*_next_pasts(split, pasts), *split.asked, rest)
        return dataclasses.replace(
            state,
            ticks=state.ticks + 1,
            informative=state.informative + (requests > 0),
            spent=spent,
            wealth=wealth,
            totals=tuple(before + now for before, now in zip(state.totals, split.counts, strict=True)),
            sums=sums,
        )

    def log_e(self, state: State) -> float:
        """Return ln E against "split as asked in every tick", nats."""
        return log_evidence(state, as_array(_WEIGHTS))

    def log_e_non_inferior(self, state: State) -> float | None:
        """Return None: no skew is tolerated, so there is no margin to stay within."""
        must_belong(state, _fresh(self))
        return None

    def estimate(self, state: State) -> Estimate | None:
        """Return the last variant's share of requests less the share asked for; None without requests.

        The levels are the share asked for, averaged over requests, and the share seen.
        """
        requests, candidate = sum(state.totals), state.totals[-1]
        if not requests:
            return None
        asked, seen = state.sums[-1] / requests, candidate / requests
        return Estimate(Measure.SPLIT_DIFFERENCE, seen - asked, asked, seen, requests - candidate, candidate)

    def interval(self, state: State, level: float) -> Interval | None:
        """Return None: under changing shares there is no one skew to bound."""
        must_belong(state, _fresh(self))
        refuse_bad_level(level)
        return None


def log_dirichlet_factor(counts: Sequence[int], asked: Sequence[float], prior: Sequence[float]) -> float:
    """Return ln of the Dirichlet-multinomial likelihood of counts over their multinomial one, nats.

    H0: the shares are those asked for. Valid in one tick if the prior was fixed before it; with a fixed prior on
    running totals at any time, as long as the shares asked for stay the same.

    Parameters
    ----------
    counts
        Requests of each variant, >= 0.
    asked
        Shares, in (0, 1), adding up to 1.
    prior
        Parameters of the Dirichlet law, > 0, finite.
    """
    if not all(0 < shape < math.inf for shape in prior):
        raise ValueError(f"the prior must be above 0 and finite, got {tuple(prior)}")
    mass = math.fsum(prior)
    gains = [math.lgamma(shape + count) - math.lgamma(shape) for shape, count in zip(prior, counts, strict=True)]
    asked_for = [count * math.log(part) for part, count in zip(asked, counts, strict=True)]
    return math.fsum([math.lgamma(mass) - math.lgamma(mass + sum(counts)), *gains, *(-term for term in asked_for)])


def _log_factor(split: SplitCounts, concentration: float, past: Sequence[float]) -> float:
    prior = [concentration * part + seen for part, seen in zip(split.asked, past, strict=True)]
    return log_dirichlet_factor(split.counts, split.asked, prior) if any(split.counts) else 0.0


def _pasts(design: SplitDesign, state: State, split: SplitCounts) -> tuple[list[list[float]], float]:
    """Return what each prediction remembers, under the shares asked now, and the requests asked for up to now."""
    size = design.variants
    before, asked_for = state.sums[-1 - size : -1], state.sums[-1] + sum(split.counts) * split.asked[-1]
    pasts = []
    for start in range(0, size * len(_MEMORY), size):
        past = state.sums[start : start + size]
        mass = math.fsum(past)
        if not mass:
            pasts.append([0.0] * size)
            continue
        skewed = [seen * now / then for seen, now, then in zip(past, split.asked, before, strict=True)]
        scale = mass / math.fsum(skewed)
        pasts.append([seen * scale for seen in skewed])
    return pasts, asked_for


def _next_pasts(split: SplitCounts, pasts: list[list[float]]) -> list[float]:
    return [
        memory * seen + count
        for memory, past in zip(_MEMORY, pasts, strict=True)
        for seen, count in zip(past, split.counts, strict=True)
    ]


@lru_cache(maxsize=512)
def _fresh(design: SplitDesign) -> State:
    size, bets = design.variants, len(_MEMORY)
    sums = (0.0,) * (size * (bets + 1) + 1)
    return State(mark("split", design), 0, 0, FIRST_STAKE, first_wealth(bets), (), (0,) * size, sums)
