"""A namespace with two variants of a model behind Services, scraped by Prometheus and ready for rollouts."""

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from typing import Final, Self
from urllib.request import Request, urlopen

from e2e.demo.traffic.generator import Pace, Target, Traffic
from e2e.lab import Lab
from e2e.stage.manifests import PORT, metric_source
from e2e.stage.standin import Behaviour, StandIn

BASELINE: Final = "credit-fp32"
CANDIDATE: Final = "credit-int8"
_SERVERS: Final = 2
_BODY: Final = b'{"inputs":[{"name":"row","shape":[1],"datatype":"FP32","data":[0.5]}]}'


def answers_inference(gateway: str, host: str) -> bool:
    """Whether the gateway leads a request for a host to a model server."""
    request = Request(f"{gateway}/v2/models/income/infer", _BODY, {"Host": host})  # noqa: S310 - the lab's own gateway
    try:
        with urlopen(request, timeout=5) as answer:  # noqa: S310 - as above
            return bool(answer.status == HTTPStatus.OK)
    except OSError:
        return False


class Fleet:
    """Stand-ins of both variants, two of each, for as many sites as come one after the other.

    Parameters
    ----------
    lab
        In whose network they listen.
    """

    def __init__(self, lab: Lab) -> None:
        self.servers = {
            name: [StandIn(lab.address(), name, seed=number).start() for number in range(_SERVERS)]
            for name in (BASELINE, CANDIDATE)
        }
        self.heal()

    def live(self, name: str) -> int:
        """Return how many live requests the servers of a variant have got since all were healed."""
        return sum(server.live for server in self.servers[name])

    def shadowed(self, name: str) -> int:
        """Return how many requests of the comparator the servers of a variant have got since all were healed."""
        return sum(server.shadowed for server in self.servers[name])

    @property
    def candidates(self) -> Sequence[StandIn]:
        """The candidate's servers."""
        return self.servers[CANDIDATE]

    def break_candidate(self, errors: float) -> None:
        """Let the candidate fail a share of its requests."""
        self.change_candidate(errors=errors)

    def change_candidate(self, **behaviour: object) -> None:
        """Let the candidate behave otherwise; see `Behaviour`."""
        for server in self.candidates:
            server.behave(**behaviour)

    def heal(self) -> None:
        """Let everything answer well, and count anew."""
        for servers in self.servers.values():
            for server in servers:
                server.behaviour = Behaviour(delay=timedelta(milliseconds=2))
                server.forget()

    def stop(self) -> None:
        """Stop all servers."""
        for servers in self.servers.values():
            for server in servers:
                server.stop()


@dataclass(frozen=True, slots=True)
class Site:
    """The namespace.

    Parameters
    ----------
    lab, fleet
        Where it is, and who answers.
    namespace
        Its name.
    """

    lab: Lab
    fleet: Fleet
    namespace: str

    def open(self, *, source: str | None = None) -> Self:
        """Publish the variants, and return once Prometheus has scraped them by this namespace.

        Parameters
        ----------
        source
            Address of the MetricSource ``default``; by default the lab's Prometheus.
        """
        targets = {}
        for name, servers in self.fleet.servers.items():
            self.lab.publish_service(self.namespace, name, PORT, [server.address for server in servers])
            for number, server in enumerate(servers):
                labels = {"namespace": self.namespace, "service": name, "pod": f"{name}-{number}"}
                targets[server.metrics] = labels
        self.lab.scrape("models", targets, within=timedelta(seconds=60))
        self.lab.api.apply(metric_source(source or self.lab.prometheus_url))
        return self


class SteadyTraffic:
    """Requests to one host in a thread; ``with SteadyTraffic(…)`` starts and stops it.

    Parameters
    ----------
    gateway, host
        Where to.
    rate
        Requests a second.
    """

    def __init__(self, gateway: str, host: str, rate: float) -> None:
        self._target = Target(gateway, host)
        self._pace = Pace(rate, timedelta(minutes=10), in_flight=128)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"traffic-{host}", daemon=True)
        self._traffic: Traffic | None = None

    @property
    def failed(self) -> int:
        """Requests that came back with an error, or not at all."""
        return 0 if self._traffic is None else self._traffic.snapshot().failed

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Send no more; safe to call twice."""
        self._stop.set()
        self._thread.join(20)

    def _run(self) -> None:
        asyncio.run(self._send())

    async def _send(self) -> None:
        async with Traffic(self._target, [_BODY], self._pace) as self._traffic:
            await asyncio.to_thread(self._stop.wait)
