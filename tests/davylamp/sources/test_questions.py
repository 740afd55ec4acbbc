from dataclasses import replace

import pytest

from davylamp.core.plan import SignalKind
from davylamp.core.reading import Matcher, MatchKind, Scope, Selector, SignalQuery
from davylamp.errors import SpecError
from tests.davylamp.sources.looks import APPROVALS, BASELINE, CANDIDATE, ERRORS, LATENCY, asked_of, request, texts

GATEWAY = Scope("cluster", ("{namespace}_", "route/{namespace}/"))


def test_both_variants_and_all_signals_are_one_query_where_the_series_allow_it() -> None:
    assert texts(request(ERRORS, APPROVALS, LATENCY)) == [
        (
            '{__name__=~"approved_total|failed_total|ok_total|scored_total|seconds|seconds_bucket",'
            'namespace="ml",service=~"fp32|int8"}[30000ms]'
        )
    ]


def test_variants_that_differ_in_the_names_of_their_labels_are_two_queries() -> None:
    variants = {BASELINE: {"app": "credit"}, CANDIDATE: {"app": "credit", "track": "canary"}}

    assert texts(request(APPROVALS, variants=variants)) == [
        '{__name__=~"approved_total|scored_total",namespace="ml",app="credit"}[30000ms]',
        '{__name__=~"approved_total|scored_total",namespace="ml",app="credit",track="canary"}[30000ms]',
    ]


def test_a_regular_expression_is_a_query_of_its_own() -> None:
    wild = Selector("approved_total", (Matcher("kind", MatchKind.MATCHES, "a|b.*"),))

    assert texts(request(replace(APPROVALS, events=(wild,)))) == [
        '{__name__="approved_total",namespace="ml",service=~"fp32|int8",kind=~"a|b.*"}[30000ms]',
        '{__name__="scored_total",namespace="ml",service=~"fp32|int8"}[30000ms]',
    ]


def test_matchers_without_regular_expressions_share_the_query() -> None:
    narrow = Selector("scored_total", (Matcher("decision", MatchKind.EQUAL, "yes"),))

    assert texts(request(replace(APPROVALS, events=(narrow,)))) == [
        '{__name__="scored_total",namespace="ml",service=~"fp32|int8"}[30000ms]'
    ]


def test_a_histogram_with_matchers_is_a_query_of_its_own_to_spare_buckets() -> None:
    narrow = Selector("seconds", (Matcher("path", MatchKind.EQUAL, "/infer"),))

    assert texts(request(ERRORS, replace(LATENCY, histogram=narrow)))[1] == (
        '{__name__=~"seconds|seconds_bucket",namespace="ml",service=~"fp32|int8",path="/infer"}[30000ms]'
    )


def test_signals_with_labels_of_their_own_are_asked_with_these() -> None:
    own = replace(ERRORS, scope=GATEWAY, variants={BASELINE: {"cluster": "ml_a_80"}, CANDIDATE: {"cluster": "ml_b_80"}})

    assert texts(request(own, APPROVALS)) == [
        '{__name__=~"failed_total|ok_total",cluster=~"ml_a_80|ml_b_80"}[30000ms]',
        '{__name__=~"approved_total|scored_total",namespace="ml",service=~"fp32|int8"}[30000ms]',
    ]


def test_a_scope_without_a_variant_label_is_a_matcher() -> None:
    assert texts(request(replace(ERRORS, scope=GATEWAY))) == [
        '{__name__=~"failed_total|ok_total",cluster=~"(ml_|route/ml/).*",service=~"fp32|int8"}[30000ms]'
    ]


@pytest.mark.parametrize("cluster", ["other_a_80", "ml", "mlx_a_80", "route/other/x", "", "x|ml_a"])
def test_labels_that_point_to_another_namespace_are_refused(cluster: str) -> None:
    variants = {BASELINE: {"cluster": cluster}, CANDIDATE: {"cluster": "ml_b_80"}}

    with pytest.raises(SpecError, match="must begin with 'ml_' or 'route/ml/'"):
        asked_of(request(replace(ERRORS, scope=GATEWAY, variants=variants)))


def test_variants_with_the_same_labels_are_refused() -> None:
    same = {BASELINE: {"service": "a"}, CANDIDATE: {"service": "a"}}

    with pytest.raises(SpecError, match='the same labels service="a" for approvals'):
        asked_of(request(APPROVALS, variants=same))


def test_variants_without_labels_are_refused() -> None:
    with pytest.raises(SpecError, match=r"baseline\.metrics.labels must name at least one label"):
        asked_of(request(APPROVALS, variants={CANDIDATE: {"service": "a"}}))


@pytest.mark.parametrize("namespace", ["", "a b", 'ml"', "ml\n", "ML", "-ml", "m" * 64, "ml|x"])
def test_what_is_no_namespace_is_refused(namespace: str) -> None:
    with pytest.raises(SpecError, match="not the name of a namespace"):
        asked_of(request(ERRORS, namespace=namespace))


@pytest.mark.parametrize(
    ("labels", "held"),
    [
        ({}, True),
        ({"kind": "a"}, False),
        ({"code": ""}, False),
        ({"code": "5", "kind": "b"}, True),
        ({"namespace": "other"}, False),
        ({"service": "int8"}, False),
    ],
)
def test_what_is_wanted_is_picked_out_exactly(labels: dict[str, str], held: bool) -> None:
    matchers = (Matcher("code", MatchKind.EQUAL, "5"), Matcher("kind", MatchKind.NOT_EQUAL, "a"))
    signal = SignalQuery("x", SignalKind.COUNTER, total=(Selector("x_total", matchers),))
    (question,) = asked_of(request(signal))
    wanted = next(wanted for wanted in question.wanted if wanted.variant is BASELINE)

    assert wanted.holds({"namespace": "ml", "service": "fp32", "code": "5"} | labels) is held
