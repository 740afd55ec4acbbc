"""What steps of shadow traffic ask for: pairs, and the time that the traffic takes to bring them.

`gatestats.limits` says how many pairs a proof takes: all that agree, of a candidate that never disagrees.
"""

import math
from collections.abc import Iterator

from davylamp.core.plan import Gate, LimitMargin, Plan, SignalKind
from gatestats.combine import log_threshold
from gatestats.limits import LimitDesign
from gatestats.ticks import OneArmCounts

_MOST_PAIRS = 1 << 24


def in_the_shadow(plan: Plan, requests: float) -> Iterator[str]:
    """Yield a sentence for each step of shadow traffic.

    Parameters
    ----------
    plan
        The whole plan.
    requests
        A second, > 0.
    """
    proof = max((pairs_to_prove(gate, plan.false_promotion_rate) for gate in _limited(plan)), default=0)
    for number, step in enumerate(plan.steps, 1):
        if step.shadow is None or step.weight is not None:
            continue
        needed = max(step.shadow.min_pairs, proof)
        seconds = max(needed / (requests * step.shadow.sample), step.bake.total_seconds())
        yield (
            f"step {number} is shadow traffic, of which there is no history: a candidate that always agrees passes it "
            f"after {needed:,} pairs (minPairs {step.shadow.min_pairs:,}, proof {proof:,}), in about {seconds:,.0f} s; "
            "what follows is about live traffic"
        )


def pairs_to_prove(gate: Gate, false_promotion_rate: float) -> int:
    """Return how many pairs without a single event show that their share is below the gate's limit."""
    if not isinstance(gate.margin, LimitMargin):
        raise ValueError(f"gate {gate.name} has no limit")  # noqa: TRY004 - the value of a gate is wrong
    design = LimitDesign(gate.margin.share)
    needed = log_threshold(false_promotion_rate)

    def proven(pairs: int) -> bool:
        return design.log_e_non_inferior(design.update(design.start(), OneArmCounts(0, pairs))) >= needed

    pairs = 1
    while not proven(pairs) and pairs < _MOST_PAIRS:
        pairs *= 2
    low = pairs // 2
    while pairs - low > 1:
        middle = math.ceil((low + pairs) / 2)
        low, pairs = (low, middle) if proven(middle) else (middle, pairs)
    return pairs


def _limited(plan: Plan) -> Iterator[Gate]:
    wanted = (gate for gate in plan.shadow_gates if gate.required and gate.kind is SignalKind.SHADOW_SHARE)
    yield from wanted
