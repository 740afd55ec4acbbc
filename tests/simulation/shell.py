"""A simulated operator: the write protocol, between any two calls of which it can stop for a while or for good.

A look is a generator. It yields before every call to the API server and is sent what becomes of that call.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Any, Final, TypeVar

from davylamp.core.decide import decide
from davylamp.core.model import NONE, Progress, Ruling
from davylamp.core.moves import Action, Decision, Divert, Lower, Mirror, Prepare, Raise, Release, Repoint, Restore
from davylamp.core.world import Judgement, RouteTrouble, RouteView, World
from davylamp.errors import Conflict, DavylampError, SpecError, Unavailable
from davylamp.ports import RouteRef
from davylamp.routers.httproute_changes import changed, leftover
from davylamp.routers.marks import Manifest, read_marks
from tests.simulation.cluster import TAKEN, Cluster, Rollout, Stored, ref_of
from tests.simulation.settings import BEGINNING
from tests.simulation.watch import Look, Watch

#: Numbers alone are written this often.
_NUMBERS_EVERY: Final = timedelta(minutes=1)
_TRIES: Final = 3
_Answer = TypeVar("_Answer")


class Fate(Enum):
    """What becomes of one call."""

    ANSWERED = auto()
    #: The call is not carried out.
    REFUSED = auto()
    #: The call is carried out, and its answer is lost.
    LOST = auto()


Steps = Generator[None, Fate, None]


@dataclass(slots=True)
class Session:
    """What the operator remembers between two looks: where the rollout stands, and the status that says so."""

    uid: str
    progress: Progress
    known: Stored | None
    written_at: datetime | None = None
    refused: tuple[Any, str] | None = None


class Shell:
    """One process of the operator."""

    def __init__(self, name: str, cluster: Cluster, watch: Watch) -> None:
        self.name = name
        self.cluster = cluster
        self.watch = watch
        self.epoch = 0
        self.leads = False
        self.session: Session | None = None
        self.floor = 0
        self.offset = cluster.wall_offset

    def restart(self) -> None:
        """Lose everything that is in memory; a new process reads the wall clock anew."""
        self.session = None
        self.offset = self.cluster.wall_offset

    def now(self) -> datetime:
        """Return the time that this process sees."""
        return BEGINNING + timedelta(seconds=self.cluster.time + self.offset)

    def look(self, *, stale: bool = False) -> Steps:
        """Look once: gather, decide, act."""
        yield from _through(self._look(stale=stale))

    def _look(self, *, stale: bool) -> Steps:
        rollout = self._rollout(stale=stale)
        if rollout is None:
            self.session = None
            return
        session = self._open(rollout)
        seen = self._seen(rollout, session)
        decision = decide(rollout.plan, session.progress, seen.world, seen.now)
        self.watch.decided(seen, decision)
        yield from self._act(session, seen, decision)

    def _rollout(self, *, stale: bool) -> Rollout | None:
        """Return the object from the cache, which may lag, but never behind what this process has seen."""
        past = [rollout for rollout in self.cluster.past_rollouts if rollout.version >= self.floor]
        rollout = past[0] if stale and past else self.cluster.rollout
        if rollout is not None:
            self.floor = rollout.version
        return rollout

    def _open(self, rollout: Rollout) -> Session:
        """Return the session; what others have stored meanwhile replaces what is remembered."""
        session = self.session
        if session is None or session.uid != rollout.uid or session.known is not rollout.status:
            session = self.session = Session(rollout.uid, read_back(rollout.status), rollout.status)
        return session

    def _seen(self, rollout: Rollout, session: Session) -> Look:
        cluster, attempt = self.cluster, session.progress.attempt
        pair = rollout.plan.pair if attempt is None or session.progress.ended else attempt.pair
        ref = ref_of(pair)
        route = cluster.look(pair)
        if cluster.taken and not (isinstance(route, RouteView) and attempt and route.attempt == attempt.id):
            route = TAKEN
        world = World(
            uid=rollout.uid,
            deleting=rollout.deleting,
            route=route,
            baseline_ready=cluster.baseline_ready,
            candidate_ready=cluster.candidate_ready,
            comparator_ready=cluster.comparator_ready,
            judgement=self.judgement(),
            refusal=session.refused[1] if session.refused and session.refused[0] == _form(cluster.route) else "",
        )
        manifest = None if isinstance(route, RouteTrouble) and route.taken else cluster.route
        return Look(self.name, self.epoch, rollout, session.progress, world, ref, manifest, self.now())

    def judgement(self) -> Judgement:
        """Return what the gates say."""
        return self.cluster.metrics.value

    # The write protocol.

    def _act(self, session: Session, seen: Look, decision: Decision) -> Steps:
        try:
            yield from self._carry_out(session, seen, decision)
        except SpecError as error:
            session.refused = _form(seen.manifest), str(error)
            raise

    def _carry_out(self, session: Session, seen: Look, decision: Decision) -> Steps:
        match decision.action:
            case None:
                session.progress = decision.progress
                if self._has_news(session, decision.progress, seen):
                    yield from self.write_status(session, seen, decision.progress)
            case Raise():
                yield from self.carry_raise(session, seen, decision)
            case Mirror():
                yield from self.carry_mirror(session, seen, decision)
            case Lower() | Prepare() | Divert():
                yield from self.carry_lowering(session, seen, decision)
            case Restore() | Repoint():
                yield from self.carry_giving_back(session, seen, decision)
            case Release():
                yield from self._call(lambda: self._release(seen))

    def carry_raise(self, session: Session, seen: Look, decision: Decision) -> Steps:
        """Raise: with a lease, status first, then the route, both as they were read."""
        if not self.leads:
            raise Unavailable("the lease is not valid")
        yield from self.write_status(session, seen, decision.progress)
        session.progress = decision.progress
        if not self.leads:
            raise Unavailable("the lease is not valid")
        yield from self.write_route(seen, decision.action)

    def carry_mirror(self, session: Session, seen: Look, decision: Decision) -> Steps:
        """Mirror: with a lease, status first, then the route, as they were read."""
        if not self.leads:
            raise Unavailable("the lease is not valid")
        yield from self.write_status(session, seen, decision.progress)
        session.progress = decision.progress
        yield from self.write_route(seen, decision.action)

    def carry_lowering(self, session: Session, seen: Look, decision: Decision) -> Steps:
        """Lower: the route first; status keeps the decision even if the route cannot be written."""
        session.progress = decision.progress
        failure: DavylampError | None = None
        try:
            yield from self.write_route(seen, decision.action)
        except DavylampError as error:
            failure = error
        yield from self.write_status(session, seen, decision.progress)
        if failure is not None:
            raise failure

    def carry_giving_back(self, session: Session, seen: Look, decision: Decision) -> Steps:
        """Restore and repoint: the status that says why first."""
        try:
            yield from self.write_status(session, seen, decision.progress)
        except Conflict:
            if not seen.world.deleting:
                raise
        session.progress = decision.progress
        if isinstance(decision.action, Repoint) and not self.leads:
            raise Unavailable("the lease is not valid")
        yield from self.write_route(seen, decision.action)

    def write_status(self, session: Session, seen: Look, progress: Progress) -> Steps:
        """Write the status by compare-and-swap, unless it says so already."""
        status = Stored(replace(progress, ticked_at=None), self.epoch)
        if seen.rollout.status == status:
            return
        stored = yield from self._call(lambda: self._put(seen, status))
        session.known, session.written_at = stored.status, seen.now
        self.floor = stored.version

    def _put(self, seen: Look, status: Stored) -> Rollout:
        before = self.cluster.rollout
        stored = self.cluster.put_status(seen.rollout, status)
        self.watch.status_written(seen, before, stored)
        return stored

    def write_route(self, seen: Look, action: Action | None) -> Steps:
        """Make one change to the route as the router does."""
        manifest = seen.manifest
        if manifest is None:
            return
        match action:
            case Lower():
                yield from self._lower_route(seen, manifest, action)
            case Prepare():
                if leftover(manifest, seen.ref):
                    manifest = yield from self._send(seen, manifest, Restore())
                yield from self._send(seen, manifest, action)
            case Raise() | Mirror() | Divert() | Restore() | Repoint():
                yield from self._send(seen, manifest, action)
            case Release() | None:
                raise TypeError(f"{action} does not touch the route")

    def _lower_route(self, seen: Look, manifest: Manifest, change: Lower) -> Steps:
        attempt = read_marks(manifest).attempt
        for _ in range(_TRIES):
            try:
                yield from self._send(seen, manifest, change)
            except Conflict:
                fresh = self.cluster.route
                if fresh is None:
                    return
                manifest = fresh
            else:
                return
            if read_marks(manifest).attempt not in {attempt, change.attempt}:
                raise Conflict("the route belongs to another attempt by now")
        yield from self._send(seen, manifest, change, versioned=False)

    def _send(
        self, seen: Look, manifest: Manifest, change: Action, *, versioned: bool = True
    ) -> Generator[None, Fate, Manifest]:
        self.watch.route_sent(seen)
        wanted = self.wanted(manifest, seen.ref, change)
        return (yield from self._call(lambda: self._patch(seen, manifest, wanted, change, versioned=versioned)))

    def wanted(self, manifest: Manifest, ref: RouteRef, change: Action) -> Manifest:
        """Return the route as it shall be."""
        if isinstance(change, Release):
            raise TypeError("a release does not touch the route")
        return changed(manifest, ref, change, self.epoch)

    def _patch(self, seen: Look, manifest: Manifest, wanted: Manifest, change: Action, *, versioned: bool) -> Manifest:
        before = self.cluster.route
        after = self.cluster.patch_route(manifest, wanted, versioned=versioned)
        if before is not None and after is not before:
            self.watch.route_written(seen, before, after, change, leads=self.leads)
        return after

    def _release(self, seen: Look) -> None:
        self.watch.released(seen)
        self.cluster.release(seen.rollout)
        self.session = None

    def _has_news(self, session: Session, progress: Progress, seen: Look) -> bool:
        known = None if session.known is None else session.known.progress
        if known is None or _without_numbers(progress) != _without_numbers(known):
            return True
        due = session.written_at is None or seen.now - session.written_at >= _NUMBERS_EVERY
        return due and not progress.ended and replace(progress, ticked_at=None) != known

    def _call(self, do: Callable[[], _Answer]) -> Generator[None, Fate, _Answer]:
        fate = yield
        if fate is Fate.REFUSED:
            raise Unavailable("the API server does not answer")
        answer = do()
        if fate is Fate.LOST:
            raise Unavailable("the connection was lost after sending")
        return answer


def _through(steps: Steps) -> Steps:
    """End a look quietly at an error that the real shell retries."""
    try:
        yield from steps
    except DavylampError:
        return


def read_back(status: Stored | None) -> Progress:
    """Return the progress of a stored status; one that is damaged leads to less traffic."""
    if status is None:
        return Progress()
    if not status.damaged:
        return status.progress
    ruling = status.progress.ruling
    if ruling is not Ruling.CONTINUE:
        return status.progress
    return replace(status.progress, step=-1, requested=NONE, entered_at=None, accepted_at=None, baked=timedelta(0))


def _form(route: Manifest | None) -> Any:
    return route and (route["metadata"]["uid"], route["metadata"]["generation"])


def _without_numbers(progress: Progress) -> Progress:
    return replace(progress, ticked_at=None, baked=timedelta(0), error_ticks=0, message="")
