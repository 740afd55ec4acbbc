"""The rules of an HTTPRoute that send slices of the requests to the baseline alone. Pure.

Rule 1: in front of each rule that has the candidate stands a copy of it for each slice: the same in all but that every
    match asks for the slice's header too, and that the baseline has what the pair has together.
Rule 2: copies are known by their names; where the API server keeps no names of rules, or somebody took all of them
    away, by the matches that are marked. Everything else on a route works on the rules without them.
Rule 3: what would give a request to another of the user's rules than before is refused (`httproute_precedence`). A rule
    with a longer path or a method still comes before a copy, as it came before the rule that was copied. Other
    HTTPRoutes for the same host are not looked at.
Rule 4: a value of a header may say who a person is; no message repeats it.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from davylamp.core.moves import Diversion
from davylamp.core.world import ALTERED
from davylamp.errors import SpecError
from davylamp.routers.httproute_precedence import Laid, Match, as_text, headers_of, matches_of, refuse_moved
from davylamp.routers.httproute_records import key_of
from davylamp.routers.httproute_rules import (
    Rule,
    Share,
    backends_of,
    rules_of,
    shared,
    shares,
    with_all_rules,
    with_baseline,
    with_weight,
    with_weights,
)
from davylamp.routers.marks import DIVERTED, MAX_WEIGHT, Manifest, Marks, Pair, annotations_of, read_marks

#: How the names of copies begin; no other rule is named so.
NAMED: Final = "davylamp-slice-"

Copies = Mapping[int, Rule]

_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+\-.^_`|~]{1,256}")
_MAX_VALUE: Final = 4096
_MAX_RULES: Final = 16
_MAX_MATCHES: Final = 128
_MAX_HEADERS: Final = 16


def apart(manifest: Manifest) -> tuple[Manifest, Copies]:
    """Return the route without the copies, and these by their places."""
    rules = rules_of(manifest)
    copies = {number: rules[number] for number in sorted(_places(manifest))}
    if not copies:
        return manifest, copies
    return with_all_rules(manifest, [rule for number, rule in enumerate(rules) if number not in copies]), copies


def woven(base: Manifest, copies: Copies) -> Manifest:
    """Return the route with copies in their places again; what `apart` took apart, if nothing was added or removed."""
    rules = list(rules_of(base))
    for number, copy in sorted(copies.items()):
        rules.insert(number, copy)
    return with_all_rules(base, rules) if copies else base


def _places(manifest: Manifest) -> list[int]:
    """Return where the copies stand; of rules with equal matches first those that have the baseline alone."""
    rules = rules_of(manifest)
    named = [number for number, rule in enumerate(rules) if str(rule.get("name") or "").startswith(NAMED)]
    if named or DIVERTED not in annotations_of(manifest):
        return named
    marks = read_marks(manifest)
    alone = {share.rule for share in (shared(manifest, marks.pair) if marks.pair else ()) if not share.candidates}
    left = Counter(marks.copies)
    found = []
    for number in sorted(range(len(rules)), key=lambda number: number not in alone):
        if not rules[number].get("name") and left[key := copy_key(rules[number])] > 0:
            left[key] -= 1
            found.append(number)
    return found


def copy_key(rule: Rule) -> str:
    """Return what a copy is recognised by where it has no name."""
    return key_of({"matches": rule.get("matches")})


# Which slices.


def slices_of(marks: Marks, copies: Copies) -> tuple[Diversion, ...]:
    """Return the slices that are diverted: what the marks say, or else what the copies say themselves."""
    return marks.diverted or tuple(sorted({_told(copy) for copy in copies.values()}))


def _told(copy: Rule) -> Diversion:
    """Return what a copy asks for beside what it copied: the last header of its matches."""
    last = [headers[-1] for match in matches_of(copy) if (headers := match.get("headers"))]
    return Diversion(str(last[0].get("name")), str(last[0].get("value"))) if last else ALTERED


def standing(manifest: Manifest, pair: Pair) -> tuple[Diversion, ...]:
    """Return the slices that the rules divert exactly as Davylamp would; `ALTERED` if others changed any of it."""
    base, copies = apart(manifest)
    if not copies and DIVERTED not in annotations_of(manifest):
        return ()
    slices = slices_of(read_marks(manifest), copies)
    try:
        wanted = _copies_in(_laid(base, pair, slices))
    except SpecError:
        return (ALTERED,)
    same = [{number: _plain(copy) for number, copy in each.items()} for each in (copies, wanted)]
    return slices if same[0] == same[1] else (ALTERED,)


def _plain(copy: Rule) -> Rule:
    """Return a copy as far as it has a meaning: without its name, and with filters even if there are none."""
    return {**copy, "name": None, "filters": copy.get("filters") or []}


# Writing them.


def diverted(
    base: Manifest, pair: Pair, slices: Iterable[Diversion], present: Copies
) -> tuple[Manifest, tuple[str, ...]]:
    """Return the route with the copies for these slices and no others, and what they are recognised by.

    Copies that are ``present``, right and without names are kept, since the API server would not store their names.

    Raises
    ------
    SpecError
        The route has no room for them, or they would take requests from another rule.
    """
    laid = _laid(base, pair, tuple(slices))
    _refuse_full(base, laid)
    refuse_moved(base, laid)
    copies = _copies_in(laid)
    unnamed = [copy for copy in present.values() if not copy.get("name")]
    kept = {
        number: next((old for old in unnamed if {**old, "name": copy["name"]} == copy), copy)
        for number, copy in copies.items()
    }
    return woven(base, kept), tuple(copy_key(copy) for copy in kept.values())


def _laid(base: Manifest, pair: Pair, slices: Sequence[Diversion]) -> list[Laid]:
    """Return all rules with the copies in front of those that they are of."""
    for number, each in enumerate(slices):
        if not _HEADER.fullmatch(each.header) or not 0 < len(each.value) <= _MAX_VALUE:
            raise SpecError(
                f"slice {number + 1} of {len(slices)} is no header match that an HTTPRoute takes: "
                f"its header is {each.header[:60]!r}, its value has {len(each.value)} characters of 1 to {_MAX_VALUE}"
            )
    # Names of headers are the same in whatever case.
    slices = tuple({(each.header.lower(), each.value): each for each in reversed(slices)}.values())[::-1]
    sharing = {share.rule: share for share in shared(base, pair) if share.candidates}
    own = {as_text(match) for rule in rules_of(base) for match in matches_of(rule)}
    laid: list[Laid] = []
    for number, rule in enumerate(rules_of(base)):
        if share := sharing.get(number):
            laid += [copy for each in slices if (copy := _copy(rule, share, each, own)).picked]
        laid.append(Laid(number, rule, None, tuple(range(len(matches_of(rule))))))
    return laid


def _copies_in(laid: Sequence[Laid]) -> Copies:
    return {number: each.rule for number, each in enumerate(laid) if each.slice_ is not None}


def _copy(rule: Rule, share: Share, slice_: Diversion, own: Collection[str]) -> Laid:
    narrowed = {nth: _narrowed(match, slice_, share) for nth, match in enumerate(matches_of(rule))}
    # What another rule of the user's takes already, it goes on to take.
    matches = {
        nth: match
        for nth, match in narrowed.items()
        if match is not None and (match is matches_of(rule)[nth] or as_text(match) not in own)
    }
    copy = {
        "name": _name(slice_, share.rule),
        "matches": list(matches.values()),
        **{name: value for name, value in rule.items() if name not in {"name", "matches", "backendRefs"}},
        "backendRefs": _alone(rule, share),
    }
    return Laid(share.rule, copy, slice_, tuple(matches))


def _narrowed(match: Match, slice_: Diversion, share: Share) -> Match | None:
    """Return the match for requests of the slice alone; None if it takes none of them."""
    headers = match.get("headers") or []
    own = headers_of(match).get(slice_.header.lower())
    if own is None:
        if len(headers) >= _MAX_HEADERS:
            raise SpecError(
                f"{share.place} has a match with {len(headers)} headers, and a match has at most {_MAX_HEADERS}: "
                f"there is no room for {slice_.header}"
            )
        return {**match, "headers": [*headers, {"type": "Exact", "name": slice_.header, "value": slice_.value}]}
    if (own.get("type") or "Exact") != "Exact":
        raise SpecError(
            f"{share.place} matches the header {slice_.header} by an expression, so it cannot be told which of its "
            "requests are of the slice: match that header exactly"
        )
    return match if own.get("value") == slice_.value else None


def _alone(rule: Rule, share: Share) -> list[Mapping[str, Any]]:
    """Return the backends of a rule with the baseline in the place of the pair."""
    refs = list(backends_of(rule))
    refs[share.baselines[0]] = with_weight(refs[share.baselines[0]], min(share.total, MAX_WEIGHT))
    return [ref for place, ref in enumerate(refs) if place not in {*share.baselines[1:], *share.candidates}]


def _name(slice_: Diversion, rule: int) -> str:
    digest = hashlib.sha256(f"{slice_.header.lower()}\0{slice_.value}".encode()).hexdigest()[:12]
    return f"{NAMED}{digest}-{rule}"


def _refuse_full(base: Manifest, laid: Sequence[Laid]) -> None:
    """Raise SpecError if the route would be larger than the Gateway API allows."""
    before, after = rules_of(base), [each.rule for each in laid]
    sizes = (
        ("rules", len(before), len(after), _MAX_RULES),
        ("matches", _matches_in(before), _matches_in(after), _MAX_MATCHES),
    )
    for what, had, gets, most in sizes:
        if gets > max(most, had):
            raise SpecError(
                f"the route has {had} {what} and would have {gets} with those that send slices to the baseline, and an "
                f"HTTPRoute has at most {most}: divide the route, or roll the whole of it back instead of a slice"
            )


def _matches_in(rules: Iterable[Rule]) -> int:
    return sum(len(matches_of(rule)) for rule in rules)


# Taking traffic from them.


def closed(base: Manifest, copies: Copies, pair: Pair) -> Copies:
    """Return the copies without any traffic for a candidate that others put into them."""
    alone = with_all_rules(base, copies.values())
    rules = list(rules_of(alone))
    for share in shares(alone, pair):
        if not share.baselines:
            rules[share.rule] = with_baseline(rules[share.rule], share, pair)
    for share in shared(with_all_rules(base, rules), pair):
        if share.candidate:
            rules[share.rule] = with_weights(rules[share.rule], share, min(share.total, MAX_WEIGHT), 0)
    return dict(zip(copies, rules, strict=True))
