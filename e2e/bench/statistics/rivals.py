"""The same counts, judged by other rules and packages: false rollbacks, delay, bad requests, processor time."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import process_time
from typing import Any, Final

import numpy as np

from e2e.bench.statistics.bounds import share_bounds
from e2e.bench.statistics.campaign import Campaign
from e2e.bench.statistics.delays import DOUBLE, Delay, Regression
from e2e.bench.statistics.ingest import FALSE_ROLLBACKS
from e2e.bench.statistics.packages import TOOLS
from e2e.bench.statistics.rivals_environment import NotInstalledError, rivals_python
from e2e.bench.statistics.row import markdown
from e2e.bench.statistics.rules import RULES, Counts, Rule
from e2e.bench.statistics.scene import CUT
from e2e.bench.statistics.system import HALF_AN_HOUR, LINES, first_crossing
from gatestats.odds_ratio import OddsRatioDesign
from gatestats.ticks import TwoArmCounts

_SCRIPT: Final = Path(__file__).with_name("packages.py")
#: Evidence needed, for the plot; the first is Davylamp's.
_EVIDENCE: Final = (1 / FALSE_ROLLBACKS, 3.0, 5.0, 10.0, 20.0, 50.0, 200.0, 500.0, 2000.0)
_NAME: Final = "Davylamp, 24 streams"


@dataclass(frozen=True, slots=True)
class Judged:
    """How a rule did with one limit.

    Parameters
    ----------
    name, limit
        Of the rule.
    runs, false
        Healthy rollouts of half an hour, and how many of them were rolled back.
    delay, missed
        Mean looks from the first bad answer to the rollback, at most half an hour, and the share that was missed.
    bad
        Mean bad answers of the candidate beyond the baseline's share until then.
    microseconds
        Processor time for one line in one look.
    note
        What went wrong.
    """

    name: str
    limit: float
    runs: int = 0
    false: int = 0
    delay: float | None = None
    missed: float | None = None
    bad: float | None = None
    microseconds: float | None = None
    note: str = ""

    @property
    def thousand(self) -> float:
        """False rollbacks per 1,000 healthy rollouts."""
        return 1000 * self.false / self.runs if self.runs else float("nan")


def judged(campaign: Campaign, delay: Delay) -> list[Judged]:
    """Return how every rule and package did; the first of each name is the rule as it is used."""
    healthy = [run.counts for run in campaign.equal()]
    runs = delay.runs(Regression(DOUBLE, series=20))
    regressed = [run.counts[:HALF_AN_HOUR] for run in runs]
    found = [_davylamp(campaign, delay, limit) for limit in _EVIDENCE]
    for rule in RULES:
        found += _by_rule(rule, healthy[: max(1, len(healthy) // rule.fewer)], regressed)
    return found + _by_packages(campaign, healthy, regressed)


def table(found: Sequence[Judged]) -> str:
    """Return the table for people: each rule as it is used."""
    first = {each.name: each for each in reversed(found)}
    cells = []
    for each in (each for each in found if first[each.name] is each):
        if each.note:
            cells.append((each.name, each.note, "", "", "", ""))
            continue
        low, high = (1000 * bound for bound in share_bounds(each.false, each.runs))
        cells.append(
            (
                each.name,
                f"{each.thousand:.0f} ({low:.0f} to {high:.0f}; {each.runs} runs)",
                f"{each.delay:.0f}",
                f"{each.missed:.0%}",
                f"{each.bad:.0f}",
                f"{each.microseconds:.2g}"
                if each.microseconds and each.microseconds < 10
                else f"{each.microseconds:.0f}",
            )
        )
    head = ("rule", "false rollbacks per 1,000", "delay, looks", "missed in 30 min", "bad answers", "µs a stream-look")
    return markdown(head, cells)


def plain(found: Sequence[Judged]) -> list[dict[str, object]]:
    """Return all of it for JSON."""
    return [{**asdict(each), "falsePerThousand": each.thousand if each.runs else None} for each in found]


def _davylamp(campaign: Campaign, delay: Delay, limit: float) -> Judged:
    threshold = float(np.log(limit))
    runs = campaign.equal()
    false = sum(bool((run.mean >= threshold).any()) for run in runs)
    regressed = delay.runs(Regression(DOUBLE, series=20))
    looks = [first_crossing(delay.system(run, place)[:HALF_AN_HOUR], threshold) for place, run in enumerate(regressed)]
    spent = _update_time() if limit == _EVIDENCE[0] else None
    return Judged(_NAME, limit, len(runs), false, *_harm(looks), microseconds=spent)


def _by_rule(rule: Rule, healthy: Sequence[Counts], regressed: Sequence[Counts]) -> list[Judged]:
    began = process_time()
    paths = [rule.paths(counts) for counts in healthy]
    spent = 1e6 * (process_time() - began) / (len(paths) * paths[0].size)
    theirs = [rule.paths(counts[:, None])[:, 0] for counts in regressed]
    found = []
    for limit in rule.limits:
        false = sum(bool((path >= limit).any()) for path in paths)
        looks = [first_crossing(path, limit) for path in theirs]
        found.append(Judged(rule.name, limit, len(paths), false, *_harm(looks), microseconds=spent))
    return found


def _harm(looks: Sequence[int | None]) -> tuple[float, float, float]:
    """Return mean delay, share missed, and mean bad answers too many, of a regression at 10 % of 50 a second."""
    ends = np.array([HALF_AN_HOUR if look is None else look for look in looks], dtype=np.float64)
    too_many = 0.01 * DOUBLE.requests * 10 * 0.1
    delay = float((ends - CUT).mean())
    return delay, sum(look is None for look in looks) / len(looks), too_many * float(ends.mean())


def _by_packages(campaign: Campaign, healthy: Sequence[Counts], regressed: Sequence[Counts]) -> list[Judged]:
    try:
        python = rivals_python(_say)
    except NotInstalledError as error:
        return [Judged(tool, 0.0, note=str(error).splitlines()[0][:160]) for tool in TOOLS]
    with tempfile.TemporaryDirectory() as folder:
        counts = Path(folder, "counts.npz")
        rates = np.array([line.rate for line in LINES])
        np.savez(counts, healthy=np.array(healthy[:60]), regressed=np.array(regressed[:160]), rates=rates)
        groups = (("river ADWIN", "NannyML"), ("river Page-Hinkley", "Evidently", "Alibi Detect"))
        running = []
        for place, group in enumerate(groups):
            answers = Path(folder, f"answers-{place}.json")
            command = [str(python), "-P", str(_SCRIPT), str(counts), str(answers), str(campaign.scale), *group]
            running.append((subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE), answers))
            if campaign.workers < 2:
                running[-1][0].wait()
        found: dict[str, Any] = {}
        for process, answers in running:
            _, said = process.communicate()
            if process.returncode:
                raise RuntimeError(f"packages could not be asked: {said.decode()[-500:]}")
            found |= json.loads(answers.read_text("utf-8"))
    return [_judged_package(tool, found[tool]) for tool in TOOLS]


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _judged_package(tool: str, answer: dict[str, Any]) -> Judged:
    if "error" in answer:
        return Judged(tool, 0.0, note=f"not to be had here: {answer['error']}")
    false = sum(any(look is not None for look in run) for run in answer["healthy"])
    name = f"{tool} {answer['version']}"
    spent = 1e6 * answer["seconds"]
    return Judged(name, 0.0, len(answer["healthy"]), false, *_harm(answer["regressed"]), microseconds=spent)


def _update_time() -> float:
    design, random, looks = OddsRatioDesign(), np.random.default_rng(52), 300
    ticks = [
        TwoArmCounts(int(random.binomial(450, 0.01)), 450, int(random.binomial(50, 0.01)), 50) for _ in range(looks)
    ]
    state, began = design.start(), process_time()
    for tick in ticks:
        state = design.update(state, tick)
    return 1e6 * (process_time() - began) / looks
