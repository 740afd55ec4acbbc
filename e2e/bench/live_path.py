"""What mirroring costs the live path: latencies through Envoy while the comparator works, is gone, hangs, or is slow.

Steady requests go through the gateway to a baseline; the arms take turns, in another order each round.

    no mirror    what all others are compared with
    no mirror 2  the same once more: how much two arms differ that are the same
    running      mirror, and a comparator that replays a share of the requests to both variants, on the same machine
    stopped      mirror, and a comparator that was killed: connections are refused
    hung         mirror, and a comparator that is stopped in mid-flight: connections stay open and nothing answers
    slow         mirror, to a server that answers after 5 s

    p50, p99     of all requests of the arm, milliseconds
    ratio        to "no mirror" of the same round, geometric mean over the rounds, with a 95 % interval
    failed       requests without an answer of success
    mirrored     requests a second that Envoy mirrored, or tried to
    gateway      processor time that Envoy used for a request, milliseconds: it says more where a machine has other work
"""

import argparse
import asyncio
import json
import os
import random
import re
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.request import urlopen

import numpy as np

from e2e.bench.live_path_servers import MIRROR_PORT
from e2e.bench.paired_quantiles import Blocks, Ratio, paired_ratio, quantile_of
from e2e.demo.traffic.generator import Pace, Target, Traffic
from e2e.lab import Lab, Part, Profile
from e2e.lab.component import Component
from e2e.lab.waiting import until
from e2e.stage.manifests import http_route
from e2e.stage.standin import HTTP_PORT

_SPACE: Final = "live"
_HOST: Final = "live.test"
_ROUTE: Final = f"/apis/gateway.networking.k8s.io/v1/namespaces/{_SPACE}/httproutes/credit"
_COMPARATOR: Final = "davylamp-shadow"
_SLOW: Final = "slow"
_VALUES: Final = ",".join(["0.1234567"] * 100)
_BODY: Final = f'{{"inputs":[{{"name":"x","shape":[1,100],"datatype":"FP32","data":[{_VALUES}]}}]}}'.encode()
#: Envoy's counts of requests that were sent, found no connection, and were too many.
_TRIED: Final = ("rq_total", "rq_pending_failure_eject", "rq_pending_overflow")
_SOON: Final = timedelta(seconds=60)


class Arm(StrEnum):
    """See the module."""

    NONE = "no mirror"
    AGAIN = "no mirror 2"
    RUNNING = "running"
    STOPPED = "stopped"
    HUNG = "hung"
    SLOW = "slow"

    @property
    def mirror(self) -> str:
        """The Service that requests are mirrored to; empty for none."""
        return {Arm.NONE: "", Arm.AGAIN: "", Arm.SLOW: _SLOW}.get(self, _COMPARATOR)


