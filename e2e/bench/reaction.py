"""How fast a gross fault is taken back, and where the time goes.

Per run: a candidate at 20 % of 250 requests a second begins to fail 30 % of them. Scrape and look every second; errors
are read from the gateway (preset envoy), which sees both variants in one scrape.

    scrape      first bad answer → the scrape that made the decision possible
    tick        that scrape → the look that used it
    evidence    begin of that look → the decision is made
    write       the decision → the API server has taken weight 0, by the operator's log
    data plane  the decision → the candidate's last answer
    total       first bad answer → weight 0 is seen at the API server
"""

import argparse
import asyncio
import json
import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from e2e.demo.traffic.generator import Pace, Target, Traffic
from e2e.lab import Lab, LabError, Profile
from e2e.lab.waiting import until
from e2e.stage.controller import NAMESPACE, install_crds, operator
from e2e.stage.manifests import http_route, metric_source, model_rollout
from e2e.stage.standin import Behaviour, StandIn

_SPACE: Final = "bench"
_HOST: Final = "credit.test"
_RATE: Final = 250.0
_WEIGHT: Final = 20
_ROLLOUT: Final = f"/apis/davylamp.dev/v1alpha1/namespaces/{_SPACE}/modelrollouts/credit"
_ROUTE: Final = f"/apis/gateway.networking.k8s.io/v1/namespaces/{_SPACE}/httproutes/credit"
_SERIES: Final = f'envoy_cluster_upstream_rq_total{{envoy_cluster_name="{_SPACE}_credit-int8_8080"}}'


