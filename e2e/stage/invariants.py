"""What must hold in every state that a rollout and its route ever had, whatever went wrong meanwhile.

Each invariant takes the whole history and says, in sentences, where it was broken.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from e2e.stage.recorder import Kind, Object, Sighting

MARK: Final = "davylamp.dev/"
_MIRROR: Final = "RequestMirror"
_BAD: Final = frozenset({"Regressed", "NoData", "SourceDown"})
#: The recorder sees a state some milliseconds after it was stored, one state sooner than another.
_SLACK_SECONDS: Final = 0.3


@dataclass(frozen=True, slots=True)
class Expected:
    """What was asked for.

    Parameters
    ----------
    baseline, candidate
        Names of the Services.
    ladder
        The weights of the steps with their bakes in seconds, the lowest first, and 100 with the promotion's.
    original
        The ``spec`` of the route before the rollout.
    shadows
        Numbers of the steps before the first weight that have shadow traffic alone, counted from 0.
    mirrored
        The weights at which requests may be mirrored.
    """

    baseline: str
    candidate: str
    ladder: Mapping[int, float]
    original: Object
    shadows: frozenset[int] = frozenset()
    mirrored: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class State:
    """Both objects at one moment; None for one that is not there."""

    at: float
    revision: int
    route: Object | None
    rollout: Object | None

    @property
    def status(self) -> Object:
        """Of the rollout; empty without one."""
        return (self.rollout or {}).get("status") or {}

    @property
    def marks(self) -> Mapping[str, str]:
        """Davylamp's marks on the route, without their prefix."""
        return marks_of(self.route or {})


def marks_of(route: Object) -> dict[str, str]:
    """Return Davylamp's marks on a route, without their prefix."""
    annotations = (route.get("metadata") or {}).get("annotations") or {}
    return {name.removeprefix(MARK): value for name, value in annotations.items() if name.startswith(MARK)}


