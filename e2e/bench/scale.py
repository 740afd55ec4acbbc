"""What many rollouts cost: lateness of looks, memory, and requests to the API server.

Rollouts at weight 0 whose metrics cannot be read, so that each is looked at in every interval and none moves.

    lateness    how late looks begin, 99 of 100
    look        how long a look takes, on average
    looks       looks a second
    requests    requests to the API server a second, by its own count
    memory      resident, MiB
    processor   share of one core
"""

import argparse
import json
import os
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final
from urllib.request import urlopen

from e2e.lab import Lab, Profile
from e2e.lab.build import collected
from e2e.lab.component import Component
from e2e.lab.recipes import MANIFESTS
from e2e.lab.waiting import until
from e2e.stage.controller import NAMESPACE, install_crds, operator
from e2e.stage.manifests import PORT, http_route, metric_source, model_rollout

_PORT: Final = 8081
_SPACES: Final = 4
_NOWHERE: Final = "http://127.0.0.1:1"


@dataclass(frozen=True, slots=True)
class Cost:
    """See the module; seconds, MiB, a second."""

    lateness: float
    look: float
    looks: float
    requests: float
    memory: float
    processor: float


@dataclass(frozen=True, slots=True)
class Meters:
    """Counts at one moment."""

    at: float
    late: dict[float, float]
    looks: float
    seconds: float
    requests: float
    processor: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m e2e.bench.scale", description=__doc__.splitlines()[0])
    parser.add_argument("--rollouts", type=int, default=200, help="how many (default 200)")
    parser.add_argument("--interval", default="10s", help="of each rollout (default 10s)")
    parser.add_argument("--seconds", type=int, default=60, help="how long to measure (default 60)")
    options = parser.parse_args(arguments)
    with Lab("bench-scale", profile=Profile.CONTROL_PLANE) as lab:
        _prepare(lab, options.rollouts, options.interval)
        davylamp = operator(lab, lab.kubeconfig, port=_PORT, environment={"DAVYLAMP_STATUS_EVERY_SECONDS": "10"})
        davylamp.start()
        try:
            davylamp.wait_ready()
            until(lambda: _all_seen(lab), "every rollout was looked at", within=timedelta(minutes=5))
            before = _meters(lab, davylamp)
            time.sleep(options.seconds)  # noqa: TID251 - what happens in this time is what is measured
            print(json.dumps(asdict(_cost(before, _meters(lab, davylamp), davylamp)), indent=2))
        finally:
            davylamp.stop()
    return 0


def _prepare(lab: Lab, rollouts: int, interval: str) -> None:
    for manifests in MANIFESTS:
        lab.api.install_crds(collected(manifests))
    install_crds(lab)
    lab.api.apply(metric_source(_NOWHERE))
    for name in (NAMESPACE, *_spaces()):
        lab.api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    for space in _spaces():
        for service in ("fp32", "int8"):
            lab.publish_service(space, service, PORT, [lab.address()])
    for number in range(rollouts):
        space, name = _spaces()[number % _SPACES], f"credit-{number}"
        lab.api.apply(http_route(space, name, "fp32"))
        lab.api.apply(model_rollout(space, name, baseline="fp32", candidate="int8", interval=interval))


def _spaces() -> tuple[str, ...]:
    return tuple(f"scale-{number}" for number in range(_SPACES))


def _all_seen(lab: Lab) -> bool:
    found = lab.api.get("/apis/davylamp.dev/v1alpha1/modelrollouts")["items"]
    return all((rollout.get("status") or {}).get("attempt") for rollout in found)


def _meters(lab: Lab, davylamp: Component) -> Meters:
    with urlopen(f"http://127.0.0.1:{_PORT}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    late = re.findall(r'^davylamp_tick_lateness_seconds_bucket{le="([^"]+)"} (\S+)', text, re.MULTILINE)
    requests = re.findall(r"^apiserver_request_total{(.+)} (\S+)$", str(lab.api.get("/metrics")), re.MULTILINE)
    ours = ("modelrollouts", "httproutes", "endpointslices", "services", "leases", "events", "polic", "metricsources")
    return Meters(
        at=time.monotonic(),  # noqa: TID251 - a benchmark measures
        late={float(edge): float(count) for edge, count in late},
        looks=_value(text, "davylamp_tick_seconds_count"),
        seconds=_value(text, "davylamp_tick_seconds_sum"),
        requests=sum(float(count) for labels, count in requests if any(word in labels for word in ours)),
        processor=_processor(davylamp),
    )


def _value(text: str, metric: str) -> float:
    found = re.search(rf"^{metric} (\S+)", text, re.MULTILINE)
    return float(found.group(1)) if found else 0.0


def _processor(davylamp: Component) -> float:
    """Return the processor time that it has used, in seconds."""
    fields = _proc(davylamp, "stat").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _proc(davylamp: Component, file: str) -> str:
    process = davylamp.process
    if process is None:
        raise RuntimeError("the operator has ended")
    return Path(f"/proc/{process.pid}/{file}").read_text("utf-8")


def _cost(before: Meters, after: Meters, davylamp: Component) -> Cost:
    passed, looks = after.at - before.at, after.looks - before.looks
    late = {edge: count - before.late.get(edge, 0.0) for edge, count in after.late.items()}
    resident = re.search(r"^VmRSS:\s+(\d+) kB", _proc(davylamp, "status"), re.MULTILINE)
    return Cost(
        lateness=min((edge for edge, count in late.items() if count >= 0.99 * late[float("inf")]), default=0.0),
        look=round((after.seconds - before.seconds) / max(looks, 1), 4),
        looks=round(looks / passed, 1),
        requests=round((after.requests - before.requests) / passed, 1),
        memory=round(int(resident.group(1)) / 1024, 1) if resident else 0.0,
        processor=round((after.processor - before.processor) / passed, 3),
    )


if __name__ == "__main__":
    sys.exit(main())