@dataclass(slots=True)
class Measured:
    """What was measured of one arm: latencies by round and second, and counts."""

    rounds: list[Blocks] = field(default_factory=list)
    requests: int = 0
    failed: int = 0
    mirrored: float = 0.0
    processor: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Figures:
    """See the module; milliseconds, requests a second."""

    requests: int
    failed: int
    mirrored: float
    gateway: float
    p50: float
    p99: float
    p50_ratio: Ratio | None
    p99_ratio: Ratio | None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; 0 whatever it measures."""
    parser = argparse.ArgumentParser(prog="python -m e2e.bench.live_path", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20.0, help="how long an arm lasts in each round (default 20)")
    parser.add_argument("--rounds", type=int, default=6, help="how often each arm has its turn (default 6)")
    parser.add_argument("--rate", type=float, default=200.0, help="requests a second (default 200)")
    parser.add_argument("--sample", type=float, default=0.2, help="share that the comparator replays (default .2)")
    parser.add_argument("--report", type=Path, help="write the figures as JSON, too")
    wanted = parser.parse_args(arguments)
    before = os.getloadavg()
    with Lab("live-path", profile=Profile.FULL) as lab:
        bench = Bench(lab, wanted.rate, wanted.sample)
        try:
            for number in range(1, wanted.rounds + 1):
                shown = ", ".join(f"{arm} {p99:.2f}" for arm, p99 in bench.round(wanted.seconds).items())
                sys.stdout.write(f"round {number}: p99 in ms: {shown}\n")
                sys.stdout.flush()
        finally:
            bench.stop()
    figures = {arm.value: _figures(bench.measured[arm], bench.measured[Arm.NONE]) for arm in Arm}
    loads = {"load_before": before[0], "load_after": os.getloadavg()[0]}
    _print(figures, loads)
    if wanted.report:
        arms = {name: asdict(found) for name, found in figures.items()}
        wanted.report.write_text(json.dumps({"arms": arms, **loads}, indent=2) + "\n", "utf-8")
    return 0


class Bench:
    """The stage: variants, comparator, route and traffic, used for one arm after the other.

    Parameters
    ----------
    lab
        Where it runs.
    rate
        Requests a second.
    sample
        Share that the comparator replays.
    """

    def __init__(self, lab: Lab, rate: float, sample: float) -> None:
        self.measured = {arm: Measured() for arm in Arm}
        self._lab = lab
        self._random = random.Random(0)  # noqa: S311 - an order
        lab.api.create("/api/v1/namespaces", {"metadata": {"name": _SPACE}})
        self._servers: list[Component] = []
        baseline, candidate = (lab.address() for _ in range(2))
        self._serve("credit-fp32", HTTP_PORT, baseline, "model")
        self._serve("credit-int8", HTTP_PORT, candidate, "model")
        self._serve(_SLOW, MIRROR_PORT, lab.address(), "slow")
        backends = (f"{address}:{HTTP_PORT}" for address in (baseline, candidate))
        self._comparator = self._serve(_COMPARATOR, MIRROR_PORT, lab.address(), "comparator", *backends, str(sample))
        lab.api.apply(http_route(_SPACE, "credit", "credit-fp32", host=_HOST))
        self._loop = asyncio.new_event_loop()
        self._done = asyncio.Event()
        self._traffic = Traffic(Target(lab.gateway_url, _HOST), [_BODY], Pace(rate, timedelta(minutes=59)))
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._load(),), daemon=True)
        self._thread.start()
        until(self._answered, "the route serves", within=_SOON)

    def stop(self) -> None:
        """Stop the traffic and all servers."""
        self._loop.call_soon_threadsafe(self._done.set)
        self._thread.join(20)
        self._loop.close()
        for server in self._servers:
            server.kill()

    def round(self, seconds: float) -> dict[Arm, float]:
        """Give each arm its turn, and return the p99 of each, milliseconds."""
        for arm in self._random.sample(list(Arm), len(Arm)):
            self._turn(arm, seconds)
        return {arm: 1000 * quantile_of(self.measured[arm].rounds[-1:], 0.99) for arm in Arm}

    def _turn(self, arm: Arm, seconds: float) -> None:
        self._mirror(arm.mirror)
        with self._fault(arm):
            used, mirrored = self._processor(), self._mirrored(arm.mirror)
            began = datetime.now(UTC)  # noqa: TID251 - a benchmark has no Clock
            time.sleep(seconds)  # noqa: TID251 - the time that is measured
            ended = datetime.now(UTC)  # noqa: TID251 - as above
            found = self.measured[arm]
            found.processor += self._processor() - used
            found.mirrored += self._mirrored(arm.mirror) - mirrored
        found.seconds += (ended - began).total_seconds()
        answers = self._traffic.history.between(began, ended)
        found.requests += len(answers)
        found.failed += sum(answer.failed for answer in answers)
        blocks: dict[int, list[float]] = {}
        for answer in answers:
            blocks.setdefault(int((answer.at - began).total_seconds()), []).append(answer.took.total_seconds())
        found.rounds.append([np.array(block) for block in blocks.values()])

    @contextmanager
    def _fault(self, arm: Arm) -> Iterator[None]:
        """Do to the comparator what the arm is about; afterwards it runs, and knows nothing of what was before."""
        if arm is Arm.HUNG:
            with self._comparator.frozen():
                yield
        else:
            if arm is Arm.STOPPED:
                self._comparator.kill()
            yield
        if arm in {Arm.STOPPED, Arm.HUNG}:
            self._mirror("")
            self._comparator.kill()
            self._comparator.start()
            self._comparator.wait_ready()

    def _mirror(self, service: str) -> None:
        """Mirror requests to a Service or to none, and wait until Envoy does and nothing from before is under way."""
        rule: dict[str, Any] = {"backendRefs": [{"name": "credit-fp32", "port": HTTP_PORT}]}
        if service:
            backend = {"name": service, "port": MIRROR_PORT}
            rule["filters"] = [{"type": "RequestMirror", "requestMirror": {"backendRef": backend}}]
        self._lab.api.merge(_ROUTE, {"spec": {"rules": [rule]}})
        until(lambda: self._mirrors_to(service), f"requests are mirrored to {service or 'none'}", within=_SOON)

    def _mirrors_to(self, service: str) -> bool:
        before = {name: self._mirrored(name) for name in (_COMPARATOR, _SLOW)}
        time.sleep(0.5)  # noqa: TID251 - a stretch of traffic
        rising = {name for name in before if self._mirrored(name) > before[name]}
        under_way = {name for name in before if self._stat(name, "rq_active")}
        return rising == {service} - {""} and under_way <= {service}

    def _processor(self) -> float:
        """Return how much processor time Envoy has used, seconds."""
        process = self._lab.component("envoy").process
        if process is None:
            raise RuntimeError("Envoy does not run")
        fields = Path(f"/proc/{process.pid}/stat").read_text("utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _mirrored(self, service: str) -> float:
        """Return how many requests Envoy has mirrored or tried to, by its own count."""
        return sum(self._stat(service, stat) for stat in _TRIED)

    def _stat(self, service: str, stat: str) -> float:
        """Return one of Envoy's counts about a Service that is mirrored to; 0 where it has none yet."""
        with urlopen(self._lab.envoy_metrics_url, timeout=10) as answer:  # noqa: S310 - Envoy's, over HTTP
            text = answer.read().decode()
        cluster = f"{_SPACE}_{service}_{MIRROR_PORT}"
        metric = rf'^envoy_cluster_upstream_{stat}{{envoy_cluster_name="{cluster}"}} (\S+)'
        found = re.search(metric, text, re.MULTILINE)
        return float(found[1]) if found else 0.0

    def _serve(self, service: str, port: int, address: str, kind: str, *others: str) -> Component:
        """Start a server and make it known as a Service."""
        command = (sys.executable, "-m", "e2e.bench.live_path_servers", kind, address, *others)
        part = Part(f"{_SPACE}-{service}", command, partial(_listens, address, port))
        server = Component(part, self._lab.files, self._lab.namespace)
        self._servers.append(server)
        server.start()
        server.wait_ready()
        self._lab.publish_service(_SPACE, service, port, [address])
        return server

    async def _load(self) -> None:
        async with self._traffic:
            await self._done.wait()

    def _answered(self) -> bool:
        snapshot = self._traffic.snapshot()
        return snapshot.answered > snapshot.failed


