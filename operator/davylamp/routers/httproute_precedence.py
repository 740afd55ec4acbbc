"""Which rule of an HTTPRoute a request goes to, as the Gateway API orders their matches. Pure.

An exact path comes before a prefix, a longer prefix before a shorter one, then a match with a method, then more
headers, then more query parameters, then the rule that stands first. A copy of a rule that asks for one header more may
thus overtake another rule that came before the copied one, and requests would change hands that nobody meant to move.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from davylamp.core.moves import Diversion
from davylamp.errors import SpecError
from davylamp.routers.httproute_rules import Rule, rules_of
from davylamp.routers.marks import Manifest

Match = Mapping[str, Any]

#: What a rule without matches takes, and a match without a path.
_EVERYTHING: Final[Mapping[str, Any]] = {"type": "PathPrefix", "value": "/"}
_KINDS: Final = ("PathPrefix", "RegularExpression", "Exact")


def matches_of(rule: Rule) -> Sequence[Match]:
    """Return the matches of a rule; one that has none takes everything."""
    return rule.get("matches") or ({"path": _EVERYTHING},)


def headers_of(match: Match) -> Mapping[str, Mapping[str, Any]]:
    """Return the headers that a match asks for by name in lower case; of a name that stands twice the first counts."""
    return _by_name(match.get("headers") or (), str.lower)


def as_text(match: Match) -> str:
    """Return the same text for matches that take the same requests."""
    asked = [
        sorted((name, entry.get("type") or "Exact", entry.get("value")) for name, entry in entries.items())
        for entries in (headers_of(match), _query_of(match))
    ]
    return json.dumps([_path_of(match)["type"], _path_of(match)["value"], match.get("method"), *asked])


def _query_of(match: Match) -> Mapping[str, Mapping[str, Any]]:
    return _by_name(match.get("queryParams") or (), str)


def _by_name(entries: Sequence[Mapping[str, Any]], spell: Callable[[str], str]) -> Mapping[str, Mapping[str, Any]]:
    return {spell(str(entry.get("name"))): entry for entry in reversed(entries)}


def _path_of(match: Match) -> Mapping[str, Any]:
    return {**_EVERYTHING, **(match.get("path") or {})}


@dataclass(frozen=True, slots=True)
class Laid:
    """A rule as it shall stand on the route.

    Parameters
    ----------
    origin
        The user's rule that it is, or is a copy of: an index in the route without copies.
    rule
        The rule itself.
    slice_
        The slice that a copy is for; None for the user's own rule.
    picked
        Which of the origin's matches each of its matches stands for.
    """

    origin: int
    rule: Rule
    slice_: Diversion | None
    picked: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Taker:
    """A match that takes requests of a slice, and its rank without copies and with them: the greater comes first."""

    origin: int
    match: Match
    before: tuple[int, ...]
    after: tuple[int, ...]


def refuse_moved(base: Manifest, laid: Sequence[Laid]) -> None:
    """Raise SpecError if a copy would take requests that another of the user's rules took before."""
    for slice_ in dict.fromkeys(each.slice_ for each in laid if each.slice_ is not None):
        copies = list(_takers(base, laid, slice_))
        known = {(taker.origin, taker.before) for taker in copies}
        others = [taker for taker in _takers(base, laid, None) if (taker.origin, taker.before) not in known]
        for copy in copies:
            for other in (*copies, *others):
                overtaken = other.before > copy.before and other.after < copy.after
                if overtaken and other.origin != copy.origin and _meet(other.match, copy.match):
                    raise SpecError(
                        f"no rule in front of spec.rules[{copy.origin}] can send requests with the header "
                        f"{slice_.header} to the baseline: it would take some from spec.rules[{other.origin}]; "
                        f"match that header in spec.rules[{other.origin}] too, or roll the whole route back"
                    )


def _takers(base: Manifest, laid: Sequence[Laid], slice_: Diversion | None) -> Iterator[_Taker]:
    """Return the matches of the copies for a slice, or of the user's rules."""
    rules = rules_of(base)
    for place, each in enumerate(laid):
        if each.slice_ == slice_:
            own = matches_of(rules[each.origin])
            for nth, (picked, match) in enumerate(zip(each.picked, matches_of(each.rule), strict=True)):
                before = _rank(own[picked], each.origin, picked)
                yield _Taker(each.origin, match, before, _rank(match, place, nth))


def _rank(match: Match, rule: int, nth: int) -> tuple[int, ...]:
    path = _path_of(match)
    return (
        _KINDS.index(path["type"]) if path["type"] in _KINDS else -1,
        len(str(path["value"])),
        int(bool(match.get("method"))),
        len(headers_of(match)),
        len(_query_of(match)),
        -rule,
        -nth,
    )


def _meet(one: Match, other: Match) -> bool:
    """Return whether a request may fit both matches, of which neither has the better path or method."""
    paths = [_path_of(match) for match in (one, other)]
    methods = {match.get("method") for match in (one, other)}
    return (
        (paths[0] == paths[1] or paths[0]["type"] == "RegularExpression")
        and len(methods) == 1
        and _agree(headers_of(one), headers_of(other))
        and _agree(_query_of(one), _query_of(other))
    )


def _agree(one: Mapping[str, Mapping[str, Any]], other: Mapping[str, Mapping[str, Any]]) -> bool:
    """Return whether no name has to have two values at once."""
    return not any(
        one[name].get("value") != other[name].get("value")
        and all((entry.get("type") or "Exact") == "Exact" for entry in (one[name], other[name]))
        for name in one.keys() & other.keys()
    )
