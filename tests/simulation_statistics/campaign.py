"""More runs than a test has time for: ``python -m tests.simulation_statistics.campaign SCENARIO RUNS [FIRST_SEED]``."""

import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np
from scipy.stats import beta

from tests.simulation_statistics.rollout import Outcome
from tests.simulation_statistics.scenarios import SCENARIOS


def upper_bound(events: int, runs: int) -> float:
    """Return the one-sided 95 % Clopper-Pearson bound of a share."""
    return 1.0 if events == runs else float(beta.ppf(0.95, events + 1, runs - events))


def summary(name: str, outcomes: list[Outcome]) -> str:
    """Return what came out, in one line."""
    gate, runs = SCENARIOS[name].gate, len(outcomes)
    delays = np.array([o.rolled_back for o in outcomes if o.rolled_back is not None]) / 10
    blamed = Counter(name for o in outcomes if o.rolled_back is not None for name in o.culprits)
    proven = sum(gate in o.proven for o in outcomes)
    promoted = sum(o.promoted is not None for o in outcomes)
    text = f"{name}: {runs} runs, {delays.size} rolled back (at most {upper_bound(delays.size, runs):.2%})"
    if delays.size:
        text += f" after {delays.mean():.1f} looks, q90 {np.quantile(delays, 0.9):.1f}, blamed {dict(blamed)}"
    text += f", {promoted} promoted (at most {upper_bound(promoted, runs):.2%})"
    if gate:
        text += f", {gate} proven in {proven} (at most {upper_bound(proven, runs):.2%})"
    strongest = np.exp([o.strongest for o in outcomes])
    return f"{text}, evidence over 5 in {(strongest >= 5).mean():.2%}, over 20 in {(strongest >= 20).mean():.2%}"


def main(name: str, runs: int, first: int = 0) -> None:
    """Run a scenario and say what came out."""
    with ProcessPoolExecutor(1) as pool:
        outcomes = list(pool.map(partial(_run, name), range(first, first + runs), chunksize=8))
    sys.stdout.write(summary(name, outcomes) + "\n")


def _run(name: str, seed: int) -> Outcome:
    return SCENARIOS[name].run(seed)


if __name__ == "__main__":
    main(sys.argv[1], *(int(text) for text in sys.argv[2:]))