def weight_of(route: Object, candidate: str) -> int:
    """Return the candidate's largest share of the traffic of a rule, rounded up to whole percent."""
    shares = [0]
    for rule in (route.get("spec") or {}).get("rules") or []:
        weights = [(ref["name"], ref.get("weight", 1)) for ref in rule.get("backendRefs") or []]
        total = sum(weight for _, weight in weights)
        mine = sum(weight for name, weight in weights if name == candidate)
        shares.append(-(-100 * mine // total) if total else 0)
    return max(shares)


def mirrors_of(route: Object) -> tuple[str, ...]:
    """Return the Services that a route mirrors requests to, one for each rule that does."""
    filters = [each for rule in (route.get("spec") or {}).get("rules") or [] for each in rule.get("filters") or []]
    return tuple(each["requestMirror"]["backendRef"]["name"] for each in filters if each["type"] == _MIRROR)


def states(history: Sequence[Sighting]) -> tuple[State, ...]:
    """Return both objects after each change of either."""
    route: Object | None = None
    rollout: Object | None = None
    found = []
    for seen in history:
        if seen.kind is Kind.ROUTE:
            route = seen.manifest
        else:
            rollout = seen.manifest
        found.append(State(seen.at, seen.revision, route, rollout))
    return tuple(found)


Invariant = Callable[[Sequence[State], Expected], Iterator[str]]


def rises_by_steps(found: Sequence[State], expected: Expected) -> Iterator[str]:
    """Check that only weights of the ladder are given, and one rung at a time."""
    rungs = [0, *expected.ladder]
    for before, after in _route_changes(found):
        old, new = weight_of(before, expected.candidate), weight_of(after, expected.candidate)
        if new not in rungs:
            yield f"the candidate got {new} %, which is no rung of {rungs}"
        elif new > old and new != next((rung for rung in rungs if rung > old), None):
            yield f"the weight rose from {old} to {new} %, over a rung of {rungs}"


def rises_only_as_decided(found: Sequence[State], expected: Expected) -> Iterator[str]:
    """Check that before a raise a status asks for it, of the same attempt, with no gate that is bad."""
    for before, after in pairwise(found):
        old, new = (weight_of(state.route or {}, expected.candidate) for state in (before, after))
        if new <= old or after.route is None or before.route is None:
            continue
        status, marks = before.status, after.marks
        if (status.get("weight") or {}).get("requested", 0) < new:
            yield f"the weight rose to {new} % while the status asked for {status.get('weight')}"
        if (status.get("attempt") or {}).get("id") != marks.get("attempt"):
            yield f"the weight rose to {new} % by attempt {marks.get('attempt')}, not by that of the status"
        if status.get("verdict") in _BAD:
            yield f"the weight rose to {new} % while a gate said {status.get('verdict')}"


def falls_for_good(found: Sequence[State], expected: Expected) -> Iterator[str]:
    """Check that the candidate never gets more once its rollback stands on the route or in status."""
    rolled_back: set[str] = set()
    for before, after in pairwise(found):
        for state in (before, after):
            if state.marks.get("ruling") == "Rollback":
                rolled_back.add(state.marks.get("attempt", ""))
            decision = state.status.get("decision") or {}
            if decision.get("verdict") == "Rollback":
                rolled_back.add(decision["id"])
        old, new = (weight_of(state.route or {}, expected.candidate) for state in (before, after))
        attempt = after.marks.get("attempt") or (after.status.get("attempt") or {}).get("id")
        if new > old and attempt in rolled_back:
            yield f"the weight rose from {old} to {new} % after attempt {attempt} was rolled back"


def epochs_never_fall(found: Sequence[State], _: Expected) -> Iterator[str]:
    """Check that a former leader writes nothing after its successor."""
    for name, values in (
        ("route", [int(state.marks["epoch"]) for state in found if "epoch" in state.marks]),
        ("status", [int(state.status["epoch"]) for state in found if "epoch" in state.status]),
    ):
        yield from (f"the epoch of the {name} fell from {old} to {new}" for old, new in pairwise(values) if new < old)


def ends_clean(found: Sequence[State], expected: Expected) -> Iterator[str]:
    """Check that a rollout that says it is over has left nothing of itself on the route."""
    for state in found:
        phase = state.status.get("phase")
        if state.route is None or phase not in {"RolledBack", "Promoted"}:
            continue
        wanted = expected.original if phase == "RolledBack" else _repointed(expected)
        if state.marks:
            yield f"the status says {phase} while the route carries the marks {sorted(state.marks)}"
        if state.route["spec"] != wanted:
            yield f"the status says {phase} while the route is {state.route['spec']['rules']}"


def bakes_in_full(found: Sequence[State], expected: Expected) -> Iterator[str]:
    """Check that no step is left upwards before its bake is over, counted from its weight on the route."""
    since = 0.0
    for before, after in pairwise(found):
        old, new = (weight_of(state.route or {}, expected.candidate) for state in (before, after))
        done = before.marks and not after.marks and new == old == 100
        if (new > old or done) and old in expected.ladder:
            passed, bake = after.at - since, expected.ladder[old]
            if passed < bake - _SLACK_SECONDS:
                yield f"{old} % was left after {passed:.2f} s, before its bake of {bake:g} s was over"
        if new != old:
            since = after.at


def is_judged_in_the_shadow_first(found: Sequence[State], expected: Expected) -> Iterator[str]:
    """Check that the candidate has no live weight as long as a step of shadow traffic alone runs."""
    for state in found:
        step, weight = (state.status.get("step") or {}).get("index"), weight_of(state.route or {}, expected.candidate)
        if step in expected.shadows and weight > 0:
            yield f"the candidate has {weight} % at step {step + 1}, which is one of shadow traffic alone"


def mirrors_where_asked(found: Sequence[State], expected: Expected) -> Iterator[str]:
    """Check that requests are mirrored at weights whose step asks for it, and at no other."""
    for state in found:
        weight = weight_of(state.route or {}, expected.candidate)
        if mirrors_of(state.route or {}) and weight not in expected.mirrored:
            yield f"requests are mirrored at {weight} %, which no step asks for"


def leaves_the_rest_alone(found: Sequence[State], expected: Expected) -> Iterator[str]:
    """Check that nothing else on the route changes, and that no rule loses all weight."""
    wanted = _owned_by_user({"spec": expected.original}, expected)
    for state in found:
        if state.route is None:
            continue
        if _owned_by_user(state.route, expected) != wanted:
            yield f"the route's own content changed: {state.route['spec']}"
        for rule in state.route["spec"]["rules"]:
            refs = rule.get("backendRefs")
            if refs and not sum(ref.get("weight", 1) for ref in refs):
                yield f"a rule has no weight at all: {refs}"


#: What holds as long as nobody but Davylamp changes the route.
ALL: Final[tuple[Invariant, ...]] = (
    rises_by_steps,
    rises_only_as_decided,
    falls_for_good,
    epochs_never_fall,
    ends_clean,
    bakes_in_full,
    is_judged_in_the_shadow_first,
    mirrors_where_asked,
    leaves_the_rest_alone,
)
#: What holds even where people change weights on the route.
EDITED: Final[tuple[Invariant, ...]] = (epochs_never_fall, leaves_the_rest_alone)


def violations(
    history: Sequence[Sighting], expected: Expected, invariants: Sequence[Invariant] = ALL
) -> tuple[str, ...]:
    """Return where any of the invariants was broken, in sentences; empty if all held."""
    found = states(history)
    return tuple(
        f"{invariant.__name__.replace('_', ' ')}: {sentence}"
        for invariant in invariants
        for sentence in invariant(found, expected)
    )


def _route_changes(found: Sequence[State]) -> Iterator[tuple[Object, Object]]:
    for before, after in pairwise(found):
        if before.route is not None and after.route is not None and before.route is not after.route:
            yield before.route, after.route


def _repointed(expected: Expected) -> Object:
    """Return the original with the candidate in the baseline's place."""

    def pointing(ref: dict[str, Any]) -> dict[str, Any]:
        return {**ref, "name": expected.candidate} if ref["name"] == expected.baseline else ref

    rules = [
        {**rule, "backendRefs": [pointing(ref) for ref in rule["backendRefs"]]} if "backendRefs" in rule else rule
        for rule in expected.original["rules"]
    ]
    return {**expected.original, "rules": rules}


def _owned_by_user(route: Object, expected: Expected) -> Object:
    """Return the spec without what Davylamp may change.

    The pair's references count as one without a weight; a mirror counts as none, since no original here has one.
    """
    pair = {expected.baseline, expected.candidate}
    rules = []
    for rule in route["spec"]["rules"]:
        refs: list[Object] = []
        for ref in rule.get("backendRefs") or []:
            own = {**ref, "name": "the pair", "weight": 0} if ref["name"] in pair else ref
            if own not in refs:
                refs.append(own)
        filters = [each for each in rule.get("filters") or [] if each["type"] != _MIRROR]
        rules.append({**rule, "backendRefs": refs, "filters": filters})
    return {**route["spec"], "rules": rules}
