"""Facts for tests of the decision, told as a story: ``baking_at(25).with_metrics(REGRESSED).decide()``."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from davylamp.core.decide import decide
from davylamp.core.model import (
    ALL,
    NONE,
    Attempt,
    Outcome,
    Pair,
    PastAttempt,
    Phase,
    Progress,
    Reason,
    Ruling,
    Weight,
)
from davylamp.core.moves import Decision
from davylamp.core.plan import Direction, Gate, OddsRatioMargin, Plan, SignalKind, Step, TripWires
from davylamp.core.world import Judgement, RouteTrouble, RouteView, World
from tests.simulation.settings import Metrics

NOW: Final = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECOND: Final = timedelta(seconds=1)
INTERVAL: Final = 10 * SECOND
BAKE: Final = 60 * SECOND
PAIR: Final = Pair("credit", "credit-fp32:8080", "credit-int8:8080")
PLAN: Final = Plan(
    spec_hash="spec",
    candidate_digest="int8",
    pair=PAIR,
    steps=(Step(Weight(5), BAKE, 100), Step(Weight(25), BAKE, 100), Step(None, BAKE), Step(Weight(50), BAKE, 100)),
    gates=(Gate("errors", SignalKind.ERRORS, Direction.HIGHER, OddsRatioMargin(1.25)),),
    interval=INTERVAL,
    false_rollback_rate=0.01,
    false_promotion_rate=0.05,
    promotion_bake=BAKE,
    promotion_deadline=timedelta(hours=1),
    cooldown=timedelta(hours=1),
    no_data_tell_after=timedelta(minutes=5),
    no_data_roll_back_after=timedelta(minutes=15),
    trip_wires=TripWires(0.5, 2, 10),
)
ATTEMPT: Final = Attempt("rollout1-1", 1, "int8", "spec", NOW - timedelta(hours=1), PAIR)
ROUTE: Final = RouteView(
    uid="route",
    weight=NONE,
    prepared=True,
    asked=NONE,
    attempt=ATTEMPT.id,
    ruling=Ruling.CONTINUE,
    epoch=1,
    accepted=True,
    acceptance="accepted by Gateway public",
)
#: The route as its user wrote it.
CLEAN: Final = replace(ROUTE, prepared=False, asked=None, attempt=None, ruling=None, epoch=None)
REPOINTED: Final = replace(CLEAN, weight=ALL, repointed=True)
MISSING: Final = RouteTrouble("HTTPRoute ml/credit does not exist", missing=True)
UNFIT: Final = RouteTrouble("no rule points to the baseline")
TAKEN: Final = RouteTrouble("route credit is used by ModelRollout older", taken=True)


@dataclass(frozen=True, slots=True)
class Rollout:
    """The facts of one look; every method returns the same story with one more fact."""

    plan: Plan = PLAN
    progress: Progress = field(default_factory=Progress)
    route: RouteView | RouteTrouble = CLEAN
    judgement: Judgement = Metrics.PROVEN.value
    baseline_ready: int = 2
    candidate_ready: int = 2
    comparator_ready: int = 2
    comparator_user: str = ""
    deleting: bool = False
    refusal: str = ""
    now: datetime = NOW

    def knows(self, **progress: Any) -> "Rollout":
        """Add what stands in the progress."""
        return replace(self, progress=replace(self.progress, **progress))

    def route_says(self, **view: Any) -> "Rollout":
        """Add what stands on the route."""
        assert isinstance(self.route, RouteView)
        return replace(self, route=replace(self.route, **view))

    def with_route(self, route: RouteView | RouteTrouble) -> "Rollout":
        """Replace the route."""
        return replace(self, route=route)

    def with_metrics(self, metrics: Metrics, **judgement: Any) -> "Rollout":
        """Replace what the gates say."""
        return replace(self, judgement=replace(metrics.value, **judgement))

    def planned(self, **plan: Any) -> "Rollout":
        """Change what is planned."""
        return replace(self, plan=replace(self.plan, **plan))

    def endpoints(self, *, baseline: int = 2, candidate: int = 2) -> "Rollout":
        """Replace the ready endpoints."""
        return replace(self, baseline_ready=baseline, candidate_ready=candidate)

    def unheard(self) -> "Rollout":
        """Let the comparator have no ready endpoint."""
        return replace(self, comparator_ready=0)

    def deleted(self) -> "Rollout":
        """Delete the object."""
        return replace(self, deleting=True)

    def refused(self, why: str) -> "Rollout":
        """Let the last change of the route have been refused."""
        return replace(self, refusal=why)

    def later(self, passed: timedelta) -> "Rollout":
        """Look later."""
        return replace(self, now=self.now + passed)

    def rolled_back(self) -> "Rollout":
        """Let the rollback be decided."""
        return self.knows(
            ruling=Ruling.ROLLBACK,
            ruling_reason=Reason.REGRESSED,
            ruled_at=NOW - SECOND,
            phase=Phase.ROLLING_BACK,
            message="errors 30 % against 1 %",
            requested=NONE,
        )

    def decide(self) -> Decision:
        """Return what follows."""
        world = World(
            "rollout1-0000",
            self.deleting,
            self.route,
            self.baseline_ready,
            self.candidate_ready,
            self.judgement,
            self.refusal,
            self.comparator_ready,
            self.comparator_user,
        )
        return decide(self.plan, self.progress, world, self.now)


def fresh() -> Rollout:
    """Return an object that was just created."""
    return Rollout()


def pending() -> Rollout:
    """Return an attempt that has begun and touched nothing."""
    return Rollout(progress=Progress(attempt=ATTEMPT, ticked_at=NOW - INTERVAL))


def prepared() -> Rollout:
    """Return an attempt whose candidate stands on the route at weight 0."""
    return pending().with_route(ROUTE)


def _at(step: int, weight: Weight, **progress: Any) -> Rollout:
    return (
        prepared()
        .route_says(weight=weight, asked=weight)
        .knows(
            phase=Phase.PROGRESSING,
            step=step,
            requested=weight,
            entered_at=NOW - timedelta(minutes=10),
            accepted_at=NOW - timedelta(minutes=10),
        )
        .knows(**progress)
    )


def started_at(percent: int) -> Rollout:
    """Return a rollout whose weight is on the route, and not accepted by the gateway."""
    return baking_at(percent).knows(accepted_at=None).route_says(accepted=False, acceptance="generation 3, seen 2")


def baking_at(percent: int, baked: timedelta = 30 * SECOND) -> Rollout:
    """Return a rollout in the middle of the bake at a weight of the ladder."""
    weight = Weight(percent)
    step = next(i for i, each in enumerate(PLAN.steps) if each.weight == weight)
    return _at(step, weight, baked=baked)


def baked_at(percent: int) -> Rollout:
    """Return a rollout whose bake at a weight of the ladder is over."""
    return baking_at(percent, BAKE)


def pausing() -> Rollout:
    """Return a rollout in the pause of the ladder."""
    return _at(2, Weight(25), phase=Phase.PAUSED)


def promoting(baked: timedelta = BAKE) -> Rollout:
    """Return a rollout at 100 %."""
    return _at(len(PLAN.steps), ALL, baked=baked).knows(
        phase=Phase.PROMOTING, ruling=Ruling.PROMOTE, ruling_reason=Reason.ALL_GATES_PASSED, ruled_at=NOW
    )


def over(outcome: Outcome, reason: Reason = Reason.REGRESSED) -> Rollout:
    """Return an attempt that has ended, with the route as that leaves it."""
    past = PastAttempt(ATTEMPT.id, outcome, reason.value, ATTEMPT.started_at, NOW - SECOND)
    promoted = outcome is Outcome.PROMOTED
    return (
        pending()
        .knows(
            phase=Phase.PROMOTED if promoted else Phase.ROLLED_BACK,
            ruling=Ruling.PROMOTE if promoted else Ruling.ROLLBACK,
            ruling_reason=reason,
            reason=reason,
            message="it ended",
            history=(past,),
        )
        .with_route(REPOINTED if promoted else CLEAN)
    )
