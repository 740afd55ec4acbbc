"""Sort the series of the answers into what was asked: by gate, variant and scraped target.

Rule 1: a series counts for a variant only if it carries that variant's labels and not the other's.
Rule 2: what cannot be counted makes trouble for its variant, in one sentence; it is never left out in silence.
Rule 3: one request is counted once: replicas of Prometheus and targets scraped twice are found and named.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from davylamp.core.model import Variant
from davylamp.core.plan import SignalKind
from davylamp.core.reading import Reading, Request, SignalQuery, SignalReading, Target
from davylamp.sources.answers import Answer, Series, bounded
from davylamp.sources.found import Found, Identity
from davylamp.sources.questions import Question, Role, Wanted
from davylamp.sources.samples import (
    MOST_AHEAD,
    NativeSample,
    Span,
    UnusableSamplesError,
    counter_samples,
    native_samples,
)
from davylamp.sources.settings import PrometheusSettings
from gatestats.counters import Sample

_LONGEST_NAME: Final = 160


@dataclass(frozen=True, slots=True)
class Checked:
    """The samples of one series within the span, or why they cannot be used."""

    plain: tuple[Sample, ...] = ()
    native: tuple[NativeSample, ...] = ()
    unusable: str = ""


@dataclass(frozen=True, slots=True)
class Look:
    """What was asked, how, and how far the server's clock is ahead of ours (None if unknown)."""

    request: Request
    settings: PrometheusSettings
    skew: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Sorting:
    """Where series go: what was found so far by gate and variant, how targets are told apart, and the span."""

    found: Mapping[tuple[str, Variant], Found]
    identity: Identity
    span: Span


def sort_answers(look: Look, answers: Iterable[tuple[Question, Answer]]) -> Reading:
    """Return the reading that the answers to all questions of a look make together."""
    request = look.request
    span = Span((request.start - request.lookback).timestamp(), request.end.timestamp())
    found = {(signal.gate, variant): Found() for signal in request.signals for variant in Variant}
    for question, answer in answers:
        _sort(question, answer, Sorting(found, Identity(look.settings.identity), span))
    signals = {}
    for signal in request.signals:
        signals[signal.gate] = _reading(signal, {variant: found[signal.gate, variant] for variant in Variant}, look)
    return Reading(signals)


def series_name(labels: Mapping[str, str]) -> str:
    """Return the name of a series for messages, and as its key: metric and sorted labels."""
    inner = ",".join(f'{name}="{labels[name]}"' for name in sorted(labels) if name != "__name__")
    return f"{labels.get('__name__', '')}{{{inner}}}"


def _sort(question: Question, answer: Answer, sorting: Sorting) -> None:
    by_metric: dict[str, list[Wanted]] = {}
    for wanted in question.wanted:
        by_metric.setdefault(wanted.selector.metric, []).append(wanted)
    seen: set[str] = set()
    for series in answer.series:
        takers = [w for w in by_metric.get(series.labels.get("__name__", ""), ()) if w.holds(series.labels)]
        if not takers:
            continue
        name = series_name(series.labels)
        checked = _checked(series, sorting.span)
        for wanted in takers:
            side = sorting.found[wanted.gate, wanted.variant]
            if name in seen:
                side.complain(f"{_short(name)} comes twice in one answer")
            elif wanted.ambiguous(series.labels):
                side.complain(
                    f"{_short(name)} carries the labels of both variants: name labels in metrics.labels that only "
                    "one of them has"
                )
            elif checked.unusable:
                side.complain(f"{_short(name)} {checked.unusable}")
            else:
                _take(side, wanted.role, name, (series.labels, sorting.identity.of(series.labels), checked))
        seen.add(name)


def _checked(series: Series, span: Span) -> Checked:
    try:
        return Checked(counter_samples(series.values, span), native_samples(series.histograms, span))
    except UnusableSamplesError as unusable:
        return Checked(unusable=str(unusable))


