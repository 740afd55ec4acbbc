"""What every preset says, found through the registry."""

from dataclasses import replace

import pytest

from davylamp.core.model import Variant
from davylamp.core.plan import SignalKind
from davylamp.errors import SpecError
from davylamp.sources.presets import PRESETS, OwnCounter, Side, queries
from davylamp.sources.questions import questions
from tests.davylamp.sources.looks import BASELINE, CANDIDATE, request

SIDES = {BASELINE: Side("fp32", 8080), CANDIDATE: Side("int8", 8080)}
APPROVALS = OwnCounter("approvals", 'approved_total{decision="yes"}', "scored_total")


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_errors_and_latency_come_first_and_then_the_own_counters(name: str) -> None:
    errors, latency, own = queries(name, [APPROVALS], "ml", SIDES)

    assert (errors.gate, errors.kind) == ("errors", SignalKind.ERRORS)
    assert errors.events
    assert errors.total
    assert (latency.gate, latency.kind) == ("latency", SignalKind.LATENCY)
    assert latency.histogram is not None
    assert (own.gate, own.kind) == ("approvals", SignalKind.COUNTER)


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_a_preset_can_be_asked_as_it_stands(name: str) -> None:
    asked = questions(request(*queries(name, [APPROVALS], "ml", SIDES), variants={}))

    assert len(asked) <= 2


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_no_side_may_point_to_another_namespace(name: str) -> None:
    gateway = PRESETS[name].gateway_label
    if gateway is None:
        assert PRESETS[name].errors.scope.label == "namespace"
        return
    sides = SIDES | {CANDIDATE: replace(SIDES[CANDIDATE], labels={gateway: "other_int8_8080"})}

    with pytest.raises(SpecError, match="of its own namespace only"):
        questions(request(*queries(name, [], "ml", sides)))


def variants_of(preset: str, **labels: str) -> list[dict[Variant, dict[str, str]]]:
    sides = {BASELINE: Side("fp32", 80, labels), CANDIDATE: Side("int8", 81)}
    return [
        {variant: dict(found) for variant, found in signal.variants.items()}
        for signal in queries(preset, [APPROVALS], "ml", sides)
    ]


def test_pods_are_recognised_by_their_service_unless_the_user_says_otherwise() -> None:
    default = {BASELINE: {"service": "fp32"}, CANDIDATE: {"service": "int8"}}
    given = {BASELINE: {"variant": "base"}, CANDIDATE: {"service": "int8"}}

    assert variants_of("mlserver") == [default] * 3
    assert variants_of("mlserver", variant="base") == [given] * 3


def test_a_gateway_is_asked_by_its_clusters_and_the_pods_by_their_own_labels() -> None:
    clusters = {BASELINE: {"envoy_cluster_name": "ml_fp32_80"}, CANDIDATE: {"envoy_cluster_name": "ml_int8_81"}}
    pods = {BASELINE: {"service": "fp32"}, CANDIDATE: {"service": "int8"}}

    assert variants_of("envoy") == [clusters, clusters, pods]


def test_of_the_users_labels_the_gateway_takes_its_own_and_the_pods_take_the_others() -> None:
    named = {"envoy_cluster_name": "httproute/ml/credit/rule/0/backend/0"}
    clusters = {BASELINE: named, CANDIDATE: {"envoy_cluster_name": "ml_int8_81"}}
    pods = {BASELINE: {"variant": "base"}, CANDIDATE: {"service": "int8"}}

    assert variants_of("envoy", variant="base", **named) == [clusters, clusters, pods]


def test_an_unknown_preset_and_a_bad_selector_are_refused_by_name() -> None:
    with pytest.raises(SpecError, match="'triton' is not known: write one of envoy, mlserver"):
        queries("triton", [], "ml", SIDES)
    with pytest.raises(SpecError, match=r"signal x: 'rate\(a\[1m\]\)' is not a plain counter"):
        queries("envoy", [OwnCounter("x", "rate(a[1m])", "b")], "ml", SIDES)
