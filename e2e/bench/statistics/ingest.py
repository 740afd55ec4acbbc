"""From raw counters to the counts of each look, by the operator's own code.

`davylamp.core.counting` finds restarts and missed scrapes and counts each look. `davylamp.core.evidence.observe` calls
it for all gates and tests what comes out at once; `evidence_after` runs that. There are so many rollouts that most are
only counted here, and tested together afterwards (`e2e.bench.statistics.paths`); row A0 compares the two.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np
from numpy.typing import NDArray

from davylamp.core.counting import Cursors, Span, counted_apart, cursors_after, events_of
from davylamp.core.evidence import Evidence, begin, new_stratum, observe
from davylamp.core.model import Pair, Variant, Weight
from davylamp.core.plan import Direction, Gate, OddsRatioMargin, Plan, SignalKind, Step, TripWires
from davylamp.core.reading import Reading, SignalReading, Target
from e2e.bench.statistics.scene import DATA_PLANE, INTERVAL, LOOKBACK, Scene, Shown, shown
from gatestats.counters import Sample
from gatestats.ticks import OneArmCounts, TwoArmCounts

BEGINNING: Final = datetime(2026, 1, 1, tzinfo=UTC)
_ZERO: Final = BEGINNING.timestamp()
FALSE_ROLLBACKS: Final = 0.01
FALSE_PROMOTIONS: Final = 0.05


@dataclass(frozen=True, slots=True)
class Ticks:
    """What the operator counted in one rollout.

    Parameters
    ----------
    counts
        Baseline events and requests, candidate events and requests; (looks, lines, 4).
    seen
        Whether the look had a tick of the line; (looks, lines).
    apart
        See `gatestats.ticks.TwoArmCounts`; (looks, lines).
    """

    counts: NDArray[np.int32]
    seen: NDArray[np.bool_]
    apart: NDArray[np.bool_]


def plan_of(lines: int, margin: float, looks: int) -> Plan:
    """Return a plan of so many looks with one gate for each line of counters."""
    gates = tuple(
        Gate(f"line-{place}", SignalKind.COUNTER, Direction.HIGHER, OddsRatioMargin(margin)) for place in range(lines)
    )
    return Plan(
        spec_hash="",
        candidate_digest="",
        pair=Pair("r", "b:80", "c:80"),
        steps=(Step(Weight(10), timedelta(seconds=INTERVAL) * (looks - 1)),),
        gates=gates,
        interval=timedelta(seconds=INTERVAL),
        false_rollback_rate=FALSE_ROLLBACKS,
        false_promotion_rate=FALSE_PROMOTIONS,
        promotion_bake=timedelta(seconds=INTERVAL),
        promotion_deadline=timedelta(days=1),
        cooldown=timedelta(hours=1),
        no_data_tell_after=timedelta(hours=1),
        no_data_roll_back_after=None,
        trip_wires=TripWires(1.0, 1000, 10),
    )


class Film:
    """A rollout's raw samples, look by look.

    Parameters
    ----------
    scene, seed
        What is true, and what fixes everything random.
    """

    def __init__(self, scene: Scene, seed: int) -> None:
        self.scene = scene
        random = np.random.default_rng(seed)
        self.lines = [
            {
                variant: [Reel(target, scene) for target in targets]
                for variant, targets in zip(Variant, shown(scene, line, random), strict=True)
            }
            for line in scene.lines
        ]

    def reading(self, look: int, places: Sequence[int]) -> Reading:
        """Return the raw samples of some lines that a look is given."""
        return Reading({f"line-{place}": self.signal(place, look) for place in places})

    def signal(self, place: int, look: int) -> SignalReading:
        """Return those of one line."""
        seen = {v: tuple(filter(None, (reel.target(look) for reel in reels))) for v, reels in self.lines[place].items()}
        return SignalReading({variant: targets for variant, targets in seen.items() if targets})


def window_of(scene: Scene, look: int, as_of: float) -> tuple[float, tuple[datetime, datetime] | None]:
    """Return up to where is counted after the look, and what the look counts; the operator's cuts at each weight."""
    if cut(scene, look):  # accepted shortly after the look before; its first interval is dropped
        as_of = (look - 1) * INTERVAL + DATA_PLANE + INTERVAL
    now = look * INTERVAL
    return (as_of, None) if as_of >= now else (now, (moment(as_of), moment(now)))


