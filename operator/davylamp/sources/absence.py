"""Say what is missing, and find out why: no series is the most common fault of a new rollout's settings."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Final

from davylamp.core.model import Variant
from davylamp.core.reading import Reading, Request
from davylamp.sources.answers import Answer, bounded
from davylamp.sources.promql import any_of, selector_text
from davylamp.sources.questions import Question, Role, Wanted, in_scope, scope_matchers, selector_of_labels

Labels = Mapping[str, str]

#: How long what was found out is repeated before it is looked up again.
LOOK_AGAIN: Final = timedelta(seconds=30)
_MOST_SHOWN: Final = 5
_MOST_KEPT: Final = 1000
_MOST_SEEN: Final = 1000
_NEEDED: Final = frozenset({Role.TOTAL, Role.BUCKETS})


class Absence:
    """Why series are missing, as far as it was found out, by what was looked for."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[datetime, tuple[Labels, ...] | None]] = {}

    def due(self, missing: Iterable[tuple[Wanted, ...]], now: datetime) -> tuple[Wanted, ...] | None:
        """Return the next absence to look into; None if all were looked into within the last 30 s."""
        for wanted in missing:
            known = self._known.get(probe_text(wanted))
            if known is None or now - known[0] >= LOOK_AGAIN:
                return wanted
        return None

    def learn(self, wanted: tuple[Wanted, ...], answer: Answer | None, now: datetime) -> None:
        """Keep what the answer to the probe says; None if there was none."""
        key = probe_text(wanted)
        self._known.pop(key, None)
        if len(self._known) >= _MOST_KEPT:
            del self._known[next(iter(self._known))]
        seen = None if answer is None else _existing(wanted[0], answer)
        self._known[key] = (now, seen)

    def explain(self, reading: Reading, request: Request, missing: Iterable[tuple[Wanted, ...]]) -> Reading:
        """Return the reading with a sentence for each variant without series."""
        signals = dict(reading.signals)
        for wanted in missing:
            gate, variant = wanted[0].gate, wanted[0].variant
            _, seen = self._known.get(probe_text(wanted), (None, None))
            sentence = f"{_sentence(wanted, request)}{'' if seen is None else _findings(wanted, seen)}"
            signals[gate] = replace(signals[gate], trouble={**signals[gate].trouble, variant: sentence})
        return Reading(signals)


def missing_series(reading: Reading, asked: Iterable[Question]) -> list[tuple[Wanted, ...]]:
    """Return what is needed and was not found, for each signal and variant without trouble of another kind."""
    needed: dict[tuple[str, Variant], list[Wanted]] = {}
    for question in asked:
        for wanted in question.wanted:
            if wanted.role in _NEEDED:
                needed.setdefault((wanted.gate, wanted.variant), []).append(wanted)
    return [
        tuple(group)
        for (gate, variant), group in needed.items()
        if variant not in reading.signals[gate].targets and variant not in reading.signals[gate].trouble
    ]


def probe_text(wanted: tuple[Wanted, ...]) -> str:
    """Return the query that counts series of the same metrics in the namespace by the labels of the variant."""
    names = {member.selector.metric for member in wanted}
    names |= {member.selector.metric.removesuffix("_bucket") for member in wanted if member.role is Role.BUCKETS}
    first = wanted[0]
    # Where the variant's label shows the namespace too, the query is bound by what such labels begin with.
    bound = scope_matchers(replace(first, labels={}))
    return f"count by ({', '.join(sorted(first.labels))}) ({selector_text((any_of('__name__', names), *bound))})"


def _existing(wanted: Wanted, answer: Answer) -> tuple[Labels, ...]:
    """Return the labels of variants that the answer to a probe shows; those of other namespaces stay unseen."""
    found = (series.labels for series in answer.series)
    if wanted.scope.label in wanted.labels:
        found = (lab for lab in found if in_scope(wanted.scope, wanted.namespace, lab.get(wanted.scope.label, "")))
    return tuple(islice(found, _MOST_SEEN))


def _findings(wanted: tuple[Wanted, ...], seen: tuple[Labels, ...]) -> str:
    first = wanted[0]
    names = sorted(first.labels)
    if not seen:
        return f"; in namespace {first.namespace} no such metric exists at all: is its server scraped?"
    if any(all(labels.get(name, "") == first.labels[name] for name in names) for labels in seen):
        if any(member.selector.matchers for member in wanted):
            return "; series with these labels exist, but none that its other matchers fit"
        return "; series with these labels exist, but have no sample that new"
    shown = [selector_of_labels({name: labels.get(name, "") for name in names}) for labels in seen]
    more = ", …" if len(shown) > _MOST_SHOWN else ""
    listed = bounded("; ".join(sorted(shown)[:_MOST_SHOWN]))
    return (
        f"; the metric exists with {listed}{more}: see that the {first.variant.value.lower()} gets requests and is "
        "scraped, or put metrics.labels right"
    )


def _sentence(wanted: tuple[Wanted, ...], request: Request) -> str:
    first = wanted[0]
    names = " or ".join(
        sorted(
            {f"{w.selector.metric}{selector_text(w.selector.matchers) if w.selector.matchers else ''}" for w in wanted}
        )
    )
    seconds = (request.end - request.start + request.lookback).total_seconds()
    where = "" if first.scope.label in first.labels else f" in namespace {first.namespace}"
    return (
        f"no series of {bounded(names)} with {bounded(selector_of_labels(first.labels))}{where} "
        f"has a sample of the last {seconds:.0f} s"
    )
