"""What a look asks: as few queries as its series allow, and what is wanted from the answer of each.

Rule 1: every query is bound to the rollout's namespace, and every series of the answer is held against it again.
Rule 2: regular expressions are the server's work (RE2): a selector with one is a query of its own, and no expression
that a user wrote ever runs here.
Rule 3: a query may ask for more than is wanted, never for less; what is wanted is picked out of the answer exactly.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, assert_never

from davylamp.core.model import Variant
from davylamp.core.reading import Matcher, MatchKind, Request, Scope, Selector, SignalQuery
from davylamp.errors import SpecError
from davylamp.sources.promql import any_of, literally, range_text

_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_REGULAR: Final = frozenset({MatchKind.MATCHES, MatchKind.MATCHES_NOT})


class Role(StrEnum):
    """What a series is in its signal."""

    EVENTS = "events"
    TOTAL = "total"
    BUCKETS = "buckets"
    NATIVE = "native"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Series of one role of one signal of one variant.

    Parameters
    ----------
    gate, role, variant
        What they are for.
    selector
        Metric (of buckets with ``_bucket``) and the signal's own matchers.
    labels, rival_labels
        Labels of the variant and of the other one.
    scope, namespace
        How a series shows its namespace, and the rollout's.
    """

    gate: str
    role: Role
    variant: Variant
    selector: Selector
    labels: Mapping[str, str]
    rival_labels: Mapping[str, str]
    scope: Scope
    namespace: str

    def holds(self, series: Mapping[str, str]) -> bool:
        """Whether a series of the answer is one of them; regular expressions were matched by the server."""
        return (
            _carries(series, self.labels)
            and in_scope(self.scope, self.namespace, series.get(self.scope.label, ""))
            and all(_matched(matcher, series) for matcher in self.selector.matchers)
        )

    def ambiguous(self, series: Mapping[str, str]) -> bool:
        """Whether a series of this variant carries the other one's labels too."""
        return _carries(series, self.rival_labels)


@dataclass(frozen=True, slots=True)
class Question:
    """One query, and what is wanted from its answer."""

    text: str
    wanted: tuple[Wanted, ...]


def questions(request: Request) -> tuple[Question, ...]:
    """Return the queries of one look.

    Raises
    ------
    SpecError
        If the variants cannot be told apart, or their labels point outside the namespace.
    """
    if not _NAMESPACE.fullmatch(request.namespace):
        raise SpecError(f"{request.namespace!r} is not the name of a namespace")
    groups: dict[object, list[Wanted]] = {}
    for signal in request.signals:
        for wanted in _wanted(signal, request):
            groups.setdefault(_shared_by(wanted), []).append(wanted)
    span = request.end - request.start + request.lookback
    return tuple(Question(range_text(union(group), span), tuple(group)) for group in groups.values())


def union(group: Iterable[Wanted]) -> tuple[Matcher, ...]:
    """Return matchers of all that is wanted, and perhaps of more."""
    members = tuple(group)
    first = members[0]
    names = any_of("__name__", (wanted.selector.metric for wanted in members))
    variants = [any_of(label, (wanted.labels[label] for wanted in members)) for label in sorted(first.labels)]
    own = first.selector.matchers if _asked_alone(first) else ()
    return (names, *scope_matchers(first), *variants, *own)


def scope_matchers(wanted: Wanted) -> tuple[Matcher, ...]:
    """Return what binds a query to the namespace; nothing if the variant's labels do so themselves."""
    scope, namespace = wanted.scope, wanted.namespace
    if scope.label in wanted.labels:
        return ()
    if not scope.beginnings:
        return (Matcher(scope.label, MatchKind.EQUAL, namespace),)
    beginnings = "|".join(literally(beginning) for beginning in _beginnings(scope, namespace))
    return (Matcher(scope.label, MatchKind.MATCHES, f"({beginnings}).*"),)


def in_scope(scope: Scope, namespace: str, value: str) -> bool:
    """Whether a series whose scope label has this value belongs to the namespace."""
    if not scope.beginnings:
        return value == namespace
    return value.startswith(_beginnings(scope, namespace))


