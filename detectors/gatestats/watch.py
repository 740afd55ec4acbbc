"""The watch after promotion: when to raise an alarm if traffic stays with the candidate for good.

An e-process has one error budget for ever; a watch without end needs a bound on how often it cries wolf instead. Each
bet k of the watched process has M with M' = L (M + 1) (e-SR) or M' = L max(M, 1) (e-CUSUM); the alarm is raised when
the mixture of all M reaches c. H0: the null of the process, throughout. As E[L | past] <= 1 under H0, the mixture less
the number of ticks is a supermartingale, so the mean number of ticks to the first alarm is at least c. Anytime,
nothing else is assumed. M is no e-value: never average it with e-processes.
Source: statistics.md 1.8; Shin, Ramdas and Rinaldo (2023), arXiv:2203.03532, e-detectors.
"""

import dataclasses
import math
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, Protocol, assert_never, cast

from gatestats.process import Process
from gatestats.state import State, from_json, mark, must_belong, must_fit
from gatestats.ticks import Tick

#: Thirty days of ticks of ten seconds.
_MONTH = 259_200.0


class WatchRule(StrEnum):
    """How wealth is renewed at each tick."""

    #: e-SR: one unit is added; sums over all times at which the change may have begun.
    SHIRYAEV_ROBERTS = "ShiryaevRoberts"
    #: e-CUSUM: wealth below one unit is filled up; follows the likeliest beginning, and alarms no earlier than e-SR.
    CUSUM = "Cusum"


class Betting(Process, Protocol):
    """A process that holds bets of its own (not only parts), with a plan for late changes."""

    @property
    def planned_ticks(self) -> int | None:
        """Ticks within which a late regression is expected."""
        ...


@dataclass(frozen=True, slots=True)
class WatchDesign:
    """An endless watch over the bets of another design.

    Parameters
    ----------
    process
        What is tested; its own plan for late changes is not used.
    run_length
        Mean number of ticks between false alarms, at least, > 1; the default is thirty days of ten-second ticks.
    rule
        How wealth is renewed.
    """

    process: Betting
    run_length: float = _MONTH
    rule: WatchRule = WatchRule.SHIRYAEV_ROBERTS

    def __post_init__(self) -> None:
        if not 1 < self.run_length < math.inf:
            raise ValueError(f"run_length must be a finite number of ticks above 1, got {self.run_length}")
        if not self.process.start().wealth:
            raise ValueError(f"a watch needs a design with bets of its own, got {type(self.process).__name__}")

    def start(self) -> State:
        """Return the state before the first tick."""
        return _fresh(self)

    def update(self, state: State, tick: Tick) -> State:
        """Return the state after one more tick; what the process refuses is refused.

        A tick without information has factor 1: under H0 time passes all the same.
        """
        must_belong(state, _fresh(self))
        (staked,) = state.parts
        process = _settled(self)
        after = dataclasses.replace(process.update(staked, tick), spent=1.0)
        level, ticks = process.log_e(after), state.ticks + 1
        raised = state.totals[0] or (ticks if level >= math.log(self.run_length) else 0)
        renewed = tuple(_renewed(wealth, self.rule) for wealth in after.wealth)
        informative = state.informative + after.informative
        part = dataclasses.replace(after, wealth=renewed, ticks=0, informative=0)
        return dataclasses.replace(
            state, ticks=ticks, informative=informative, totals=(raised,), sums=(level,), parts=(part,)
        )

    def log_level(self, state: State) -> float | None:
        """Return ln of the mixture of all M, nats, to be compared with ln(run_length); None before the first tick."""
        return state.sums[0] if state.ticks else None

    def alarm(self, state: State) -> int | None:
        """Return the number of the tick that raised the alarm, 1 for the first; None if none did. It stays raised."""
        return state.totals[0] or None

    def restore(self, text: str) -> State:
        """Read a state back from `State.to_json`; errors as in `gatestats.process.restore`."""
        state = from_json(text)
        must_fit(state, self.start())
        return state


def _renewed(log_wealth: float, rule: WatchRule) -> float:
    """Return ln of what is at stake in the next tick, >= 0."""
    match rule:
        case WatchRule.SHIRYAEV_ROBERTS:
            return max(0.0, log_wealth) + math.log1p(math.exp(-abs(log_wealth)))
        case WatchRule.CUSUM:
            return max(0.0, log_wealth)
        case never:
            assert_never(never)


@lru_cache(maxsize=512)
def _settled(design: WatchDesign) -> Process:
    """Return the process without stakes of its own for late changes."""
    return cast("Process", dataclasses.replace(cast("Any", design.process), planned_ticks=0))


@dataclass(frozen=True, slots=True)
class _Mark:
    process: str
    run_length: float
    rule: WatchRule


@lru_cache(maxsize=512)
def _fresh(design: WatchDesign) -> State:
    inner = _settled(design).start()
    staked = dataclasses.replace(inner, wealth=(0.0,) * len(inner.wealth), spent=1.0)
    name = mark("watch", _Mark(inner.design, design.run_length, design.rule))
    return State(name, 0, 0, 0.0, (), (), (0,), (0.0,), (staked,))
