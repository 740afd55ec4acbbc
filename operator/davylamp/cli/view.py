"""One rollout, or several, on a terminal: the same picture for ``get``, ``get --watch`` and the demo."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.text import Text

from davylamp.api.v1alpha1.policy import PolicySpec
from davylamp.api.v1alpha1.status import Signal
from davylamp.cli import quantity, signal_rows
from davylamp.cli.glyphs import PHASE_STYLES, Glyphs, glyphs_for
from davylamp.cli.sight import UNREADABLE, Place, Rung, Sight, sight
from davylamp.core.model import Phase, Verdict
from davylamp.wording import plain

_BAR: Final = 30
_SHOWN_DAMAGES: Final = 3
_SHOWN_TEXT: Final = 1000
#: Rungs that are shown before the ladder is cut around the current one.
_LONG_LADDER: Final = 9


def render(rollout: Mapping[str, Any], now: datetime, *, policy: PolicySpec | None = None) -> RenderableType:
    """Return the picture of one rollout; nothing in the object can make it fail.

    Parameters
    ----------
    rollout
        A ModelRollout as the API server returned it; it is not trusted.
    now
        Time of the picture, UTC.
    policy
        What its policy says, where it was read: the ladder may stand there.
    """
    return Card(sight(rollout, policy), now)


def render_many(rollouts: Iterable[Mapping[str, Any]], now: datetime) -> RenderableType:
    """Return the pictures of several rollouts below each other, shorter ones where the terminal is not high enough."""
    return Cards(tuple(Card(sight(rollout), now) for rollout in rollouts))


def summary(rollout: Mapping[str, Any]) -> str:
    """Return one plain line about a rollout, for places that are no terminal."""
    seen = sight(rollout)
    status = seen.status
    weight = "" if status.weight is None else f" at {status.weight.requested} %"
    phase = status.phase.value if status.phase else "not seen yet"
    message = f": {plain(status.message)}" if status.message else ""
    return f"{seen.namespace}/{seen.name} {phase}{weight}{message}"


@dataclass(frozen=True, slots=True)
class Card:
    """The picture of one rollout; a brief one leaves out the sentences of signals that are well."""

    seen: Sight
    now: datetime
    brief: bool = False

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        glyphs, width = glyphs_for(options), options.max_width
        yield self._title(glyphs, width)
        yield Text(f"  {_pair(self.seen, glyphs)}", style="dim", overflow="ellipsis", no_wrap=True)
        yield from self._situation(glyphs)
        if self.seen.rungs or self.seen.status.step:
            yield _ladder(self.seen, glyphs)
        if self.seen.status.weight:
            yield _weight(self.seen, glyphs, width)
        yield from self._signals(glyphs, width)

    def _title(self, glyphs: Glyphs, width: int) -> Text:
        phase = self.seen.status.phase
        style = PHASE_STYLES[phase] if phase else "dim"
        left = Text(f"{glyphs.phases[phase] if phase else glyphs.unknown} ", style=style)
        left.append(self.seen.name, style="bold")
        left.append(f" in {self.seen.namespace}", style="dim")
        right = Text(phase.value if phase else "not seen yet", style=f"bold {style}")
        facts = [f"attempt {self.seen.status.attempt.number}"] if self.seen.status.attempt else []
        started = self.seen.status.attempt.started_at if self.seen.status.attempt else self.seen.created
        facts += [quantity.age(started, self.now)] if started else []
        right.append("".join(f" {glyphs.middle} {fact}" for fact in facts), style="not bold dim")
        left.truncate(max(1, width - right.cell_len - 2), overflow="ellipsis" if glyphs.partial else "crop")
        return left + Text(" " * max(2, width - left.cell_len - right.cell_len)) + right

    def _situation(self, glyphs: Glyphs) -> Iterator[RenderableType]:
        status = self.seen.status
        if status.message:
            style = "red" if status.phase in {Phase.ROLLING_BACK, Phase.ROLLED_BACK} else ""
            yield _indented(plain(status.message)[:_SHOWN_TEXT], 2, style)
        if status.hold:
            since = quantity.age(status.hold.since, self.now)
            yield _indented(f"{glyphs.warning} held for {since}: {plain(status.hold.reason)}", 2, "yellow")
        if self.seen.stale:
            what = "Davylamp has not looked at it yet: is the operator running?"
            if status.observed_generation is not None:
                what = (
                    f"this is about generation {status.observed_generation}; "
                    f"the object is at {self.seen.generation}, which Davylamp has not looked at yet"
                )
            yield _indented(f"{glyphs.warning} {what}", 2, "yellow")
        if status.undelivered:
            lost = status.undelivered[-1]
            text = f"{glyphs.warning} channel {plain(lost.channel)} does not get messages: {plain(lost.why)}"
            yield _indented(text, 2, "yellow")
        for damage in self.seen.damages[:_SHOWN_DAMAGES]:
            text = f"{glyphs.warning} status.{plain(damage.field)} cannot be read: {plain(damage.reason)[:120]}"
            yield _indented(text, 2, "yellow")

    def _signals(self, glyphs: Glyphs, width: int) -> Iterator[RenderableType]:
        signals = self.seen.status.signals
        heading = signal_rows.heading(width)
        if signals and heading:
            yield heading
        for signal in signals:
            yield from (_line(text) for text in signal_rows.numbers(signal, glyphs, width))
            sentence = signal_rows.why(signal, glyphs, width)
            if sentence and not (self.brief and signal is not self._shown_in_brief()):
                yield Padding(sentence, (0, 0, 0, 4))

    def _shown_in_brief(self) -> Signal | None:
        worst = self.seen.worst_signal
        well = {Verdict.NON_INFERIOR, Verdict.INCONCLUSIVE}
        return None if worst is None or worst.verdict in well else worst


@dataclass(frozen=True, slots=True)
class Cards:
    """Several pictures."""

    cards: tuple[Card, ...]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if not self.cards:
            yield Text("no rollouts", style="dim")
            return
        room = options.height or console.height
        full = list(_between(self.cards, options))
        lines = sum(len(console.render_lines(part, options.update(height=None))) for part in full)
        if not console.is_terminal or lines < room:
            yield from full
        else:
            yield from _between([replace(card, brief=True) for card in self.cards], options)


def _between(cards: Sequence[Card], options: ConsoleOptions) -> Iterator[RenderableType]:
    for index, card in enumerate(cards):
        if index:
            yield Text(glyphs_for(options).line * options.max_width, style="dim", no_wrap=True)
        yield card


def _line(text: Text) -> Text:
    text.no_wrap = True
    text.overflow = "crop"
    return text


def _indented(text: str, by: int, style: str = "") -> RenderableType:
    return Padding(Text(text, style=style), (0, 0, 0, by))


def _pair(seen: Sight, glyphs: Glyphs) -> str:
    route = "" if seen.route == UNREADABLE else f" on HTTPRoute {seen.route}"
    return f"{seen.baseline} {glyphs.between} {seen.candidate}{route}"


def _ladder(seen: Sight, glyphs: Glyphs) -> Text:
    text = Text("  steps    ", style="dim", no_wrap=True, overflow="ellipsis" if glyphs.partial else "crop")
    rungs, cut_before, cut_after = _around(seen.rungs)
    shown = [_rung(rung, seen, glyphs) for rung in rungs]
    if cut_before:
        shown.insert(0, Text("..", style="dim"))
    if cut_after:
        shown.append(Text("..", style="dim"))
    for index, rung in enumerate(shown):
        text.append(f" {glyphs.between} " if index else "", style="dim")
        text.append_text(rung)
    if seen.status.step:
        text.append(f"   {plain(seen.status.step.summary)}", style="dim")
    return text


def _around(rungs: Sequence[Rung]) -> tuple[Sequence[Rung], bool, bool]:
    """Return as many rungs as there is room for, around the current one, and whether some were cut on each side."""
    if len(rungs) <= _LONG_LADDER:
        return rungs, False, False
    here = next((index for index, rung in enumerate(rungs) if rung.place is not Place.BEHIND), len(rungs) - 1)
    first = max(0, min(here - 3, len(rungs) - _LONG_LADDER))
    last = first + _LONG_LADDER
    return rungs[first:last], first > 0, last < len(rungs)


def _rung(rung: Rung, seen: Sight, glyphs: Glyphs) -> Text:
    stays = "shadow" if rung.shadow else f"{glyphs.pause} {rung.time}"
    weighs = f"{rung.weight} %{' + shadow' if rung.shadow else ''}"
    name = stays if rung.weight is None else weighs
    ended = seen.status.phase in {Phase.ROLLING_BACK, Phase.ROLLED_BACK}
    match rung.place:
        case Place.BEHIND:
            return Text(f"{glyphs.done} {name}", style="green")
        case Place.AHEAD:
            return Text(f"{glyphs.ahead} {name}", style="dim")
        case Place.HERE if ended:
            return Text(f"{glyphs.phases[Phase.ROLLED_BACK]} {name}", style="bold red")
        case Place.HERE:
            return Text(f"{glyphs.current} {name}", style="bold cyan")


def _weight(seen: Sight, glyphs: Glyphs, width: int) -> Text:
    weight = seen.status.weight
    text = Text("  traffic  ", style="dim", no_wrap=True, overflow="crop")
    if weight is None:
        return text
    columns = min(_BAR, max(10, width - 70))
    full = round(weight.requested / 100 * columns)
    text.append(glyphs.full * full, style=PHASE_STYLES[seen.status.phase] if seen.status.phase else "")
    text.append(glyphs.empty * (columns - full), style="dim")
    text.append(f"  asked {weight.requested} %", style="not dim bold")
    programmed = glyphs.unknown if weight.programmed is None else f"{weight.programmed} %"
    behind = weight.programmed is not None and weight.programmed != weight.requested
    text.append(f"   accepted {programmed}", style="not dim yellow" if behind else "not dim")
    observed = glyphs.unknown if weight.observed is None else f"{weight.observed:.1f} %"
    text.append(f"   observed {observed}", style="not dim")
    return text
