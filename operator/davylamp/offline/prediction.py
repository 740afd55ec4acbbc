"""What the gates of a rollout can and cannot see, by formulas: `davylamp plan` without a simulation."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from davylamp.core.evidence import Stream, designs
from davylamp.core.judge import limits, stream_weights
from davylamp.core.latency import Baseline, latency_design
from davylamp.core.plan import Gate, Plan, SignalKind
from davylamp.errors import SpecError
from davylamp.offline.arrival import Arrival, Detection, detection, proof
from davylamp.offline.demand import Demand
from davylamp.offline.effects import direction, slowdown_of, slowed, worse_share
from davylamp.offline.timeline import Stage, Timeline, alone, timeline
from gatestats.exceedance import exceedance
from gatestats.outlook import Backing, Histograms, Truth, promotion_outlook, rollback_outlook
from gatestats.planning import Arms, invert
from gatestats.process import Process

#: Looks that are computed at most, for proofs and for regressions; what takes longer is not within sight.
_FARTHEST: Final = 20_000
_FARTHEST_FOUND: Final = 4_000
#: A gate is underpowered if it finds twice its margin with less than this chance.
POWER: Final = 0.8
_LARGEST_EFFECT: Final = 40.0


@dataclass(frozen=True, slots=True)
class Prospect:
    """A regression that is there from the first traffic on, and how it is found.

    Parameters
    ----------
    margins
        Its size in margins of the gate; 1 is what is just accepted.
    arrival
        When it is found.
    bad
        Events (or slow requests) that the candidate causes beyond the baseline's until then, on average.
    requests
        Requests of the candidate until then, on average.
    """

    margins: float
    arrival: Detection
    bad: float
    requests: float


@dataclass(frozen=True, slots=True)
class GateForecast:
    """What one gate sees.

    Parameters
    ----------
    gate
        The gate.
    method
        What is tested, for people.
    trouble
        Why it sees nothing; empty if it sees.
    ladder
        Regressions over the whole ladder, by size.
    steps
        By step of the ladder: the regression of twice the margin, if the weight stayed there.
    found
        The chance that twice the margin is found by the end of each stage.
    smallest
        In margins, the smallest effect that is found with a chance of 80 % within a healthy rollout's time; inf if
        none is.
    proof
        When a candidate that equals the baseline is proven no worse.
    """

    gate: Gate
    method: str
    trouble: str = ""
    ladder: tuple[Prospect, ...] = ()
    steps: tuple[tuple[Stage, Prospect], ...] = ()
    found: tuple[float, ...] = ()
    smallest: float = math.inf
    proof: Arrival | None = None

    def at(self, margins: float) -> Prospect:
        """Return the regression of this size."""
        return next(prospect for prospect in self.ladder if prospect.margins == margins)


@dataclass(frozen=True, slots=True)
class Forecast:
    """A whole rollout.

    Parameters
    ----------
    plan, demand, timeline
        What it is about.
    gates
        By gate.
    promotion
        When a candidate that equals the baseline is promoted: the last of all required proofs, and the ladder's end.
    """

    plan: Plan
    demand: Demand
    timeline: Timeline
    gates: tuple[GateForecast, ...]
    promotion: Arrival

    @property
    def chance(self) -> float:
        """The chance to promote a candidate that equals the baseline before promotion.deadline."""
        return self.promotion.by(self.timeline.end)

    @property
    def length(self) -> int:
        """Looks that a healthy rollout takes: in this time a regression should be seen."""
        typical = self.promotion.quantile(0.5)
        return self.timeline.end if math.isinf(typical) else max(self.timeline.ladder, math.ceil(typical))


def forecast(plan: Plan, demand: Demand, sizes: Sequence[float] = (1.0, 2.0, 3.0)) -> Forecast:
    """Predict a rollout.

    Parameters
    ----------
    plan
        What it runs by.
    demand
        The traffic.
    sizes
        Regressions to predict, in margins; 2 is always among them.

    Raises
    ------
    SpecError
        If the demand leaves out what a gate reads.
    """
    scope = Scope(plan, demand, timeline(plan, demand))
    promotion = scope.promotion()
    draft = Forecast(plan, demand, scope.timeline, (), promotion)
    wanted = sorted({2.0, *sizes})
    gates = tuple(scope.gate(gate, wanted, draft.length) for gate in plan.gates)
    return Forecast(plan, demand, scope.timeline, gates, promotion)


class Scope:
    """The plan, the demand and the timeline that everything is computed for.

    Parameters
    ----------
    plan, demand
        As in `forecast`.
    timeline
        Of the ladder, or of another one that is tried.
    """

    def __init__(self, plan: Plan, demand: Demand, timeline: Timeline) -> None:
        self.plan = plan
        self.demand = demand
        self.timeline = timeline
        self.baseline = demand.baseline()
        self._thresholds = limits(plan, 0)
        self._seconds = plan.interval.total_seconds()
        for gate in plan.gates:
            _refuse_unknown(gate, demand)
        known = {gate.name: self.processes(gate) for gate in plan.gates}
        streams = {
            name: Stream(gate, process, process.start())
            for gate, processes in known.items()
            for name, process in processes.items()
        }
        self._weights = stream_weights(plan, streams)
        for gate in plan.gates:
            self._refuse_unplanned(gate)

    def _refuse_unplanned(self, gate: Gate) -> None:
        """Refuse a gate whose method no formula is known of, by name rather than in the middle of a forecast."""
        for process in self.processes(gate).values():
            try:
                rollback_outlook(process, self.truth(gate, 2.0, 0.5))
            except ValueError as unknown:
                raise SpecError(f"gate {gate.name} cannot be planned: {unknown}") from unknown

    def processes(self, gate: Gate) -> dict[str, Process]:
        """Return the e-processes of a gate by stream."""
        baseline = self.baseline if gate.kind is SignalKind.LATENCY else None
        return dict(designs(gate, baseline, looks=self.plan.planned_looks))

    def gate(self, gate: Gate, sizes: Sequence[float], length: int) -> GateForecast:
        """Return what a gate sees; ``length`` is the time of a healthy rollout in looks."""
        method, trouble = self.method(gate), ""
        if not self.processes(gate):
            trouble = "all of the baseline's requests lie in one bucket: use finer buckets, or native histograms"
            return GateForecast(gate, method, trouble)
        ladder = tuple(self.prospect(gate, margins, self.timeline) for margins in sizes)
        steps = tuple(
            (stage, self.prospect(gate, 2.0, alone(stage, _FARTHEST, self.timeline.planned), _FARTHEST))
            for stage in self.timeline.stages
        )
        double = next(prospect for prospect in ladder if prospect.margins == 2.0)
        ends = np.cumsum([stage.looks for stage in self.timeline.stages])
        return GateForecast(
            gate=gate,
            method=method,
            ladder=ladder,
            steps=steps,
            found=tuple(double.arrival.by(float(end)) for end in ends),
            smallest=self.smallest(gate, length),
            proof=self.proof(gate),
        )

    def power(self, gate: Gate, margins: float, looks: int) -> float:
        """Return the chance that an effect of so many margins is found within so many looks."""
        return self.prospect(gate, margins, self.timeline, looks).arrival.surely

    def smallest(self, gate: Gate, looks: int) -> float:
        """Return the smallest effect, in margins, that is found within so many looks with a chance of 80 %."""
        return invert(lambda margins: self.power(gate, margins, looks), POWER, (1.0, _LARGEST_EFFECT), 0.01)

    def prospect(self, gate: Gate, margins: float, on: Timeline, looks: int | None = None) -> Prospect:
        """Return how an effect of so many margins is found on a timeline."""
        if margins <= 1:
            return Prospect(margins, Detection(np.zeros(2), 0.0), 0.0, 0.0)
        name, process = self.regressing(gate)
        backings = [
            self._backings(gate, rollback_outlook(process, self.truth(gate, margins, stage.weight)))
            for stage in on.stages
        ]
        weight = self._weights[name]
        half, full = (
            math.log((math.exp(nats) - (1 - weight)) / weight)
            for nats in (self._thresholds.rollback / 2, self._thresholds.rollback)
        )
        found = detection(on, backings, (half, full), looks or min(_FARTHEST_FOUND, self.timeline.end))
        requests = found.exposure * self.demand.requests * self._seconds
        return Prospect(margins, found, requests * self._excess(gate, margins), requests)

    def proof(self, gate: Gate) -> Arrival:
        """Return when a candidate that equals the baseline is proven no worse by a gate, in all its directions."""
        looks, chances = self._horizon(), None
        for process in self.processes(gate).values():
            backings = [promotion_outlook(process, self.truth(gate, 0.0, s.weight)) for s in self.timeline.stages]
            arrival = proof(self.timeline, backings, self._thresholds.promotion, looks)
            chances = arrival.chances if chances is None else chances * arrival.chances
        return Arrival(np.zeros(looks + 1) if chances is None else chances)

    def promotion(self) -> Arrival:
        """Return when a candidate that equals the baseline is promoted."""
        looks = self._horizon()
        chances = np.ones(looks + 1)
        for gate in self.plan.gates:
            if gate.required:
                chances = chances * self.proof(gate).chances
        chances[: self.timeline.ladder] = 0.0
        return Arrival(chances)

    def regressing(self, gate: Gate) -> tuple[str, Process]:
        """Return the stream that a regression is looked for in."""
        processes = self.processes(gate)
        if len(processes) == 1:
            return next(iter(processes.items()))
        wanted = direction(gate, self.demand.share(gate.name)).value
        return next(item for item in processes.items() if item[0].endswith(f":{wanted}"))

    def truth(self, gate: Gate, margins: float, weight: float) -> Truth:
        """Return what one look shows on average at a weight, if the candidate is worse by so many margins."""
        total = self.demand.requests * self._seconds
        theirs, ours = total * (1 - weight), total * weight
        if gate.kind is not SignalKind.LATENCY:
            share = self.demand.share(gate.name)
            return Arms(theirs, share, ours, worse_share(gate, share, margins))
        known, shares, moved = self._durations(gate, margins)
        design = latency_design(known, slowdown_of(gate, 1.0))
        if design is None or design.beyond is None:
            return Histograms(tuple(theirs * shares), tuple(ours * moved))
        beyond = [min(max(float(each[design.beyond + 1 :].sum()), 1e-7), 1 - 1e-7) for each in (shares, moved)]
        return Arms(theirs, beyond[0], ours, beyond[1])

    def method(self, gate: Gate) -> str:
        """Return what is tested."""
        if gate.kind is SignalKind.LATENCY and self.baseline is not None:
            design = latency_design(self.baseline, slowdown_of(gate, 1.0))
            return "" if design is None else design.sentence
        return type(next(iter(self.processes(gate).values()))).__name__

    def _durations(self, gate: Gate, margins: float) -> tuple[Baseline, "np.ndarray", "np.ndarray"]:
        durations, known = self.demand.durations, self.baseline
        if durations is None or known is None:
            raise SpecError(f"nothing is known of the durations that gate {gate.name} reads")
        shares = np.array(durations.shares)
        moved = slowed(durations.edges, shares, slowdown_of(gate, margins))
        return known, durations.on(known.edges, shares), durations.on(known.edges, moved)

    def _backings(self, gate: Gate, backings: tuple[Backing, ...]) -> tuple[Backing, ...]:
        if gate.name not in self.demand.apart:
            return backings
        return tuple(Backing(backing.mass, backing.pace.held()) for backing in backings)

    def _excess(self, gate: Gate, margins: float) -> float:
        """Return the share of the candidate's requests that are bad and would not be with the baseline."""
        if gate.kind is not SignalKind.LATENCY:
            share = self.demand.share(gate.name)
            return abs(worse_share(gate, share, margins) - share)
        known, shares, moved = self._durations(gate, margins)
        split = exceedance(known.edges, known.counts, slowdown_of(gate, 1.0))
        if split is None:
            return 0.0
        return max(0.0, float((moved - shares)[split.index + 1 :].sum()))

    def _horizon(self) -> int:
        return min(_FARTHEST, self.timeline.end)


def _refuse_unknown(gate: Gate, demand: Demand) -> None:
    if gate.kind is SignalKind.LATENCY:
        if demand.durations is None:
            raise SpecError(f"gate {gate.name}: the baseline's durations are not known: give --latency-histogram")
    elif gate.name not in demand.shares:
        option = "--error-rate" if gate.kind is SignalKind.ERRORS else f"--share {gate.name}=PERCENT"
        raise SpecError(f"gate {gate.name}: the baseline's share of events is not known: give {option} or --source")