def _beginnings(scope: Scope, namespace: str) -> tuple[str, ...]:
    return tuple(beginning.replace("{namespace}", namespace) for beginning in scope.beginnings)


def _wanted(signal: SignalQuery, request: Request) -> list[Wanted]:
    variants = signal.variants or request.variants
    _refuse_bad_labels(signal, variants, request.namespace)
    found = []
    for role, selector in _selectors(signal):
        for variant in Variant:
            rival = Variant.BASELINE if variant is Variant.CANDIDATE else Variant.CANDIDATE
            labels = (variants[variant], variants[rival])
            found.append(Wanted(signal.gate, role, variant, selector, *labels, signal.scope, request.namespace))
    return found


def _selectors(signal: SignalQuery) -> list[tuple[Role, Selector]]:
    found = [(Role.EVENTS, selector) for selector in signal.events]
    found += [(Role.TOTAL, selector) for selector in signal.total]
    if signal.histogram is not None:
        metric, matchers = signal.histogram.metric, signal.histogram.matchers
        found += [(Role.BUCKETS, Selector(f"{metric}_bucket", matchers)), (Role.NATIVE, signal.histogram)]
    return found


def _refuse_bad_labels(signal: SignalQuery, variants: Mapping[Variant, Mapping[str, str]], namespace: str) -> None:
    for variant in Variant:
        labels = variants.get(variant, {})
        where = f"{variant.value.lower()}.metrics.labels"
        if not labels:
            raise SpecError(f"{where} must name at least one label that tells its series of {signal.gate} apart")
        bound = labels.get(signal.scope.label)
        if bound is not None and not in_scope(signal.scope, namespace, bound):
            beginnings = " or ".join(map(repr, _beginnings(signal.scope, namespace))) or repr(namespace)
            raise SpecError(
                f"{where}: {signal.scope.label} is {bound!r}, and must begin with {beginnings}: "
                "a rollout sees the series of its own namespace only"
            )
    if variants[Variant.BASELINE] == variants[Variant.CANDIDATE]:
        shown = selector_of_labels(variants[Variant.BASELINE])
        raise SpecError(
            f"baseline and candidate have the same labels {shown} for {signal.gate}: their series cannot be told "
            "apart; give each its own in metrics.labels"
        )


def selector_of_labels(labels: Mapping[str, str]) -> str:
    """Return labels for a message."""
    return ", ".join(f'{name}="{value}"' for name, value in sorted(labels.items()))


def _shared_by(wanted: Wanted) -> object:
    """Return what all that is asked in one query has in common."""
    alike = wanted.labels.keys() == wanted.rival_labels.keys()
    sides = frozenset(map(_frozen, (wanted.labels, wanted.rival_labels)))
    alone = (wanted.gate, wanted.selector.matchers, _histogram(wanted)) if _asked_alone(wanted) else None
    metric = wanted.selector.metric if alone is not None and not _histogram(wanted) else None
    return (wanted.scope, sides, None if alike else wanted.variant, alone, metric)


def _asked_alone(wanted: Wanted) -> bool:
    """Whether the signal's own matchers are the server's: regular expressions, and those that spare many buckets."""
    matchers = wanted.selector.matchers
    return any(matcher.kind in _REGULAR for matcher in matchers) or (_histogram(wanted) and bool(matchers))


def _histogram(wanted: Wanted) -> bool:
    return wanted.role in {Role.BUCKETS, Role.NATIVE}


def _carries(series: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    return all(series.get(label, "") == value for label, value in labels.items())


def _matched(matcher: Matcher, series: Mapping[str, str]) -> bool:
    match matcher.kind:
        case MatchKind.EQUAL:
            return series.get(matcher.label, "") == matcher.value
        case MatchKind.NOT_EQUAL:
            return series.get(matcher.label, "") != matcher.value
        case MatchKind.MATCHES | MatchKind.MATCHES_NOT:
            return True
        case never:
            assert_never(never)


def _frozen(labels: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    return frozenset(labels.items())
