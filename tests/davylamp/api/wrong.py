"""Wrong manifests: what is wrong, how it is made, the field the API server must name and a part of the remedy.

One table serves two judges: the real API server (schema and CEL), and the models that the engine and the command line
use.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.davylamp.api.manifests import Change, Manifest, append, changed, drop, example, put, rollout, smallest

_SHA = "sha256:" + "0" * 64


@dataclass(frozen=True, slots=True)
class Wrong:
    name: str
    manifest: Manifest
    field: str
    remedy: str
    #: Faults that only one judge sees: metadata is the API server's, unknown fields are pruned there unless asked.
    by_models: bool = True


def _rollout(name: str, field: str, remedy: str, *changes: Change, by_models: bool = True) -> Wrong:
    return Wrong(name, changed(rollout(), *changes), field, remedy, by_models)


def _smallest(name: str, field: str, remedy: str, *changes: Change, by_models: bool = True) -> Wrong:
    return Wrong(name, changed(smallest(), *changes), field, remedy, by_models)


def _fair(name: str, field: str, remedy: str, *changes: Change) -> Wrong:
    return Wrong(name, changed(example("fairness-0"), *changes), f"spec.slices.{field}", remedy)


def _other(name: str, start: str, field: str, remedy: str, *changes: Change) -> Wrong:
    return Wrong(name, changed(example(start), *changes), field, remedy)


_STEPS = "spec.steps"
WRONG = (
    # The ladder
    _smallest("no steps", "spec.steps", "there are no steps: write spec.steps", drop(_STEPS)),
    _smallest("empty steps", "spec.steps", "at least 1 items", put(_STEPS, [])),
    _smallest("steps is null", "spec.steps", "there are no steps: write spec.steps", put(_STEPS, None)),
    _smallest("51 steps", "spec.steps", "must have at most 50 items", put(_STEPS, [{"weight": 1}] * 51)),
    _smallest("weights fall", "spec.steps", "weights must rise", put("spec.steps.1.weight", 3)),
    _smallest("weights repeat", "spec.steps", "remove repeated weights", put("spec.steps.1.weight", 5)),
    _smallest("weight 0", "spec.steps[0].weight", "greater than or equal to 1", put("spec.steps.0.weight", 0)),
    _smallest("weight 101", "spec.steps[1].weight", "less than or equal to 100", put("spec.steps.1.weight", 101)),
    _smallest(
        "weight below zero", "spec.steps[0].weight", "greater than or equal to 1", put("spec.steps.0.weight", -5)
    ),
    _smallest("weight as text", "spec.steps[0].weight", "must be of type integer", put("spec.steps.0.weight", "5%")),
    _smallest("weight with a fraction", "spec.steps[0].weight", "of type integer", put("spec.steps.0.weight", 5.5)),
    _smallest("weight is a truth value", "spec.steps[0].weight", "of type int", put("spec.steps.0.weight", True)),
    _smallest("step does nothing", "spec.steps[0]", "a weight, or shadow", drop("spec.steps.0.weight")),
    _smallest(
        "step does two things", "spec.steps[0]", "a weight, or shadow", put("spec.steps.0.pause", {"duration": "1m"})
    ),
    _rollout("pause with a bake", "spec.steps[3]", "remove them from the pause", put("spec.steps.3.bake", "1m")),
    _rollout("pause without a length", "spec.steps[3].pause.duration", "Required value", put("spec.steps.3.pause", {})),
    # Shadow traffic
    _rollout(
        "a pause with shadow traffic",
        "spec.steps[0]",
        "or a pause alone",
        put("spec.steps.0.pause", {"duration": "1m"}),
    ),
    _rollout(
        "live samples without live traffic", "spec.steps[0]", "write shadow.minPairs", put("spec.steps.0.minSamples", 5)
    ),
    _rollout("no sample", "spec.steps[0].shadow.sample", "above 0%", put("spec.steps.0.shadow.sample", "0%")),
    _rollout("no pairs", "spec.steps[0].shadow.minPairs", "or equal to 1", put("spec.steps.0.shadow.minPairs", 0)),
    _rollout(
        "a shadow step without an end",
        "spec.steps[0].shadow.maxDuration",
        "1m",
        put("spec.steps.0.shadow.maxDuration", "0s"),
    ),
    _rollout(
        "a port of another", "spec.shadow.comparator.port", "equal to 8090", put("spec.shadow.comparator.port", 80)
    ),
    _rollout(
        "a comparator elsewhere",
        "spec.shadow.comparator.name",
        "alone",
        put("spec.shadow.comparator.name", "a.other-ns"),
    ),
    _rollout(
        "an unknown protocol", "spec.shadow.comparator.protocol", "HTTP", put("spec.shadow.comparator.protocol", "FTP")
    ),
    _rollout(
        "a method in small letters", "spec.shadow.methods[0]", "in capitals", put("spec.shadow.methods.0", "post")
    ),
    _rollout("a path without a slash", "spec.shadow.paths[0]", "such as /v2", put("spec.shadow.paths.0", "v2/models")),
    _rollout("all pairs for the noise", "spec.shadow.noise", "to 50%", put("spec.shadow.noise", "100%")),
    _rollout(
        "an unknown format", "spec.shadow.compare.format", "nsupported value", put("spec.shadow.compare.format", "XML")
    ),
    _rollout(
        "a JSONPath without a root",
        "spec.shadow.compare.ignore[0]",
        "RFC 9535",
        put("spec.shadow.compare.ignore.0", "id"),
    ),
    _rollout(
        "no disagreement at all",
        "spec.gates.disagreement.limit",
        "above 0%",
        put("spec.gates.disagreement.limit", "0%"),
    ),
    _rollout(
        "a reserved name",
        "spec.signals.metrics[0].name",
        "of shadow traffic",
        put("spec.signals.metrics.0.name", "confidence"),
    ),
    # Slices
    _fair(
        "an attribute from nowhere", "attributes[0]", "comes from one place", drop("spec.slices.attributes.0.header")
    ),
    _fair(
        "an attribute from two places",
        "attributes[0]",
        "comes from one place",
        put("spec.slices.attributes.0.jsonPath", "$.sex"),
    ),
    _fair("no values", "attributes[0]", "the edges of its bins", drop("spec.slices.attributes.0.values")),
    _fair("values and bins", "attributes[0]", "the edges of its bins", put("spec.slices.attributes.0.bins", [1])),
    _fair("a value twice", "attributes[0]", "write each once", put("spec.slices.attributes.0.values.1", "Female")),
    _fair("bins that fall", "attributes[2]", "the edges of bins rise", put("spec.slices.attributes.2.bins", [45, 25])),
    _fair("a bin twice", "attributes[2]", "the edges of bins rise", put("spec.slices.attributes.2.bins", [25, 25])),
    _fair("a name in capitals", "attributes[0].name", "age_band", put("spec.slices.attributes.0.name", "Sex")),
    _fair(
        "an intersection of one", "intersections[0]", "at least 2 items", put("spec.slices.intersections.0", ["sex"])
    ),
    _fair("an unknown metric", "gates[0].metric", "nsupported value", put("spec.slices.gates.0.metric", "recall")),
    _fair("a rate without a drop", "gates[0]", "a rate has a maxDrop", drop("spec.slices.gates.0.maxDrop")),
    _fair("a drop of nothing", "gates[0]", "a rate has a maxDrop", put("spec.slices.gates.0.maxDrop", {})),
    _fair("a gap with a drop", "gates[2]", "has a maxWidening", put("spec.slices.gates.2.maxDrop", {"absolute": "1%"})),
    _fair("a gap without a margin", "gates[2]", "has a maxWidening", drop("spec.slices.gates.2.maxWidening")),
    _fair(
        "a relative margin of all",
        "gates[0].maxDrop.relative",
        "to 90%",
        put("spec.slices.gates.0.maxDrop.relative", "95%"),
    ),
    _fair("no support", "minSupport", "greater than or equal to 1", put("spec.slices.minSupport", 0)),
    _smallest("only pauses", "spec.steps", "add a step such as", put(_STEPS, [{"pause": {"duration": "1m"}}])),
    _smallest(
        "no samples", "spec.steps[0].minSamples", "greater than or equal to 1", put("spec.steps.0.minSamples", 0)
    ),
    # Durations
    _smallest("bake of nothing", "spec.steps[0].bake", "from 1s to 7d", put("spec.steps.0.bake", "0s")),
    _smallest("bake too long", "spec.steps[0].bake", "from 1s to 7d", put("spec.steps.0.bake", "8d")),
    _smallest("bake below zero", "spec.steps[0].bake", 'such as "5s"', put("spec.steps.0.bake", "-5m")),
    _smallest("bake without a unit", "spec.steps[0].bake", 'such as "5s"', put("spec.steps.0.bake", "300")),
    _smallest("bake as a number", "spec.steps[0].bake", "must be of type string", put("spec.steps.0.bake", 300)),
    _smallest("bake in other digits", "spec.steps[0].bake", 'such as "5s"', put("spec.steps.0.bake", "٥m")),
    _smallest("bake with an underscore", "spec.steps[0].bake", 'such as "5s"', put("spec.steps.0.bake", "1_0s")),
    _smallest("bake with an exponent", "spec.steps[0].bake", 'such as "5s"', put("spec.steps.0.bake", "1e3s")),
    _smallest("bake in wrong order", "spec.steps[0].bake", 'such as "5s"', put("spec.steps.0.bake", "5s1m")),
    _smallest("empty bake", "spec.steps[0].bake", 'such as "5s"', put("spec.steps.0.bake", "")),
    _smallest("interval too short", "spec.interval", "from 1s to 5m", put("spec.interval", "100ms")),
    _smallest("interval too long", "spec.interval", "from 1s to 5m", put("spec.interval", "1h")),
    _rollout(
        "rolls back before it tells",
        "spec.rollback.onNoData.thenRollBackAfter",
        "at least as long as hold",
        put("spec.rollback.onNoData", {"hold": "10m", "thenRollBackAfter": "5m"}),
    ),
    _rollout(
        "hold longer than the default",
        "spec.rollback.onNoData.thenRollBackAfter",
        "default 15m",
        put("spec.rollback.onNoData", {"hold": "20m"}),
    ),
    _rollout("cooldown of nothing", "spec.rollback.cooldown", "from 1s to 90d", put("spec.rollback.cooldown", "0s")),
    _rollout("deadline too short", "spec.promotion.deadline", "from 1m to 90d", put("spec.promotion.deadline", "5s")),
    # Variants
    _smallest("no baseline", "spec.baseline", "Required value", drop("spec.baseline")),
    _smallest("no candidate", "spec.candidate", "Required value", drop("spec.candidate")),
    _smallest("no route", "spec.route", "Required value", drop("spec.route")),
    _smallest("no HTTPRoute", "spec.route.gatewayAPI", "Required value", put("spec.route", {})),
    _smallest(
        "one backend twice",
        "spec.candidate",
        "give the candidate a Service of its own",
        put("spec.candidate.backend.name", "credit-fp32"),
    ),
    _smallest("backend without a port", "spec.baseline.backend.port", "Required", drop("spec.baseline.backend.port")),
    _smallest(
        "port 0", "spec.baseline.backend.port", "greater than or equal to 1", put("spec.baseline.backend.port", 0)
    ),
    _smallest(
        "port too high", "spec.baseline.backend.port", "equal to 65535", put("spec.baseline.backend.port", 65536)
    ),
    _smallest(
        "backend in another namespace",
        "spec.candidate.backend.name",
        "without a namespace",
        put("spec.candidate.backend.name", "other/credit"),
    ),
    _smallest(
        "backend in capitals", "spec.baseline.backend.name", "lower-case", put("spec.baseline.backend.name", "Credit")
    ),
    _smallest(
        "backend of another kind",
        "spec.candidate.backend",
        "only Services can be backends",
        put("spec.candidate.backend.kind", "InferencePool"),
    ),
    _rollout(
        "digest cut short",
        "spec.candidate.model.digest",
        "64 lower-case",
        put("spec.candidate.model.digest", _SHA[:-1]),
    ),
    _rollout(
        "digest without method", "spec.candidate.model.digest", "sha256:", put("spec.candidate.model.digest", "0" * 64)
    ),
    _rollout(
        "unknown optimisation",
        "spec.candidate.optimisation.method",
        'supported values: "Quantisation"',
        put("spec.candidate.optimisation.method", "Magic"),
    ),
    _rollout(
        "series not told apart",
        "spec.candidate",
        "give one label another value",
        put("spec.candidate.metrics.labels", {"service": "credit-fp32"}),
    ),
    _rollout("labels of one variant", "spec.candidate", "or neither", drop("spec.candidate.metrics")),
    _rollout(
        "label of no name",
        "spec.candidate.metrics.labels",
        "label names",
        put("spec.candidate.metrics.labels", {"a-b": "c"}),
    ),
    _rollout(
        "label of another namespace",
        "spec.candidate.metrics.labels",
        "remove namespace",
        put("spec.candidate.metrics.labels", {"namespace": "other"}),
    ),
    _rollout(
        "no labels", "spec.candidate.metrics.labels", "at least 1 properties", put("spec.candidate.metrics.labels", {})
    ),
    # Signals and gates
    _smallest("no preset", "spec.signals", "write spec.signals.preset", drop("spec.signals")),
    _smallest(
        "unknown preset",
        "spec.signals.preset",
        'supported values: "mlserver", "envoy"',
        put("spec.signals.preset", "mlservr"),
    ),
    _smallest(
        "address as a source",
        "spec.signals.source",
        "name of the object alone",
        put("spec.signals.source", "http://x:1"),
    ),
    _rollout(
        "metric named twice",
        "spec.signals.metrics[2]",
        "Duplicate value",
        append("spec.signals.metrics", {"name": "approvals", "counter": {"events": "a_total", "total": "b_total"}}),
    ),
    _rollout(
        "metric named as a preset signal",
        "spec.signals.metrics[0].name",
        "give your own metric another name",
        put("spec.signals.metrics.0.name", "errors"),
    ),
    _rollout(
        "metric with a function",
        "spec.signals.metrics[0].counter.events",
        "no functions such as rate()",
        put("spec.signals.metrics.0.counter.events", "rate(credit_approved_total[5m])"),
    ),
    _rollout(
        "metric of one counter",
        "spec.signals.metrics[0].counter",
        "name the counter of the events",
        put("spec.signals.metrics.0.counter.events", "credit_scored_total"),
    ),
    _rollout(
        "metric far too long",
        "spec.signals.metrics[0].counter.events",
        "may not be more than 1024",
        put("spec.signals.metrics.0.counter.events", "a" * 1025),
    ),
    _rollout(
        "gate of an unknown metric",
        "spec.gates.metrics",
        "correct the name of the gate",
        put("spec.gates.metrics.0.name", "aprovals"),
        drop("spec.signals.metrics.0"),
    ),
    _rollout("metric without a gate", "spec.signals.metrics", "read and never judged", drop("spec.gates.metrics.0")),
    _rollout("either without a margin", "spec.gates.metrics[0]", "needs a margin", drop("spec.gates.metrics.0.margin")),
    _rollout(
        "unknown direction",
        "spec.gates.metrics[0].worse",
        'values: "Higher"',
        put("spec.gates.metrics.0.worse", "higher"),
    ),
    _rollout("no direction", "spec.gates.metrics[0].worse", "Required value", drop("spec.gates.metrics.0.worse")),
    _rollout(
        "two margins",
        "spec.gates.metrics[0].margin",
        "write one of absolute, relative or oddsRatio",
        put("spec.gates.metrics.0.margin.relative", "5%"),
    ),
    _rollout("no kind of margin", "spec.gates.errors.margin", "write one of", put("spec.gates.errors.margin", {})),
    _rollout(
        "odds ratio of 1",
        "spec.gates.errors.margin.oddsRatio",
        "greater than 1",
        put("spec.gates.errors.margin.oddsRatio", 1),
    ),
    _rollout(
        "odds ratio too high",
        "spec.gates.errors.margin.oddsRatio",
        "less than or equal to 10",
        put("spec.gates.errors.margin.oddsRatio", 100),
    ),
    _rollout(
        "margin of nothing",
        "spec.gates.metrics[0].margin.absolute",
        "above 0% and up to 50%",
        put("spec.gates.metrics.0.margin.absolute", "0%"),
    ),
    _rollout(
        "slowdown too high",
        "spec.gates.latency.margin.slowdown",
        "up to 100%",
        put("spec.gates.latency.margin.slowdown", "101%"),
    ),
    _rollout(
        "allowance without a sign",
        "spec.gates.errors.allowance",
        'such as "1%"',
        put("spec.gates.errors.allowance", "0.1"),
    ),
    _rollout(
        "rate of nothing",
        "spec.gates.falseRollbackRate",
        "above 0% and up to 50%",
        put("spec.gates.falseRollbackRate", "0%"),
    ),
    _rollout(
        "rate too high",
        "spec.gates.falseRollbackRate",
        "above 0% and up to 50%",
        put("spec.gates.falseRollbackRate", "51%"),
    ),
    _rollout(
        "rate as a number",
        "spec.gates.falsePromotionRate",
        "of type string",
        put("spec.gates.falsePromotionRate", 0.05),
    ),
    _rollout(
        "rate in other digits",
        "spec.gates.falsePromotionRate",
        'such as "1%"',
        put("spec.gates.falsePromotionRate", "٥%"),
    ),
    _rollout(
        "trip wire too low",
        "spec.rollback.tripWires.errorShare",
        "from 1% to 100%",
        put("spec.rollback.tripWires.errorShare", "0.5%"),
    ),
    _rollout("channel named twice", "spec.notify[2]", "Duplicate value", append("spec.notify", {"channel": "oncall"})),
    _rollout("unknown severity", "spec.notify[0].from", 'values: "Info"', put("spec.notify.0.from", "Debug")),
    _smallest(
        "policy of another kind",
        "spec.policyRef.kind",
        'supported values: "RolloutPolicy", "ClusterRolloutPolicy"',
        put("spec.policyRef", {"kind": "Policy", "name": "x"}),
    ),
    # The object
    _smallest(
        "name too long",
        "metadata.name",
        "give the object a shorter name",
        put("metadata.name", "a" * 64),
        by_models=False,
    ),
    _smallest("unknown field", "spec.groups", "unknown field", put("spec.groups", {})),
    _smallest("misspelt field", "spec.steps[0].bakes", "unknown field", put("spec.steps.0.bakes", "1m")),
    # The other kinds
    _other(
        "policy with falling weights", "policy-0", "spec.steps", "weights must rise", put("spec.steps.0.weight", 30)
    ),
    _other(
        "policy with an unknown rate",
        "policy-0",
        "spec.gates.falseRollbackRate",
        "up to 50%",
        put("spec.gates.falseRollbackRate", "99%"),
    ),
    _other(
        "address with a password",
        "metricsource-0",
        "spec.prometheus.address",
        "no user, password, query or fragment",
        put("spec.prometheus.address", "http://me:secret@prometheus:9090"),
    ),
    _other(
        "address of another scheme",
        "metricsource-0",
        "spec.prometheus.address",
        "http or https",
        put("spec.prometheus.address", "file:///etc/passwd"),
    ),
    _other(
        "two kinds of credentials",
        "metricsource-1",
        "spec.prometheus.auth",
        "write bearerToken or basic",
        put(
            "spec.prometheus.auth.basic", {"username": {"name": "a", "key": "b"}, "password": {"name": "a", "key": "c"}}
        ),
    ),
    _other(
        "credentials in a header",
        "metricsource-1",
        "spec.prometheus.headers[0].name",
        "put them into a Secret",
        put("spec.prometheus.headers.0.name", "Authorization"),
    ),
    _other(
        "header on two lines",
        "metricsource-1",
        "spec.prometheus.headers[0].value",
        "on one line",
        put("spec.prometheus.headers.0.value", "ml\r\nHost: other"),
    ),
    _other("channel to nowhere", "notificationchannel-0", "spec", "write slack or pagerDuty", drop("spec.slack")),
    _other(
        "channel to two services",
        "notificationchannel-1",
        "spec",
        "write slack or pagerDuty",
        put("spec.slack", {"webhook": {"name": "a", "key": "b"}}),
    ),
    _other(
        "address in place of a Secret",
        "notificationchannel-0",
        "spec.slack.webhook",
        "of type object",
        put("spec.slack.webhook", "https://x"),
    ),
)