def _take(side: Found, role: Role, name: str, what: tuple[Mapping[str, str], str, Checked]) -> None:
    labels, target, checked = what
    if role is Role.NATIVE:
        if checked.plain and not checked.native:
            side.remark(f"{_short(name)} is not a histogram")
        samples: Sequence[object] = checked.native
    else:
        if checked.native and not checked.plain:
            side.remark(f"{_short(name)} is a histogram, not a counter")
        samples = checked.plain
    if not samples:
        return
    try:
        side.watch_for_twins(labels)
        if role is Role.NATIVE:
            side.add_native(target, name, checked.native)
        elif role is Role.BUCKETS:
            side.add_bucket(target, labels, checked.plain)
        else:
            side.add_counter(role, target, name, checked.plain)
    except UnusableSamplesError as unusable:
        side.complain(f"{_short(name)} {unusable}")


def _reading(signal: SignalQuery, sides: Mapping[Variant, Found], look: Look) -> SignalReading:
    _prefer_one_kind(sides.values())
    newest = {variant: side.newest for variant, side in sides.items()}
    for variant, side in sides.items():
        _complain_if_stale(variant, side, look)
    if signal.kind is SignalKind.COUNTER and signal.events:
        _complain_if_never_counted(signal, sides)
    targets = {
        variant: tuple(_in_seconds(target, signal.unit) for target in side.targets()) for variant, side in sides.items()
    }
    return SignalReading(
        targets={variant: some for variant, some in targets.items() if some},
        newest={variant: datetime.fromtimestamp(at, UTC) for variant, at in newest.items() if at is not None},
        trouble={variant: side.trouble for variant, side in sides.items() if side.trouble},
    )


def _in_seconds(target: Target, unit: timedelta) -> Target:
    """Return the target with the edges of its histograms in seconds, whatever unit the server counts in."""
    units = timedelta(seconds=1) / unit
    if units == 1:
        return target
    native = tuple(
        (time, {(low / units, high / units): count for (low, high), count in buckets.items()})
        for time, buckets in target.native
    )
    return replace(target, buckets={bound / units: found for bound, found in target.buckets.items()}, native=native)


def _prefer_one_kind(sides: Iterable[Found]) -> None:
    """Keep native histograms if every target has one, else the classic ones if every target has one."""
    members = [side for side in sides if side.has_histograms]
    if all(side.all_native for side in members):
        for side in members:
            side.drop_classic()
    elif all(side.all_classic for side in members):
        for side in members:
            side.drop_native()


def _complain_if_stale(variant: Variant, side: Found, look: Look) -> None:
    if side.newest is None:
        return
    age = look.request.end.timestamp() - side.newest
    limit = look.settings.max_sample_age.total_seconds()
    if age > limit:
        side.complain(
            f"the newest sample of the {variant.value.lower()}'s {side.metrics} is {age:.0f} s old, and the limit is "
            f"{limit:g} s (maxSampleAge of the MetricSource {look.settings.name}): see that its targets are scraped"
            f"{_about_clocks(look.skew)}"
        )


def _about_clocks(skew: timedelta | None) -> str:
    if skew is None or abs(skew) <= MOST_AHEAD:
        return ""
    seconds = skew.total_seconds()
    return f"; the clock of the source is {abs(seconds):.0f} s {'ahead of' if seconds > 0 else 'behind'} ours"


def _complain_if_never_counted(signal: SignalQuery, sides: Mapping[Variant, Found]) -> None:
    """Refuse an own counter of events that exists nowhere: a misspelt name must not look like "it never happens"."""
    if not any(side.has_totals for side in sides.values()) or any(side.has_events for side in sides.values()):
        return
    names = " or ".join(sorted({selector.metric for selector in signal.events}))
    for side in sides.values():
        side.complain(
            f"no series of {names} was found for either variant, though their totals are there: put the name and "
            "the labels right, or let the servers export it from the start, at 0"
        )


def _short(name: str) -> str:
    return bounded(name, _LONGEST_NAME)
