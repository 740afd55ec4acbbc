"""The edges of Davylamp as protocols: what the shell needs of the world, in at most three methods each."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from davylamp.core.model import Severity, Weight
from davylamp.core.moves import Divert, Lower, Mirror, Prepare, Raise, Repoint, Restore
from davylamp.core.reading import Reading, Request
from davylamp.core.world import RouteTrouble, RouteView


class Clock(Protocol):
    """The only source of time."""

    def now(self) -> datetime:
        """Return the time, UTC; within a process it never jumps, whatever is done to the wall clock."""
        ...


@dataclass(frozen=True, slots=True)
class BackendRef:
    """A Service that a route points to."""

    name: str
    port: int

    def __str__(self) -> str:
        return f"{self.name}:{self.port}"


@dataclass(frozen=True, slots=True)
class RouteRef:
    """A route and the two backends that it shares traffic between, all in one namespace.

    ``ladder`` are the weights that the rollout will ask for: a route that cannot express one of them is refused before
    the first, and not in the middle. ``comparator`` is where the rollout mirrors requests to, now or at another step: a
    mirror to it is Davylamp's, whether the marks still say so or not.
    """

    namespace: str
    name: str
    baseline: BackendRef
    candidate: BackendRef
    ladder: tuple[Weight, ...] = ()
    comparator: BackendRef | None = None


RouteChange = Prepare | Raise | Lower | Mirror | Divert | Restore | Repoint


class Router(Protocol):
    """Splits traffic. The API server does not answer: `Unavailable`. The route changed meanwhile: `Conflict`.

    The marks on the route (attempt, asked weight, ruling, epoch) are written together with the weights in one write of
    one object, always bound to the resourceVersion that `read` returned.
    """

    async def read(self, route: RouteRef) -> "RouteState":
        """Return what the route says now; a fresh read, never a cached one."""
        ...

    async def write(self, route: RouteRef, seen: "RouteState", change: RouteChange, epoch: int) -> "RouteState":
        """Make one change to the route as `read` saw it, and return the route as it is after the write.

        Writing what the route already says makes no request.
        """
        ...


@dataclass(frozen=True, slots=True)
class RouteState:
    """A route as it was read: the view for the decision, and the object for the next write."""

    view: RouteView | RouteTrouble
    resource_version: str = ""
    manifest: Mapping[str, object] = field(default_factory=dict)


class MetricSource(Protocol):
    """Reads raw samples. No answer, an answer in part or a wrong one: `Unavailable`. Refused query: `SpecError`."""

    async def read(self, request: Request) -> Reading:
        """Return the raw samples of one look."""
        ...


@dataclass(frozen=True, slots=True)
class Message:
    """What a person is told.

    Parameters
    ----------
    key
        Identifies the fact for good; a receiver may fold repeats by it.
    incident
        Identifies the incident that the fact belongs to (one per attempt).
    severity
        How much it matters.
    resolves
        Whether the incident is over by this fact.
    rollout
        ``namespace/name``.
    sentence
        The fact with its numbers.
    details
        Further facts, label to value, in the order in which people should read them.
    at
        When it became known, UTC.
    """

    key: str
    incident: str
    severity: Severity
    rollout: str
    sentence: str
    at: datetime
    resolves: bool = False
    details: Mapping[str, str] = field(default_factory=dict)


class Notifier(Protocol):
    """Tells people. Not delivered, try again: `Unavailable`. Refused for good (wrong key): `SpecError`."""

    async def tell(self, message: Message) -> None:
        """Deliver one message; delivering it twice does no harm."""
        ...
