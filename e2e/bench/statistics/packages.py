"""What installed packages say of the same counts; run by the Python that has them, alone: it imports nothing of ours.

``python -P packages.py counts.npz answers.json TOOL...``. Counts become single requests again, good or bad, in any
order within a look. Packages that watch one stream have seen ten minutes of the baseline before.
"""

import importlib
import importlib.metadata
import json
import logging
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any, Final

import numpy as np

#: Looks between two checks of what is asked now and then, and looks of the baseline before.
_CHECK: Final = 30
_BEFORE: Final = 60
_LINES: Final = 12
_SEED: Final = 80
_RUNS: Final = {"river ADWIN": 24, "river Page-Hinkley": 24, "Evidently": 12, "NannyML": 24, "Alibi Detect": 40}

Line = Any
Watch = Callable[[Line, float, Any], int | None]


def river_adwin(line: Line, rate: float, random: Any) -> int | None:
    """ADWIN as it comes, fed with each answer of the candidate."""
    return _fed(importlib.import_module("river.drift").ADWIN(), line, rate, random)


def river_page_hinkley(line: Line, rate: float, random: Any) -> int | None:
    """Page-Hinkley as it comes, upwards, fed with each answer of the candidate."""
    return _fed(importlib.import_module("river.drift").PageHinkley(mode="up"), line, rate, random)


def evidently(line: Line, rate: float, random: Any) -> int | None:
    """Evidently's drift of one column, its own choice of test, the last five minutes of both variants."""
    del rate
    core, metrics = importlib.import_module("evidently"), importlib.import_module("evidently.metrics")
    pandas = importlib.import_module("pandas")
    columns = core.DataDefinition(categorical_columns=["bad"])

    def data(events: int, total: int) -> Any:
        answers = pandas.DataFrame({"bad": _answers(events, total, random)})
        return core.Dataset.from_pandas(answers, data_definition=columns)

    def drifted(sums: Any) -> bool:
        report = core.Report([metrics.ValueDrift(column="bad")])
        found = report.run(data(sums[2], sums[3]), data(sums[0], sums[1])).dict()["metrics"][0]
        method, limit, value = found["config"]["method"], found["config"]["threshold"], found["value"]
        return bool(value < limit if "p_value" in method else value >= limit)

    return _asked(line, drifted)


def alibi(line: Line, rate: float, random: Any) -> int | None:
    """Alibi Detect's Fisher test, p < 5 % shared by all lines, the last five minutes of both variants."""
    del rate
    detectors = importlib.import_module("alibi_detect.cd")

    def drifted(sums: Any) -> bool:
        reference, candidate = _answers(sums[0], sums[1], random), _answers(sums[2], sums[3], random)
        detector = detectors.FETDrift(x_ref=reference, p_val=0.05 / _LINES, alternative="greater")
        return bool(detector.predict(candidate)["data"]["is_drift"])

    return _asked(line, drifted)


def nannyml(line: Line, rate: float, random: Any) -> int | None:
    """NannyML's univariate drift, chunks of five minutes, limits from ten chunks of the baseline."""
    package, pandas = importlib.import_module("nannyml"), importlib.import_module("pandas")
    total = int(line[:, 3].sum())
    size = total * _CHECK // line.shape[0]
    if size < 2:
        return None

    def frame(answers: Any) -> Any:
        return pandas.DataFrame({"bad": np.where(answers, "bad", "good")})

    calculator = package.UnivariateDriftCalculator(column_names=["bad"], treat_as_categorical=["bad"], chunk_size=size)
    calculator.fit(frame(random.random(10 * size) < rate))
    answers = np.concatenate([_answers(look[2], look[3], random) for look in line])
    found = calculator.calculate(frame(answers)).filter(period="analysis").to_df()
    alerts = np.flatnonzero(found["bad"]["jensen_shannon"]["alert"].to_numpy(bool))
    return int(_CHECK * (alerts[0] + 1)) if alerts.size else None


TOOLS: Final[dict[str, tuple[str, Watch]]] = {
    "river ADWIN": ("river", river_adwin),
    "river Page-Hinkley": ("river", river_page_hinkley),
    "Evidently": ("evidently", evidently),
    "NannyML": ("nannyml", nannyml),
    "Alibi Detect": ("alibi-detect", alibi),
}


def _fed(detector: Any, line: Line, rate: float, random: Any) -> int | None:
    before = int(line[:, 3].mean() * _BEFORE)
    for answer in (random.random(before) < rate).astype(int).tolist():
        detector.update(answer)
    for look, counts in enumerate(line, start=1):
        for answer in _answers(counts[2], counts[3], random).tolist():
            detector.update(answer)
            if detector.drift_detected:
                return look
    return None


def _asked(line: Line, drifted: Callable[[Any], bool]) -> int | None:
    for end in range(_CHECK, line.shape[0] + 1, _CHECK):
        sums = line[end - _CHECK : end].sum(axis=0)
        if sums[1] and sums[3] and drifted(sums):
            return end
    return None


def _answers(events: int, total: int, random: Any) -> Any:
    answers = np.zeros(int(total), dtype=np.int64)
    answers[: int(events)] = 1
    random.shuffle(answers)
    return answers


def _answer(tool: str, watch: Watch, data: Any, scale: float) -> dict[str, object]:
    """Return what a tool says of the healthy rollouts, line by line, and of the regressed lines."""
    runs = max(1, min(round(_RUNS[tool] * scale), len(data["healthy"])))
    random, looks = np.random.default_rng(_SEED), data["healthy"].shape[1]
    began = process_time()
    healthy = [
        [watch(run[:, place], data["rates"][place], random) for place in range(run.shape[1])]
        for run in data["healthy"][:runs]
    ]
    spent = (process_time() - began) / (runs * looks * data["healthy"].shape[2])
    regressed = [watch(run, data["rates"][0], random) for run in data["regressed"][: 4 * runs]]
    return {"healthy": healthy, "regressed": regressed, "seconds": spent}


def main(counts: str, answers: str, scale: str, *tools: str) -> None:
    """Ask every tool; what does not work says why."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    data, found = dict(np.load(counts)), {}
    for tool in tools:
        package, watch = TOOLS[tool]
        try:
            version = importlib.metadata.version(package)
            watch(data["healthy"][0][:, 0], data["rates"][0], np.random.default_rng(_SEED))  # imports are not counted
            found[tool] = {"version": version, **_answer(tool, watch, data, float(scale))}
        except Exception as error:  # noqa: BLE001 - whatever a package does, the others are still asked
            found[tool] = {"error": f"{type(error).__name__}: {error}"[:300]}
    Path(answers).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
