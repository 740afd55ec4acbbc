"""The decision loop: look at every rollout when it is due, decide, act.

Rule 1: what is true is read from the API server; a hint only says when to look.
Rule 2: one look at a time for each rollout, many rollouts at once; a look that fails delays no other.
Rule 3: only a leader looks. A session is forgotten when leadership is lost: its successor begins from what is stored.
"""

import asyncio
import contextlib
import heapq
import itertools
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

import structlog

from davylamp.api.v1alpha1.convert import pair_ref
from davylamp.core.decide import decide
from davylamp.core.looking import begins_anew, cut
from davylamp.core.model import Attempt, Phase, Reason, Severity
from davylamp.core.moves import Decision, Fact, Lower, Restore
from davylamp.core.outbox import next_due
from davylamp.core.plan import Plan
from davylamp.core.safety import last_act
from davylamp.core.world import RouteView
from davylamp.errors import DavylampError, SpecError
from davylamp.ports import Clock
from davylamp.runtime.act import Actor
from davylamp.runtime.blueprint import Blueprint, blueprint
from davylamp.runtime.catalogue import Catalogue, Object, name_of
from davylamp.runtime.fallback import fallback_plan
from davylamp.runtime.lease import Leadership
from davylamp.runtime.notify import Messenger
from davylamp.runtime.observe import Observer
from davylamp.runtime.publish import FINALIZER, Publisher, Turn
from davylamp.runtime.session import Session, note_refusal, open_session, start_evidence, take_plan
from davylamp.runtime.telemetry import Telemetry

_log: Final = structlog.get_logger("davylamp")
#: After an act the route is looked at again this soon.
_VERIFY_AFTER: Final = timedelta(milliseconds=50)
#: After a failed look, doubling up to the second: a server that comes back is used within seconds.
_FIRST_RETRY: Final = timedelta(milliseconds=250)
_LAST_RETRY: Final = timedelta(seconds=4)
#: A scrape is visible in Prometheus this long after its time stamp.
_SCRAPE_DELAY: Final = timedelta(milliseconds=80)
#: Seconds between tries to give a route back whose object is gone.
_LAST_TRIES: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
#: Rollouts that are over are looked at this often.
_REST: Final = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Parts:
    """What the engine works with."""

    clock: Clock
    catalogue: Catalogue
    observer: Observer
    actor: Actor
    publisher: Publisher
    messenger: Messenger
    leadership: Leadership
    telemetry: Telemetry


