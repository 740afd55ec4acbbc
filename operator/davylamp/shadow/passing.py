"""What of a mirrored request is replayed: the allowed methods and paths, and no more headers than a model needs.

Rule 1: a request that is not known to be harmless when it is repeated is not repeated.
Rule 2: credentials are stripped by name and by the words in the name, from the headers and from the query; passing one
on takes its exact name.
"""

import re
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Final
from urllib.parse import unquote_plus

from davylamp.shadow.exchange import Headers, Protocol
from davylamp.shadow.reception import Arrived
from davylamp.shadow.task import Replay

MARK: Final = ("x-davylamp-shadow", "1")
#: What predicts, in the protocols that are known, behind any prefix.
PREDICTING: Final = (
    "**/v2/models/*/infer",
    "**/v2/models/*/versions/*/infer",
    "**/v2/models/*/generate",
    "**/v2/models/*/versions/*/generate",
    "**/v2/models/*/generate_stream",
    "**/v2/models/*/versions/*/generate_stream",
    "**/v1/models/*:predict",
    "**/v1/models/*/versions/*:predict",
    "**/v1/models/*/labels/*:predict",
    "**/invocations",
    "**/v1/chat/completions",
    "**/v1/completions",
    "**/v1/embeddings",
    "**/predictions/*",
    "**/predictions/*/*",
    "/inference.GRPCInferenceService/ModelInfer",
)
_LONGEST_PATH: Final = 1024
_LONGEST_QUERY: Final = 8192
#: Of a name that is remembered.
_LONGEST_NAME: Final = 128
_ONE_HOP: Final = frozenset(
    {
        "connection",
        "content-length",
        "expect",
        "host",
        "http2-settings",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
#: Of what the comparator has decoded, or wants to get without coding.
_CODING: Final = frozenset({"accept-encoding", "content-encoding"})
#: gRPC makes these itself.
_GRPC_OWN: Final = frozenset({"content-type", "user-agent"})
_SECRET_WORDS: Final = (
    "auth",
    "cookie",
    "token",
    "secret",
    "passw",
    "credential",
    "api-key",
    "apikey",
    "client-cert",
    "signature",
    "session",
    "jwt",
    "oidc",
    "dpop",
)
#: Whatever is a key by its name, such as those of API gateways.
_KEYS: Final = ("-key", "_key")
#: What else is a credential by its whole name where it stands in a query.
_SECRET_PARAMETERS: Final = frozenset({"key", "accesskey", "sig", "pwd"})
_FOREIGN: Final = ("x-envoy-", "x-goog-")


def is_allowed(arrived: Arrived, replay: Replay) -> bool:
    """Return whether a request may be replayed."""
    path, _, query = arrived.target.partition("?")
    if arrived.method not in replay.methods or not path.startswith("/"):
        return False
    if len(path) > _LONGEST_PATH or len(query) > _LONGEST_QUERY:
        return False
    return _fits_any(replay.paths or PREDICTING, path)


@lru_cache(maxsize=4096)
def _fits_any(patterns: tuple[str, ...], path: str) -> bool:
    return _is_plain(path) and any(fits(pattern, path) for pattern in patterns)


def _is_plain(path: str) -> bool:
    """Return whether a server takes a path as it is: some cut off what follows ``#``, and undo ``..``."""
    parts = path.lower().replace("%2e", ".").replace("%2f", "/").split("/")
    return "#" not in path and not {".", ".."} & {*parts}


def fits(pattern: str, path: str) -> bool:
    """Return whether a whole path fits a pattern of `Replay.paths`; never takes more than their lengths' product."""
    places = _parts(pattern)
    # A regular expression with several stars can take the path's length to the power of their number.
    reached = _skip_stars(places, {0})
    for letter in path:
        reached = _skip_stars(places, _step(places, reached, letter))
        if not reached:
            return False
    return len(places) in reached


@lru_cache(maxsize=256)
def _parts(pattern: str) -> tuple[str, ...]:
    found: list[str] = []
    at = 0
    while at < len(pattern):
        part = "**" if pattern.startswith("**", at) else pattern[at]
        found.append(part)
        at += len(part)
    return tuple(found)


def _step(places: tuple[str, ...], reached: set[int], letter: str) -> set[int]:
    after = set()
    for place in reached:
        part = places[place] if place < len(places) else ""
        if part == "**" or (part == "*" and letter != "/"):
            after.add(place)
        elif part == letter and part != "*":
            after.add(place + 1)
    return after


def _skip_stars(places: tuple[str, ...], reached: set[int]) -> set[int]:
    for place in tuple(reached):
        at = place
        while at < len(places) and places[at] in {"*", "**"}:
            at += 1
            reached.add(at)
    return reached


def passed_on(headers: Headers, protocol: Protocol, allowed: AbstractSet[str]) -> Headers:
    """Return the headers that a variant gets, with the mark by which it can tell the shadow of a request.

    Parameters
    ----------
    headers
        As they came.
    protocol
        How they came. Binary metadata of gRPC is not passed on.
    allowed
        Names of credentials that are passed on.
    """
    hop = {word.strip().lower() for name, value in headers if name == "connection" for word in value.split(",")}
    grpc = protocol is Protocol.GRPC
    kept = [
        (name, value)
        for name, value in headers
        if not (name in hop or _is_of_the_way(name) or (grpc and _is_grpcs(name)))
        and (name in allowed or not _is_withheld(name))
    ]
    return (*kept, MARK)


def without_credentials(target: str, allowed: AbstractSet[str]) -> str:
    """Return a target without the parameters of its query that are credentials by their names.

    Parameters
    ----------
    target
        Path and query.
    allowed
        Lower-case names of those that are passed on.
    """
    path, mark, query = target.partition("?")
    if not mark:
        return target
    # Some servers end a parameter at a semicolon, too. Signs and parameters by turns, a sign before each parameter.
    parts = re.split("([&;])", f"&{query}")[1:]
    kept = [
        sign + parameter
        for sign, parameter in zip(parts[::2], parts[1::2], strict=True)
        if not _is_secret_parameter(parameter.partition("=")[0], allowed)
    ]
    return f"{path}?{''.join(kept)[1:]}" if kept else path


def _is_secret_parameter(name: str, allowed: AbstractSet[str]) -> bool:
    known = unquote_plus(name).lower()
    return known not in allowed and (known in _SECRET_PARAMETERS or _is_withheld(known))


def _is_of_the_way(name: str) -> bool:
    return name in _ONE_HOP or name in _CODING or name == MARK[0]


def _is_withheld(name: str) -> bool:
    return _is_known_to_be_withheld(name) if len(name) <= _LONGEST_NAME else _speaks_of_credentials(name)


@lru_cache(maxsize=4096)
def _is_known_to_be_withheld(name: str) -> bool:
    return _speaks_of_credentials(name)


def _speaks_of_credentials(name: str) -> bool:
    return name.startswith(_FOREIGN) or name.endswith(_KEYS) or any(word in name for word in _SECRET_WORDS)


def _is_grpcs(name: str) -> bool:
    return name in _GRPC_OWN or name.startswith(("grpc-", ":")) or name.endswith("-bin")
