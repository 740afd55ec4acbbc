"""Delay against false rollbacks, rule by rule, as SVG: lines where a limit can be turned, points where it cannot."""

import math
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Final

from e2e.bench.statistics.rivals import Judged
from e2e.bench.statistics.system import HALF_AN_HOUR

_WIDTH, _HEIGHT = 1010, 540
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 380, 30, 60
#: Rules without a false rollback in any run are drawn here, per 1,000.
_LEAST: Final = 0.5
_MOST: Final = 1000.0
_COLOURS: Final = (
    "#0b6e4f", "#c1121f", "#e07a5f", "#3d5a80", "#98c1d9", "#8338ec", "#ff9f1c", "#6c757d",
    "#b5838d", "#2a9d8f", "#e9c46a", "#9d4edd", "#457b9d", "#606c38",
)  # fmt: skip


def draw(found: Sequence[Judged], file: Path) -> None:
    """Write the plot.

    Parameters
    ----------
    found
        What came out; the first of each name is the rule as it is used, drawn larger.
    file
        Where to.
    """
    rules: dict[str, list[Judged]] = {}
    for each in found:
        if each.delay is not None:
            rules.setdefault(each.name, []).append(each)
    parts = [*_axes()]
    for place, (name, points) in enumerate(rules.items()):
        parts += _rule(name, points, place)
    body = "\n".join(parts)
    file.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" '
        f'font-size="13">\n<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>\n{body}\n</svg>\n',
        encoding="utf-8",
    )


def _axes() -> list[str]:
    parts = []
    for per_thousand in (0.5, 1, 3, 10, 30, 100, 300, 1000):
        x = _across(per_thousand)
        word = "0" if per_thousand == _LEAST else f"{per_thousand:g}"
        parts += [_line((x, _TOP), (x, _HEIGHT - _BOTTOM)), _text(x, _HEIGHT - _BOTTOM + 18, word, "middle")]
    for looks in range(0, HALF_AN_HOUR + 1, 30):
        y = _down(looks)
        parts += [_line((_LEFT, y), (_WIDTH - _RIGHT, y)), _text(_LEFT - 8, y + 4, f"{looks}", "end")]
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    under = "false rollbacks per 1,000 healthy rollouts of 30 min (0: none in any run)"
    parts += [
        _text(middle, _HEIGHT - 18, under, "middle"),
        _text(_LEFT - 50, _TOP - 10, "mean looks of 10 s until 1 % → 2 % errors are found, at most 180", "start"),
    ]
    return parts


def _rule(name: str, points: Sequence[Judged], place: int) -> list[str]:
    colour, used = _COLOURS[place % len(_COLOURS)], points[0]
    spots = sorted((_across(each.thousand), _down(each.delay or 0.0)) for each in points)
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
    y = _TOP + 14 + 22 * place
    return [
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>',
        *(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>' for x, y in spots),
        f'<circle cx="{_across(used.thousand):.1f}" cy="{_down(used.delay or 0.0):.1f}" r="6" fill="{colour}"/>',
        f'<circle cx="{_WIDTH - _RIGHT + 24}" cy="{y - 4}" r="6" fill="{colour}"/>',
        _text(_WIDTH - _RIGHT + 36, y, name, "start"),
    ]


def _across(per_thousand: float) -> float:
    part = math.log(max(per_thousand, _LEAST) / _LEAST) / math.log(_MOST / _LEAST)
    return _LEFT + part * (_WIDTH - _RIGHT - _LEFT)


def _down(looks: float) -> float:
    return _HEIGHT - _BOTTOM - looks / HALF_AN_HOUR * (_HEIGHT - _BOTTOM - _TOP)


def _line(start: tuple[float, float], end: tuple[float, float]) -> str:
    return f'<line x1="{start[0]:.1f}" y1="{start[1]:.1f}" x2="{end[0]:.1f}" y2="{end[1]:.1f}" stroke="#ddd"/>'


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'
