from dataclasses import replace
from datetime import timedelta

import pytest

from davylamp.core.plan import Direction, Gate, LimitMargin, Shadow, SignalKind, Step
from davylamp.offline.shadow_steps import in_the_shadow, pairs_to_prove
from tests.davylamp.core.rollouts import PLAN

GATE = Gate("disagreement", SignalKind.SHADOW_SHARE, Direction.HIGHER, LimitMargin(0.02))
SHADOW = Step(None, timedelta(minutes=1), shadow=Shadow(0.2, 100, timedelta(hours=1)))
MIRRORED = replace(PLAN, steps=(SHADOW, *PLAN.steps), gates=(*PLAN.gates, GATE), comparator="davylamp-shadow:8090")


def evidence(pairs: int, limit: float) -> float:
    """Return E of statistics.md 1.3 with limit and truth exchanged, on pairs of which none has the event."""
    bets = {0.8: 0.25, 0.5: 0.35, 0.2: 0.25, 0.02: 0.15}
    return sum(weight * ((1 - part * limit) / (1 - limit)) ** pairs for part, weight in bets.items())


@pytest.mark.parametrize(("limit", "rate"), [(0.02, 0.05), (0.005, 0.05), (0.5, 0.01), (0.1, 0.3)])
def test_a_proof_takes_the_least_number_of_agreeing_pairs_that_reaches_its_limit(limit: float, rate: float) -> None:
    needed = pairs_to_prove(replace(GATE, margin=LimitMargin(limit)), rate)
    assert evidence(needed, limit) >= 1 / rate > evidence(needed - 1, limit)


def test_a_gate_without_a_limit_has_no_such_number() -> None:
    with pytest.raises(ValueError, match="errors has no limit"):
        pairs_to_prove(PLAN.gates[0], 0.05)


def test_a_shadow_step_is_told_with_its_pairs_and_the_time_that_they_take() -> None:
    proof = pairs_to_prove(GATE, PLAN.false_promotion_rate)
    (sentence,) = in_the_shadow(MIRRORED, requests=5)
    assert f"after {proof:,} pairs (minPairs 100, proof {proof:,}), in about {proof:,} s" in sentence


def test_a_step_that_bakes_longer_than_its_pairs_take_is_told_with_its_bake() -> None:
    (sentence,) = in_the_shadow(MIRRORED, requests=1000)
    assert "in about 60 s" in sentence


def test_a_rollout_without_shadow_steps_has_nothing_to_tell() -> None:
    beside = replace(MIRRORED, steps=(replace(SHADOW, weight=PLAN.steps[0].weight), *PLAN.steps[1:]))
    assert not list(in_the_shadow(PLAN, requests=5))
    assert not list(in_the_shadow(beside, requests=5))
