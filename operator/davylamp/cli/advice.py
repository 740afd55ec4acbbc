"""What follows from each situation by itself, and what a person can do about it."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from davylamp.core.model import Reason


@dataclass(frozen=True, slots=True)
class Advice:
    """What happens next without anybody's doing, and what a person can do; empty for nothing."""

    next: str
    person: str = ""


_NEW_CANDIDATE: Final = (
    "Mend the candidate and give it another digest (or describe it differently in spec.candidate): that is a new "
    "attempt."
)
_FALSE_ALARM: Final = (
    " If the loss is acceptable after all, widen the margin of the gate that is named, for the next attempt."
)

ADVICE: Final[Mapping[Reason, Advice]] = MappingProxyType(
    {
        Reason.ACCEPTED: Advice("The route is prepared with the candidate at weight 0."),
        Reason.INVALID_SPEC: Advice(
            "Nothing: the rollout waits for another spec.",
            "Correct the field that is named and apply the object again; `davylamp lint` checks it beforehand.",
        ),
        Reason.ROUTE_MISSING: Advice(
            "The rollout begins by itself once the HTTPRoute is there.",
            "Create the HTTPRoute, or correct spec.route.gatewayAPI.httpRoute.",
        ),
        Reason.ROUTE_UNFIT: Advice(
            "The rollout goes on by itself once the HTTPRoute fits.",
            "Give the HTTPRoute a rule whose backendRefs hold the baseline's Service and port.",
        ),
        Reason.ROUTE_TAKEN: Advice(
            "The rollout begins by itself once the other one is over.",
            "Wait for the other ModelRollout, or delete one of the two.",
        ),
        Reason.ROUTE_NOT_ACCEPTED: Advice(
            "The rollout goes on once the gateway accepts the route; until then no weight rises.",
            "Look at the conditions under status.parents of the HTTPRoute.",
        ),
        Reason.ROUTE_LOWERED: Advice(
            "The lower weight is kept and the rollout is held.",
            "If the weight may rise again, apply the spec with a change, or set the weight back on the HTTPRoute.",
        ),
        Reason.ROUTE_RAISED: Advice(
            "The weight was put back to what Davylamp decided, and the rollout goes on.",
            "Find out who raised it: weights of a route that a rollout works on are Davylamp's.",
        ),
        Reason.ROUTE_CONTESTED: Advice(
            "Davylamp has stopped putting the weight right; rolling back goes on.",
            "Stop the other writer. With Argo CD, let it ignore differences of .spec.rules[].backendRefs; then change "
            "the spec.",
        ),
        Reason.ROUTE_REPLACED: Advice(
            "Nothing rises: the marks of this attempt are gone from the route.",
            "If the HTTPRoute was made anew on purpose, apply the ModelRollout with a change for a new attempt.",
        ),
        Reason.CANDIDATE_NOT_READY: Advice(
            "The rollout begins by itself once the candidate's Service has a ready endpoint.",
            "Look at the pods behind the candidate's Service.",
        ),
        Reason.BASELINE_NOT_READY: Advice(
            "The weight is held; taking traffic back would be an outage until the baseline has a ready endpoint.",
            "Look at the pods behind the baseline's Service.",
        ),
        Reason.BASELINE_SILENT: Advice(
            "The rollout begins by itself once the baseline's metrics are found; without them it would be blind.",
            "Check spec.signals.preset, spec.baseline.metrics.labels and the MetricSource, and that the baseline has "
            "traffic.",
        ),
        Reason.QUARANTINED: Advice(
            "The candidate is tried again when its quarantine is over.",
            _NEW_CANDIDATE,
        ),
        Reason.STEP_STARTED: Advice("Evidence is collected once the gateway has accepted the weight."),
        Reason.BAKING: Advice(
            "The next step follows when the bake time is over and no gate is worse than Inconclusive."
        ),
        Reason.SAMPLING: Advice(
            "The next step follows when both variants have served enough requests, or enough pairs are compared.",
            "If traffic is scarce, lower minSamples of the step, or shadow.minPairs.",
        ),
        Reason.PROVING: Advice(
            "The candidate is promoted, or leaves the shadow, once every required gate has shown that it is no worse.",
            "More traffic brings evidence sooner. A gate with requiredForPromotion: false is not waited for.",
        ),
        Reason.DEADLINE: Advice(
            "The weight is held; evidence is still collected.",
            "Give it more time (promotion.deadline, or the step's shadow.maxDuration), more traffic, or a wider margin;"
            " or delete the ModelRollout to give the baseline its route back.",
        ),
        Reason.SUSPICION: Advice(
            "The weight does not rise while evidence of a regression is over half of its limit; at the limit the "
            "traffic is taken back.",
            "Look at the gate that is named.",
        ),
        Reason.SHADOWING: Advice(
            "Both variants answer a share of the requests off the live path; the candidate gets live traffic only when "
            "the pairs of answers have shown that it is no worse."
        ),
        Reason.COMPARATOR_NOT_READY: Advice(
            "The step begins by itself once the comparator's Service has a ready endpoint.",
            "Install the comparator in the namespace of the rollout (comparator.enabled in the chart, or "
            "manifests/comparator), or correct spec.shadow.comparator.",
        ),
        Reason.COMPARATOR_TAKEN: Advice(
            "The step begins by itself when the other rollout is over, or mirrors to another port.",
            "Give each rollout of the namespace a port of its own: spec.shadow.comparator.port.",
        ),
        Reason.MIRROR_SILENT: Advice(
            "The step goes on once a mirrored request arrives; it is never passed without.",
            "See that the route has traffic and that the gateway supports HTTPRouteRequestMirror. Where it does not, "
            "take the shadow step out, and compare recorded requests with `davylamp diff`.",
        ),
        Reason.MIRROR_REMOVED: Advice(
            "The rollout is held, with the weight as it is.",
            "Find out who took the mirror off: a GitOps tool has to ignore .spec.rules[].filters of the route. Put it "
            "back, or take the shadow step out.",
        ),
        Reason.SLICE_ROLLED_BACK: Advice(
            "The slice that is named gets the baseline until the attempt ends; the others stay where they are, and "
            "the candidate is not promoted.",
            "Deploy a candidate that serves the slice as well, or delete the ModelRollout to give the baseline its "
            "whole route back.",
        ),
        Reason.SLICE_TOO_SMALL: Advice(
            "The rollout is held until the slices that are named have enough pairs.",
            "Wait for labels, lower slices.minSupport, or write slices.whenTooSmall: Report to go on without them.",
        ),
        Reason.PAUSED_BY_SPEC: Advice(
            "Nothing rises; rolling back goes on.", "Set spec.paused to false when the rollout may go on."
        ),
        Reason.PAUSED_BY_STEP: Advice("The next step follows when the pause is over."),
        Reason.NO_DATA: Advice(
            "The weight is held until data come back; after rollback.onNoData.thenRollBackAfter the traffic is taken "
            "back, unless its policy is Hold. The candidate is not blamed.",
            "Check that the series that is named exists in the metric source, with the labels of both variants.",
        ),
        Reason.SOURCE_DOWN: Advice(
            "The weight is held until the metric source answers; after rollback.onNoData.thenRollBackAfter the traffic "
            "is taken back, unless its policy is Hold. The candidate is not blamed.",
            "Look after the metric source.",
        ),
        Reason.PROMOTION_STARTED: Advice(
            "The candidate is watched with all traffic for promotion.bake, then promoted."
        ),
        Reason.ALL_GATES_PASSED: Advice("The route points to the candidate alone."),
        Reason.REGRESSED: Advice(
            "The baseline has all traffic; the candidate is in quarantine.", _NEW_CANDIDATE + _FALSE_ALARM
        ),
        Reason.CANDIDATE_LOST: Advice(
            "The baseline has all traffic; the candidate is in quarantine.",
            "Look at the pods behind the candidate's Service. " + _NEW_CANDIDATE,
        ),
        Reason.ERROR_SHARE: Advice("The baseline has all traffic; the candidate is in quarantine.", _NEW_CANDIDATE),
        Reason.EVIDENCE_TIMEOUT: Advice(
            "The baseline has all traffic. The candidate is not blamed, and not in quarantine.",
            "Bring the metrics back, then apply the spec with a change for a new attempt.",
        ),
        Reason.SUPERSEDED: Advice("The weight goes to 0, and a new attempt begins with the first step."),
        Reason.DELETED: Advice("The baseline gets its route back, and the object goes."),
        Reason.INTERNAL_ERROR: Advice(
            "The weight is held, and Davylamp tries again.",
            "Look at the operator's log, and report what it says.",
        ),
    }
)
_NOTHING_KNOWN: Final = Advice(
    "What follows is not known to this version of davylamp.", "Use a davylamp as new as the operator."
)
_NEVER_SEEN: Final = Advice(
    "Davylamp looks at the object, and prepares the route.",
    "If this stays, see whether the operator runs: kubectl get pods -A -l app.kubernetes.io/name=davylamp",
)


def advice_for(reason: str | None) -> Advice:
    """Return the advice for a reason as it stands in a status; None if there is no status yet."""
    if reason is None:
        return _NEVER_SEEN
    try:
        return ADVICE[Reason(reason)]
    except ValueError:
        return _NOTHING_KNOWN
