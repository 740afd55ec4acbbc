"""One line of the result."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """A target, and what came out.

    Parameters
    ----------
    id
        Of the target, with a letter for each of its parts.
    target
        What is asked for, in words.
    measured, upper_bound
        The figure, and its one-sided 95 % bound on the side that matters; None where there is none.
    passed
        Whether it was reached.
    unit
        What the figures are in.
    note
        Number of runs, and what should be known.
    """

    id: str
    target: str
    measured: float | None
    upper_bound: float | None
    passed: bool
    unit: str = ""
    note: str = ""

    def to_plain(self) -> dict[str, object]:
        """Return it for JSON."""
        return {
            "id": self.id,
            "target": self.target,
            "measured": self.measured,
            "upper_bound": self.upper_bound,
            "pass": self.passed,
            "unit": self.unit,
            "note": self.note,
        }


def shown(value: float | None, unit: str) -> str:
    """Return a figure for people."""
    if value is None:
        return "–"
    if unit == "%":
        return f"{value:.2%}"
    return f"{value:.3g} {unit}".rstrip()


def table(rows: Sequence[Row]) -> str:
    """Return all rows as a table in Markdown, which a terminal shows as well."""
    cells = [
        (row.id, row.target, shown(row.measured, row.unit), shown(row.upper_bound, row.unit), _word(row), row.note)
        for row in rows
    ]
    return markdown(("id", "target", "measured", "95 % bound", "reached", "runs, remarks"), cells)


def markdown(head: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown with aligned columns."""
    lines = [list(head), *(list(row) for row in cells)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    lines.insert(1, ["-" * width for width in widths])
    rows = (" | ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)) for line in lines)
    return "\n".join(f"| {row} |" for row in rows)


def _word(row: Row) -> str:
    return "yes" if row.passed else "NO"