class Engine:
    """Looks at rollouts when they are due.

    Parameters
    ----------
    parts
        What it works with.
    workers
        Looks at once.
    """

    def __init__(self, parts: Parts, *, workers: int = 128) -> None:
        self._parts = parts
        self._sessions: dict[str, Session] = {}
        self._due: dict[str, datetime] = {}
        self._heap: list[tuple[datetime, int, str]] = []
        self._order = itertools.count()
        self._busy: set[str] = set()
        #: Rollouts that fell due while they were looked at.
        self._again: set[str] = set()
        self._wake = asyncio.Event()
        self._slots = asyncio.Semaphore(workers)
        self._tasks: set[asyncio.Task[None]] = set()
        self._delivering: set[str] = set()
        self.beat: datetime = parts.clock.now()

    def hint(self, uid: str) -> None:
        """Look at a rollout now."""
        self._schedule(uid, self._parts.clock.now())

    def catch_up(self) -> None:
        """Look at every rollout that is new, changed or gone since the last full listing."""
        rollouts = self._parts.catalogue.rollouts
        for uid in self._sessions.keys() - rollouts.keys():
            self._gone(uid)
        for uid, manifest in rollouts.items():
            # A rollout that is over is looked at seldom; what changed unseen by a hint must not wait for that.
            if uid not in self._busy and (uid not in self._due or self._changed(uid, manifest)):
                self.hint(uid)

    def _changed(self, uid: str, manifest: Object) -> bool:
        session, metadata = self._sessions.get(uid), manifest["metadata"]
        return session is None or session.generation != metadata["generation"] or "deletionTimestamp" in metadata

    def _gone(self, uid: str) -> None:
        self._due.pop(uid, None)
        if session := self._sessions.pop(uid, None):
            self._parts.telemetry.forget(session.name)
            if session.progress.attempt is not None and not session.progress.ended:
                self._in_background(self._give_back(session, session.progress.attempt))

    async def _give_back(self, session: Session, attempt: Attempt) -> None:
        """Give the baseline its route back, if somebody took the finalizer off an object and deleted it at work."""
        ref = pair_ref(attempt.pair, session.name.namespace)
        for pause in _LAST_TRIES:
            try:
                while self._parts.leadership.valid:
                    route = await self._parts.observer.router.read(ref)
                    action = last_act(route.view, attempt)
                    if action is None:
                        return
                    _log.warning("given_back", rollout=str(session.name), why="deleted without being let go")
                    await self._parts.observer.router.write(ref, route, action, self._parts.leadership.epoch)
            except DavylampError as error:
                _log.warning("not_given_back", rollout=str(session.name), why=str(error))
                await asyncio.sleep(pause)

    def hide(self) -> None:
        """Show no state of any rollout, since another process leads now."""
        for session in self._sessions.values():
            self._parts.telemetry.hide(session.name)

    def forget(self) -> None:
        """Forget everything that is not stored."""
        self._sessions.clear()
        self._due.clear()
        self._heap.clear()

    async def run(self) -> None:
        """Look for ever."""
        while True:
            self.beat = self._parts.clock.now()
            uid = self._next() if self._parts.leadership.valid else None
            if uid is None:
                await self._sleep()
                continue
            await self._slots.acquire()
            self._busy.add(uid)
            self._in_background(self._turn(uid))

    async def drain(self, patience: timedelta) -> None:
        """Let what is under way come to its end, after `run` has ended; what takes longer is cut off."""
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=patience.total_seconds())
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    def _next(self) -> str | None:
        now = self._parts.clock.now()
        while self._heap and self._heap[0][0] <= now:
            due, _, uid = heapq.heappop(self._heap)
            if self._due.get(uid) != due:
                continue
            del self._due[uid]
            if uid in self._busy:
                self._again.add(uid)
            else:
                self._parts.telemetry.lateness.observe((now - due).total_seconds())
                return uid
        return None

    async def _sleep(self) -> None:
        now = self._parts.clock.now()
        until = self._heap[0][0] if self._heap else now + timedelta(seconds=1)
        seconds = min(1.0, max(0.0, (until - now).total_seconds()))
        if not self._parts.leadership.valid:
            seconds = 0.1
        self._wake.clear()
        # Not wait_for: until Python 3.12 it swallows a cancellation that comes together with the event.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()

    def _schedule(self, uid: str, due: datetime) -> None:
        known = self._due.get(uid)
        if known is None or due < known:
            self._due[uid] = due
            heapq.heappush(self._heap, (due, next(self._order), uid))
            self._wake.set()

    async def _turn(self, uid: str) -> None:
        """Look once, and say when to look again."""
        after = _LAST_RETRY
        try:
            with self._parts.telemetry.looks.time():
                after = await self._look(uid)
        except DavylampError as error:
            after = self._failed(uid, str(error))
        except Exception:  # noqa: BLE001 - one broken rollout must not stop the others
            _log.exception("look_failed", uid=uid)
            after = self._failed(uid, "an unexpected error: see the operator's log")
        finally:
            self._busy.discard(uid)
            self._slots.release()
            if uid in self._again:
                self._again.discard(uid)
                after = timedelta(0)
            if uid in self._parts.catalogue.rollouts:
                self._schedule(uid, self._parts.clock.now() + after)
            else:
                self._gone(uid)
            self._wake.set()

    def _failed(self, uid: str, why: str) -> timedelta:
        session = self._sessions.get(uid)
        if session is None:
            return _LAST_RETRY
        session.failures += 1
        self._parts.telemetry.failures.labels(session.name.namespace, session.name.name).inc()
        if session.failures in {1, 10, 100}:
            _log.warning("look_failed", rollout=str(session.name), why=why, failures=session.failures)
        return min(_LAST_RETRY, _FIRST_RETRY * (1 << min(session.failures - 1, 8)))

    async def _look(self, uid: str) -> timedelta:
        manifest = self._parts.catalogue.rollouts.get(uid)
        if manifest is None:
            return _REST
        session = self._sessions.get(uid)
        if session is None or session.failures:
            manifest = await self._parts.catalogue.refresh(uid)
            if manifest is None:
                return _REST
        if session is None:
            session = self._sessions[uid] = open_session(manifest)
        if "deletionTimestamp" not in manifest["metadata"]:
            manifest = await self._with_finalizer(session, manifest)
        after = await self._decide(session, manifest)
        session.failures = 0
        self._deliver(session)
        return after

    async def _with_finalizer(self, session: Session, manifest: Object) -> Object:
        if FINALIZER in (manifest["metadata"].get("finalizers") or []):
            return manifest
        return await self._parts.publisher.finalizer(session, manifest, present=True) or manifest

    async def _decide(self, session: Session, manifest: Object) -> timedelta:
        parts, now, epoch = self._parts, self._parts.clock.now(), self._parts.leadership.epoch
        session.generation = manifest["metadata"]["generation"]
        drawn, broken = self._blueprint(manifest)
        plan = drawn.plan if drawn is not None else fallback_plan(session, manifest)
        session.channels = drawn.channels if drawn is not None else session.channels
        take_plan(session, plan, manifest)
        look = await parts.observer.look(session, manifest, plan, blueprint=drawn, now=now)
        before = session.progress
        decision = decide(plan, before, look.world, now)
        if broken is not None:
            decision = _invalid(decision, broken)
        self._begin_anew(session, plan, decision)
        session.outbox, news = parts.publisher.collect(session, decision.facts, now)
        turn = Turn(session, manifest, look, now, epoch)
        parts.publisher.record(session, before, decision.progress, decision.action)
        _time_rollback(parts, session, decision, look.world.route)
        try:
            acted = await parts.actor.act(turn, decision)
        except DavylampError as error:
            if isinstance(error, SpecError) and not isinstance(decision.action, Lower | Restore):
                note_refusal(session, str(error), look.route.manifest, now)
            if session.progress is before:
                parts.publisher.withdraw(session, news)
            else:
                await parts.publisher.events(session, manifest, news, now)
            raise
        if parts.leadership.valid:  # it may have been lost while this look was under way
            parts.telemetry.show(session.name, session.progress, session.reports)
        await parts.publisher.events(session, manifest, news, now)
        return _VERIFY_AFTER if acted or before.phase != session.progress.phase else self._next_look(session, plan)

    def _blueprint(self, manifest: Object) -> tuple[Blueprint | None, str | None]:
        try:
            return blueprint(manifest, self._parts.catalogue), None
        except SpecError as error:
            return None, str(error)
        except Exception:  # noqa: BLE001 - whatever is wrong with a spec, its rollout can still be taken back
            _log.exception("spec_not_read", rollout=str(name_of(manifest)))
            return None, "an unexpected error in Davylamp while reading the spec: see the operator's log, and report it"

    def _begin_anew(self, session: Session, plan: Plan, decision: Decision) -> None:
        """Cut the evidence where the decision cuts it: a new attempt, another weight or another shadow step."""
        before, after = session.progress, decision.progress
        if begins_anew(before, after):
            start_evidence(session, plan)
        else:
            session.evidence = cut(plan, before, after, session.evidence)

    def _next_look(self, session: Session, plan: Plan) -> timedelta:
        """Return how long to wait: shortly after the next scrape is visible, if scrapes come as often as looks."""
        now = self._parts.clock.now()
        if session.progress.ended:
            waiting = session.progress.reason is Reason.QUARANTINED
            message = next_due(session.outbox, session.channels, now)
            rest = _REST if message is None else min(_REST, message - now)
            return plan.interval if waiting else max(plan.interval, rest)
        if session.newest is not None:
            wait = session.newest + plan.interval + _SCRAPE_DELAY - now
            if plan.interval / 2 < wait <= plan.interval:
                return wait
        return plan.interval

    def _deliver(self, session: Session) -> None:
        """Deliver messages in the background; one round at a time for each rollout."""
        if (
            session.uid in self._delivering
            or next_due(session.outbox, session.channels, self._parts.clock.now()) is None
        ):
            return
        self._delivering.add(session.uid)
        self._in_background(self._delivery(session))

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _delivery(self, session: Session) -> None:
        try:
            if await self._parts.messenger.deliver(session):
                self.hint(session.uid)
        except Exception:  # noqa: BLE001 - messages are tried again with the next look
            _log.exception("not_delivered", rollout=str(session.name))
        finally:
            self._delivering.discard(session.uid)


