"""What is rolled out in the simulated world: plans, and everything that metrics can say."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from enum import Enum
from math import log, nan
from typing import Final

from davylamp.core.model import Pair, Verdict, Weight
from davylamp.core.moves import Diversion
from davylamp.core.plan import Direction, Gate, OddsRatioMargin, Plan, Shadow, SignalKind, SliceRules, Step, TripWires
from davylamp.core.world import Judgement

BEGINNING: Final = datetime(2026, 1, 1, tzinfo=UTC)
INTERVAL: Final = timedelta(seconds=10)
BAKE: Final = timedelta(seconds=20)
ENOUGH: Final = 100
STEPS: Final = (Step(Weight(5), BAKE, ENOUGH), Step(None, INTERVAL), Step(Weight(40), BAKE, ENOUGH))
SHADOW: Final = Shadow(sample=0.2, min_pairs=ENOUGH, max_duration=timedelta(minutes=10))
_PAIR: Final = Pair("credit", "credit-fp32:8080", "credit-int8:8080")

FIRST: Final = Plan(
    spec_hash="first",
    candidate_digest="int8",
    pair=_PAIR,
    steps=STEPS,
    gates=(Gate("errors", SignalKind.ERRORS, Direction.HIGHER, OddsRatioMargin(1.25)),),
    interval=INTERVAL,
    false_rollback_rate=0.01,
    false_promotion_rate=0.05,
    promotion_bake=BAKE,
    promotion_deadline=timedelta(minutes=10),
    cooldown=timedelta(minutes=5),
    no_data_tell_after=timedelta(seconds=30),
    no_data_roll_back_after=timedelta(minutes=2),
    trip_wires=TripWires(0.5, 2, 10),
)
#: The plan that is applied first, and what a spec may become in mid-rollout.
PLANS: Final = (
    FIRST,
    replace(FIRST, spec_hash="other-gates", no_data_roll_back_after=None),
    replace(FIRST, spec_hash="other-model", candidate_digest="pruned"),
    replace(
        FIRST,
        spec_hash="other-backend",
        candidate_digest="distilled",
        pair=replace(_PAIR, candidate="credit-small:8080"),
        steps=(Step(None, INTERVAL), Step(Weight(20), BAKE, ENOUGH), Step(Weight(100), BAKE, ENOUGH)),
    ),
    replace(
        FIRST,
        spec_hash="in-the-shadow",
        candidate_digest="compiled",
        comparator="davylamp-shadow:8090",
        steps=(
            Step(None, BAKE, shadow=SHADOW),
            Step(Weight(5), BAKE, ENOUGH, shadow=SHADOW),
            Step(None, INTERVAL, shadow=SHADOW),
            Step(Weight(40), BAKE, ENOUGH),
        ),
    ),
    replace(
        FIRST,
        spec_hash="by-slices",
        candidate_digest="sparse",
        slices=SliceRules(50, ENOUGH, diversions={"sex=Female": Diversion("x-sex", "Female")}),
    ),
)

_LIMIT: Final = log(100)


def _said(verdict: Verdict, other: Verdict | None = None, **more: object) -> Judgement:
    verdicts = {"errors": verdict, "latency": other or verdict}
    samples = ENOUGH if "samples" not in more else int(str(more["samples"]))
    judgement = Judgement(
        verdicts=verdicts,
        required=frozenset(verdicts),
        # In a step that mirrors, one of the two is judged on shadow traffic.
        shadow=frozenset({"latency"}),
        pairs=samples,
        mirrored=samples,
        log_threshold=_LIMIT,
        messages={name: f"{name} says {each.value}" for name, each in verdicts.items()},
        samples=ENOUGH,
        baseline_readable=True,
    )
    return replace(judgement, **more)  # type: ignore[arg-type]  # fields of Judgement


class Metrics(Enum):
    """Everything that the gates can say."""

    UNREAD = Judgement()
    SILENT = _said(Verdict.NO_DATA, samples=0, baseline_readable=False)
    WARMING = _said(Verdict.NO_DATA, samples=0)
    FEW = _said(Verdict.INCONCLUSIVE, samples=ENOUGH - 1)
    FEW_AND_PROVEN = _said(Verdict.NON_INFERIOR, samples=ENOUGH - 1)
    INCONCLUSIVE = _said(Verdict.INCONCLUSIVE)
    HALF_PROVEN = _said(Verdict.NON_INFERIOR, Verdict.INCONCLUSIVE)
    PROVEN = _said(Verdict.NON_INFERIOR)
    SUSPICIOUS = _said(Verdict.NON_INFERIOR, log_evidence=0.6 * _LIMIT, culprits=("errors",))
    NOT_A_NUMBER = _said(Verdict.NON_INFERIOR, log_evidence=nan)
    REGRESSED = _said(Verdict.REGRESSED, Verdict.NON_INFERIOR, log_evidence=_LIMIT, culprits=("errors",))
    UNFAIR = _said(
        Verdict.REGRESSED,
        Verdict.NON_INFERIOR,
        log_evidence=_LIMIT,
        culprits=("errors",),
        regressed_slices=("sex=Female",),
    )
    REGRESSED_UNSEEN = _said(Verdict.NO_DATA, log_evidence=2 * _LIMIT)
    ERRORS = _said(Verdict.INCONCLUSIVE, candidate_errors=90, candidate_requests=100)
    NO_DATA = _said(Verdict.NON_INFERIOR, Verdict.NO_DATA)
    SOURCE_DOWN = _said(Verdict.SOURCE_DOWN)