def _listens(address: str, port: int) -> bool:
    try:
        socket.create_connection((address, port), timeout=2).close()
    except OSError:
        return False
    return True


def _figures(measured: Measured, control: Measured) -> Figures:
    ratios = [
        None if measured is control else paired_ratio(measured.rounds, control.rounds, quantile)
        for quantile in (0.5, 0.99)
    ]
    return Figures(
        measured.requests,
        measured.failed,
        round(measured.mirrored / measured.seconds, 1),
        1000 * measured.processor / measured.requests,
        1000 * quantile_of(measured.rounds, 0.5),
        1000 * quantile_of(measured.rounds, 0.99),
        *ratios,
    )


def _print(figures: Mapping[str, Figures], loads: Mapping[str, float]) -> None:
    names = ("requests", "failed", "mirrored", "gateway", "p50", "p99", "ratio of p50", "ratio of p99")
    lines = ["{:<12}{:>9}{:>8}{:>10}{:>9}{:>8}{:>8}{:>24}{:>24}".format("arm", *names)]
    for name, found in figures.items():
        ratios = [
            f"{ratio.value:.3f} ({ratio.low:.3f} to {ratio.high:.3f})" if ratio else ""
            for ratio in (found.p50_ratio, found.p99_ratio)
        ]
        lines.append(
            f"{name:<12}{found.requests:>9}{found.failed:>8}{found.mirrored:>10.1f}{found.gateway:>9.3f}{found.p50:>8.2f}{found.p99:>8.2f}"
            f"{ratios[0]:>24}{ratios[1]:>24}"
        )
    load = " to ".join(f"{load:.2f}" for load in loads.values())
    sys.stdout.write("\n" + "\n".join(lines) + f"\nload average of the machine, before to after: {load}\n")


if __name__ == "__main__":
    sys.exit(main())
