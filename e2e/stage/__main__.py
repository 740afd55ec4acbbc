"""A model, its variant and traffic on the lab that is up, until Ctrl-C: what the tutorial works with."""

import argparse
import asyncio
import sys
from contextlib import suppress
from datetime import timedelta
from typing import Final

from e2e.demo.traffic.generator import Pace, Target, Traffic
from e2e.lab import Lab, LabError
from e2e.stage.manifests import http_route, metric_source
from e2e.stage.standin import Behaviour, StandIn

_NAMESPACE: Final = "ml"
_HOST: Final = "credit.test"


def main() -> int:
    """Serve credit-fp32 and credit-int8 behind the route credit; 2 if no lab is up."""
    parser = argparse.ArgumentParser(prog="python -m e2e.stage", description=__doc__)
    parser.add_argument("--errors", type=float, default=0.0, help="share of its requests that credit-int8 fails (0)")
    parser.add_argument("--rate", type=float, default=80.0, help="requests a second (80)")
    wanted = parser.parse_args()
    try:
        lab = Lab.attach()
    except LabError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    servers = [_published(lab, "fp32", 0.0), _published(lab, "int8", wanted.errors)]
    lab.scrape("stage", {target: labels for found in servers for target, labels in found.items()})
    lab.api.apply(http_route(_NAMESPACE, "credit", "credit-fp32", host=_HOST))
    with suppress(KeyboardInterrupt):
        asyncio.run(_traffic(lab, wanted.rate))
    return 0


def _published(lab: Lab, variant: str, errors: float) -> dict[str, dict[str, str]]:
    """Start two servers of a variant behind a Service, and return what Prometheus is to scrape."""
    if lab.api.find(f"/api/v1/namespaces/{_NAMESPACE}") is None:
        lab.api.create("/api/v1/namespaces", {"metadata": {"name": _NAMESPACE}})
    behaviour = Behaviour(errors=errors, delay=timedelta(milliseconds=3))
    servers = [StandIn(lab.address(), variant, behaviour, seed=seed).start() for seed in (1, 2)]
    service = f"credit-{variant}"
    lab.publish_service(_NAMESPACE, service, 8080, [server.address for server in servers])
    return {
        server.metrics: {"namespace": _NAMESPACE, "service": service, "pod": f"{service}-{number}"}
        for number, server in enumerate(servers)
    }


async def _traffic(lab: Lab, rate: float) -> None:
    source = metric_source(lab.prometheus_url)["spec"]["prometheus"]["address"]
    sys.stdout.write(f"credit-fp32 and credit-int8 serve in namespace {_NAMESPACE}, route credit; ")
    sys.stdout.write(f"{rate:g} requests a second. Prometheus: {source}. End with Ctrl-C.\n")
    sys.stdout.flush()
    pace = Pace(rate, timedelta(minutes=55))
    async with Traffic(Target(lab.gateway_url, _HOST), [b'{"inputs":[]}'], pace) as traffic:
        await traffic.finished()


if __name__ == "__main__":
    sys.exit(main())
