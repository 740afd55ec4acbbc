"""T2, T3, T4: how long a regression stays, against tests that know more."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from e2e.bench.statistics.bounds import ratio_of_means
from e2e.bench.statistics.campaign import Campaign
from e2e.bench.statistics.row import Row
from e2e.bench.statistics.scene import CUT, FloatArray, Line, Scene
from e2e.bench.statistics.system import (
    LONGEST,
    STREAM_THRESHOLD,
    THRESHOLD,
    Alone,
    alone,
    first_crossing,
    mean_evidence,
)

_RUNS: Final = 200


def odds(before: float, after: float) -> float:
    """Return the odds ratio of two shares."""
    return after / (1 - after) / (before / (1 - before))


@dataclass(frozen=True, slots=True)
class Regression:
    """A regressed line: its shares, the weight in per cent, the look at which it begins, all looks, those planned."""

    line: Line
    weight: int = 10
    late: int = 0
    looks: int = 260
    series: int = 20
    planned: int | None = None

    @property
    def scene(self) -> Scene:
        """What is simulated."""
        return Scene((self.line,), self.looks, ((0, self.weight),), late=self.late, planned=self.planned)


DOUBLE: Final = Line(50, 0.01, odds(0.01, 0.02))
FIVEFOLD: Final = Line(50, 0.01, odds(0.01, 0.05))
SLICE: Final = Line(5, 0.01, odds(0.01, 0.05))
_APART: Final = Line(50, 0.01, odds(0.01, 0.02), servers=(3, 2))
_RARE: Final = Line(50, 0.001, odds(0.001, 0.003))
_HALF_MORE: Final = Line(50, 0.01, odds(0.01, 0.015))

Path = Callable[[Alone, int], NDArray[np.floating]]


@dataclass(frozen=True, slots=True)
class Delays:
    """Ticks from the change to the alarm, by run; inf where it never came, NaN where it came before the change."""

    ticks: FloatArray

    @property
    def misses(self) -> int:
        """Runs in which it never came."""
        return int(np.isinf(self.ticks).sum())

    @property
    def early(self) -> int:
        """Runs in which it came before the change."""
        return int(np.isnan(self.ticks).sum())

    def at_most(self, limit: float) -> FloatArray:
        """Return them without early ones, and misses at the limit, as a mean restricted to it asks for."""
        return np.minimum(self.ticks[~np.isnan(self.ticks)], limit)


def measured(runs: Sequence[Alone], regression: Regression, path: Path, threshold: float) -> Delays:
    """Return the delays of a test over all runs."""
    begin, found = max(regression.late, CUT), []
    for number, run in enumerate(runs):
        look = first_crossing(path(run, number), threshold)
        if look is None:
            found.append(np.inf)
        else:
            found.append(np.nan if look <= regression.late else float(look - begin))
    return Delays(np.array(found))


class Delay:
    """Measures the delays of a campaign; every kind of run is made once.

    Parameters
    ----------
    campaign
        Where they run.
    """

    def __init__(self, campaign: Campaign) -> None:
        self.campaign = campaign
        self._kept: dict[tuple[Regression, float], list[Alone]] = {}

    def runs(self, regression: Regression, margin: float = 1.0) -> list[Alone]:
        """Return the runs of a regression."""
        key = regression, margin
        if key not in self._kept:
            line = regression.line
            name = f"{line.rate:.1%} at odds {line.odds:.3g}, {regression.weight} %, from look {regression.late}"
            run = partial(alone, regression.scene, margin)
            self._kept[key] = self.campaign.each(name, run, _RUNS, regression.series)
        return self._kept[key]

    def system(self, run: Alone, number: int) -> NDArray[np.floating]:
        """Return the evidence of the whole system in which this line has regressed."""
        return mean_evidence(run, self.campaign.others(number))

    def rows(self) -> list[Row]:
        """Measure T2, T3 and T4."""
        return [*self._from_the_start(), *self._late(), self._uncorrected()]

    def _from_the_start(self) -> list[Row]:
        double, fivefold = Regression(DOUBLE, series=20), Regression(FIVEFOLD, looks=120, series=21)
        part, apart = Regression(SLICE, looks=420, series=22), Regression(_APART, looks=300, series=23)
        half = Regression(DOUBLE, weight=50, looks=120, series=24)
        rare, weak = Regression(_RARE, looks=700, series=25), Regression(_HALF_MORE, looks=900, series=26)
        whole, single = (self.system, THRESHOLD), (_higher, THRESHOLD)
        conditional = (_conditional, THRESHOLD)
        bar = "× the SPRT that knows the odds ratio, same budget"
        return [
            self._ratio(("T2a", f"system, errors 1→2 %: ≤ 1.25 {bar}"), double, whole),
            self._ratio(("T2b", f"system, errors 1→5 %: ≤ 1.25 {bar}"), fivefold, whole),
            self._ratio(("T2c", f"system, a slice of 5 a second, 1→5 %: ≤ 1.25 {bar}"), part, whole),
            self._ratio(("T2d", f"system, errors 1→2 %, pods scraped apart: ≤ 1.25 {bar}"), apart, whole),
            self._ratio(("T2e", f"one stream, 1→2 %: ≤ 1.2 {bar}"), double, single, conditional, most=1.2),
            self._ratio(("T2f", f"one stream, 1→2 %, weight 50 %: ≤ 1.2 {bar}"), half, single, conditional, most=1.2),
            self._ratio(("T2g", f"one stream, 1→1.5 %: ≤ 1.2 {bar}"), weak, single, conditional, most=1.2),
            self._ratio(("T2h", f"one stream, 0.1→0.3 %: ≤ 1.2 {bar}"), rare, single, conditional, most=1.2),
            self._ratio(
                ("T2i", "one stream that cares most about 2×, 1→2 %: ≤ 1.3 × the SPRT that knows both rates"),
                double,
                (_favoured, THRESHOLD),
                (_knowing, THRESHOLD),
                most=1.3,
            ),
        ]

    def _ratio(
        self,
        names: tuple[str, str],
        regression: Regression,
        ours: tuple[Path, float],
        theirs: tuple[Path, float] | None = None,
        *,
        most: float = 1.25,
    ) -> Row:
        runs = self.runs(regression)
        mine = measured(runs, regression, *ours)
        known = measured(runs, regression, *(theirs or (_conditional, STREAM_THRESHOLD)))
        limit = regression.looks - CUT
        ratio, _, bound = ratio_of_means(mine.at_most(limit), known.at_most(limit))
        return Row(*names, ratio, bound, ratio <= most, "", _described(mine, known, limit))

    def _late(self) -> list[Row]:
        first = Regression(DOUBLE, series=20)
        known = measured(self.runs(first), first, _conditional, STREAM_THRESHOLD).at_most(first.looks)
        rows, means = [], []
        for name, late, looks, words in (
            ("T3a", 90, 340, "15 min"),
            ("T3b", 360, 620, "1 h"),
            ("T3c", 1080, LONGEST, "3 h"),
        ):
            late_one = Regression(DOUBLE, late=late, looks=looks, series=27, planned=LONGEST)
            mine = measured(self.runs(late_one), late_one, self.system, THRESHOLD)
            rows.append(_late_row((name, f"errors 1→2 % after {words}"), mine, known, looks - late))
            means.append(mine.at_most(looks - late))
        first = Regression(FIVEFOLD, looks=120, series=21)
        known = measured(self.runs(first), first, _conditional, STREAM_THRESHOLD).at_most(first.looks)
        late_one = Regression(FIVEFOLD, late=90, looks=220, series=28, planned=LONGEST)
        mine = measured(self.runs(late_one), late_one, self.system, THRESHOLD)
        rows.append(_late_row(("T3d", "errors 1→5 % after 15 min"), mine, known, 130))
        size = min(means[0].size, means[2].size)
        growth, _, bound = ratio_of_means(means[2][:size], means[0][:size])
        target = "growth of the delay from 15 min to 3 h: ≤ 1.1 ×"
        note = "mean of T3c over mean of T3a"
        return [*rows, Row("T3e", target, growth, bound, growth <= 1.1, "", note)]

    def _uncorrected(self) -> Row:
        regression = Regression(DOUBLE, series=20)
        target = "24 streams against the SPRT of one metric that pays for no other: ≤ 1.75 ×"
        return self._ratio(("T4", target), regression, (self.system, THRESHOLD), (_conditional, THRESHOLD), most=1.75)


def _higher(run: Alone, number: int) -> NDArray[np.floating]:
    del number
    return run.higher


def _favoured(run: Alone, number: int) -> NDArray[np.floating]:
    del number
    return run.favoured


def _conditional(run: Alone, number: int) -> NDArray[np.floating]:
    del number
    return run.conditional


def _knowing(run: Alone, number: int) -> NDArray[np.floating]:
    del number
    return run.knowing


def _described(mine: Delays, known: Delays, limit: int) -> str:
    ticks, theirs = mine.at_most(limit), known.at_most(limit)
    text = f"{ticks.mean():.1f} against {theirs.mean():.1f} ticks, q90 {np.quantile(ticks, 0.9):.0f}; {ticks.size} runs"
    return f"{text}, {mine.misses} missed" if mine.misses else text


def _late_row(names: tuple[str, str], mine: Delays, known: FloatArray, limit: int) -> Row:
    ticks = mine.at_most(limit)
    size = min(ticks.size, known.size)
    ratio, _, bound = ratio_of_means(ticks[:size], known[:size])
    most = max(1.6, 1 + 5 / float(known.mean()))
    target = f"system, {names[1]}: ≤ 1.6 × the SPRT that knows of it from the start, or 5 ticks more"
    note = f"{ticks.mean():.1f} against {known.mean():.1f} ticks, q90 {np.quantile(ticks, 0.9):.0f}, at most "
    note += f"{most:.2f}; {ticks.size} runs, {mine.misses} missed, {mine.early} rolled back before"
    return Row(names[0], target, ratio, bound, ratio <= most, "", note)
