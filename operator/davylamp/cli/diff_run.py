"""Send requests to both variants, one after the other, and compare what they answer."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final
from urllib.parse import urlsplit

from davylamp.cli.diff_requests import Request
from davylamp.cli.diff_summary import Pair
from davylamp.cli.failure import ExitCode, FailureError
from davylamp.shadow.comparing import compare
from davylamp.shadow.exchange import Call, Outcome, Protocol
from davylamp.shadow.lane import Variant
from davylamp.shadow.task import Replay, Rules

#: Schemes, and where each is by itself.
_PORTS: Final = {"http": 80, "https": 443, "grpc": 80}


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
    tls
        How its certificate is checked; None to call it without TLS.
    """

    protocol: Protocol
    address: str
    prefix: str
    tls: ssl.SSLContext | None = None


@dataclass(frozen=True, slots=True)
class Course:
    """How requests are sent and compared.

    Parameters
    ----------
    rules, replay
        How answers are compared, and within which limits variants are called.
    seen
        Told of every pair, in the order in which they come.
    again
        Told of every pair of the baseline with itself; None to ask it once.
    """

    rules: Rules
    replay: Replay
    seen: Callable[[Pair], None]
    again: Callable[[Pair], None] | None = None


def place_of(option: str, url: str, ca_file: Path | None = None) -> Place:
    """Return where a URL leads.

    Parameters
    ----------
    option
        That gave the URL.
    url
        Of the variant.
    ca_file
        Certificates that vouch for a place with TLS; None for those that this machine trusts.

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
    if parts.scheme not in _PORTS or not parts.hostname or parts.query or parts.fragment or parts.username:
        raise FailureError(
            f"{text} must be such as http://localhost:8080, https://models.example or grpc://localhost:8081, which is "
            "called without TLS (kubectl port-forward leads to a model in a cluster)",
            ExitCode.WRONG,
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    protocol = Protocol.GRPC if parts.scheme == "grpc" else Protocol.HTTP
    tls = _tls(ca_file) if parts.scheme == "https" else None
    return Place(protocol, f"{host}:{port or _PORTS[parts.scheme]}", parts.path.rstrip("/"), tls)


def _tls(ca_file: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        # An SSLError is one, too, and its text alone says what is wrong with the file.
        text = f"--ca-file {ca_file} holds no certificates that can be read: {error.strerror or error}"
        raise FailureError(text, ExitCode.WRONG) from error


def run(requests: Sequence[Request], places: tuple[Place, Place], course: Course) -> None:
    """Send all requests.

    Parameters
    ----------
    requests
        In the order in which they are begun.
    places
        Of the baseline and of the candidate, which speak the same protocol.
    course
        How.
    """
    # Not by uvloop, whose clock counts whole milliseconds: a model may take less.
    asyncio.run(_run(requests, places, course))


async def _run(requests: Sequence[Request], places: tuple[Place, Place], course: Course) -> None:
    variants = tuple(Variant(place.address, course.replay, place.tls) for place in places)
    waiting, randomness = iter(requests), Random()  # noqa: S311 - which variant comes first is no secret
    # The baseline, the candidate, and if wanted the baseline once more.
    asked = (0, 1, 0) if course.again is not None else (0, 1)

    async def work() -> None:
        for request in waiting:
            outcomes: dict[int, Outcome] = {}
            for turn in randomness.sample(range(len(asked)), len(asked)):
                side = asked[turn]
                outcomes[turn] = await variants[side].call(_at(request.call, places[side]))
            course.seen(_pair(request, outcomes[0], outcomes[1], course.rules))
            if course.again is not None:
                course.again(_pair(request, outcomes[0], outcomes[2], course.rules))

    try:
        async with asyncio.TaskGroup() as workers:
            for _ in range(course.replay.concurrency):
                workers.create_task(work())
    finally:
        for variant in variants:
            await variant.close()


def _pair(request: Request, first: Outcome, second: Outcome, rules: Rules) -> Pair:
    return Pair(request, first, second, compare(request.call, first, second, rules))


def _at(call: Call, place: Place) -> Call:
    return Call(call.method, place.prefix + call.target, call.headers, call.body, call.protocol)