def _invalid(decision: Decision, why: str) -> Decision:
    """Return a decision that says what is wrong with the spec, unless something graver is going on."""
    graver = {Phase.ROLLING_BACK, Phase.ROLLED_BACK, Phase.PROMOTED}
    if decision.progress.phase in graver or decision.action is not None:
        return decision
    attempt = "" if decision.progress.attempt is None else decision.progress.attempt.id
    progress = replace(decision.progress, phase=Phase.HELD, reason=Reason.INVALID_SPEC, message=why[:1000])
    fact = Fact(f"{attempt}/{progress.step}/{Reason.INVALID_SPEC.value}", Severity.WARNING, why[:1000])
    return Decision(progress, None, (*decision.facts, fact))


def _time_rollback(parts: Parts, session: Session, decision: Decision, route: object) -> None:
    """Measure from the decision to roll back to the route that shows weight 0."""
    now = parts.clock.now()
    lowering = decision.progress.phase is Phase.ROLLING_BACK
    if lowering and session.rolled_back_at is None:
        session.rolled_back_at = decision.progress.ruled_at or now
    elif session.rolled_back_at is not None and isinstance(route, RouteView) and route.weight.percent == 0:
        parts.telemetry.rollback.observe(max(0.0, (now - session.rolled_back_at).total_seconds()))
        session.rolled_back_at = None
