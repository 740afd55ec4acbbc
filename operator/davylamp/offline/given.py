"""Traffic as a person gives it on the command line, with what is assumed for the rest."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

from davylamp.core.plan import SignalKind
from davylamp.errors import SpecError
from davylamp.offline.demand import Demand, Durations, lognormal
from davylamp.offline.subject import Subject
from gatestats.buckets import refuse_bad_edges

#: Of durations of which only the median is known: standard deviation of the logarithm.
SPREAD: Final = 0.5
_MILLISECONDS: Final = (0.5, 1, 5, 10, 25, 50, 100, 250, 500, 1e3, 2.5e3, 5e3, 1e4, 3e4, 6e4, 3e5, 6e5, 1.8e6, 3.6e6)
#: Edges that servers export unless they are told otherwise: Envoy's, and those of Prometheus' clients.
_ENVOY: Final = (*(edge / 1000 for edge in _MILLISECONDS), math.inf)
_CLIENT: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, math.inf)
_SERIES: Final = re.compile(r'^\w+_bucket\{[^}]*\ble="([^"]+)"[^}]*\}\s+([0-9.eE+]+)', re.ASCII | re.MULTILINE)
_LARGEST_FILE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Given:
    """What was given, as text.

    Parameters
    ----------
    rps
        Requests a second of both variants; None if the history says it.
    error_rate
        Share of failed requests, in per cent.
    shares
        ``name=percent`` of own signals.
    histogram
        Of durations, inline or the name of a file.
    median
        Of durations without a histogram.
    """

    rps: float | None
    error_rate: str | None = None
    shares: tuple[str, ...] = ()
    histogram: str | None = None
    median: str = "50ms"

    def demand(self, subject: Subject) -> Demand:
        """Return the traffic of a rollout.

        Raises
        ------
        SpecError
            If something is missing or out of range; the message says which option and what to write.
        """
        remarks: list[str] = []
        shares = dict(self._shares())
        names = {gate.name for gate in subject.plan.gates if gate.kind is not SignalKind.LATENCY}
        if unknown := sorted(shares.keys() - names):
            raise SpecError(f"--share {unknown[0]}: the rollout has no such signal; it has {', '.join(sorted(names))}")
        errors = next((gate.name for gate in subject.plan.gates if gate.kind is SignalKind.ERRORS), None)
        if errors is not None and self.error_rate is not None:
            shares[errors] = percent(self.error_rate, "--error-rate")
        durations = None
        if any(gate.kind is SignalKind.LATENCY for gate in subject.plan.gates):
            durations = self._durations(subject, remarks)
        rps = self.rps or 0.0
        return Demand(rps, shares, durations, remarks=tuple(remarks))

    def _shares(self) -> Iterator[tuple[str, float]]:
        for text in self.shares:
            name, sign, value = text.partition("=")
            if not sign or not name:
                raise SpecError(f'--share is written as "approvals=30%", got {text[:60]!r}')
            yield name, percent(value, f"--share {name}")

    def _durations(self, subject: Subject, remarks: list[str]) -> Durations:
        if self.histogram is not None:
            return histogram(self.histogram)
        coarse = any(signal.unit < timedelta(seconds=1) for signal in subject.blueprint.signals)
        median = _seconds(self.median)
        remarks.append(
            f"durations are assumed lognormal, median {1000 * median:g} ms, log sd {SPREAD:g}, on default buckets "
            f"of {'Envoy' if coarse else 'Prometheus clients'}: --latency-histogram or --source says what they are"
        )
        return lognormal(_ENVOY if coarse else _CLIENT, median, SPREAD)


def _seconds(text: str) -> float:
    number = re.fullmatch(r"(\d{1,6}(?:\.\d{1,6})?)(ms|s)", text.strip(), re.ASCII)
    if number is None or float(number[1]) == 0:
        raise SpecError(f'--latency-median is a time above 0 such as "50ms" or "1.5s", got {text[:40]!r}')
    return float(number[1]) / (1000 if number[2] == "ms" else 1)


def percent(text: str, option: str) -> float:
    """Return a share that is written in per cent, 0..1."""
    number = re.fullmatch(r"\s*(\d{1,3}(?:\.\d{1,9})?)\s*%\s*", text, re.ASCII)
    if number is None or not 0 <= float(number[1]) <= 100:
        raise SpecError(f'{option} is a share from 0% to 100%, such as "0.5%", got {text[:40]!r}')
    return float(number[1]) / 100


def histogram(text: str) -> Durations:
    """Read durations: ``edge=requests`` with commas between, or a file of a Prometheus histogram's series.

    Raises
    ------
    SpecError
        If it is neither, holds no request, or its edges do not rise.
    """
    pairs = _inline(text) if "=" in text else _file(Path(text))
    edges, counts = tuple(edge for edge, _ in pairs), [count for _, count in pairs]
    try:
        refuse_bad_edges(edges)
    except ValueError as error:
        raise SpecError(f"--latency-histogram: {error}") from error
    total = sum(counts)
    if not total > 0 or min(counts) < 0:
        raise SpecError(f"--latency-histogram holds {total:g} requests, the fewest in a bucket {min(counts):g}")
    if math.isfinite(edges[-1]):
        edges, counts = (*edges, math.inf), [*counts, 0.0]
    return Durations(edges, tuple(count / total for count in counts))


def _inline(text: str) -> list[tuple[float, float]]:
    found = []
    for part in text.split(","):
        edge, _, count = part.partition("=")
        try:
            found.append((float(edge), float(count)))
        except ValueError as error:
            raise SpecError(
                f'--latency-histogram: {part.strip()[:40]!r} is no "edge=requests", such as 0.1=800 or +Inf=10'
            ) from error
    return found


def _file(path: Path) -> list[tuple[float, float]]:
    try:
        with path.open(encoding="utf-8") as stream:
            text = stream.read(_LARGEST_FILE)
    except UnicodeDecodeError as error:
        raise SpecError(f"--latency-histogram: the file {path} is not text in UTF-8") from error
    except OSError as error:
        raise SpecError(f"--latency-histogram: the file {path} cannot be read: {error.strerror}") from error
    below: dict[float, float] = {}
    for edge, count in _SERIES.findall(text):
        below[float(edge)] = below.get(float(edge), 0.0) + float(count)
    if not below:
        raise SpecError(f"--latency-histogram: {path} holds no series of a histogram (name_bucket with a label le)")
    rising = sorted(below.items())
    return [
        (edge, count - before)
        for (edge, count), before in zip(rising, [0.0, *(count for _, count in rising)], strict=False)
    ]
