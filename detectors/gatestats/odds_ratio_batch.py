"""Many odds ratio streams advanced by one tick in one pass: the same bits as one by one, in less time.

A block holds the states of its streams in columns; it is made of states, and gives them back.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gatestats.arrays import FloatArray, IntArray, log_sum_exp
from gatestats.late_change import held, stake
from gatestats.noncentral import log_normalisers_of_many
from gatestats.odds_ratio import MARGIN, OddsRatioDesign, bets_of, common_odds_terms, is_informative
from gatestats.state import State, must_fit
from gatestats.ticks import Tick, TwoArmCounts, Worse, tick_as


@dataclass(frozen=True, slots=True, eq=False)
class OddsRatioBlock:
    """The states of many streams, one row each; make it with `of`.

    Parameters
    ----------
    designs
        Of each stream; all with an ``mde``, or all without.
    ticks, informative, spent
        As in `gatestats.state.State`, shape (streams,).
    wealth
        Shape (streams, bets).
    totals, sums
        Shape (streams, as many as the state of one has).
    """

    designs: tuple[OddsRatioDesign, ...]
    ticks: IntArray
    informative: IntArray
    spent: FloatArray
    wealth: FloatArray
    totals: IntArray
    sums: FloatArray

    @classmethod
    def of(cls, designs: Sequence[OddsRatioDesign], states: Sequence[State]) -> "OddsRatioBlock":
        """Return the block of the streams with these designs and states.

        Raises
        ------
        ValueError
            If there is no stream, lengths differ, a state does not fit its design, or designs bet on more or fewer
            effects than the first.
        """
        if not designs or len(designs) != len(states):
            raise ValueError(f"streams need a design and a state each, got {len(designs)} and {len(states)}")
        for design, state in zip(designs, states, strict=True):
            must_fit(state, design.start())
            if len(state.wealth) != len(states[0].wealth):
                raise ValueError("streams of one block must all have an mde, or none of them")
        return cls(
            designs=tuple(designs),
            ticks=np.array([state.ticks for state in states], dtype=np.int64),
            informative=np.array([state.informative for state in states], dtype=np.int64),
            spent=np.array([state.spent for state in states], dtype=np.float64),
            wealth=np.array([state.wealth for state in states], dtype=np.float64),
            totals=np.array([state.totals for state in states], dtype=np.int64),
            sums=np.array([state.sums for state in states], dtype=np.float64),
        )

    def advance(self, ticks: Sequence[Tick]) -> "OddsRatioBlock":
        """Return the block after one more tick of every stream; H0, validity and bits as `OddsRatioDesign.update`.

        Parameters
        ----------
        ticks
            `TwoArmCounts` of each stream, in the order of the designs; without requests where there was no data.

        Raises
        ------
        ValueError
            If a tick is of another kind or their number differs; then no stream is advanced.
        """
        if len(ticks) != len(self.designs):
            raise ValueError(f"each of {len(self.designs)} streams needs a tick, got {len(ticks)}")
        seen = [tick_as(TwoArmCounts, tick) for tick in ticks]
        turned = [
            tick.swapped() if design.worse is Worse.LOWER else tick
            for design, tick in zip(self.designs, seen, strict=True)
        ]
        informative = np.array([is_informative(counts) for counts in turned])
        events = np.where(informative, [counts.candidate_events for counts in turned], 0)
        bets = [bets_of(design) for design in self.designs]
        added = np.zeros((len(seen), bets[0].log_odds.size))
        if informative.any():
            asked = np.flatnonzero(informative)
            log_odds = np.stack([bets[stream].log_odds for stream in asked])
            added[asked] = log_normalisers_of_many([turned[stream] for stream in asked], log_odds)
        kept = bets[0].kept
        steps = np.stack([of.rollback - of.margin for of in bets])
        factors = events[:, None] * steps - (added[:, kept:] - added[:, MARGIN : MARGIN + 1])
        apart = np.array([tick.apart for tick in seen])
        factors[apart] = held(factors[apart], apart=True)
        wealth, spent = self._staked(factors)
        terms = [common_odds_terms(tick) for tick in seen]
        counted = [
            (tick.baseline_events, tick.baseline_total, tick.candidate_events, tick.candidate_total) for tick in seen
        ]
        return OddsRatioBlock(
            self.designs,
            self.ticks + 1,
            self.informative + informative,
            spent,
            wealth,
            self.totals + np.column_stack([np.array(counted, dtype=np.int64), events]),
            self.sums + np.column_stack([added[:, :kept], np.array(terms)]),
        )

    def log_e(self) -> FloatArray:
        """Return ln E against "odds ratio <= margin in every tick" of each stream, nats, shape (streams,)."""
        weights = np.stack([bets_of(design).rollback_weights for design in self.designs])
        terms, cash = self.wealth + np.log(weights), 1.0 - self.spent
        some = cash > 0
        log_cash = np.log(np.where(some, cash, 1.0))[:, None]
        result: FloatArray = np.where(some, log_sum_exp(np.concatenate([terms, log_cash], axis=1)), log_sum_exp(terms))
        return result

    def states(self) -> list[State]:
        """Return the state of each stream, as `OddsRatioDesign.update` would have made it."""
        return [
            State(design.start().design, ticks, informative, spent, tuple(wealth), (), tuple(totals), tuple(sums))
            for design, ticks, informative, spent, wealth, totals, sums in zip(
                self.designs,
                self.ticks.tolist(),
                self.informative.tolist(),
                self.spent.tolist(),
                self.wealth.tolist(),
                self.totals.tolist(),
                self.sums.tolist(),
                strict=True,
            )
        ]

    def _staked(self, factors: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the wealth after the tick and the mass then spent; see `gatestats.late_change.step_wealth`."""
        ticks = self.ticks.tolist()
        additions = [stake(tick + 1, design.planned_ticks) for tick, design in zip(ticks, self.designs, strict=True)]
        log_additions = np.array([math.log(addition) if addition else 0.0 for addition in additions])
        added = np.array(additions)
        wealth = self.wealth + factors
        staking = added > 0
        wealth[staking] = np.logaddexp(wealth[staking], log_additions[staking, None])
        return wealth, np.where(staking, np.minimum(1.0, self.spent + added), self.spent)


def advance_many(designs: Sequence[OddsRatioDesign], states: Sequence[State], ticks: Sequence[Tick]) -> list[State]:
    """Return the state of every stream after one more tick, as `OddsRatioDesign.update` would.

    Who advances the same streams again and again keeps the `OddsRatioBlock` instead.

    Parameters
    ----------
    designs, states, ticks
        Of each stream, all of one length; designs may differ in anything.

    Raises
    ------
    ValueError
        If lengths differ, or as `OddsRatioBlock`; then no stream is advanced.
    """
    if not len(designs) == len(states) == len(ticks):
        raise ValueError(f"each stream needs a design, a state and a tick, got {len(designs), len(states), len(ticks)}")
    result: dict[int, State] = {}
    for wish in (False, True):
        streams = [stream for stream, design in enumerate(designs) if (design.mde is not None) is wish]
        if streams:
            block = OddsRatioBlock.of([designs[s] for s in streams], [states[s] for s in streams])
            result |= zip(streams, block.advance([ticks[s] for s in streams]).states(), strict=True)
    return [result[stream] for stream in range(len(states))]
