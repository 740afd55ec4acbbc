"""MLServer 1.x, scraped at its metrics port (8082).

Counters of successes and failures appear together with the first request to a model. Requests are timed per route,
the routes of readiness and of metadata among them, so the latency is that of the routes that infer. The buckets begin
at 5 ms.
"""

from typing import Final

from davylamp.core.plan import SignalKind
from davylamp.core.reading import Matcher, MatchKind, Selector, SignalQuery
from davylamp.sources.presets.preset import Preset

_FAILURES: Final = Selector("model_infer_request_failure_total")
_SUCCESSES: Final = Selector("model_infer_request_success_total")
_INFERRING: Final = Matcher("path", MatchKind.MATCHES, ".*/(infer|generate)")

MLSERVER: Final = Preset(
    errors=SignalQuery("errors", SignalKind.ERRORS, events=(_FAILURES,), total=(_SUCCESSES, _FAILURES)),
    latency=SignalQuery(
        "latency", SignalKind.LATENCY, histogram=Selector("rest_server_request_duration_seconds", (_INFERRING,))
    ),
)
