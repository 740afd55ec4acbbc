"""How much sooner pairs with labels find a loss of 3 points in a slice than a canary of 10 % on the same requests.

    pairs    both variants' decisions and the labels go through the join of labels (SQLite), its counters as they are
             exported become the operator's evidence on the slice, and the operator's judgement decides
    canary   a tenth of the same requests is answered by the candidate; false negatives among the slice's positives of
             both variants are compared by the operator's test for shares, with the same margin, and with the weight
             that both gates together have which see these requests by pairs

A look every 10 s; 60 requests a second, a third of them of the slice, 30 % of these positive; the baseline is right on
90 % of the positives, the candidate loses 4.5 % of all positives and wins 1.5 %. Labels come a look late. Ratios of
means over the same requests; a canary that finds nothing counts with the longest time, which bounds the ratio from
below.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import numpy as np

from davylamp.core.evidence import Evidence, begin
from davylamp.core.judge import judge, stream_weights
from davylamp.core.looking import advance
from davylamp.core.model import NONE, Attempt, Progress, Variant
from davylamp.core.plan import Plan
from davylamp.core.reading import Reading, SignalReading, Target
from davylamp.core.slice_gates import labelled
from davylamp.labels.database import Database
from davylamp.labels.exposition import families, read_counts
from davylamp.labels.outcomes import Answer, Pair
from davylamp.labels.records import Cell, Label, Prediction, Terms
from davylamp.labels.store import Store
from davylamp.runtime.blueprint import blueprint
from e2e.stage.manifests import model_rollout
from gatestats.counters import Sample
from gatestats.rates import AbsoluteRateDesign
from gatestats.ticks import TwoArmCounts, Worse

_BEGIN: Final = datetime(2026, 1, 1, tzinfo=UTC)
_LOOK: Final = timedelta(seconds=10)
_MARGIN: Final = 0.005
_SLICE: Final = "sex=Female"
#: Positives of the slice in one look: 600 requests, a third, 30 %.
_POSITIVES: Final = 60
_LONGEST: Final = 2000
_RESULTS: Final = {"both": "both_right", "lost": "baseline_right", "won": "candidate_right"}


class _Nothing:
    def find(self, *_: object) -> None:
        return None


@dataclass(frozen=True, slots=True)
class Run:
    """Looks until either has decided; the canary's may be `_LONGEST`."""

    pairs: int
    canary: int


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; 0 whatever it measures."""
    parser = argparse.ArgumentParser(prog="python -m e2e.bench.paired_slices", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20, help="rollouts (default 20)")
    parser.add_argument("--report", type=Path, help="write the figures as JSON, too")
    wanted = parser.parse_args(arguments)
    found = []
    for number in range(wanted.runs):
        found.append(_run(number))
        sys.stdout.write(f"{number + 1} of {wanted.runs}: pairs {found[-1].pairs} looks, canary {found[-1].canary}\n")
        sys.stdout.flush()
    means = [float(np.mean([getattr(run, name) for run in found])) for name in ("pairs", "canary")]
    chance = np.random.default_rng(0)
    drawn = [[found[each] for each in chance.integers(0, len(found), len(found))] for _ in range(2000)]
    ratios = [sum(run.canary for run in runs) / sum(run.pairs for run in runs) for runs in drawn]
    figures = {
        "pairs_looks": means[0],
        "canary_looks": means[1],
        "canary_missed": sum(run.canary >= _LONGEST for run in found),
        "ratio": means[1] / means[0],
        "ratio_low": float(np.quantile(ratios, 0.05)),
        "runs": wanted.runs,
    }
    sys.stdout.write(
        f"\npairs {means[0]:.1f} looks, canary {means[1]:.1f} looks: {figures['ratio']:.1f} times sooner "
        f"(one-sided 95 % bound {figures['ratio_low']:.1f}), {wanted.runs} rollouts\n"
    )
    if wanted.report:
        wanted.report.write_text(json.dumps(figures, indent=2) + "\n", "utf-8")
    return 0


def _plan() -> Plan:
    manifest = model_rollout(
        "ml",
        "income",
        baseline="fp32",
        candidate="pruned",
        steps=[{"shadow": {"minPairs": 1_000_000}}, {"weight": 10}],
        slices={
            "attributes": [{"name": "sex", "header": "x-sex", "values": ["Female", "Male"], "protected": False}],
            "gates": [{"metric": "truePositiveRate", "maxDrop": {"absolute": f"{100 * _MARGIN:g}%"}}],
        },
    )
    manifest["spec"]["signals"]["source"] = "default"
    return blueprint(manifest, _Nothing()).plan


def _run(seed: int) -> Run:
    plan, chance = _plan(), np.random.default_rng(seed)
    kinds = [chance.multinomial(_POSITIVES, (0.855, 0.045, 0.015, 0.085)) for _ in range(_LONGEST)]
    with tempfile.TemporaryDirectory() as folder:
        pairs = _until_judged(plan, kinds, f"sqlite:///{folder}/labels.db")
    return Run(pairs, _until_canary(plan, kinds, chance))


def _until_judged(plan: Plan, kinds: Sequence[Any], url: str) -> int:
    """Return the looks until the operator takes the candidate back."""
    progress = Progress(
        attempt=Attempt("a-1", 1, plan.candidate_digest, plan.spec_hash, _BEGIN, plan.pair), step=0, requested=NONE
    )
    database = Database(url)
    try:
        database.prepare()
        store, evidence, waiting = Store(database, Terms()), begin(plan), list[Label]()
        seen: dict[str, dict[Variant, list[tuple[float, int, int]]]] = {}
        for number, counts in enumerate(kinds, 1):
            now = _BEGIN + number * _LOOK
            predictions, labels = _requests(number, counts)
            store.take([*predictions, *waiting], now)
            waiting = labels
            with database.engine.begin() as connection:
                exported = _exported(families(read_counts(connection, _BEGIN)))
            _note(seen, exported, now)
            evidence = _looked((plan, progress), evidence, seen, now)
            judgement, _ = judge(plan, evidence)
            if judgement.regressed:
                return number
    finally:
        database.close()
    return _LONGEST


def _requests(number: int, counts: Any) -> tuple[list[Prediction], list[Label]]:
    """Return one look's positives of the slice: both right, lost, won, both wrong."""
    said = [(True, True)] * int(counts[0]) + [(True, False)] * int(counts[1]) + [(False, True)] * int(counts[2])
    said += [(False, False)] * (_POSITIVES - len(said))
    cell = Cell("ml", "income", "a-1", "0")
    predictions = [
        Prediction(
            f"{number}-{place}",
            cell,
            (_SLICE,),
            Pair(Answer("1" if first else "0", None), Answer("1" if second else "0", None), "1"),
        )
        for place, (first, second) in enumerate(said)
    ]
    return predictions, [Label(each.id, "1", None) for each in predictions]


