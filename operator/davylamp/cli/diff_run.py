"""Send requests to both variants, one after the other, and compare what they answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from urllib.parse import urlsplit

from davylamp.cli.diff_requests import Request
from davylamp.cli.diff_summary import Pair
from davylamp.cli.failure import ExitCode, FailureError
from davylamp.shadow.comparing import compare
from davylamp.shadow.exchange import Call, Outcome, Protocol
from davylamp.shadow.lane import Variant
from davylamp.shadow.task import Replay, Rules


@dataclass(frozen=True, slots=True)
class Place:
    """Where a variant is called.

    Parameters
    ----------
    protocol
        How.
    address
        ``host:port``.
    prefix
        What comes before the path of every request.
    """

    protocol: Protocol
    address: str
    prefix: str


def place_of(option: str, url: str) -> Place:
    """Return where a URL leads.

    Raises
    ------
    FailureError
        If it is none that can be called; the message names the option.
    """
    text = f"{option} {url[:100]!r}"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise FailureError(f"{text} is no URL: {error}", ExitCode.WRONG) from error
    if parts.scheme not in {"http", "grpc"} or not parts.hostname or parts.query or parts.fragment or parts.username:
        raise FailureError(
            f"{text} must be such as http://localhost:8080 or grpc://localhost:8081: models are called without TLS, "
            "as the comparator calls them in the cluster (kubectl port-forward leads to them)",
            ExitCode.WRONG,
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    protocol = Protocol.GRPC if parts.scheme == "grpc" else Protocol.HTTP
    return Place(protocol, f"{host}:{port or 80}", parts.path.rstrip("/"))


def run(
    requests: Sequence[Request],
    places: tuple[Place, Place],
    *,
    rules: Rules,
    replay: Replay,
    seen: Callable[[Pair], None],
) -> None:
    """Send all requests.

    Parameters
    ----------
    requests
        In the order in which they are begun.
    places
        Of the baseline and of the candidate, which speak the same protocol.
    rules, replay
        How answers are compared, and within which limits they are called.
    seen
        Told of every pair, in the order in which they come.
    """
    # Not by uvloop, whose clock counts whole milliseconds: a model may take less.
    asyncio.run(_run(requests, places, rules=rules, replay=replay, seen=seen))


async def _run(
    requests: Sequence[Request],
    places: tuple[Place, Place],
    *,
    rules: Rules,
    replay: Replay,
    seen: Callable[[Pair], None],
) -> None:
    variants = tuple(Variant(place.address, replay) for place in places)
    waiting, randomness = iter(requests), Random()  # noqa: S311 - which variant comes first is no secret

    async def work() -> None:
        for request in waiting:
            outcomes: list[Outcome | None] = [None, None]
            for side in randomness.sample((0, 1), 2):
                outcomes[side] = await variants[side].call(_at(request.call, places[side]))
            baseline, candidate = _both(outcomes)
            seen(Pair(request, baseline, candidate, compare(request.call, baseline, candidate, rules)))

    try:
        async with asyncio.TaskGroup() as workers:
            for _ in range(replay.concurrency):
                workers.create_task(work())
    finally:
        for variant in variants:
            await variant.close()


def _at(call: Call, place: Place) -> Call:
    return Call(call.method, place.prefix + call.target, call.headers, call.body, call.protocol)


def _both(outcomes: Sequence[Outcome | None]) -> Iterator[Outcome]:
    return (outcome for outcome in outcomes if outcome is not None)
