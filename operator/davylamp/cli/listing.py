"""Rollouts as a table."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rich.text import Text

from davylamp.cli import quantity
from davylamp.cli.glyphs import PHASE_STYLES
from davylamp.cli.sight import Sight

_GAP = 3


def table(rollouts: Sequence[Sight], now: datetime, *, namespaces: bool, wide: bool) -> Text:
    """Return one line for each rollout below a heading, never cut: scripts read it too.

    Parameters
    ----------
    rollouts
        What is listed.
    now
        Time of the listing, UTC.
    namespaces, wide
        Whether these columns are there.
    """
    rows = [_heading(namespaces=namespaces, wide=wide)]
    rows += [_row(seen, now, namespaces=namespaces, wide=wide) for seen in rollouts]
    widths = [max(cell.cell_len for cell in column) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        line = Text()
        for cell, width in zip(row, widths, strict=True):
            line.append_text(cell).append(" " * (width - cell.cell_len + _GAP))
        line.rstrip()
        lines.append(line)
    return Text("\n").join(lines)


def _heading(*, namespaces: bool, wide: bool) -> list[Text]:
    names = ["NAMESPACE"] if namespaces else []
    names += ["NAME", "PHASE", "STEP", "WEIGHT", "VERDICT", "AGE"]
    names += ["BASELINE", "CANDIDATE", "REASON"] if wide else []
    return [Text(name, style="bold") for name in names]


def _row(seen: Sight, now: datetime, *, namespaces: bool, wide: bool) -> list[Text]:
    status = seen.status
    cells = [seen.namespace] if namespaces else []
    cells += [
        seen.name,
        status.phase.value if status.phase else "",
        status.step.summary if status.step else "",
        str(status.weight.requested) if status.weight else "",
        status.verdict.value if status.verdict else "",
        quantity.age(seen.created, now) if seen.created else "",
    ]
    cells += [seen.baseline, seen.candidate, status.reason or ""] if wide else []
    row = [Text(cell or "-") for cell in cells]
    if status.phase:
        row[1 + namespaces].stylize(PHASE_STYLES[status.phase])
    return row
