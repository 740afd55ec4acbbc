"""A plan for a rollout whose spec cannot be used: it holds, it can lower, and it never raises."""

from datetime import timedelta

from davylamp.core.model import Pair, Weight
from davylamp.core.plan import Plan, Step, TripWires
from davylamp.runtime.catalogue import Object
from davylamp.runtime.session import Session


def fallback_plan(session: Session, manifest: Object) -> Plan:
    """Return the last good plan without raises, or one made of what is stored about the attempt.

    Parameters
    ----------
    session, manifest
        What is known of the rollout.
    """
    attempt = session.progress.attempt
    pair = attempt.pair if attempt is not None else _pair(manifest)
    return Plan(
        spec_hash=attempt.spec_hash if attempt is not None else "",
        candidate_digest=attempt.candidate_digest if attempt is not None else "",
        pair=pair,
        steps=(Step(Weight(1), timedelta(days=7)),) if session.plan is None else session.plan.steps,
        gates=() if session.plan is None else session.plan.gates,
        interval=timedelta(seconds=10),
        false_rollback_rate=0.01,
        false_promotion_rate=0.05,
        promotion_bake=timedelta(days=7),
        promotion_deadline=timedelta(days=90),
        cooldown=timedelta(hours=1),
        no_data_tell_after=timedelta(minutes=5),
        no_data_roll_back_after=timedelta(minutes=15),
        trip_wires=TripWires(0.5, 2, 10),
        paused=True,
    )


def _pair(manifest: Object) -> Pair:
    spec = manifest.get("spec") or {}

    def backend(variant: str) -> str:
        found = (spec.get(variant) or {}).get("backend") or {}
        return f"{found.get('name', 'unknown')}:{found.get('port', 1)}"

    route = ((spec.get("route") or {}).get("gatewayAPI") or {}).get("httpRoute", "unknown")
    return Pair(str(route), backend("baseline"), backend("candidate"))
