"""Requests that both variants are to answer, read from a file of JSON lines."""

from __future__ import annotations

import base64
import binascii
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from davylamp.cli.failure import ExitCode, FailureError

if TYPE_CHECKING:
    from davylamp.shadow.exchange import Call, Headers, Protocol

#: Bytes of one line, with its body.
LONGEST_LINE: Final = 32 * 2**20
_KEYS: Final = frozenset({"method", "path", "headers", "body", "body_base64"})


@dataclass(frozen=True, slots=True)
class Request:
    """One line of the file, by its number from 1."""

    line: int
    call: Call


def read_requests(file: Path, protocol: Protocol) -> list[Request]:
    """Return all requests of a file; "-" stands for the standard input.

    Raises
    ------
    FailureError
        If the file cannot be read, holds no request, or a line is none; the message names the line.
    """
    try:
        if str(file) == "-":
            found = list(_requests("standard input", sys.stdin.buffer, protocol))
        else:
            with file.open("rb") as lines:
                found = list(_requests(str(file), lines, protocol))
    except OSError as error:
        raise FailureError(f"{file} cannot be read: {error.strerror}", ExitCode.WRONG) from error
    if not found:
        raise FailureError(f"{file} holds no request: write one JSON object a line", ExitCode.WRONG)
    return found


def _requests(name: str, lines: Iterable[bytes], protocol: Protocol) -> Iterator[Request]:
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                yield Request(number, _call(line, protocol))
            except ValueError as wrong:
                raise FailureError(f"{name}:{number}: {wrong}", ExitCode.WRONG) from wrong


def _call(line: bytes, protocol: Protocol) -> Call:
    from davylamp.shadow.exchange import Call
    from davylamp.shadow.passing import passed_on

    said = _object(line)
    body, content_type = _body(said)
    headers = _headers(said.get("headers") or {})
    if content_type and not any(name == "content-type" for name, _ in headers):
        headers = (*headers, ("content-type", content_type))
    target = said.get("path")
    if not isinstance(target, str) or not target.startswith("/") or not target.isprintable() or " " in target:
        raise ValueError('"path" must be a path such as /v2/models/credit/infer, without spaces')
    method = said.get("method", "POST")
    if not isinstance(method, str) or not method.isascii() or not method.isalpha():
        raise ValueError('"method" must be a method such as POST')
    # Whoever writes a file of requests means every header in it, credentials too; those of one hop never fit.
    passed = passed_on(headers, protocol, {name for name, _ in headers})
    return Call(method.upper(), target, passed, body, protocol)


def _object(line: bytes) -> Mapping[str, Any]:
    if len(line) > LONGEST_LINE:
        raise ValueError(f"the line is longer than {LONGEST_LINE:,} bytes")
    try:
        said = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"this is no JSON: {error}") from error
    if not isinstance(said, dict):
        raise ValueError('a request is an object such as {"path": "/v2/models/credit/infer", "body": {...}}')  # noqa: TRY004 - told as all others
    if unknown := said.keys() - _KEYS:
        raise ValueError(f"{min(unknown)!r} is none of {', '.join(sorted(_KEYS))}")
    return said


def _headers(said: Any) -> Headers:
    if not isinstance(said, dict) or not all(isinstance(value, str) for value in said.values()):
        raise ValueError('"headers" must be an object of texts')
    for name, value in said.items():
        if not name or not name.isascii() or not name.isprintable() or ":" in name or " " in name:
            raise ValueError(f"{name!r} is no name of a header")
        if not value.isprintable():
            raise ValueError(f"the value of header {name} has a line break or another control character")
    return tuple((name.lower(), value) for name, value in said.items())


def _body(said: Mapping[str, Any]) -> tuple[bytes, str]:
    """Return the body and its type, where the headers name none."""
    if "body_base64" in said:
        if "body" in said:
            raise ValueError('a request has "body" or "body_base64", not both')
        try:
            return base64.b64decode(said["body_base64"], validate=True), "application/octet-stream"
        except (binascii.Error, TypeError, ValueError) as error:
            raise ValueError(f'"body_base64" is no base64: {error}') from error
    body = said.get("body")
    if body is None:
        return b"", ""
    if isinstance(body, str):
        return body.encode("utf-8", "surrogatepass"), "text/plain; charset=utf-8"
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass"), (
        "application/json"
    )
