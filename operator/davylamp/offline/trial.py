"""One whole rollout over simulated traffic, decided by the code that decides in a cluster.

Rule 1: reading to evidence, verdict and decision are `davylamp.core`; only traffic, scrapes, route and clock are
simulated.
Rule 2: looks, windows and cuts come as the engine makes them (`davylamp.runtime.engine`): a window begins where the
last ended, a weight that is accepted cuts the evidence one interval later, and an act is verified at once.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from davylamp.core.decide import decide
from davylamp.core.evidence import Evidence, begin
from davylamp.core.judge import judge
from davylamp.core.looking import advance, begins_anew, cut, due_window, serving
from davylamp.core.model import NONE, Progress, Ruling, Variant
from davylamp.core.moves import Action, Lower, Prepare, Raise
from davylamp.core.plan import Plan
from davylamp.core.reading import Reading
from davylamp.core.world import Judgement, RouteView, World
from davylamp.errors import SpecError
from davylamp.offline.servers import BEGINNING, Fleet

#: What a source is asked for beside the window: a few scrapes.
_LOOKBACK: Final = timedelta(seconds=40)
_VERIFY_AFTER: Final = timedelta(milliseconds=50)
_SCRAPE_DELAY: Final = timedelta(milliseconds=80)
#: Seconds that a changed weight takes to reach the data plane.
_DATA_PLANE: Final = 0.3
#: Looks within which a rollout must begin: the baseline's durations are learnt before.
_PATIENCE: Final = 600
#: The baseline serves so long before the rollout begins.
_BEFORE: Final = timedelta(seconds=70)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a simulated rollout went.

    Parameters
    ----------
    rolled_back, promoted
        Looks (intervals, perhaps a fraction) from the first traffic to the decision; None if it did not come.
    culprits
        Gates that were blamed.
    """

    rolled_back: float | None
    promoted: float | None
    culprits: tuple[str, ...]


@dataclass(slots=True)
class Trial:
    """A simulated rollout.

    Parameters
    ----------
    plan
        What it runs by.
    fleets
        The servers, with the gates that are read from them.
    """

    plan: Plan
    fleets: tuple[tuple[Fleet, frozenset[str]], ...]
    now: datetime = BEGINNING + _BEFORE
    progress: Progress = field(default_factory=Progress)
    evidence: Evidence = field(default_factory=Evidence)
    judgement: Judgement = field(default_factory=Judgement)
    route: RouteView = field(default=RouteView("route", NONE, prepared=False, accepted=True))
    began: datetime | None = None
    _read_at: datetime | None = None
    _newest: datetime | None = None
    _share: float = 0.0
    _change: tuple[float, float] | None = None

    def run(self, looks: int) -> Outcome:
        """Run for so many looks under traffic, or until a promotion or a rollback is decided.

        Raises
        ------
        SpecError
            If the rollout never begins, such as for want of the baseline's requests.
        """
        self.evidence = begin(self.plan)
        while self.progress.ruling is Ruling.CONTINUE and self._served() <= looks:
            self.now += self._look()
            if self.began is None and self.now - BEGINNING > _PATIENCE * self.plan.interval:
                raise SpecError(
                    f"the simulated rollout does not begin within {_PATIENCE} looks: {self.progress.message}"
                )
        ruling, served = self.progress.ruling, self._served()
        return Outcome(
            served if ruling is Ruling.ROLLBACK else None,
            served if ruling is Ruling.PROMOTE else None,
            self.judgement.culprits,
        )

    def _served(self) -> float:
        return 0.0 if self.began is None else (self.now - self.began) / self.plan.interval

    def _look(self) -> timedelta:
        """Look, decide and act; return how long the engine waits then."""
        self._serve_until((self.now - BEGINNING).total_seconds())
        self._see()
        self.judgement, _ = judge(self.plan, self.evidence)
        before = self.progress
        decision = decide(self.plan, before, World("uid", False, self.route, 1, 1, self.judgement), self.now)
        self._cut(before, decision.progress)
        self.progress = decision.progress
        self._act(decision.action)
        acted = decision.action is not None or before.phase is not self.progress.phase
        return _VERIFY_AFTER if acted else self._pause()

    def _pause(self) -> timedelta:
        interval = self.plan.interval
        if self._newest is not None:
            wait = self._newest + interval + _SCRAPE_DELAY - self.now
            if interval / 2 < wait <= interval:
                return wait
        return interval

    def _serve_until(self, now: float) -> None:
        change = self._change
        if change is not None and change[0] <= now:
            self._serve(change[0], settle=True)
            self._share, self._change = change[1], None
        self._serve(now, settle=False)

    def _serve(self, until: float, *, settle: bool) -> None:
        for fleet, _ in self.fleets:
            fleet.run(until, self._share)
            if settle:
                fleet.settle(until, self._share)

    def _see(self) -> None:
        """Advance the evidence by one window, if it is time for one."""
        window = due_window(self.evidence, self._read_at, self.now, self.plan.interval)
        if self.progress.attempt is None or window is None:
            self.evidence = replace(self.evidence, candidate_errors=None, candidate_requests=None)
            return
        reading = self._reading(window[0] - _LOOKBACK)
        self.evidence = advance(self.plan, self.progress, self.evidence, (reading, window))
        self._read_at = self.now
        variant = Variant.CANDIDATE if serving(self.progress) else Variant.BASELINE
        times = [signal.newest[variant] for signal in reading.signals.values() if variant in signal.newest]
        self._newest = max(times, default=None)

    def _reading(self, low: datetime) -> Reading:
        span = ((low - BEGINNING).total_seconds(), (self.now - BEGINNING).total_seconds())
        return Reading(
            {
                gate.name: fleet.signal(gate.name, gate.kind, span)
                for fleet, gates in self.fleets
                for gate in self.plan.gates
                if gate.name in gates
            }
        )

    def _cut(self, before: Progress, after: Progress) -> None:
        """Cut the evidence where a decision cuts it."""
        if begins_anew(before, after):
            self.evidence, self._read_at = begin(self.plan), None
        else:
            self.evidence = cut(self.plan, before, after, self.evidence)

    def _act(self, action: Action | None) -> None:
        match action:
            case Prepare(attempt):
                self.route = replace(self.route, prepared=True, attempt=attempt, asked=NONE, ruling=Ruling.CONTINUE)
            case Raise(weight=weight) | Lower(weight=weight):
                self.route = replace(self.route, weight=weight, asked=weight)
                moment = (self.now - BEGINNING).total_seconds() + _DATA_PLANE
                self._change = (moment, weight.percent / 100)
                if self.began is None:
                    self.began = self.now
            case _:
                pass
