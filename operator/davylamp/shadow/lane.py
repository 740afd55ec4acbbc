"""One rollout's way through the comparator: take, wait, replay to both variants, compare, count.

Rule 1: what cannot wait is dropped, the newest first, and counted; whoever sent it has its answer already.
Rule 2: what may take long is done beside the event loop, so that whoever sends the next request never waits for it.
Rule 3: a pair is two calls one after the other, in random order, so that neither variant is the one that finds the
machine warm.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from random import Random
from typing import Any, Final, TypeVar
from typing import Protocol as Port

import structlog

from davylamp.shadow.calling import HttpCaller
from davylamp.shadow.calling_grpc import GrpcCaller
from davylamp.shadow.capturing import Redact, Reservoir
from davylamp.shadow.coding import CodingError, TooLargeError, decoded
from davylamp.shadow.comparison import Comparison
from davylamp.shadow.exchange import Answer, Call, Outcome, Protocol, header_of
from davylamp.shadow.passing import is_allowed, passed_on, without_credentials
from davylamp.shadow.predictions import Predictions
from davylamp.shadow.reception import Arrived, Reception
from davylamp.shadow.restraint import Restraint
from davylamp.shadow.room import Room, Tenancy
from davylamp.shadow.sampling import Purpose, RecentRequests, Sampler, identity, repetition
from davylamp.shadow.slicing import decided, slices_of_request
from davylamp.shadow.task import Replay, Rules, Task
from davylamp.shadow.telemetry import Pair, Tallies

#: Compares two answers to a call, first the baseline's.
Compare = Callable[[Call, Outcome, Outcome, Rules], Comparison]
#: Bytes of a request and both its answers that are compared on the event loop; more may take many milliseconds.
LARGEST_ON_LOOP: Final = 64 * 2**10
T = TypeVar("T")
_log: Final = structlog.get_logger("davylamp")


class _Caller(Port):
    async def call(self, call: Call) -> Outcome: ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Means:
    """What all lanes of a process share.

    Parameters
    ----------
    compare
        Compares two answers.
    redact
        Blots out what must not be kept.
    randomness
        For the order of calls and for what is captured.
    room
        What may be held.
    aside
        Does what may take long, one after the other: two at once would wait for the same processor.
    predictions
        Takes what was decided for labels to join; None where there are no labels.
    """

    compare: Compare
    redact: Redact
    randomness: Random
    room: Room
    aside: Executor
    predictions: Predictions | None = None


class Variant:
    """Calls one variant, by whichever protocol a request came.

    Parameters
    ----------
    address
        ``host:port``.
    replay
        Limits.
    tls
        How its certificate is checked where it speaks HTTP; None to call it without TLS.
    """

    def __init__(self, address: str, replay: Replay, tls: ssl.SSLContext | None = None) -> None:
        self._address = address
        self._replay = replay
        self._tls = tls
        self._callers: dict[Protocol, _Caller] = {}

    async def call(self, call: Call) -> Outcome:
        """Send a call and return what became of it."""
        caller = self._callers.get(call.protocol)
        if caller is None:
            caller = self._callers[call.protocol] = self._make(call.protocol)
        return await caller.call(call)

    async def close(self) -> None:
        """Close all connections."""
        for caller in self._callers.values():
            await caller.close()

    def _make(self, protocol: Protocol) -> _Caller:
        match protocol:
            case Protocol.HTTP:
                return HttpCaller(self._address, self._replay.timeout, self._replay.max_body, self._tls)
            case Protocol.GRPC:
                return GrpcCaller(self._address, self._replay.timeout, self._replay.max_body)


class Lane:
    """Takes one rollout's requests; a `reception.Sink`.

    Parameters
    ----------
    task
        What to do.
    means
        Shared with other lanes.
    tallies
        Where it is counted.
    """

    def __init__(self, task: Task, means: Means, tallies: Tallies) -> None:
        self._means = means
        self._tallies = tallies
        self._loop = asyncio.get_running_loop()
        self._tenancy = Tenancy(means.room)
        self._sampler = Sampler(task.rollout)
        self._recent = RecentRequests()
        self._waiting: deque[tuple[Arrived, Pair]] = deque()
        self._workers: set[asyncio.Task[None]] = set()
        self.reservoir = Reservoir(task.capture, means.redact, means.randomness)
        self._set(task)
        tallies.show(
            lambda: len(self._waiting),
            lambda: self._tenancy.held_octets,
            lambda: len(self._workers),
            lambda: self._restraint.places,
            lambda: self._restraint.holds(self._loop.time()),
        )

    def _set(self, task: Task) -> None:
        self.task = task
        self._baseline = Variant(task.baseline, task.replay)
        self._candidate = Variant(task.candidate, task.replay)
        self._restraint = Restraint(task.replay.timeout, task.replay.concurrency)
        self._stopping = False
        self._tallies.slice_by(task.slicing)

    async def change(self, task: Task) -> None:
        """Do something else from now on; what waits for the variants of before is dropped, what was counted stays."""
        await self.stop()
        if task.capture != self.task.capture:
            self.reservoir = Reservoir(task.capture, self._means.redact, self._means.randomness)
        self._set(task)

    async def stop(self) -> None:
        """Drop what waits, and close the connections."""
        self._stopping = True
        workers = tuple(self._workers)
        for worker in workers:
            worker.cancel()
        while self._waiting:
            arrived, _ = self._waiting.popleft()
            self._let_go(arrived)
            self.refuse(Reception.DROPPED)
        await asyncio.gather(*workers, return_exceptions=True)
        await self._baseline.close()
        await self._candidate.close()

    async def end(self) -> None:
        """Stop for good."""
        await self.stop()
        self._tenancy.end()

    # As a sink.

    @property
    def max_body(self) -> int:
        """Bytes of the largest body that is taken."""
        return self.task.replay.max_body

    def reserve(self, size: int) -> bool:
        """Return whether so many more bytes may be held, and count them as held if so."""
        return self._tenancy.reserve(size)

    def release(self, size: int) -> None:
        """Give back bytes that were reserved."""
        self._tenancy.release(size)

    def refuse(self, why: Reception) -> None:
        """Count a request that is not taken."""
        self._tallies.received(why)

    def take(self, arrived: Arrived) -> None:
        """Take a request that is to be compared, if there is a place to wait in."""
        refused = self._refusal(arrived)
        if refused is not None:
            self._tenancy.release(len(arrived.body))
            self.refuse(refused)

    def _refusal(self, arrived: Arrived) -> Reception | None:
        """Return why a request does not wait; None if it does now."""
        task = self.task
        if not is_allowed(arrived, task.replay):
            return Reception.NOT_ALLOWED
        request = identity(arrived)
        if not self._sampler.chooses(request, Purpose.SAMPLE, task.sample):
            return Reception.NOT_SAMPLED
        known = repetition(arrived)
        if known is not None and known in self._recent:
            return Reception.DUPLICATE
        if self._stopping or not self._tenancy.enter():
            return Reception.DROPPED
        if known is not None:
            self._recent.add(known)
        noise = self._sampler.chooses(request, Purpose.NOISE, task.noise)
        self._waiting.append((arrived, Pair.BASELINE if noise else Pair.CANDIDATE))
        self._set_to_work()
        return None

    # The work.

    def _set_to_work(self) -> None:
        if self._waiting and len(self._workers) < self._restraint.places:
            worker = self._loop.create_task(self._work())
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)

    async def _work(self) -> None:
        while self._waiting and len(self._workers) <= self._restraint.places:
            arrived, pair = self._waiting.popleft()
            try:
                await self._pair(arrived, pair)
            except Exception as error:  # noqa: BLE001 - one pair must not end the others
                self._tallies.failed()
                _log.error("pair_failed", rollout=f"{self.task.namespace}/{self.task.rollout}", why=repr(error))
            finally:
                self._let_go(arrived)
            # There may be one more place than before.
            self._set_to_work()
        # Not left to the callback: what arrives before that is run would count on a worker that works no more.
        self._workers -= {asyncio.current_task()}

    def _let_go(self, arrived: Arrived) -> None:
        self._tenancy.leave()
        self._tenancy.release(len(arrived.body))

    async def _pair(self, arrived: Arrived, pair: Pair) -> None:
        if self._restraint.holds(self._loop.time()):
            self.refuse(Reception.BACKED_OFF)
            return
        try:
            call = await self._call(arrived)
        except asyncio.CancelledError:
            self.refuse(Reception.DROPPED)
            raise
        if call is None:
            return
        slices = await self._slices(arrived, call)
        if slices is None:
            self.refuse(Reception.DIVERTED)
            return
        self._tallies.received(Reception.SAMPLED)
        try:
            comparison = await self._compare(call, pair)
            if pair is Pair.CANDIDATE and comparison.unread is None:
                self._decided(arrived, slices, comparison)
        except asyncio.CancelledError:
            # The rollout changed meanwhile: one answer might be of before, the other of after.
            self._tallies.abandoned()
            raise

    async def _slices(self, arrived: Arrived, call: Call) -> tuple[str, ...] | None:
        """Return the slices of a request; None if one of them has the baseline alone."""
        slicing = self.task.slicing
        if slicing is None:
            return ()
        if len(call.body) <= LARGEST_ON_LOOP:
            slices = slices_of_request(arrived.headers, call.body, slicing)
        else:
            slices = await self._aside(slices_of_request, arrived.headers, call.body, slicing)
        return None if set(slicing.diverted) & set(slices) else slices

    def _decided(self, arrived: Arrived, slices: tuple[str, ...], comparison: Comparison) -> None:
        """Count what was decided by slice, and send it on to where labels come."""
        task, slicing = self.task, self.task.slicing
        found = None if slicing is None else decided(comparison, slicing.positive)
        if slicing is None or found is None:
            return
        self._tallies.decided(slices, *(each == slicing.positive for each in found))
        if self._means.predictions is not None and slicing.awaits_labels:
            scores = comparison.scores[0] if len(comparison.scores) == 1 else (None, None)
            self._means.predictions.add(
                {
                    "id": header_of(arrived.headers, "x-request-id"),
                    "namespace": task.namespace,
                    "rollout": task.rollout,
                    "attempt": slicing.attempt,
                    "cohort": slicing.cohort,
                    "slices": slices,
                    "positive": slicing.positive,
                    "labelledByDecision": slicing.labelled_by_decision,
                    "baseline": _answer(found[0] == slicing.positive, found[0], scores[0]),
                    "candidate": _answer(found[1] == slicing.positive, found[1], scores[1]),
                }
            )

    async def _compare(self, call: Call, pair: Pair) -> Comparison:
        task = self.task
        outcomes = await self._both(call, pair)
        if _is_quick(call, outcomes, task.rules):
            comparison = self._means.compare(call, *outcomes, task.rules)
        else:
            comparison = await self._aside(self._means.compare, call, *outcomes, task.rules)
        if comparison.disagrees and pair is Pair.CANDIDATE:
            await self._capture(call, outcomes, comparison)
        self._tallies.compared(pair, comparison, outcomes, task.slowdown)
        return comparison

    async def _capture(self, call: Call, outcomes: tuple[Outcome, Outcome], comparison: Comparison) -> None:
        reservoir = self.reservoir
        place = reservoir.place()
        if place is not None:
            reservoir.keep(place, await self._aside(reservoir.view, call, outcomes, comparison))

    async def _aside(self, function: Callable[..., T], *arguments: Any) -> T:
        """Return what a function makes of its arguments, without the event loop's time."""
        return await self._loop.run_in_executor(self._means.aside, function, *arguments)

    async def _call(self, arrived: Arrived) -> Call | None:
        replay, body = self.task.replay, arrived.body
        codings = ",".join(value for name, value in arrived.headers if name == "content-encoding")
        try:
            if codings:
                body = await self._aside(decoded, body, codings, replay.max_body)
        except CodingError:
            self.refuse(Reception.UNDECODABLE)
            return None
        except TooLargeError:
            self.refuse(Reception.TOO_LARGE)
            return None
        target = without_credentials(arrived.target, replay.pass_query)
        headers = passed_on(arrived.headers, arrived.protocol, replay.pass_headers)
        return Call(arrived.method, target, headers, body, arrived.protocol)

    async def _both(self, call: Call, pair: Pair) -> tuple[Outcome, Outcome]:
        """Call the baseline and the other of the pair, in random order; return the baseline's outcome first."""
        second_is_candidate = pair is Pair.CANDIDATE
        second = self._candidate if second_is_candidate else self._baseline
        if self._means.randomness.random() < 0.5:
            outcome = await self._noted(self._baseline, call, candidate=False)
            return outcome, await self._noted(second, call, candidate=second_is_candidate)
        outcome = await self._noted(second, call, candidate=second_is_candidate)
        return await self._noted(self._baseline, call, candidate=False), outcome

    async def _noted(self, variant: Variant, call: Call, *, candidate: bool) -> Outcome:
        outcome = await variant.call(call)
        full = len(self._workers) >= self._restraint.places
        self._restraint.note(outcome, self._loop.time(), candidate=candidate, full=full)
        return outcome


def _answer(positive: bool, decision: str, score: float | None) -> dict[str, object]:  # noqa: FBT001 - a decision
    """Return one variant's decision as the join of labels takes it: a class, or only whether it is the positive one."""
    return {"decision": decision or positive, "score": score}


def _is_quick(call: Call, outcomes: tuple[Outcome, Outcome], rules: Rules) -> bool:
    """Return whether two answers can be compared on the event loop; what a JSONPath takes cannot be foretold."""
    answers = (outcome.result for outcome in outcomes)
    size = len(call.body) + sum(len(answer.body) for answer in answers if isinstance(answer, Answer))
    return size <= LARGEST_ON_LOOP and not rules.select and not rules.ignore