def cut(scene: Scene, look: int) -> bool:
    """Return whether a new weight was accepted shortly before this look."""
    return any(look == step + 1 for step, _ in scene.ladder)


def moment(seconds: float) -> datetime:
    """Return a time of the scene as the operator sees it."""
    return BEGINNING + timedelta(seconds=seconds)


class Reel:
    """The samples of one target, and which of them each look is given.

    Parameters
    ----------
    target
        What it showed.
    scene
        When looks are.
    """

    def __init__(self, target: Shown, scene: Scene) -> None:
        self._name = target.name
        times, happened = target.times + _ZERO, target.events > 0
        moments = INTERVAL * np.arange(scene.looks + 1, dtype=np.float64)
        # Client libraries show a counter of events from the first event on.
        self._total = tuple(map(Sample, times.tolist(), target.total.tolist()))
        self._events = tuple(map(Sample, times[happened].tolist(), target.events[happened].tolist()))
        self._parts = _parts(target.times, target.visible, moments)
        self._event_parts = _parts(target.times[happened], target.visible[happened], moments)

    def target(self, look: int) -> Target | None:
        """Return the raw samples that a look is given; None without any."""
        first, end = self._parts[look]
        if first >= end:
            return None
        low, high = self._event_parts[look]
        events = {"e": self._events[low:high]} if low < high else {}
        return Target(self._name, events=events, total={"t": self._total[first:end]})


def _parts(
    times: NDArray[np.float64], visible: NDArray[np.float64], moments: NDArray[np.float64]
) -> list[tuple[int, int]]:
    first = np.searchsorted(times, moments - LOOKBACK, side="right")
    return list(zip(first.tolist(), np.searchsorted(visible, moments, side="right").tolist(), strict=True))


def ticks_of(scene: Scene, seed: int) -> Ticks:
    """Return what the operator counts of one rollout, as `davylamp.core.evidence` has it counted."""
    film = Film(scene, seed)
    counts = np.zeros((scene.looks, len(scene.lines), 4), np.int32)
    seen, apart = (np.zeros(counts.shape[:2], np.bool_) for _ in range(2))
    for place in range(len(scene.lines)):
        for look, tick in _counted(film, place):
            counts[look - 1, place, :2] = tick.baseline_events, tick.baseline_total
            counts[look - 1, place, 2:] = tick.candidate_events, tick.candidate_total
            seen[look - 1, place], apart[look - 1, place] = True, tick.apart
    return Ticks(counts, seen, apart)


def _counted(film: Film, place: int) -> Iterator[tuple[int, TwoArmCounts]]:
    name, as_of = f"line-{place}", 0.0
    cursors: Cursors = {}
    for look in range(1, film.scene.looks + 1):
        if cut(film.scene, look):
            cursors = {}
        as_of, window = window_of(film.scene, look, as_of)
        if window is None:
            continue
        signal, span = film.signal(place, look), Span(*window, cursors)
        if len(signal.targets) < len(Variant):  # then `events_of` refuses it, and nothing is counted
            continue
        arms = [events_of(name, signal, variant, span) for variant in Variant]
        apart, cursors = counted_apart(name, signal, span), cursors_after(name, signal, span)
        if arms != [None, None]:
            baseline, candidate = (arm or OneArmCounts(0, 0) for arm in arms)
            yield look, TwoArmCounts(baseline.events, baseline.total, candidate.events, candidate.total, apart=apart)


def evidence_after(scene: Scene, seed: int, margin: float = 1.0) -> list[tuple[int, Evidence]]:
    """Return the operator's own evidence after each look that counted: nothing is kept for later."""
    plan = plan_of(len(scene.lines), margin, scene.planned or scene.looks)
    return list(_looks(Film(scene, seed), plan, begin(plan), range(len(scene.lines))))


def _looks(film: Film, plan: Plan, evidence: Evidence, places: Sequence[int]) -> Iterator[tuple[int, Evidence]]:
    as_of = 0.0
    for look in range(1, film.scene.looks + 1):
        if cut(film.scene, look):
            evidence = new_stratum(evidence, moment(as_of))
        as_of, window = window_of(film.scene, look, as_of)
        if window is not None:
            evidence = observe(plan, evidence, film.reading(look, places), window)
            yield look, evidence
