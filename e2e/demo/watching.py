"""Watch rollouts and routes at the API server, and remember when what was seen.

What the operator says of its own speed is not taken for granted: the time of a rollback is the time at which the API
server shows the route without the candidate.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp

from e2e.demo.scenario import NAMESPACE, Case

Manifest = Mapping[str, Any]

ROLLOUTS = f"/apis/davylamp.dev/v1alpha1/namespaces/{NAMESPACE}/modelrollouts"
ROUTES = f"/apis/gateway.networking.k8s.io/v1/namespaces/{NAMESPACE}/httproutes"
_RETRY_SECONDS = 0.2
#: A status with the reports of many gates is longer than a line may be by default.
_LONGEST_LINE = 1 << 22


def now() -> datetime:
    """Return the time, UTC."""
    return datetime.now(UTC)  # noqa: TID251  # the demo is no part of the operator and has no Clock


@dataclass(slots=True)
class Track:
    """What was seen of one rollout and its route.

    Parameters
    ----------
    rollout
        The ModelRollout as it was seen last; empty before.
    rules
        The rules of the route as its owner wrote them, and as they were seen last.
    weights
        The candidate's share of the route in percent, with the time at which it was first seen so.
    mirrors
        Whether requests are mirrored, with the time at which it was first seen so.
    """

    rollout: Manifest = field(default_factory=dict)
    rules: tuple[Any, Any] = (None, None)
    weights: list[tuple[datetime, float]] = field(default_factory=list)
    mirrors: list[tuple[datetime, bool]] = field(default_factory=list)

    @property
    def status(self) -> Manifest:
        """The rollout's status; empty if it has none yet."""
        return self.rollout.get("status") or {}

    @property
    def ended(self) -> bool:
        """Whether the rollout is over."""
        return self.status.get("phase") in {"Promoted", "RolledBack"}

    @property
    def accepted_step(self) -> int:
        """Index of the step whose weight the gateway has accepted; -1 if it has not, or there is none."""
        step = self.status.get("step") or {}
        return int(step.get("index", -1)) if step.get("acceptedAt") else -1

    @property
    def mirrored_at(self) -> datetime | None:
        """When the route was first seen with a mirror."""
        return next((at for at, mirrored in self.mirrors if mirrored), None)

    def unmirrored_after(self, start: datetime) -> datetime | None:
        """Return when the route was first seen without a mirror after ``start``."""
        return next((at for at, mirrored in self.mirrors if at >= start and not mirrored), None)

    def zero_after(self, start: datetime) -> datetime | None:
        """Return when the candidate was first seen without traffic after ``start``."""
        return next((at for at, weight in self.weights if at >= start and weight == 0), None)


class Witness:
    """All rollouts of the demo, by name."""

    def __init__(self, cases: tuple[Case, ...]) -> None:
        self.tracks = {case.name: Track() for case in cases}
        self.changed = asyncio.Event()
        self._candidates = {case.name: case.candidate for case in cases}

    def saw_rollout(self, manifest: Manifest) -> None:
        """Take down a ModelRollout."""
        if track := self.tracks.get(manifest["metadata"]["name"]):
            track.rollout = manifest
            self.changed.set()

    def saw_route(self, manifest: Manifest, at: datetime) -> None:
        """Take down an HTTPRoute."""
        name = manifest["metadata"]["name"]
        track = self.tracks.get(name)
        if track is None:
            return
        rules = manifest["spec"]["rules"]
        track.rules = (track.rules[0] or rules, rules)
        weight = candidate_share(rules, self._candidates[name])
        if not track.weights or track.weights[-1][1] != weight:
            track.weights.append((at, weight))
        mirrored = mirrors(rules)
        if not track.mirrors or track.mirrors[-1][1] != mirrored:
            track.mirrors.append((at, mirrored))
        self.changed.set()

    async def changes(self) -> None:
        """Wait until something was seen that was not there at the last call."""
        await self.changed.wait()
        self.changed.clear()


def candidate_share(rules: Any, candidate: str) -> float:
    """Return the part of the traffic of a route's rules that goes to the Service ``candidate``, in percent."""
    refs = [ref for rule in rules for ref in rule.get("backendRefs") or []]
    total = sum(ref.get("weight", 1) for ref in refs)
    own = sum(ref.get("weight", 1) for ref in refs if ref["name"] == candidate)
    return 100 * own / total if total else 0.0


def mirrors(rules: Any) -> bool:
    """Return whether some rule of a route mirrors its requests."""
    return any(each.get("type") == "RequestMirror" for rule in rules for each in rule.get("filters") or [])


@dataclass(frozen=True, slots=True)
class Server:
    """The API server: its URL, the file of certificates that vouch for it, and a bearer token."""

    url: str
    authority: Path
    token: str

    async def watch(self, path: str) -> AsyncIterator[Manifest]:
        """Give every object of a collection as it is, and again after each change, for ever."""
        trust = ssl.create_default_context(cafile=str(self.authority))
        headers = {"Authorization": f"Bearer {self.token}"}
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5)
        connector = aiohttp.TCPConnector(ssl=trust)
        async with aiohttp.ClientSession(
            self.url, headers=headers, timeout=timeout, connector=connector, read_bufsize=_LONGEST_LINE
        ) as session:
            while True:
                try:
                    async for manifest in _watched(session, path):
                        yield manifest
                except (aiohttp.ClientError, TimeoutError, ValueError):
                    await asyncio.sleep(_RETRY_SECONDS)


async def _watched(session: aiohttp.ClientSession, path: str) -> AsyncIterator[Manifest]:
    async with session.get(path, raise_for_status=True) as answer:
        listed = await answer.json()
    for manifest in listed["items"]:
        yield manifest
    version = listed["metadata"]["resourceVersion"]
    query = {"watch": "1", "resourceVersion": version, "timeoutSeconds": "600"}
    async with session.get(path, params=query, raise_for_status=True) as answer:
        async for line in answer.content:
            event = json.loads(line)
            if event["type"] == "ERROR":
                return
            if event["type"] != "DELETED":
                yield event["object"]