@dataclass(frozen=True, slots=True)
class Run:
    """One reaction, in seconds; see the module."""

    scrape: float
    tick: float
    evidence: float
    write: float
    data_plane: float
    total: float
    bad_answers: int


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; 0 if every run ended in a rollback."""
    parser = argparse.ArgumentParser(prog="python -m e2e.bench.reaction", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20, help="number of faults (default 20)")
    parser.add_argument("--report", type=Path, help="write the figures as JSON, too")
    wanted = parser.parse_args(arguments)
    with Lab("bench", profile=Profile.FULL, scrape_interval=timedelta(seconds=1)) as lab:
        bench = Bench(lab)
        runs = [bench.run(number) for number in range(1, wanted.runs + 1)]
        bench.stop()
    _print(runs)
    if wanted.report:
        wanted.report.write_text(
            json.dumps({"runs": [asdict(run) for run in runs], "summary": _summary(runs)}, indent=2)
        )
    return 0


class Bench:
    """The stage: stand-ins, route, operator and traffic, used for one fault after the other."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        install_crds(lab)
        for namespace in (NAMESPACE, _SPACE):
            lab.api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        calm = Behaviour(delay=timedelta(milliseconds=2))
        self._candidates: list[StandIn] = []
        targets = {}
        for variant in ("fp32", "int8"):
            servers = [StandIn(lab.address(), variant, calm, seed=seed).start() for seed in (1, 2)]
            lab.publish_service(_SPACE, f"credit-{variant}", 8080, [server.address for server in servers])
            for number, server in enumerate(servers):
                labels = {"namespace": _SPACE, "service": f"credit-{variant}", "pod": f"{variant}-{number}"}
                targets[server.metrics] = labels
            if variant == "int8":
                self._candidates = servers
        lab.api.apply(http_route(_SPACE, "credit", "credit-fp32", host=_HOST))
        lab.scrape("models", targets)
        lab.api.apply(metric_source(lab.prometheus_url))
        self._operator = operator(lab, lab.kubeconfig, name="bench")
        self._operator.start()
        self._operator.wait_ready()
        self._done = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._traffic: Traffic | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._load()), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop traffic and operator."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._done.set)
        self._thread.join(20)
        self._operator.stop()

    def run(self, number: int) -> Run:
        """Let the candidate fail once, and measure what follows."""
        for server in self._candidates:
            server.behave(errors=0.0)
        steps = [{"weight": _WEIGHT, "bake": "1h", "minSamples": 20}]
        manifest = model_rollout(
            _SPACE,
            "credit",
            baseline="credit-fp32",
            candidate="credit-int8",
            steps=steps,
            signals={"preset": "envoy"},
            gates={"latency": {"requiredForPromotion": False}},
        )
        self._lab.api.apply(manifest)
        self._until(lambda: self._baked(number), "the candidate serves its weight", 60)
        began = datetime.now(UTC)  # noqa: TID251 - a benchmark has no Clock
        for server in self._candidates:
            server.behave(errors=0.3)
        zero_at = self._watch_for_zero()
        self._until(lambda: self._phase() == "RolledBack", "it is rolled back", 60)
        run = self._measured(began, zero_at)
        self._lab.api.delete(_ROLLOUT)
        self._until(lambda: self._lab.api.find(_ROLLOUT) is None, "the rollout is gone", 30)
        sys.stdout.write(f"run {number:2}: {run.total:.2f} s to weight 0, {run.bad_answers} bad answers\n")
        sys.stdout.flush()
        return run

    def _until(self, condition: Callable[[], bool], what: str, seconds: float) -> None:
        try:
            until(condition, what, within=timedelta(seconds=seconds))
        except LabError as vain:
            status = self._status()
            shown = {key: status.get(key) for key in ("phase", "reason", "message", "step", "weight")}
            raise LabError(f"{vain}; status: {shown}") from vain

    async def _load(self) -> None:
        pace = Pace(_RATE, timedelta(minutes=55))
        async with Traffic(Target(self._lab.gateway_url, _HOST), [b'{"inputs":[]}'], pace) as traffic:
            self._traffic, self._loop = traffic, asyncio.get_running_loop()
            await self._done.wait()

    def _status(self) -> dict[str, Any]:
        return (self._lab.api.find(_ROLLOUT) or {}).get("status") or {}

    def _phase(self) -> str:
        return str(self._status().get("phase"))

    def _baked(self, number: int) -> bool:
        """Wait for a stretch of baking; its length differs, so that faults fall on all phases of the scrape."""
        return float((self._status().get("step") or {}).get("bakedSeconds") or 0) >= 4 + (number * 0.37) % 1

    def _watch_for_zero(self) -> datetime:
        """Return when the API server first showed the candidate without weight, to some milliseconds."""
        deadline = time.perf_counter() + 60
        while time.perf_counter() < deadline:
            refs = self._lab.api.get(_ROUTE)["spec"]["rules"][0]["backendRefs"]
            if not any(ref["name"] == "credit-int8" and ref.get("weight") for ref in refs):
                return datetime.now(UTC)  # noqa: TID251 - a benchmark has no Clock
        raise TimeoutError("the candidate still has weight after 60 s")

    def _measured(self, began: datetime, zero_at: datetime) -> Run:
        if self._traffic is None:
            raise RuntimeError("no traffic")
        served = self._traffic.history.served("int8", began - timedelta(seconds=0.1))
        first_bad, last = served.first_failed or began, served.last or zero_at
        looked_at = datetime.fromisoformat(self._status()["decision"]["at"])
        decided_at, written_at = self._decided_and_written()
        scraped_at = self._scraped_before(looked_at)
        return Run(
            scrape=(scraped_at - first_bad).total_seconds(),
            tick=(looked_at - scraped_at).total_seconds(),
            evidence=(decided_at - looked_at).total_seconds(),
            write=(written_at - decided_at).total_seconds(),
            data_plane=(last - decided_at).total_seconds(),
            total=(zero_at - first_bad).total_seconds(),
            bad_answers=served.failed,
        )

    def _decided_and_written(self) -> tuple[datetime, datetime]:
        """Return when the operator logged its last lowering, and that the route was written."""
        lines = self._lab.files.log("bench").read_text("utf-8").splitlines()
        decided = [line for line in lines if '"action": "Lower"' in line][-1]
        written = [line for line in lines if '"change": "Lower"' in line][-1]
        at, done = (datetime.fromisoformat(json.loads(line)["timestamp"]) for line in (decided, written))
        return at, done

    def _scraped_before(self, moment: datetime) -> datetime:
        """Return the newest scrape of the candidate that a look at ``moment`` could have seen."""
        found = self._lab.query(f"timestamp({_SERIES} @ {moment.timestamp():.3f})")
        stamps = [float(sample["value"][1]) for sample in found]
        return datetime.fromtimestamp(max(stamps, default=moment.timestamp()), UTC)


def _summary(runs: Sequence[Run]) -> dict[str, dict[str, float]]:
    names = ("scrape", "tick", "evidence", "write", "data_plane", "total", "bad_answers")
    return {name: _median_and_p95([float(getattr(run, name)) for run in runs]) for name in names}


def _median_and_p95(values: Sequence[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {
        "median": statistics.median(ordered),
        "p95": ordered[min(len(ordered) - 1, round(0.95 * (len(ordered) - 1)))],
        "max": ordered[-1],
    }


def _print(runs: Sequence[Run]) -> None:
    sys.stdout.write(f"\n{len(runs)} runs; seconds\n{'phase':<12}{'median':>9}{'p95':>9}{'max':>9}\n")
    for name, figures in _summary(runs).items():
        sys.stdout.write(f"{name:<12}{figures['median']:>9.3f}{figures['p95']:>9.3f}{figures['max']:>9.3f}\n")


if __name__ == "__main__":
    sys.exit(main())
