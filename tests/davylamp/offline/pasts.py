"""A past to be replayed: simulated servers, scraped for a while, as the series that Prometheus would hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Any, Final

from davylamp.core.model import Variant
from davylamp.offline.history import History, Track, joined
from davylamp.offline.subject import Subject, subject_of
from tests.simulation_statistics.generator import BEGINNING, Scrape, Scraping, World
from tests.simulation_statistics.traffic import Buckets, Truth

NAMESPACE: Final = "ml"
#: From when on there are enough samples for a look.
BEGINS: Final = BEGINNING + timedelta(seconds=180)
_ZERO: Final = BEGINNING.timestamp()
_SERVICES: Final = {Variant.BASELINE: "fp32", Variant.CANDIDATE: "int8"}
#: Nothing is missed and nothing restarts.
CALM: Final = Scraping(buckets=Buckets.FINE, missed=0.0, late=0.0, restarts=0.0)
ROLLOUT: Final[dict[str, Any]] = {
    "apiVersion": "davylamp.dev/v1alpha1",
    "kind": "ModelRollout",
    "metadata": {"name": "credit", "namespace": NAMESPACE},
    "spec": {
        "baseline": {"backend": {"name": "fp32", "port": 8080}},
        "candidate": {"backend": {"name": "int8", "port": 8080}},
        "route": {"gatewayAPI": {"httpRoute": "credit"}},
        "interval": "10s",
        "steps": [{"weight": 10, "bake": "1m"}, {"weight": 50, "bake": "2m"}],
        "promotion": {"bake": "1m"},
        "signals": {"preset": "mlserver"},
        "gates": {
            "errors": {"margin": {"oddsRatio": 1.5}, "allowance": "1%"},
            "latency": {"margin": {"slowdown": "10%"}, "requiredForPromotion": False},
        },
    },
}


def subject(**spec: Any) -> Subject:
    """Return the rollout; fields of the spec that are given replace what is there."""
    return subject_of([ROLLOUT | {"spec": {**ROLLOUT["spec"], **spec}}])


@dataclass(frozen=True, slots=True)
class Past:
    """What happened: the truth, how it was scraped, and which weight the candidate got when, in seconds."""

    truth: Truth
    weights: tuple[tuple[float, int], ...] = ((240.0, 10), (360.0, 50))
    scraping: Scraping = CALM
    length: float = 900.0
    seed: int = 1

    @property
    def ends(self) -> datetime:
        """When the range ends."""
        return BEGINNING + timedelta(seconds=self.length)

    def history(self, rollout: Subject) -> History:
        """Return all that Prometheus would hold."""
        return History(
            BEGINNING - timedelta(minutes=5),
            self.ends + timedelta(seconds=1),
            {
                selector: joined([_plain(track) for track in self.tracks() if _asked(selector, track)])
                for selector in rollout.selectors(BEGINS)
            },
        )

    def tracks(self) -> list[Track]:
        """Return every series."""
        world = World(self.truth, self.scraping, self.seed)
        for at, percent in self.weights:
            world.run_until(at)
            world.set_weight(at, percent)
        world.run_until(self.length)
        return [track for some in world.servers.values() for server in some for track in _series(server, self.scraping)]


def _plain(track: Track) -> dict[str, Any]:
    return {"metric": dict(track.labels), "values": track.values, "histograms": track.histograms}


def _asked(selector: str, track: Track) -> bool:
    """Whether a selector of the mlserver preset asks for a series; the values of its matchers are plain words."""
    return track.labels["__name__"] in selector


def _series(server: Any, scraping: Scraping) -> list[Track]:
    labels = {"namespace": NAMESPACE, "service": _SERVICES[server.variant], "instance": server.name}
    scrapes: Sequence[Scrape] = server.scrapes

    def track(name: str, values: Sequence[int], **more: str) -> Track:
        pairs = [[_ZERO + s.time, str(value)] for s, value in zip(scrapes, values, strict=True)]
        return Track({"__name__": name, **labels, **more}, pairs)

    sums = [list(accumulate(s.durations)) for s in scrapes]
    edges = [*(f"{edge / 1000:.9g}" for edge in scraping.buckets.value), "+Inf"]
    name = "rest_server_request_duration_seconds_bucket"
    return (
        [
            track("model_infer_request_success_total", [s.requests - s.errors for s in scrapes]),
            track("model_infer_request_failure_total", [s.errors for s in scrapes]),
            *(track(name, [row[place] for row in sums], le=edge, path="/v2/infer") for place, edge in enumerate(edges)),
        ]
        if scrapes and math.isfinite(scrapes[-1].time)
        else []
    )
