"""Envoy as the gateway, scraped at its own metrics, under Contour, which makes one cluster for each Service.

Envoy's pods live in the gateway's namespace, so a series shows the rollout's namespace by the name of its cluster
alone. The counter of a class of answers (2xx, 5xx) appears with the first such answer. Times are in milliseconds, the
buckets begin at .5 ms, and Envoy adds them up at each flush of its statistics only (every 5 s unless it is told
otherwise), so that latencies come later than errors, and in lumps.
"""

from datetime import timedelta
from typing import Final

from davylamp.core.plan import SignalKind
from davylamp.core.reading import Matcher, MatchKind, Scope, Selector, SignalQuery
from davylamp.sources.presets.preset import Preset

_ANSWERS: Final = "envoy_cluster_upstream_rq_xx"
_SERVER_ERRORS: Final = Matcher("envoy_response_code_class", MatchKind.EQUAL, "5")
#: Contour's names, and those of Envoy Gateway for a label that the user gives.
_SCOPE: Final = Scope("envoy_cluster_name", ("{namespace}_", "httproute/{namespace}/"))

ENVOY: Final = Preset(
    errors=SignalQuery(
        "errors",
        SignalKind.ERRORS,
        events=(Selector(_ANSWERS, (_SERVER_ERRORS,)),),
        total=(Selector(_ANSWERS),),
        scope=_SCOPE,
    ),
    latency=SignalQuery(
        "latency",
        SignalKind.LATENCY,
        histogram=Selector("envoy_cluster_upstream_rq_time"),
        unit=timedelta(milliseconds=1),
        scope=_SCOPE,
    ),
    gateway_label="envoy_cluster_name",
    gateway_value="{namespace}_{service}_{port}",
)
