from __future__ import annotations

from datetime import timedelta

import pytest

from davylamp.api.v1alpha1.convert import (
    pair_ref,
    read_policy,
    read_spec,
    to_plan,
)
from davylamp.api.v1alpha1.matching import parse_selector
from davylamp.core.model import Pair, Weight
from davylamp.core.plan import (
    AbsoluteMargin,
    Direction,
    Gate,
    LimitMargin,
    OddsRatioMargin,
    RelativeMargin,
    Shadow,
    SignalKind,
    SlowdownMargin,
    Step,
    TripWires,
)
from davylamp.core.reading import Matcher, MatchKind, Selector
from davylamp.errors import SpecError
from davylamp.ports import BackendRef, RouteRef
from tests.davylamp.api.manifests import changed, example, put, rollout, smallest

SHADOW_GATES = (
    Gate("disagreement", SignalKind.SHADOW_SHARE, Direction.HIGHER, LimitMargin(0.02)),
    Gate("overNoise", SignalKind.SHADOW_NOISE, Direction.HIGHER, AbsoluteMargin(0.01)),
    Gate("statusMismatch", SignalKind.SHADOW_SHARE, Direction.HIGHER, LimitMargin(0.005)),
    Gate(
        "scoreShift",
        SignalKind.SHADOW_MOVES,
        Direction.EITHER,
        AbsoluteMargin(0.02),
        edges=(0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95),
    ),
    Gate(
        "confidence",
        SignalKind.SHADOW_MOVES,
        Direction.LOWER,
        AbsoluteMargin(0.05),
        required=False,
        edges=(0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99),
    ),
    Gate("pairedLatency", SignalKind.SHADOW_SHARE, Direction.HIGHER, LimitMargin(0.5), required=False),
)


def test_without_a_shadow_step_nothing_is_judged_on_shadow_traffic() -> None:
    plan = to_plan(read_spec(smallest()["spec"]))
    assert (plan.shadow_gates, plan.comparator) == ((), "")


def test_a_shadow_step_alone_judges_disagreement_and_status() -> None:
    spec = changed(smallest(), put("spec.steps.0", {"shadow": {}}))["spec"]
    plan = to_plan(read_spec(spec))
    assert plan.steps[0] == Step(None, timedelta(minutes=1), shadow=Shadow(1.0, 1000, timedelta(days=1)))
    assert [gate.name for gate in plan.shadow_gates] == ["disagreement", "statusMismatch"]
    assert plan.comparator == "davylamp-shadow:8090"


def test_a_jsonpath_that_cannot_be_read_is_told_with_its_place() -> None:
    spec = changed(rollout(), put("spec.shadow.compare.ignore.0", "$.outputs["))["spec"]
    with pytest.raises(SpecError, match=r"shadow\.compare\.ignore\[0\]: \$\.outputs\[ is no JSONPath"):
        to_plan(read_spec(spec))


@pytest.mark.parametrize("path", ["$[?match(@.a, 'b')]", "$[?$.a]", "$[?@ == 1e400]"])
@pytest.mark.parametrize("field", ["compare.select", "compare.ignore", "capture.redact"])
def test_a_jsonpath_that_the_comparator_does_not_look_for_is_refused_by_the_operator_too(field: str, path: str) -> None:
    spec = changed(rollout(), put(f"spec.shadow.{field}.0", path))["spec"]
    with pytest.raises(SpecError, match=rf"shadow\.{field}\[0\]: .* is (no JSONPath|not looked for)"):
        to_plan(read_spec(spec))


def test_requests_over_grpc_are_mirrored_to_the_port_100_above() -> None:
    spec = changed(rollout(), put("spec.shadow.comparator.protocol", "GRPC"))["spec"]
    assert to_plan(read_spec(spec)).comparator == "davylamp-shadow:8191"


def test_tolerances_that_nobody_gives_have_a_default() -> None:
    gates: dict[str, object] = {"scoreShift": {}, "confidence": {}, "pairedLatency": {}}
    spec = changed(smallest(), put("spec.steps.0", {"shadow": {}}), put("spec.gates", gates))["spec"]
    margins = {gate.name: gate.margin for gate in to_plan(read_spec(spec)).shadow_gates}
    assert margins["scoreShift"] == AbsoluteMargin(0.02)
    assert margins["confidence"] == AbsoluteMargin(0.05)
    assert margins["pairedLatency"] == LimitMargin(0.5)


