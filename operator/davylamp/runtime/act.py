"""Carry a decision out by the write protocol.

Raising: status first, by compare-and-swap; then the route, by compare-and-swap; only with a valid lease.
Lowering: the route first, with nothing before it; status afterwards, and whatever becomes of it, the route stands.
Giving the route back: the ruling stands in status before the marks leave the route.
"""

from dataclasses import dataclass
from typing import assert_never

import structlog

from davylamp.core.model import Progress
from davylamp.core.moves import Decision, Divert, Lower, Mirror, Prepare, Raise, Release, Repoint, Restore
from davylamp.errors import DavylampError, Unavailable
from davylamp.ports import Clock, RouteChange, Router
from davylamp.runtime.lease import Leadership
from davylamp.runtime.publish import Publisher, Turn


@dataclass(frozen=True, slots=True)
class Actor:
    """Writes routes and, in the order that safety asks for, status."""

    router: Router
    publisher: Publisher
    leadership: Leadership
    clock: Clock

    async def act(self, turn: Turn, decision: Decision) -> bool:
        """Carry a decision out, and return whether the next look should come at once to verify it.

        The session's progress is the decision's afterwards, unless a raise was given up before anything was written.

        Raises
        ------
        Unavailable, Conflict, SpecError
            If a write failed; the next look reads the world again and decides again.
        """
        match decision.action:
            case None:
                await self._note(turn, decision.progress)
                return False
            case Raise() as change:
                await self._raise(turn, decision.progress, change)
            case Mirror() as change:
                await self._mirror(turn, decision.progress, change)
            case Lower() | Prepare() | Divert() as change:
                await self._lower(turn, decision.progress, change)
            case Restore() | Repoint() as change:
                await self._give_back(turn, decision.progress, change)
            case Release():
                return await self.publisher.finalizer(turn.session, turn.manifest, present=False) is not None
            case never:
                assert_never(never)
        return True

    async def _note(self, turn: Turn, progress: Progress) -> None:
        """Write what is new, and numbers now and then."""
        turn.session.progress = progress
        if self.publisher.news(turn, progress) or self.publisher.stale(turn):
            await self.publisher.status(turn, progress)

    async def _raise(self, turn: Turn, progress: Progress, change: Raise) -> None:
        if not self.leadership.valid or not turn.look.complete:
            raise Unavailable("the lease is not valid, or endpoints could not be read: the weight is not raised")
        await self.publisher.status(turn, progress)
        turn.session.progress = progress
        if not self.leadership.valid:
            raise Unavailable("the lease was lost before the route was written: the weight is not raised")
        await self._write(turn, change)

    async def _mirror(self, turn: Turn, progress: Progress, change: Mirror) -> None:
        """Write status, then the route: what is mirrored can always be seen in status, and is taken off again."""
        if not self.leadership.valid or (change.comparator and not turn.look.complete):
            raise Unavailable("the lease is not valid, or endpoints could not be read: nothing is mirrored")
        await self.publisher.status(turn, progress)
        turn.session.progress = progress
        await self._write(turn, change)

    async def _lower(self, turn: Turn, progress: Progress, change: Lower | Prepare | Divert) -> None:
        """Write the route, then status; if the route cannot be written, status keeps the decision."""
        turn.session.progress = progress
        failure: DavylampError | None = None
        try:
            await self._write(turn, change)
        except DavylampError as error:
            failure = error
        try:
            await self.publisher.status(turn, progress)
        except DavylampError as error:
            structlog.get_logger("davylamp").warning(
                "status_not_written", rollout=str(turn.session.name), why=str(error)
            )
            failure = failure or error
        if failure is not None:
            raise failure

    async def _give_back(self, turn: Turn, progress: Progress, change: Restore | Repoint) -> None:
        deleting = turn.look.world.deleting
        try:
            await self.publisher.status(turn, progress)
        except DavylampError:
            # A status that cannot be written keeps no object from being deleted.
            if not deleting:
                raise
        turn.session.progress = progress
        if isinstance(change, Repoint) and not self.leadership.valid:
            raise Unavailable("the lease is not valid: the route is not re-pointed")
        await self._write(turn, change)

    async def _write(self, turn: Turn, change: RouteChange) -> None:
        begun = self.clock.now()
        await self.router.write(turn.look.ref, turn.look.route, change, turn.epoch)
        structlog.get_logger("davylamp").info(
            "route_written",
            rollout=str(turn.session.name),
            change=type(change).__name__,
            seconds=(self.clock.now() - begun).total_seconds(),
        )
