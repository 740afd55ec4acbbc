"""What passed through a proxy, told apart by what it means to a rollout."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

_WRITES: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class Kind(StrEnum):
    """What a call is about."""

    #: A read, or a watch that brings hints.
    READ = "Read"
    #: A write that a rollout consists of: status, route, finalizer.
    DECISIVE = "Decisive"
    #: A renewal of the lease.
    LEASE = "Lease"
    #: An Event for people.
    EVENT = "Event"


@dataclass(frozen=True, slots=True)
class Call:
    """One request.

    Parameters
    ----------
    method, path, query
        As sent.
    body
        As sent.
    """

    method: str
    path: str
    query: str = ""
    body: bytes = b""

    @property
    def watches(self) -> bool:
        """Whether the answer is a stream without an end."""
        return "watch=true" in self.query or "watch=1" in self.query

    @property
    def kind(self) -> Kind:
        """What it is about."""
        if self.method not in _WRITES:
            return Kind.READ
        if "/leases" in self.path:
            return Kind.LEASE
        return Kind.EVENT if self.path.endswith("/events") else Kind.DECISIVE

    @property
    def subject(self) -> str:
        """What is written, in words: finalizer, status or route; otherwise the resource."""
        parts = self.path.split("/")
        if parts[-1] == "status":
            return "status"
        resource = parts[-2] if len(parts) > 1 else self.path
        return {"modelrollouts": "finalizer", "httproutes": "route"}.get(resource, resource)

    def about(self, namespace: str, name: str = "") -> bool:
        """Whether it is about an object of a namespace, and of a name if one is given."""
        return f"/namespaces/{namespace}/" in self.path and (not name or f"/{name}" in self.path)

    def __str__(self) -> str:
        return f"{self.method} {self.subject} {_summary(self.body)}".rstrip()


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server answered, or what a proxy answers in its place."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answered:
    """A call that was answered: with which status, and when, in seconds since the proxy was made."""

    call: Call
    status: int
    at: float


#: Sends the call on and returns what the server answered.
Forward = Callable[[], Awaitable[Answer]]
#: Decides what becomes of a call. None closes the connection without an answer.
Fault = Callable[[Call, Forward], Awaitable[Answer | None]]


def refusal(status: int, reason: str, message: str) -> Answer:
    """Return an answer as the API server words its errors."""
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message}
    return Answer(status, json.dumps({**body, "code": status}).encode(), {"Content-Type": "application/json"})


def _summary(body: bytes) -> str:
    """Return the words by which a person tells one write of a rollout from the next."""
    try:
        document: Any = json.loads(body or b"null")
    except ValueError:
        return ""
    operations = document if isinstance(document, list) else []
    for operation in operations:
        value = operation.get("value")
        if operation.get("path") == "/status":
            step, weight = value.get("step") or {}, value.get("weight") or {}
            place = f"{step.get('index', -1)}@{weight.get('requested')}"
            return f"{value.get('phase')}/{value.get('reason')} {place} {value.get('verdict') or ''}"
    words = [
        f"{operation['path'].rpartition('~1')[2] or operation['path']}={operation['value']}"
        for operation in operations
        if operation.get("op") != "test" and isinstance(operation.get("value"), str | int)
    ]
    return " ".join(words)[:200]