def test_the_full_example_becomes_a_plan_with_units() -> None:
    plan = to_plan(read_spec(rollout()["spec"]))
    assert plan.steps == (
        Step(None, timedelta(minutes=1), shadow=Shadow(0.2, 2000, timedelta(minutes=30))),
        Step(Weight(5), timedelta(minutes=5), 500),
        Step(Weight(25), timedelta(minutes=10), 100, shadow=Shadow(0.1, 1000, timedelta(days=1))),
        Step(None, timedelta(hours=1)),
        Step(Weight(50), timedelta(minutes=10), 100),
    )
    assert plan.gates == (
        Gate("errors", SignalKind.ERRORS, Direction.HIGHER, OddsRatioMargin(1.25), allowance=0.001),
        Gate("latency", SignalKind.LATENCY, Direction.HIGHER, SlowdownMargin(0.1), required=False),
        Gate("approvals", SignalKind.COUNTER, Direction.EITHER, AbsoluteMargin(0.01)),
        Gate("fallbacks", SignalKind.COUNTER, Direction.HIGHER, RelativeMargin(0.2), required=False),
        *SHADOW_GATES,
    )
    assert plan.comparator == "davylamp-shadow:8091"
    assert (plan.false_rollback_rate, plan.false_promotion_rate) == (0.01, 0.05)
    assert (plan.promotion_bake, plan.promotion_deadline) == (timedelta(minutes=5), timedelta(days=2))
    assert (plan.interval, plan.cooldown) == (timedelta(seconds=10), timedelta(hours=1))
    assert (plan.no_data_tell_after, plan.no_data_roll_back_after) == (timedelta(minutes=5), timedelta(minutes=15))
    assert plan.trip_wires == TripWires(error_share=0.3, ticks=2, min_requests=20)
    assert plan.candidate_digest == rollout()["spec"]["candidate"]["model"]["digest"]
    assert not plan.paused


def test_a_policy_that_holds_without_data_never_rolls_back_for_it() -> None:
    plan = to_plan(read_spec(example("policy-2")["spec"]), read_policy(example("policy-0")["spec"]))
    assert plan.no_data_roll_back_after is None
    assert plan.cooldown == timedelta(hours=6)


def test_a_gate_without_a_margin_gets_the_default_one() -> None:
    raw = changed(
        smallest(),
        put("spec.signals.metrics", [{"name": "m", "counter": {"events": "a_total", "total": "b_total"}}]),
        put("spec.gates", {"metrics": [{"name": "m", "worse": "Lower"}]}),
    )
    assert to_plan(read_spec(raw["spec"])).gates[-1] == Gate(
        "m", SignalKind.COUNTER, Direction.LOWER, OddsRatioMargin(1.25)
    )


def test_settings_that_do_not_fit_are_told_with_the_remedy() -> None:
    spec = read_spec(example("policy-2")["spec"])
    with pytest.raises(SpecError, match=r"write spec\.steps"):
        to_plan(spec, read_policy({}))
    with pytest.raises(SpecError, match=r"^steps\[0\]\.bake: write a duration"):
        read_spec(changed(smallest(), put("spec.steps.0.bake", "0s"))["spec"])
    with pytest.raises(SpecError, match=r"^policy: steps: weights must rise"):
        read_policy({"steps": [{"weight": 5}, {"weight": 4}]})


def test_an_attempt_works_on_the_pair_that_it_began_with() -> None:
    spec = read_spec(rollout()["spec"])
    pair = to_plan(spec).pair
    assert pair == Pair("credit", "credit-fp32:8080", "credit-int8:8080")
    assert pair_ref(pair, "ml") == RouteRef(
        "ml", "credit", BackendRef("credit-fp32", 8080), BackendRef("credit-int8", 8080)
    )


@pytest.mark.parametrize(
    ("text", "selector"),
    [
        ("a_total", Selector("a_total")),
        ("job:a:sum{}", Selector("job:a:sum")),
        ('a{b="c",d=~"e",}', Selector("a", (Matcher("b", MatchKind.EQUAL, "c"), Matcher("d", MatchKind.MATCHES, "e")))),
        ("a{ b != 'c d' , e!~\"f\" }",
         Selector("a", (Matcher("b", MatchKind.NOT_EQUAL, "c d"), Matcher("e", MatchKind.MATCHES_NOT, "f")))),
        (r'a{b="say \"hi\", \\ you"}', Selector("a", (Matcher("b", MatchKind.EQUAL, 'say "hi", \\ you'),))),
        ('a{b="x,y"}', Selector("a", (Matcher("b", MatchKind.EQUAL, "x,y"),))),
    ],
)  # fmt: skip
def test_a_counter_is_named_as_in_promql(text: str, selector: Selector) -> None:
    assert parse_selector(text) == selector


@pytest.mark.parametrize(
    "text",
    [
        "",
        "rate(a[5m])",
        "a / b",
        'a{b="c"} / d',
        "a{b}",
        'a{b="c}',
        'a{b="c" d="e"}',
        'a{namespace="other"}',
        'a{__name__="b"}',
        'a{le="1"}',
        "a{b=c}",
        'a{b="c"} or d{e="f"}',
        "ä_total",
    ],
)
def test_anything_more_than_a_counter_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"write|remove"):
        parse_selector(text)
