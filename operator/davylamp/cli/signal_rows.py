"""The signals of a rollout: what each variant has shown, the evidence, and the verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rich.style import Style
from rich.text import Text

from davylamp.api.v1alpha1.status import Side, Signal
from davylamp.cli import quantity
from davylamp.cli.glyphs import VERDICT_STYLES, Glyphs
from davylamp.core.model import Verdict
from davylamp.wording import plain

#: From this width on, a signal has one line of numbers.
WIDE: Final = 112
_NAME: Final = 14
_MAX_MESSAGE: Final = 400


@dataclass(frozen=True, slots=True)
class Evidence:
    """One kind of evidence against its threshold, both log10 of an e-value."""

    label: str
    now: float | None
    threshold: float | None
    accuses: bool


def evidence_of(signal: Signal) -> tuple[Evidence, Evidence]:
    """Return the evidence of a regression, and that the candidate is no worse."""
    return (
        Evidence("worse", signal.evidence, signal.threshold, accuses=True),
        Evidence("no worse", signal.non_inferiority, signal.non_inferiority_threshold, accuses=False),
    )


def _bar_width(width: int) -> int:
    """Return the columns of a bar in a wide line: the more, the wider the terminal."""
    return min(12, 4 + max(0, width - 120) // 2)


def heading(width: int) -> Text | None:
    """Return the heading of the columns; None where the lines have labels of their own."""
    if width < WIDE:
        return None
    columns = [
        ("  signal", _NAME + 2),
        ("baseline", 10),
        ("candidate", 11),
        ("  difference and limits", 28),
        ("  evidence: worse", 16 + _bar_width(width)),
        ("  no worse", 16 + _bar_width(width)),
        ("n", 9),
    ]
    text = Text("  ", style="dim")
    for label, size in columns:
        left = label.startswith("  ")
        text.append(label.ljust(size) if left else label.rjust(size))
    return text


def numbers(signal: Signal, glyphs: Glyphs, width: int) -> list[Text]:
    """Return the lines of numbers of one signal."""
    return [_wide(signal, glyphs, _bar_width(width))] if width >= WIDE else _narrow(signal, glyphs, width)


def why(signal: Signal, glyphs: Glyphs, width: int) -> Text | None:
    """Return the verdict in one sentence, if the status has one; wide lines of numbers leave the verdict to it."""
    text = Text(signal.verdict.value, style=VERDICT_STYLES[signal.verdict]) if width >= WIDE else Text()
    if not signal.message:
        return text or None
    if text:
        text.append(f" {glyphs.middle} ", style="not bold dim")
    calm = signal.verdict in {Verdict.INCONCLUSIVE, Verdict.NON_INFERIOR}
    return text.append(plain(signal.message)[:_MAX_MESSAGE], style="not bold dim" if calm else "not bold default")


def bar(evidence: Evidence, glyphs: Glyphs, width: int) -> Text:
    """Return evidence as a bar on a logarithmic scale, full at the threshold.

    Parameters
    ----------
    evidence
        What is shown; unknown evidence, or none, is an empty bar.
    glyphs
        Signs to draw with.
    width
        Columns inside the bar's ends, >= 1.
    """
    part = fraction(evidence)
    columns = part * width
    full = int(columns)
    steps = len(glyphs.partial) + 1
    rest = int((columns - full) * steps)
    drawn = glyphs.full * full + (glyphs.partial[rest - 1] if rest and full < width else "")
    text = Text(glyphs.left, style="dim")
    text.append(drawn, style=_style(evidence, part))
    text.append(glyphs.empty * (width - len(drawn)), style="dim")
    text.append(glyphs.right, style="dim")
    return text


def fraction(evidence: Evidence) -> float:
    """Return how far evidence has come to its threshold, in 0..1."""
    if evidence.now is None or evidence.threshold is None or evidence.threshold <= 0:
        return 0.0
    return min(1.0, max(0.0, evidence.now / evidence.threshold))


def _style(evidence: Evidence, part: float) -> str:
    if evidence.accuses:
        return "red" if part >= 1 else "yellow" if part >= 0.5 else "cyan"
    return "green" if part >= 1 else "cyan"


def _wide(signal: Signal, glyphs: Glyphs, columns: int) -> Text:
    text = Text("  ")
    text.append_text(_name(signal, glyphs))
    text.append(_value(signal, signal.baseline, glyphs).rjust(10))
    text.append(_value(signal, signal.candidate, glyphs).rjust(11), style="bold")
    text.append("  " + _effect(signal, glyphs).ljust(26))
    for evidence in evidence_of(signal):
        text.append("  ")
        text.append_text(bar(evidence, glyphs, columns))
        text.append(f" {_against(evidence, glyphs)}".ljust(12))
    text.append(_samples(signal, glyphs).rjust(9), style="dim")
    return text


def _narrow(signal: Signal, glyphs: Glyphs, width: int) -> list[Text]:
    first = Text("  ")
    first.append_text(_name(signal, glyphs))
    first.append(signal.verdict.value, style=VERDICT_STYLES[signal.verdict])
    second = Text("    ")
    second.append(f"{_value(signal, signal.baseline, glyphs)} {glyphs.between} ")
    second.append(_value(signal, signal.candidate, glyphs), style="bold")
    effect = _effect(signal, glyphs)
    if effect:
        second.append(f"   {effect}")
    samples = Text(f"n {_samples(signal, glyphs)}", style="dim")
    first.append(" " * max(2, width - first.cell_len - samples.cell_len))
    first.append_text(samples)
    third = Text("    ")
    columns = 10 if width >= 76 else 4
    for evidence in evidence_of(signal):
        third.append(f"{evidence.label} ", style="dim")
        third.append_text(bar(evidence, glyphs, columns))
        third.append(f" {_against(evidence, glyphs)}".ljust(15))
    third.rstrip()
    return [first, second, third]


def _name(signal: Signal, glyphs: Glyphs) -> Text:
    style = VERDICT_STYLES[signal.verdict]
    name = plain(signal.name)
    text = Text(f"{glyphs.verdicts[signal.verdict]} ", style=style)
    text.append(name if len(name) < _NAME else name[: _NAME - 2] + "~", style=Style(bold=signal.required is not False))
    text.append(" " * max(1, _NAME + 2 - text.cell_len))
    return text


def _value(signal: Signal, side: Side | None, glyphs: Glyphs) -> str:
    if side is None or side.value is None:
        return glyphs.unknown
    return quantity.value(side.value, quantity.unit_of(signal))


def _effect(signal: Signal, glyphs: Glyphs) -> str:
    unit = quantity.unit_of(signal)
    parts = []
    if signal.difference is not None:
        parts.append(quantity.difference(signal.difference, unit, glyphs.minus))
    if signal.interval is not None and (signal.interval.low, signal.interval.high) != (None, None):
        parts.append(quantity.limits(signal.interval.low, signal.interval.high, unit, glyphs.minus))
    return " ".join(parts)


def _against(evidence: Evidence, glyphs: Glyphs) -> str:
    if evidence.now is None:
        return glyphs.unknown
    return f"{quantity.e_value(evidence.now, glyphs.unknown)} / {quantity.e_value(evidence.threshold, glyphs.unknown)}"


def _samples(signal: Signal, glyphs: Glyphs) -> str:
    return glyphs.unknown if signal.samples is None else quantity.count(signal.samples)
