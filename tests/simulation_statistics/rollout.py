"""One whole rollout by the operator's own decision, over simulated traffic.

What the engine does between the reading and the route is done by the same functions; only the API server is a value.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, cast

from davylamp.core.decide import decide
from davylamp.core.evidence import Evidence, begin
from davylamp.core.judge import judge
from davylamp.core.looking import due_window
from davylamp.core.model import NONE, Pair, Progress, Ruling, Verdict, Weight
from davylamp.core.moves import Action, Lower, Prepare, Raise, Repoint, Restore
from davylamp.core.outbox import Outbox
from davylamp.core.plan import (
    AbsoluteMargin,
    Direction,
    Gate,
    OddsRatioMargin,
    Plan,
    RelativeMargin,
    SignalKind,
    SlowdownMargin,
    Step,
    TripWires,
)
from davylamp.core.report import GateReport
from davylamp.core.world import RouteView, World
from davylamp.runtime.catalogue import Name
from davylamp.runtime.engine import _VERIFY_AFTER, Engine, Parts
from davylamp.runtime.observe import _advanced
from davylamp.runtime.session import Session
from tests.simulation_statistics import generator
from tests.simulation_statistics.generator import BEGINNING, Scraping
from tests.simulation_statistics.traffic import Truth

INTERVAL: Final = timedelta(seconds=10)
#: What the source is asked for beside the window: maxSampleAge of the MetricSource.
LOOKBACK: Final = timedelta(seconds=40)

GATES: Final = (
    Gate("errors", SignalKind.ERRORS, Direction.HIGHER, OddsRatioMargin(1.25)),
    Gate("more-errors", SignalKind.ERRORS, Direction.HIGHER, AbsoluteMargin(0.01)),
    Gate("latency", SignalKind.LATENCY, Direction.HIGHER, SlowdownMargin(0.1)),
    Gate("approvals", SignalKind.COUNTER, Direction.EITHER, AbsoluteMargin(0.03)),
    Gate("refusals", SignalKind.COUNTER, Direction.HIGHER, RelativeMargin(0.25)),
)


def plan_of(bake: int = 12, gates: tuple[Gate, ...] = GATES) -> Plan:
    """Return a ladder of 5, 10, 25 and 50 %, ``bake`` looks each."""
    return Plan(
        spec_hash="",
        candidate_digest="",
        pair=Pair("r", "b:80", "c:80"),
        steps=tuple(Step(Weight(percent), bake * INTERVAL) for percent in (5, 10, 25, 50)),
        gates=gates,
        interval=INTERVAL,
        false_rollback_rate=0.01,
        false_promotion_rate=0.05,
        promotion_bake=INTERVAL,
        promotion_deadline=timedelta(days=1),
        cooldown=timedelta(hours=1),
        no_data_tell_after=timedelta(hours=1),
        no_data_roll_back_after=None,
        trip_wires=TripWires(1.0, 1000, 10),
    )


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a rollout went.

    Parameters
    ----------
    rolled_back, promoted
        Seconds from the first traffic to the decision; None if it did not come.
    culprits
        Gates that were blamed.
    proven
        Gates that were at some look shown to be no worse.
    strongest
        Largest ln of the mean evidence, nats.
    evidence, reports
        At the end.
    """

    rolled_back: float | None
    promoted: float | None
    culprits: tuple[str, ...]
    proven: frozenset[str]
    strongest: float
    evidence: Evidence
    reports: tuple[GateReport, ...]


@dataclass(slots=True)
class _Clock:
    time: datetime = BEGINNING

    def now(self) -> datetime:
        return self.time


@dataclass(slots=True)
class Rollout:
    """An operator and its world.

    Parameters
    ----------
    plan, truth, scraping, seed
        What is rolled out over what.
    """

    plan: Plan
    truth: Truth
    scraping: Scraping
    seed: int
    world: generator.World = field(init=False)
    session: Session = field(init=False)
    route: RouteView = field(init=False)
    clock: _Clock = field(default_factory=_Clock)
    engine: Engine = field(init=False)
    proven: set[str] = field(default_factory=set)
    strongest: float = 0.0
    looks: int = 0

    def __post_init__(self) -> None:
        self.world = generator.World(self.truth, self.scraping, self.seed)
        self.session = Session("uid", Name("ns", "mro"), Progress(), Outbox(), begin(self.plan), plan=self.plan)
        self.route = RouteView("route", NONE, prepared=False, accepted=True)
        self.engine = Engine(cast("Parts", _Parts(self.clock)))
        self.clock.time += timedelta(seconds=70)

    def run(self, looks: int) -> Outcome:
        """Let the operator look so often under traffic, or until the end."""
        while self._served() <= looks * INTERVAL and self.session.progress.ruling is Ruling.CONTINUE:
            self.clock.time += self.look()
        ruling, after = self.session.progress.ruling, self._served().total_seconds()
        return Outcome(
            after if ruling is Ruling.ROLLBACK else None,
            after if ruling is Ruling.PROMOTE else None,
            self.session.judgement.culprits,
            frozenset(self.proven),
            self.strongest,
            self.session.evidence,
            self.session.reports,
        )

    def look(self) -> timedelta:
        """Look, decide and act as the engine does; return how long it waits then."""
        session, now = self.session, self.clock.now()
        self.looks += 1
        self.world.run_until((now - BEGINNING).total_seconds())
        self._see(now)
        session.judgement, session.reports = judge(self.plan, session.evidence)
        self.strongest = max(self.strongest, session.judgement.log_evidence)
        proven = [name for name, verdict in session.judgement.verdicts.items() if verdict is Verdict.NON_INFERIOR]
        self.proven.update(proven)
        before = session.progress
        decision = decide(self.plan, before, World("uid", False, self.route, 1, 1, session.judgement), now)
        self.engine._begin_anew(session, self.plan, decision)
        session.progress = decision.progress
        self._act(decision.action)
        acted = decision.action is not None or before.phase != session.progress.phase
        return _VERIFY_AFTER if acted else self.engine._next_look(session, self.plan)

    def _served(self) -> timedelta:
        began = self.world.began
        return timedelta(0) if began is None else self.clock.now() - BEGINNING - timedelta(seconds=began)

    def _see(self, now: datetime) -> None:
        """Advance the evidence by one window if it is time for one: `davylamp.runtime.observe.Observer._sight`."""
        session = self.session
        if session.progress.attempt is None:
            return
        window = due_window(session.evidence, session.read_at, now, INTERVAL)
        if window is None:
            session.evidence = replace(session.evidence, candidate_errors=None, candidate_requests=None)
            return
        sight = _advanced(session, self.plan, self.world.reading(window[0] - LOOKBACK, now), window)
        session.evidence, session.read_at, session.newest = sight.evidence, sight.read_at, sight.newest

    def _act(self, action: Action | None) -> None:
        now = (self.clock.now() - BEGINNING).total_seconds()
        match action:
            case Prepare(attempt):
                self.route = replace(self.route, prepared=True, attempt=attempt, asked=NONE, ruling=Ruling.CONTINUE)
            case Raise(weight=weight) | Lower(weight=weight):
                self.route = replace(self.route, weight=weight, asked=weight)
                self.world.set_weight(now, weight.percent)
            case Restore() | Repoint() | None:
                pass
            case other:
                raise AssertionError(other)


@dataclass(frozen=True, slots=True)
class _Parts:
    """The only part of the engine that the cuts and the time of the next look need."""

    clock: _Clock