def _exported(metrics: Iterator[Any]) -> Mapping[tuple[str, str, str], int]:
    """Return the exported pairs by slice, label and result."""
    samples = (sample for metric in metrics if metric.name == "davylamp_label_pairs" for sample in metric.samples)
    return {(each.labels["slice"], each.labels["label"], each.labels["result"]): int(each.value) for each in samples}


def _note(
    seen: dict[str, dict[Variant, list[tuple[float, int, int]]]],
    exported: Mapping[tuple[str, str, str], int],
    now: datetime,
) -> None:
    """Add one scrape to what was seen of each signal."""
    for part in {part for part, _, _ in exported}:
        for name, result in _RESULTS.items():
            arms = seen.setdefault(labelled(part, name), {variant: [] for variant in Variant})
            for variant, text in ((Variant.CANDIDATE, "positive"), (Variant.BASELINE, "negative")):
                mine = {key[2]: value for key, value in exported.items() if key[:2] == (part, text)}
                arms[variant].append((now.timestamp(), mine.get(result, 0), sum(mine.values())))


def _looked(
    judged: tuple[Plan, Progress],
    evidence: Evidence,
    seen: Mapping[str, Mapping[Variant, list[tuple[float, int, int]]]],
    now: datetime,
) -> Evidence:
    signals = {
        name: SignalReading(
            {
                variant: (
                    Target(
                        "labels",
                        {"e": tuple(Sample(at, events) for at, events, _ in rows[-3:])},
                        {"t": tuple(Sample(at, total) for at, _, total in rows[-3:])},
                    ),
                )
                for variant, rows in arms.items()
            }
        )
        for name, arms in seen.items()
    }
    return replace(advance(*judged, evidence, (Reading(signals), (now - _LOOK, now))), as_of=now)


def _until_canary(plan: Plan, kinds: Sequence[Any], chance: np.random.Generator) -> int:
    """Return the looks until a canary of 10 % with labels has the evidence that the slice's gate would need alone."""
    design = AbsoluteRateDesign(_MARGIN, Worse.HIGHER, plan.planned_looks)
    evidence = begin(plan)
    weights = stream_weights(plan, evidence.streams)
    weight = weights["truePositiveRate"] + weights[f"truePositiveRate[{_SLICE}]"]
    needed = judge(plan, evidence)[0].log_threshold - float(np.log(weight))
    state = design.start()
    for number, counts in enumerate(kinds, 1):
        shown = [int(chance.binomial(int(each), 0.1)) for each in counts]
        rest = [int(each) - mine for each, mine in zip(counts, shown, strict=True)]
        state = design.update(state, TwoArmCounts(rest[2] + rest[3], sum(rest), shown[1] + shown[3], sum(shown)))
        if design.log_e(state) >= needed:
            return number
    return _LONGEST


if __name__ == "__main__":
    sys.exit(main())
