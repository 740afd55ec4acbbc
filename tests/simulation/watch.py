"""The invariants, checked at every decision and at every write that an operator makes.

Each has the id of the design: A1 to A12 are those of the architecture, I1 to I29 those of the reliability study.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Final

from davylamp.core.model import ALL, NONE, Outcome, Phase, Progress, Ruling, Verdict, Weight
from davylamp.core.moves import (
    Action,
    Decision,
    Diversion,
    Divert,
    Lower,
    Mirror,
    Prepare,
    Raise,
    Release,
    Repoint,
    Restore,
)
from davylamp.core.plan import Plan
from davylamp.core.transitions import allowed
from davylamp.core.world import Judgement, RouteTrouble, RouteView, World
from davylamp.ports import RouteRef
from davylamp.routers.httproute_slices import apart
from davylamp.routers.marks import Manifest, read_marks
from tests.simulation.cluster import Cluster, Rollout, original_route
from tests.simulation.settings import PLANS

BASELINE: Final = "credit-fp32"

SENTENCES: Final[Mapping[str, str]] = {
    "A3": "a raise stands in status before it stands on the route; a lowering waits for no status",
    "A4": "an attempt that is over leaves nothing on the route",
    "A6": "two operators together never raise the weight above what status says",
    "A9": "missing data are not good data: they never promote and never raise",
    "I1": "while a gate is Regressed, or once the attempt is rolled back, the candidate's weight never rises",
    "I2": "a rollback that is durable is final: the attempt never has traffic again",
    "I3": "a raise needs good, fresh and complete evidence of the step before",
    "I4": "weights are those of the plan, one write is one step up at most, and they are never all zero",
    "I6": "the epoch on a route never falls, and only the newest leader raises",
    "I7": "a process without a valid lease raises nothing",
    "I8": "nothing of the route changes but the pair's backends and Davylamp's marks",
    "I9": "a weight that a person lowered is not raised again, and a raised one is fought at most once a minute",
    "I10": "another spec or candidate is another attempt, and it begins at weight 0",
    "I12": "without a ready baseline nothing is raised, and traffic is not shifted onto it",
    "I13": "a candidate without endpoints loses its traffic at the next look",
    "I14": "an object is let go only when its route is clean",
    "I17": "no jump of the clock, restart or outage shortens a bake",
    "I18": "no move leaves the table of phases, and a promotion is proven",
    "I20": "a rollback is decided in every phase, paused or not, at the first look that sees the evidence",
    "I21": "a paused rollout is not raised",
    "I22": "a route that another rollout works on is not written",
    "I23": "an object that was made anew inherits nothing",
    "I24": "status claims nothing that was not seen",
    "S1": "a step of shadow traffic alone is passed only with its pairs and its proof, and gives no live traffic",
    "S2": "a mirror is put up only where the step asks for it and somebody listens, and no write but its own moves it",
    "S3": "a slice that went back never has the candidate again in its attempt, and keeps the candidate from promotion",
    "L1": "a world that stands still comes to rest: the rollout ends or says why it is held, and writes stop",
    "Q": "a candidate that was rolled back is not tried again before its quarantine is over",
    "API": "nothing is asked that the API server's own rules would refuse",
}


class Violation(AssertionError):  # noqa: N818 - it says what it is
    """An invariant does not hold."""

    def __init__(self, invariant: str, what: str) -> None:
        super().__init__(f"{invariant} ({SENTENCES[invariant]}): {what}")
        self.invariant = invariant


def must(holds: bool, invariant: str, what: object) -> None:
    """Raise `Violation` unless an invariant holds."""
    if not holds:
        raise Violation(invariant, str(what))


@dataclass(frozen=True, slots=True)
class Look:
    """What an operator has gathered at one look."""

    who: str
    epoch: int
    rollout: Rollout
    progress: Progress
    world: World
    ref: RouteRef
    manifest: Manifest | None
    now: datetime

    @property
    def plan(self) -> Plan:
        """What it decides by."""
        return self.rollout.plan

    @property
    def attempt(self) -> str | None:
        """The attempt that it knows of."""
        return None if self.progress.attempt is None else self.progress.attempt.id

    @property
    def ours(self) -> bool:
        """Whether the route carries this attempt's marks."""
        route = self.world.route
        return isinstance(route, RouteView) and route.attempt == self.attempt and self.attempt is not None

    @property
    def serving(self) -> bool:
        """Whether this attempt's candidate has traffic."""
        return self.ours and isinstance(self.world.route, RouteView) and self.world.route.weight > NONE


