"""The faults there are. Each takes effect on the calls that its condition names."""

import asyncio
import threading
from collections.abc import Callable
from datetime import timedelta
from enum import StrEnum

from e2e.faults.calls import Answer, Call, Fault, Forward, Kind, refusal

Condition = Callable[[Call], bool]


class Moment(StrEnum):
    """When a process dies: before the server sees its call, or after the call was carried out, unanswered."""

    BEFORE = "before"
    AFTER = "after"


class Killing:
    """Kills a process at one write of a rollout.

    Parameters
    ----------
    number
        The how-manieth matching write, from 1.
    moment
        Before it reaches the server, or after the server has carried it out.
    kill
        Ends the process at once.
    wanted
        Which writes are counted; by default all that a rollout consists of.
    """

    def __init__(self, number: int, moment: Moment, kill: Callable[[], None], wanted: Condition | None = None) -> None:
        self._number = number
        self._moment = moment
        self._kill = kill
        self._wanted = wanted or (lambda call: call.kind is Kind.DECISIVE)
        self._seen = 0
        #: Set once it has killed.
        self.done = threading.Event()
        #: The write at which it killed.
        self.at: Call | None = None

    async def __call__(self, call: Call, forward: Forward) -> Answer | None:
        """Pass the call on, unless it is the one; after that one, nothing of the dead process is passed on."""
        if self.done.is_set():
            return None
        if not self._wanted(call):
            return await forward()
        self._seen += 1
        if self._seen != self._number:
            return await forward()
        if self._moment is Moment.AFTER:
            await forward()
        self.at = call
        self._kill()
        self.done.set()
        return None


class Holding:
    """Holds one call back until it is told to let go, and keeps what became of it.

    Parameters
    ----------
    wanted
        Which call; the first that fits.
    then
        Done as soon as it is held.
    """

    def __init__(self, wanted: Condition, then: Callable[[], None]) -> None:
        self._wanted = wanted
        self._then = then
        #: Set once a call is held.
        self.held = threading.Event()
        #: Set by whoever lets it go.
        self.released = threading.Event()
        #: What the server said to it in the end.
        self.status: int | None = None

    async def __call__(self, call: Call, forward: Forward) -> Answer | None:
        """Pass the call on at once, unless it is the one."""
        if self.held.is_set() or not self._wanted(call):
            return await forward()
        self.held.set()
        self._then()
        await asyncio.to_thread(self.released.wait)
        answer = await forward()
        self.status = answer.status
        return answer


def answering(answer: Answer, *, times: int | None = None) -> Fault:
    """Return a fault that answers in the server's place, which never sees the call; ``times`` times, or always."""
    left = [times]

    async def answer_instead(_: Call, forward: Forward) -> Answer | None:
        if left[0] == 0:
            return await forward()
        left[0] = None if left[0] is None else left[0] - 1
        return answer

    return answer_instead


def unavailable(*, times: int | None = None) -> Fault:
    """Return a fault that answers 503."""
    return answering(refusal(503, "ServiceUnavailable", "the fault proxy says no"), times=times)


def conflict(*, times: int | None = None) -> Fault:
    """Return a fault that answers 409."""
    return answering(refusal(409, "Conflict", "the object has been modified"), times=times)


def lost_answers(*, times: int | None = None) -> Fault:
    """Return a fault that lets the server carry the call out, and loses its answer."""
    left = [times]

    async def lose(_: Call, forward: Forward) -> Answer | None:
        answer = await forward()
        if left[0] == 0:
            return answer
        left[0] = None if left[0] is None else left[0] - 1
        return None

    return lose


def unreachable() -> Fault:
    """Return a fault that closes every connection before the server sees the call."""

    async def refuse(_: Call, __: Forward) -> Answer | None:
        return None

    return refuse


def delayed(by: timedelta) -> Fault:
    """Return a fault that passes calls on late."""

    async def wait(_: Call, forward: Forward) -> Answer | None:
        await asyncio.sleep(by.total_seconds())
        return await forward()

    return wait
