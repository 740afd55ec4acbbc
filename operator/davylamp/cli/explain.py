"""Why a rollout stands where it stands, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from davylamp.api.v1alpha1.policy import PolicySpec
from davylamp.api.v1alpha1.status import Signal
from davylamp.cli import quantity
from davylamp.cli.advice import advice_for
from davylamp.cli.glyphs import VERDICT_STYLES, glyphs_for
from davylamp.cli.origin import Setting, settings
from davylamp.cli.sight import Sight, sight
from davylamp.core.model import Phase, Ruling, Verdict
from davylamp.wording import plain

_MEANING: Final[Mapping[Verdict, str]] = {
    Verdict.REGRESSED: "the candidate is worse",
    Verdict.SOURCE_DOWN: "the metric source does not answer, or not in full",
    Verdict.NO_DATA: "data are missing, stale or not numbers",
    Verdict.INCONCLUSIVE: "there are data, and not enough to say",
    Verdict.NON_INFERIOR: "the candidate is no worse, within the margin",
}
_SHOWN_HISTORY: Final = 5


@dataclass(frozen=True, slots=True)
class Explanation:
    """What `explain` says: titled paragraphs, and the settings in force."""

    situation: tuple[str, ...]
    gates: tuple[tuple[Verdict, str], ...]
    next: tuple[str, ...]
    person: tuple[str, ...]
    past: tuple[str, ...]
    settings: tuple[Setting, ...]
    settings_trouble: str = ""

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        glyphs = glyphs_for(options)
        yield from _paragraphs("Where it stands", self.situation)
        if self.gates:
            yield Text("What the gates say", style="bold")
            for verdict, sentence in self.gates:
                line = Text(f"{glyphs.verdicts[verdict]} ", style=VERDICT_STYLES[verdict])
                yield Padding(line.append(sentence, style="default"), (0, 0, 0, 2))
        yield from _paragraphs("What happens next", self.next)
        yield from _paragraphs("What you can do", self.person)
        yield from _paragraphs("What was before", self.past)
        if self.settings_trouble:
            yield from _paragraphs("Settings", (self.settings_trouble,))
        if self.settings:
            yield Text("Settings in force", style="bold")
            yield _table(self.settings)


def explain(
    rollout: Mapping[str, Any], now: datetime, *, policy: PolicySpec | None = None, policy_trouble: str = ""
) -> Explanation:
    """Return why a rollout stands where it stands; nothing in the object can make this fail.

    Parameters
    ----------
    rollout
        A ModelRollout as the API server returned it.
    now
        Time of the question, UTC.
    policy
        What its policy says, if it has one that could be read.
    policy_trouble
        Why its policy could not be read.
    """
    seen = sight(rollout, policy)
    advice = advice_for(None if seen.status.phase is None else _reason(seen))
    in_force, trouble = _settings(seen, policy, policy_trouble)
    return Explanation(
        situation=tuple(_situation(seen, now)),
        gates=tuple((signal.verdict, _gate(signal)) for signal in seen.status.signals),
        next=tuple(_next(seen, now, advice.next)),
        person=(advice.person,) if advice.person else (),
        past=tuple(_past(seen, now)),
        settings=in_force,
        settings_trouble=trouble,
    )


def _reason(seen: Sight) -> str:
    decision = seen.status.decision
    ended = seen.status.phase in {Phase.ROLLED_BACK, Phase.ROLLING_BACK}
    return decision.reason if decision is not None and ended else seen.status.reason or ""


def _situation(seen: Sight, now: datetime) -> Iterator[str]:
    status = seen.status
    if status.phase is None:
        yield f"{seen.name} in {seen.namespace} has not been looked at yet."
    else:
        yield f"{seen.name} in {seen.namespace} is {status.phase.value} ({plain(status.reason or 'no reason given')})."
    if status.message:
        yield _sentence(status.message)
    if status.weight is not None and status.phase is not Phase.PROMOTED:
        yield from _traffic(seen)
    if status.decision is not None and status.decision.verdict is not Ruling.CONTINUE:
        ago = quantity.age(status.decision.at, now)
        yield f"Decided {ago} ago: {status.decision.verdict.value}, for {plain(status.decision.reason)}."
    if status.hold is not None:
        yield f"The weight has been held for {quantity.age(status.hold.since, now)}, for {plain(status.hold.reason)}."
    if status.phase is not None and seen.stale:
        yield f"This is about generation {status.observed_generation}; the object is at {seen.generation}."
    for lost in status.undelivered:
        ago = quantity.age(lost.at, now)
        yield f"{ago} ago channel {plain(lost.channel)} did not get the message {plain(lost.key)}: {plain(lost.why)}."
    for damage in seen.damages:
        yield f"status.{plain(damage.field)} cannot be read, and counts for nothing: {plain(damage.reason)}."


def _traffic(seen: Sight) -> Iterator[str]:
    weight = seen.status.weight
    if weight is None:
        return
    text = f"{seen.candidate} is to get {weight.requested} % of the traffic"
    if weight.programmed is not None and weight.programmed != weight.requested:
        text += f"; the gateway has accepted {weight.programmed} %"
    if weight.observed is not None:
        text += f"; it got {weight.observed:.1f} % of the latest requests"
    yield f"{text}."


def _gate(signal: Signal) -> str:
    parts = [f"{plain(signal.name)}: {_MEANING[signal.verdict]}."]
    if signal.message:
        parts.append(_sentence(signal.message))
    if signal.evidence is not None and signal.threshold is not None:
        parts.append(
            f"Evidence of a regression stands at {quantity.e_value(signal.evidence, '?')}; "
            f"traffic is taken back at {quantity.e_value(signal.threshold, '?')}."
        )
    if signal.non_inferiority is not None and signal.non_inferiority_threshold is not None:
        waits = "" if signal.required is not False else ", which is not waited for"
        parts.append(
            f"Evidence that it is no worse stands at {quantity.e_value(signal.non_inferiority, '?')}; "
            f"promotion asks for {quantity.e_value(signal.non_inferiority_threshold, '?')}{waits}."
        )
    if signal.interval is not None and signal.interval.low is not None and signal.interval.high is not None:
        unit = quantity.unit_of(signal)
        between = quantity.limits(signal.interval.low, signal.interval.high, unit, "-")
        parts.append(f"The difference lies within {between} {'points' if unit is quantity.Unit.SHARE else 'ms'}.")
    if signal.method:
        parts.append(f"The test: {_sentence(signal.method)}")
    return " ".join(parts)


def _next(seen: Sight, now: datetime, advice: str) -> Iterator[str]:
    if seen.status.phase is Phase.ROLLING_BACK:
        yield "The route is written until it shows weight 0, whatever else happens."
    elif advice:
        yield advice
    for entry in seen.status.quarantine:
        if entry.until > now:
            left = quantity.span(entry.until - now)
            digest = plain(entry.digest)
            yield f"The candidate {digest[:24]} is in quarantine for {left} more, for {plain(entry.reason)}."


def _past(seen: Sight, now: datetime) -> Iterator[str]:
    for past in seen.status.history[-_SHOWN_HISTORY:]:
        took = quantity.span(past.ended_at - past.started_at)
        ago = quantity.age(past.ended_at, now)
        yield f"{ago} ago, after {took}: {past.outcome.value}, for {plain(past.reason)}."


def _settings(seen: Sight, policy: PolicySpec | None, trouble: str) -> tuple[tuple[Setting, ...], str]:
    if seen.spec is None:
        return (), "The spec cannot be read: davylamp lint says why."
    if seen.spec.policy_ref is not None and policy is None:
        return (), trouble or "The policy was not read."
    try:
        return settings(seen.spec, policy), ""
    except ValueError as error:
        return (), _sentence(str(error))


def _sentence(text: str) -> str:
    text = plain(text).strip()
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _paragraphs(title: str, sentences: tuple[str, ...]) -> Iterator[Text | Padding]:
    if sentences:
        yield Text(title, style="bold")
        for sentence in sentences:
            yield Padding(Text(sentence), (0, 0, 0, 2))


def _table(in_force: tuple[Setting, ...]) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(style="bold", overflow="fold")
    table.add_column(style="dim", no_wrap=True)
    for setting in in_force:
        table.add_row(Text(f"  {plain(setting.path)}"), Text(plain(setting.value)), Text(plain(setting.origin)))
    return table