class Watch:
    """Looks over the operators' shoulders.

    Parameters
    ----------
    cluster
        The truth.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        #: Attempts whose rollback is durable.
        self.rolled_back: set[str] = set()
        #: Slices that a route has shown to be back at the baseline, by attempt.
        self.diverted: dict[str, set[Diversion]] = {}
        #: The attempt whose weight a person has lowered.
        self.lowered: str | None = None
        #: Whether a person has touched the route, so that "as it was" is not what the user once wrote.
        self.edited = False
        #: Whether stored times may be wrong, so that the bake of this step cannot be told.
        self.damaged = False
        self._steady: tuple[str, Weight, str | None] | None = None
        self._steady_since = 0.0
        self._acting: dict[str, tuple[Action | None, bool]] = {}

    # What others do.

    def person_changed_route(self, *, lowers: bool = False) -> None:
        """Note that somebody else wrote the route."""
        self.edited = True
        self.lowered = read_marks(self.cluster.route or {}).attempt if lowers else None
        self._forget()

    def status_damaged(self) -> None:
        """Note that what was stored is not what was written. What neither status nor route remembers, nobody knows."""
        self.damaged = True
        rollout = self.cluster.rollout
        if (rollout is None or rollout.status is None) and not read_marks(self.cluster.route or {}).present:
            self.lowered = None
        self._forget()

    def _forget(self) -> None:
        """Forget the rollbacks of which nothing that is left tells, neither status nor route."""
        marks = read_marks(self.cluster.route or {})
        known = {marks.attempt} if marks.ruling is Ruling.ROLLBACK else set()
        status = None if self.cluster.rollout is None else self.cluster.rollout.status
        if status is not None:
            progress = status.progress
            known |= {past.attempt for past in progress.history}
            known |= {progress.attempt.id} if progress.attempt and progress.ruling is Ruling.ROLLBACK else set()
        self.rolled_back &= known

    # Decisions.

    def decided(self, seen: Look, decision: Decision) -> None:
        """Check one decision against what the operator had seen."""
        self._follow_the_route()
        self._acting[seen.who] = decision.action, False
        before, after = seen.progress, decision.progress
        new_attempt = (after.attempt and after.attempt.id) != seen.attempt
        if not self.damaged:
            must(
                allowed(before.phase, after.phase, new_attempt=new_attempt),
                "I18",
                f"{before.phase} to {after.phase} ({after.reason}: {after.message})",
            )
        if before.ended and not new_attempt:
            idle = decision.action is None or isinstance(decision.action, Restore | Repoint | Release)
            must(after.ended and idle, "I18", f"an attempt that is over does {decision.action}")
        self._check_lowering(seen, decision)
        self._check_claims(seen, decision)
        self._check_shadow(seen, decision)
        if new_attempt:
            self._check_new_attempt(seen, after)
        for earlier, later in pairwise(after.fights):
            must(later - earlier >= timedelta(minutes=1), "I9", "two fights within a minute")
        if self.cluster.taken and not seen.ours:
            must(decision.action is None or isinstance(decision.action, Release), "I22", decision.action)

    def _check_lowering(self, seen: Look, decision: Decision) -> None:
        world, over = seen.world, seen.progress.ended
        lowers = _lowers(decision.action)
        if seen.serving and not over and world.baseline_ready and not world.deleting:
            if _regressed(world.judgement):
                must(lowers, "I20", f"regressed at {seen.progress.phase}, and the answer is {decision.action}")
            if world.candidate_ready == 0:
                must(lowers, "I13", f"no endpoint at {seen.progress.phase}, and the answer is {decision.action}")
        current = self.cluster.rollout is not None and seen.rollout.status is self.cluster.rollout.status
        if seen.serving and seen.attempt in self.rolled_back and not over and current:
            must(lowers, "I2", f"rolled back, still {world.route}, and the answer is {decision.action}")
        fresh = seen.progress.ruling is not Ruling.ROLLBACK and decision.progress.ruling is Ruling.ROLLBACK
        known = isinstance(world.route, RouteView) and world.route.ruling is Ruling.ROLLBACK
        if fresh and not known and not world.deleting and seen.serving:
            must(world.baseline_ready > 0, "I12", "traffic is shifted onto a baseline without endpoints")

    def _check_shadow(self, seen: Look, decision: Decision) -> None:
        before, after, judgement = seen.progress, decision.progress, seen.world.judgement
        shadow = seen.plan.shadow_alone(before.step)
        same = before.attempt == after.attempt and before.attempt is not None
        current = same and before.attempt is not None and before.attempt.spec_hash == seen.plan.spec_hash
        if shadow is not None and current and after.step > before.step and after.ruling is not Ruling.ROLLBACK:
            must(judgement.pairs >= shadow.min_pairs, "S1", f"passed with {judgement.pairs} pairs")
            proven = {judgement.verdicts.get(name) for name in judgement.shadow} == {Verdict.NON_INFERIOR}
            must(proven, "S1", f"passed while shadow traffic says {judgement.verdicts}")
        action, route = decision.action, seen.world.route
        counts = after.accepted_at is not None and after.phase is Phase.PROGRESSING and action is None
        if current and counts and seen.ours and isinstance(route, RouteView) and route.mirror:
            must(seen.plan.shadow_at(after.step) is not None, "S2", f"step {after.step} goes on, mirrored")
        if isinstance(action, Mirror) and action.comparator:
            must(seen.world.comparator_ready > 0, "S2", "nobody listens")
            must(seen.plan.shadow_at(after.step) is not None, "S2", f"step {after.step} mirrors nothing")
            must(after.ruling is Ruling.CONTINUE and not seen.world.deleting, "S2", f"mirrored while {after.ruling}")

    def _check_claims(self, seen: Look, decision: Decision) -> None:
        before, after, route = seen.progress, decision.progress, seen.world.route
        if after.ended and not before.ended and after.history[-1].outcome is not Outcome.SUPERSEDED:
            if after.phase is Phase.PROMOTED:
                seen_so = isinstance(route, RouteView) and route.repointed and not route.marked
            else:
                served = isinstance(route, RouteView) and route.weight > NONE and not route.repointed
                seen_so = isinstance(route, RouteTrouble) or not (route.marked or served)
            must(seen_so, "I24", f"{after.phase} while the route says {route}")
        claimed = before.accepted_at or datetime.min.replace(tzinfo=UTC)  # only a clock that was set back moves it back
        if after.accepted_at is not None and after.accepted_at > claimed:
            must(isinstance(route, RouteView) and route.accepted, "I24", "accepted, says status; the gateway does not")
        if after.ruling is Ruling.PROMOTE and before.ruling is not Ruling.PROMOTE:
            must(_proven(seen.world.judgement), "I18", "promotion without proof")
        if after.attempt is not None:
            must(after.attempt.id.startswith(seen.rollout.uid[:8]), "I23", after.attempt.id)

    def _check_new_attempt(self, seen: Look, after: Progress) -> None:
        must(after.requested == NONE and after.step == -1, "I10", f"a new attempt begins at {after.requested}")
        route, attempt = seen.world.route, after.attempt
        kept = {q.digest for q in seen.progress.quarantine if q.until > seen.now}
        must(attempt is None or attempt.candidate_digest not in kept, "Q", kept)
        if seen.progress.attempt is not None and not seen.progress.ended and isinstance(route, RouteView):
            clean = not route.marked and (route.weight == NONE or route.repointed or seen.progress.step < 0)
            must(clean, "I10", f"a new attempt begins while the route says {route}")

    # Writes.

    def route_sent(self, seen: Look) -> None:
        """Note that an operator tries to write the route."""
        self._acting[seen.who] = self._acting[seen.who][0], True

    def status_written(self, seen: Look, before: Rollout | None, after: Rollout) -> None:
        """Check one write of the status."""
        action, tried = self._acting[seen.who]
        must(tried or not isinstance(action, Lower), "A3", "the status was written before the weight was lowered")
        old = None if before is None or before.status is None else before.status
        new = after.status
        if new is None:
            raise Violation("API", "the status was removed")
        if new.progress.ruling is Ruling.ROLLBACK and new.progress.attempt is not None:
            self.rolled_back.add(new.progress.attempt.id)
        route = seen.world.route
        if not isinstance(route, RouteView) or not route.accepted or route.weight != route.asked:
            self._steady = None
        must(before is not None and before.version == seen.rollout.version, "API", "written over what others wrote")
        if old is None or old.damaged:
            self.damaged = self.damaged and old is not None
            return
        was, now = old.progress, new.progress
        if was.attempt is not None:
            must(now.attempt is not None, "API", "the attempt is gone")
            if now.attempt is not None and now.attempt.id != was.attempt.id:
                must(now.attempt.number > was.attempt.number, "API", "attempts are counted upwards")
                must(now.requested <= was.requested, "API", "a new attempt does not begin with a raise")
            elif was.ruling is Ruling.ROLLBACK:
                must(now.ruling is Ruling.ROLLBACK, "API", "a rollback is final")
                must(now.requested <= was.requested, "API", "no raise after a rollback")
        self.damaged = False

    def route_written(self, seen: Look, before: Manifest, after: Manifest, change: Action, *, leads: bool) -> None:
        """Check one write of the route."""
        earlier, later = read_marks(before), read_marks(after)
        old, new = pair_weight(before, seen.ref), pair_weight(after, seen.ref)
        _check_ownership(before, after)
        self._check_mirror(before, after, change, leads=leads)
        self._check_slices(before, after, change, moved=old != new)
        if later.ruling is Ruling.ROLLBACK and later.attempt:
            self.rolled_back.add(later.attempt)
        if later.attempt != self.lowered:
            self.lowered = None  # another attempt has begun, at weight 0
        if earlier.epoch is not None and later.epoch is not None:
            must(later.epoch >= earlier.epoch, "I6", f"{earlier.epoch} to {later.epoch}")
        if later.attempt in self.rolled_back:
            must(new == 0, "I2", f"attempt {later.attempt} was rolled back and has {new} %")
        if isinstance(change, Repoint):
            must(leads, "I7", change)
            self._check_repoint(seen)
        elif new > old or _risen(before, after):
            must(leads, "I7", change)
            self._check_raise(seen, change, old, new)
        if new != old:
            self._steady = None
            must(new in _declared(seen), "I4", f"{new} % is not in the plan")

    def _check_slices(self, before: Manifest, after: Manifest, change: Action, *, moved: bool) -> None:
        """Check that whoever went back stays there, as long as the candidate has any weight."""
        marks = read_marks(after)
        status = None if self.cluster.rollout is None else self.cluster.rollout.status
        progress = None if status is None else status.progress
        shown = set(marks.diverted)
        if isinstance(change, Divert):
            must(not moved, "S3", f"{change} moved weights")
        if progress is not None and progress.attempt is not None and progress.attempt.id == read_marks(before).attempt:
            must(not progress.diverted or not isinstance(change, Repoint), "S3", f"promoted over {progress.diverted}")
            if isinstance(change, Raise):
                must(len(progress.diverted) <= len(shown), "S3", f"raised while {progress.diverted} should be away")
        if marks.attempt is None or not any(
            weights_of(after).get(name) for name in weights_of(after) if name != BASELINE
        ):
            return
        known = self.diverted.setdefault(marks.attempt, set())
        must(known <= shown, "S3", f"{known - shown} have the candidate again")
        known |= shown

    def _check_mirror(self, before: Manifest, after: Manifest, change: Action, *, leads: bool) -> None:
        if isinstance(change, Mirror):
            must(leads, "I7", change)
            must(weights_of(before) == weights_of(after), "S2", "the mirror moved weights")
            attempt = read_marks(after).attempt
            must(attempt not in self.rolled_back, "S2", f"{attempt} was rolled back and is mirrored")
        elif isinstance(change, Raise) and change.unmirror:
            must(not mirrors(after), "S2", f"{change} leaves a mirror")
        elif isinstance(change, Raise | Lower | Divert):
            must(mirrors(before) == mirrors(after), "S2", f"{change} moved the mirror")
        else:
            must(not mirrors(after), "A4", f"{change} leaves a mirror")

    def _check_raise(self, seen: Look, change: Action, old: int, new: int) -> None:
        world, judgement = seen.world, seen.world.judgement
        if not isinstance(change, Raise):
            raise Violation("I1", f"{type(change).__name__} raised the weight from {old} to {new} %")
        must(change.attempt not in self.rolled_back, "I1", f"{change.attempt} was rolled back")
        must(not _regressed(judgement), "I1", "regressed")
        must(not _suspicious(judgement), "I3", "suspicious, or not a number")
        must(change.attempt != self.lowered, "I9", "a person had lowered the weight")
        must(world.baseline_ready > 0 and world.candidate_ready > 0, "I12", "endpoints are missing")
        must(not seen.plan.paused, "I21", "paused")
        must(not world.deleting, "I14", "deleted")
        status = None if self.cluster.rollout is None else self.cluster.rollout.status
        if status is None or status.progress.attempt is None:
            raise Violation("A3", "there is no status")
        must(status.epoch == seen.epoch, "I6", f"epoch {seen.epoch} raises, the leader's is {status.epoch}")
        said = (status.progress.attempt.id, status.progress.requested.percent, status.progress.ruling)
        must(said[:2] == (change.attempt, new) and said[2] is not Ruling.ROLLBACK, "A3", f"status says {said}")
        attempt = seen.progress.attempt
        if attempt is None or (attempt.spec_hash, attempt.candidate_digest) != (
            seen.plan.spec_hash,
            seen.plan.candidate_digest,
        ):
            raise Violation("I10", "the attempt is not of this spec")
        self._check_step(seen, old, new)

    def _check_step(self, seen: Look, old: int, new: int) -> None:
        ladder = [step.weight.percent for step in seen.plan.steps if step.weight is not None]
        rungs = [0, *ladder, *([] if ladder[-1] == 100 else [100])]
        must(old in rungs and rungs[rungs.index(old) + 1] == new, "I4", f"{old} to {new} % is not one step")
        judgement = seen.world.judgement
        must(Verdict.SOURCE_DOWN not in judgement.verdicts.values(), "A9", "the source is down")
        if old == 0:
            must(judgement.baseline_readable, "A9", "the baseline cannot be read")
            return
        must(not _missing(judgement), "A9", "no data")
        if new == 100 and ladder[-1] != 100:
            must(_proven(judgement), "I18", "promotion without proof")
        least = max(step.min_samples for step in seen.plan.steps if step.weight == Weight(old))
        must(judgement.samples >= least, "I3", f"{judgement.samples} of {least} samples")
        self._check_bake(self._bake(seen.plan, old))

    def _bake(self, plan: Plan, weight: int) -> timedelta:
        """Return how long a weight must have been held before the next: its bake, and the pauses after it."""
        total, here = timedelta(0), False
        for step in plan.steps:
            here = step.weight == Weight(weight) or (here and step.weight is None)
            total += step.bake if here else timedelta(0)
        return total

    def _check_bake(self, least: timedelta) -> None:
        if self.damaged:
            return
        held = self.cluster.time - self._steady_since if self._steady else 0.0
        must(held >= least.total_seconds(), "I17", f"held for {held} s of {least.total_seconds()} s")

    def _check_repoint(self, seen: Look) -> None:
        judgement = seen.world.judgement
        if seen.progress.ended:
            return
        must(seen.serving, "I18", "repointed without traffic")
        must(not _regressed(judgement), "I1", "regressed")
        must(not _missing(judgement), "A9", "promoted without data")
        must(not _suspicious(judgement), "I3", "suspicious, or not a number")
        must(not seen.plan.paused, "I21", "paused")
        self._check_bake(seen.plan.promotion_bake)

    def released(self, seen: Look) -> None:
        """Check that an object goes only when nothing of it is left."""
        route, progress = seen.world.route, seen.progress
        must(seen.world.deleting, "I14", "released without being deleted")
        if isinstance(route, RouteTrouble):
            return
        must(not route.marked, "I14", f"released while the route says {route}")
        if progress.step >= 0 and not progress.ended and not route.repointed:
            must(route.weight == NONE, "I14", f"released with {route.weight}")
        if not self.edited and seen.manifest is not None and not route.repointed:
            must(seen.manifest["spec"] == original_route("")["spec"], "A4", seen.manifest["spec"])

    def _follow_the_route(self) -> None:
        """Note since when the route has been as it is, by the truth and not by what an operator believes.

        A time in which it was otherwise, and which nobody wrote down, is as if nobody had seen it.
        """
        status = None if self.cluster.rollout is None else self.cluster.rollout.status
        attempt = None if status is None else status.progress.attempt
        view = self.cluster.look(attempt.pair) if attempt is not None else None
        if isinstance(view, RouteView) and view.accepted and view.marked and view.weight == view.asked:
            steady = (view.uid, view.weight, view.attempt)
            if steady != self._steady:
                self._steady, self._steady_since = steady, self.cluster.time


def _regressed(judgement: Judgement) -> bool:
    over = judgement.log_evidence >= judgement.log_threshold
    return over or Verdict.REGRESSED in judgement.verdicts.values()


def _suspicious(judgement: Judgement) -> bool:
    return not judgement.log_evidence < judgement.log_threshold / 2


def _missing(judgement: Judgement) -> bool:
    missing = {Verdict.NO_DATA, Verdict.SOURCE_DOWN}
    return not judgement.verdicts or not missing.isdisjoint(judgement.verdicts.values())


def _proven(judgement: Judgement) -> bool:
    needed = {judgement.verdicts.get(name) for name in judgement.required}
    return needed == {Verdict.NON_INFERIOR}


def weights_of(route: Manifest) -> dict[str, int]:
    """Return the weights of the shared rule by backend."""
    refs = apart(route)[0]["spec"]["rules"][0]["backendRefs"]
    weights = {ref["name"]: ref.get("weight", 1) for ref in refs}
    must(sum(weights.values()) > 0, "I4", "all weights are zero")
    return weights


def mirrors(route: Manifest) -> list[object]:
    """Return the mirrors of the shared rule."""
    filters = apart(route)[0]["spec"]["rules"][0].get("filters", [])
    return [each["requestMirror"] for each in filters if each["type"] == "RequestMirror"]


def pair_weight(route: Manifest, ref: RouteRef) -> int:
    """Return the candidate's share of what a pair has in the shared rule, in per cent, rounded up."""
    weights = weights_of(route)
    candidate = weights.get(ref.candidate.name, 0)
    total = candidate + weights.get(ref.baseline.name, 0)
    return -(-100 * candidate // total) if total else 0


def _risen(before: Manifest, after: Manifest) -> bool:
    """Return whether any backend but the baseline has a larger share of the shared rule than it had."""
    old, new = weights_of(before), weights_of(after)
    return any(new[name] * sum(old.values()) > old.get(name, 0) * sum(new.values()) for name in new if name != BASELINE)


def _lowers(action: Action | None) -> bool:
    match action:
        case Lower(_, weight, _):
            return weight == NONE
        case Restore() | Prepare():
            return True
        case Divert(_, slices):
            return bool(slices)
        case _:
            return False


def _declared(seen: Look) -> set[int]:
    ladders = (step.weight.percent for plan in PLANS for step in plan.steps if step.weight is not None)
    return {NONE.percent, ALL.percent, *ladders}


def _check_ownership(before: Manifest, after: Manifest) -> None:
    def foreign(route: Manifest) -> object:
        route, _ = apart(route)
        first, *others = route["spec"]["rules"]
        own = [each for each in first.get("filters", []) if each["type"] != "RequestMirror"]
        spec = {**route["spec"], "rules": [{**first, "backendRefs": None, "filters": own}, *others]}
        notes = {k: v for k, v in route["metadata"].get("annotations", {}).items() if not k.startswith("davylamp.dev/")}
        return spec, notes, route["metadata"]["uid"]

    must(foreign(before) == foreign(after), "I8", f"{foreign(before)} became {foreign(after)}")
