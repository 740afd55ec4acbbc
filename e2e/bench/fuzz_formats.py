"""Broken answers and requests by the hundred thousand for each parser of the comparator, each in a process of its own.

Input number n of a seed is the same in every run. What no rule allows ends the run: an exception, a number that is not
finite, an answer that differs from itself, bytes that are still held at the end, or memory that grows.

    inputs      tried
    second      inputs a second
    memory      greatest of the process, MiB
    growth      of that after a tenth of the inputs, MiB
    outcomes    how often each came
"""

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from e2e.bench.fuzz_answers import PARSERS, BrokenError, try_answer, try_redaction
from e2e.bench.fuzz_wire import try_answers_over_http, try_requests_over_grpc, try_requests_over_http

#: MiB that a process may grow by, after it has seen a tenth of the inputs.
MOST_GROWTH: Final = 64
Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Figures:
    """See the module."""

    parser: str
    inputs: int
    second: float
    memory: int
    growth: int
    outcomes: dict[str, int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m e2e.bench.fuzz_formats", description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=100_000, help="for each parser (default 100000)")
    parser.add_argument("--seed", type=int, default=0, help="of the inputs (default 0)")
    parser.add_argument("--only", nargs="+", choices=TARGETS, default=TARGETS, metavar="PARSER", help="not all of them")
    parser.add_argument("--report", type=Path, help="write the figures as JSON, too")
    parser.add_argument("--here", choices=TARGETS, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.here:
        print(json.dumps(asdict(run(options.here, options.inputs, options.seed, _told(options.here, options.inputs)))))
        return 0
    found = [_apart(name, options.inputs, options.seed) for name in options.only]
    if options.report:
        options.report.write_text(json.dumps([asdict(each) for each in found], indent=2) + "\n", "utf-8")
    return 0


def run(name: str, inputs: int, seed: int, progress: Progress = lambda _: None) -> Figures:
    """Try inputs on one parser.

    Raises
    ------
    BrokenError
        If a rule does not hold.
    """
    early = _mebibytes()

    def passed(number: int) -> None:
        nonlocal early
        if number <= max(1, inputs // 10):
            early = _mebibytes()
        progress(number)

    start = time.perf_counter()
    outcomes = _outcomes(name, inputs, seed, passed)
    seconds, memory = time.perf_counter() - start, _mebibytes()
    if memory - early > MOST_GROWTH:
        raise BrokenError(f"{name} grew from {early} to {memory} MiB")
    return Figures(name, inputs, round(inputs / seconds, 1), memory, memory - early, dict(outcomes.most_common()))


def _outcomes(name: str, inputs: int, seed: int, passed: Progress) -> Counter[str]:
    if (whole := _WIRES.get(name)) is not None:
        return asyncio.run(whole(inputs, seed, passed))
    one = try_redaction if name == _REDACTION else try_answer
    outcomes: Counter[str] = Counter()
    for number in range(inputs):
        outcomes[one(name, seed, number)] += 1
        passed(number + 1)
    return outcomes


def _apart(name: str, inputs: int, seed: int) -> Figures:
    """Try a parser in a process of its own, and show what came of it."""
    here = ("--here", name, "--inputs", str(inputs), "--seed", str(seed))
    # Of every broken request gRPC would write a line.
    environment = {**os.environ, "GRPC_VERBOSITY": "NONE"}
    command = (sys.executable, "-m", "e2e.bench.fuzz_formats", *here)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    figures = Figures(**json.loads(done.stdout.splitlines()[-1]))
    said = ", ".join(f"{outcome} {count:,}" for outcome, count in figures.outcomes.items())
    print(
        f"{name}: {inputs:,} inputs, {figures.second:,.0f} a second, {figures.memory} MiB (+{figures.growth}): {said}",
        flush=True,
    )
    return figures


def _told(name: str, inputs: int) -> Progress:
    """Tell of each tenth."""

    def progress(number: int) -> None:
        if number * 10 // inputs != (number - 1) * 10 // inputs:
            sys.stderr.write(f"{name}: {number:,} of {inputs:,}, {_mebibytes()} MiB\n")

    return progress


def _mebibytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


_REDACTION: Final = "redaction"
_WIRES: Final = {
    "http-requests": try_requests_over_http,
    "http-answers": try_answers_over_http,
    "grpc-requests": try_requests_over_grpc,
}
#: Whatever can be tried.
TARGETS: Final = (*PARSERS, _REDACTION, *_WIRES)

if __name__ == "__main__":
    sys.exit(main())
