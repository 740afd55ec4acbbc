"""Which rule of an HTTPRoute takes a request, by the words of the Gateway API and by nothing of Davylamp's."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Request:
    path: str = "/"
    method: str = "GET"
    headers: dict[str, str] = field(default_factory=dict)
    query: dict[str, str] = field(default_factory=dict)


def taker(manifest: Any, request: Request) -> Any:
    """Return the rule that takes the request; None if none does."""
    fitting = [
        (match, rule)
        for rule in manifest["spec"]["rules"]
        for match in rule.get("matches") or [{}]
        if _fits(match, request)
    ]
    # In the order of the specification; of equals the first one stays.
    for prefer in (_exact, _prefix, _method, _headers, _query):
        most = max((prefer(match) for match, _ in fitting), default=0)
        fitting = [(match, rule) for match, rule in fitting if prefer(match) == most]
    return fitting[0][1] if fitting else None


def _fits(match: Any, request: Request) -> bool:
    path = match.get("path", {"type": "PathPrefix", "value": "/"})
    whole, wanted = request.path, path["value"]
    under = whole == wanted or whole.startswith(wanted.rstrip("/") + "/")
    return (
        (whole == wanted if path["type"] == "Exact" else under)
        and match.get("method") in {None, request.method}
        and all(request.headers.get(each["name"].lower()) == each["value"] for each in match.get("headers", []))
        and all(request.query.get(each["name"]) == each["value"] for each in match.get("queryParams", []))
    )


def _exact(match: Any) -> int:
    return int(match.get("path", {}).get("type") == "Exact")


def _prefix(match: Any) -> int:
    return len(match.get("path", {"value": "/"})["value"])


def _method(match: Any) -> int:
    return int("method" in match)


def _headers(match: Any) -> int:
    return len(match.get("headers", []))


def _query(match: Any) -> int:
    return len(match.get("queryParams", []))


def every_request() -> Iterator[Request]:
    """Return all kinds of requests that the tests' routes can tell apart."""
    nothing: dict[str, str] = {}
    headers = [sex | team for sex in (nothing, {"x-sex": "F"}, {"x-sex": "M"}) for team in (nothing, {"x-team": "1"})]
    for path, method, header, query in itertools.product(
        ("/", "/a", "/a/b"), ("GET", "POST"), headers, (nothing, {"q": "1"})
    ):
        yield Request(path, method, header, query)
