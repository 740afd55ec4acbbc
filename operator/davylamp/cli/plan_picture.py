"""A forecast as a picture: the chance that a regression is found, and a healthy variant promoted, over time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING, Final

import numpy as np

from davylamp.offline.prediction import Forecast
from davylamp.wording import shortened

if TYPE_CHECKING:
    from davylamp.offline.arrival import Arrival

_WIDTH: Final = 880
_HEIGHT: Final = 420
_LEFT: Final = 64
_RIGHT: Final = 216
_TOP: Final = 48
_BOTTOM: Final = 56
#: Told apart by people who see colours differently (Okabe and Ito).
_COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
_POINTS: Final = 240
_STYLE: Final = "font-family: system-ui, sans-serif; font-size: 13px; fill: #333"


def picture(title: str, seen: Forecast) -> str:
    """Return an SVG of a forecast; it loads nothing.

    Parameters
    ----------
    title
        Of the rollout.
    seen
        The forecast.
    """
    curves = [("a healthy variant promoted", seen.promotion)]
    seeing = [gate for gate in seen.gates if not gate.trouble]
    curves += [(f"{shortened(gate.gate.name, 16)} 2x worse found", gate.at(2.0).arrival) for gate in seeing]
    ends = [arrival.quantile(0.95) for _, arrival in curves]
    end = min(seen.timeline.end, max([seen.timeline.ladder, *(at for at in ends if math.isfinite(at))]) * 1.1)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" style="{_STYLE}" role="img">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>',
        f'<text x="{_LEFT}" y="24" font-size="16" font-weight="600">{escape(title)}: what its gates see</text>',
        *_ladder(seen, end),
        *_axes(seen, end),
    ]
    for place, (label, arrival) in enumerate(curves):
        parts += _curve(label, arrival, end, place)
    return "\n".join([*parts, "</svg>", ""])


def _x(looks: float, end: float) -> float:
    return _LEFT + (_WIDTH - _LEFT - _RIGHT) * min(1.0, looks / end)


def _y(chance: float) -> float:
    return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - chance)


def _ladder(seen: Forecast, end: float) -> Iterator[str]:
    """Yield the weights as bars behind the curves."""
    start = 0.0
    for index, stage in enumerate(seen.timeline.stages):
        last = index == len(seen.timeline.stages) - 1
        stop = end if last else min(end, start + stage.looks)
        if start >= end:
            return
        left, right, top = _x(start, end), _x(stop, end), _y(stage.weight)
        yield (
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" height="{_y(0) - top:.1f}" fill="#eef1f5"/>'
        )
        yield f'<text x="{left + 4:.1f}" y="{top - 4:.1f}" font-size="11" fill="#778">{100 * stage.weight:.0f} %</text>'
        start = stop


def _axes(seen: Forecast, end: float) -> Iterator[str]:
    for tenth in range(0, 11, 2):
        height = _y(tenth / 10)
        yield f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{height:.1f}" y2="{height:.1f}" stroke="#ddd"/>'
        yield f'<text x="{_LEFT - 8}" y="{height + 4:.1f}" text-anchor="end">{10 * tenth} %</text>'
    minutes = end * seen.plan.interval.total_seconds() / 60
    step = _round_step(minutes / 6)
    for mark in np.arange(0, minutes + 1e-9, step):
        place = _x(end * float(mark) / minutes, end)
        yield f'<text x="{place:.1f}" y="{_y(0) + 20:.1f}" text-anchor="middle">{mark:g}</text>'
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    yield f'<text x="{middle:.0f}" y="{_HEIGHT - 12}" text-anchor="middle">minutes of traffic; bars: weight</text>'


def _curve(label: str, arrival: Arrival, end: float, place: int) -> Iterator[str]:
    colour = _COLOURS[place % len(_COLOURS)]
    looks = np.linspace(0, end, _POINTS)
    points = " ".join(f"{_x(float(at), end):.1f},{_y(arrival.by(float(at))):.1f}" for at in looks)
    dashes = ' stroke-dasharray="6 4"' if place == 0 else ""
    yield f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2.5"{dashes}/>'
    left, top = _WIDTH - _RIGHT + 16, _TOP + 8 + 22 * place
    yield f'<line x1="{left}" x2="{left + 22}" y1="{top}" y2="{top}" stroke="{colour}" stroke-width="2.5"{dashes}/>'
    yield f'<text x="{left + 28}" y="{top + 4}" font-size="12">{escape(label)}</text>'


def _round_step(least: float) -> float:
    """Return the next of 1, 2, 5, 10, 20, … from ``least`` (> 0) up."""
    size = 10.0 ** math.floor(math.log10(least))
    return next(factor * size for factor in (1, 2, 5, 10) if factor * size >= least)
