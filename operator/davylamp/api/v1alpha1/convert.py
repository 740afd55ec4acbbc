"""From resources to the words of the core, and back.

Rule 1: settings that do not fit are a `SpecError` with the field and the remedy; a stored status never raises.
Rule 2: what is lost or damaged in a stored status leads to less traffic for the candidate, never to more.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, Final, TypeVar

from davylamp.api.v1alpha1.effective import effective
from davylamp.api.v1alpha1.identity import candidate_digest, hashed, spec_hash
from davylamp.api.v1alpha1.policy import PolicySpec
from davylamp.api.v1alpha1.quantities import parse_duration, parse_percent
from davylamp.api.v1alpha1.rollout import ModelRolloutSpec
from davylamp.api.v1alpha1.shadow_plan import comparator_text, refuse_bad_paths, shadow_gates, shadow_of
from davylamp.api.v1alpha1.signals import ErrorMargin, Gates, MetricGate, MetricMargin
from davylamp.api.v1alpha1.slice_plan import refuse_bad_slices, slice_gates, slice_rules
from davylamp.api.v1alpha1.steps import OnNoDataPolicy, Rollback
from davylamp.api.v1alpha1.steps import Step as LadderStep
from davylamp.api.v1alpha1.variants import Backend
from davylamp.core.model import Pair, Weight
from davylamp.core.plan import (
    AbsoluteMargin,
    Direction,
    Gate,
    Margin,
    OddsRatioMargin,
    Plan,
    RelativeMargin,
    SignalKind,
    SlowdownMargin,
    Step,
    TripWires,
)
from davylamp.errors import SpecError
from davylamp.ports import BackendRef, RouteRef

ERRORS: Final = "errors"
LATENCY: Final = "latency"
_BACKEND: Final = re.compile(r"([a-z0-9](?:[-a-z0-9]*[a-z0-9])?):([1-9][0-9]{0,4})", re.ASCII)

_Value = TypeVar("_Value")


def read_spec(raw: Mapping[str, Any]) -> ModelRolloutSpec:
    """Read the ``spec`` of a ModelRollout.

    Raises
    ------
    SpecError
        If a field is wrong; the message names it and what to write.
    """
    try:
        return ModelRolloutSpec.parse(raw)
    except ValueError as error:
        raise SpecError(str(error)) from error


def read_policy(raw: Mapping[str, Any]) -> PolicySpec:
    """Read the ``spec`` of a RolloutPolicy or ClusterRolloutPolicy; errors as for `read_spec`."""
    try:
        return PolicySpec.parse(raw)
    except ValueError as error:
        raise SpecError(f"policy: {error}") from error


def settings_of(spec: ModelRolloutSpec, policy: PolicySpec | None) -> PolicySpec:
    """Return the complete settings of a rollout: its own over its policy's over Davylamp's.

    Raises
    ------
    SpecError
        If the layers do not fit together.
    """
    try:
        return effective(spec, policy)
    except ValueError as error:
        raise SpecError(str(error)) from error


def to_plan(spec: ModelRolloutSpec, policy: PolicySpec | None = None, *, key: str = "") -> Plan:
    """Return what an attempt runs by.

    Parameters
    ----------
    spec
        What the ModelRollout says.
    policy
        What the policy says that ``spec.policyRef`` names; None without one.
    key
        By which protected values of slices are hashed: the uid of the ModelRollout, where there is one.

    Raises
    ------
    SpecError
        If the two do not fit together.
    """
    settings = settings_of(spec, policy)
    gates = _given(settings.gates, "gates")
    promotion = _given(settings.promotion, "promotion")
    rollback = _given(settings.rollback, "rollback")
    no_data = _given(rollback.on_no_data, "rollback.onNoData")
    mirrors = any(step.shadow is not None for step in settings.steps or ())
    refuse_bad_paths(_given(settings.shadow, "shadow"))
    slices = _given(settings.slices, "slices")
    refuse_bad_slices(slices)
    if slices.gates and not mirrors:
        raise SpecError(
            "slices are judged on requests that both variants answer, and no step mirrors any: add a step such as "
            "{shadow: {sample: 20%}}, or shadow to a step with a weight"
        )
    rolls_back = no_data.policy is OnNoDataPolicy.ROLL_BACK
    return Plan(
        spec_hash=spec_hash(spec, policy),
        candidate_digest=candidate_digest(spec.candidate),
        pair=Pair(
            route=spec.route.gateway_api.http_route,
            baseline=backend_text(spec.baseline.backend),
            candidate=backend_text(spec.candidate.backend),
        ),
        steps=tuple(_step(step) for step in _given(settings.steps, "steps")),
        gates=(*_gates(gates), *(shadow_gates(gates) if mirrors else ()), *slice_gates(slices, key)),
        interval=parse_duration(spec.interval),
        false_rollback_rate=parse_percent(_given(gates.false_rollback_rate, "gates.falseRollbackRate")),
        false_promotion_rate=parse_percent(_given(gates.false_promotion_rate, "gates.falsePromotionRate")),
        promotion_bake=parse_duration(_given(promotion.bake, "promotion.bake")),
        promotion_deadline=parse_duration(_given(promotion.deadline, "promotion.deadline")),
        cooldown=parse_duration(_given(rollback.cooldown, "rollback.cooldown")),
        no_data_tell_after=parse_duration(no_data.hold),
        no_data_roll_back_after=parse_duration(no_data.then_roll_back_after) if rolls_back else None,
        trip_wires=_trip_wires(rollback),
        paused=spec.paused,
        comparator=comparator_text(_given(settings.shadow, "shadow")) if mirrors else "",
        slices=slice_rules(slices, key),
    )


def gates_hash(plan: Plan) -> str:
    """Return a hash of what evidence is about: the gates and their margins, and not what promotion waits for."""
    return hashed([[asdict(replace(gate, required=True)), type(gate.margin).__name__] for gate in plan.gates])


def backend_text(backend: Backend) -> str:
    """Return a backend as a `Pair` names it: ``name:port``."""
    return f"{backend.name}:{backend.port}"


def pair_ref(pair: Pair, namespace: str) -> RouteRef:
    """Return the route and the backends that an attempt works on, whatever the spec says since.

    Raises
    ------
    SpecError
        If a backend is not written as name:port.
    """
    return RouteRef(namespace, pair.route, backend_ref(pair.baseline), backend_ref(pair.candidate))


def backend_ref(text: str) -> BackendRef:
    """Return the Service and port that ``name:port`` names.

    Raises
    ------
    SpecError
        If it names none.
    """
    parts = _BACKEND.fullmatch(text)
    if parts is None or int(parts[2]) > 65_535:
        raise SpecError(f"a backend is a name and a port from 1 to 65535, such as credit-int8:8080, not {text[:80]!r}")
    return BackendRef(parts[1], int(parts[2]))


def _step(step: LadderStep) -> Step:
    if step.pause is not None:
        return Step(weight=None, bake=parse_duration(step.pause.duration))
    return Step(
        weight=None if step.weight is None else Weight(step.weight),
        bake=parse_duration(_given(step.bake, "steps[].bake")),
        min_samples=step.min_samples or 0,
        shadow=None if step.shadow is None else shadow_of(step.shadow),
    )


def _gates(gates: Gates) -> tuple[Gate, ...]:
    errors = _given(gates.errors, "gates.errors")
    latency = _given(gates.latency, "gates.latency")
    slowdown = _given(latency.margin, "gates.latency.margin").slowdown
    return (
        Gate(
            name=ERRORS,
            kind=SignalKind.ERRORS,
            worse=Direction.HIGHER,
            margin=_margin(_given(errors.margin, "gates.errors.margin")),
            allowance=None if errors.allowance is None else parse_percent(errors.allowance),
            required=_given(errors.required_for_promotion, "gates.errors.requiredForPromotion"),
        ),
        Gate(
            name=LATENCY,
            kind=SignalKind.LATENCY,
            worse=Direction.HIGHER,
            margin=SlowdownMargin(parse_percent(slowdown)),
            required=_given(latency.required_for_promotion, "gates.latency.requiredForPromotion"),
        ),
        *(_own_gate(gate) for gate in gates.metrics or ()),
    )


def _own_gate(gate: MetricGate) -> Gate:
    return Gate(
        name=gate.name,
        kind=SignalKind.COUNTER,
        worse=gate.worse,
        margin=_margin(_given(gate.margin, f"gates.metrics: {gate.name}: margin")),
        required=_given(gate.required_for_promotion, f"gates.metrics: {gate.name}: requiredForPromotion"),
    )


def _margin(margin: ErrorMargin | MetricMargin) -> Margin:
    if margin.odds_ratio is not None:
        return OddsRatioMargin(margin.odds_ratio)
    if isinstance(margin, MetricMargin) and margin.relative is not None:
        return RelativeMargin(parse_percent(margin.relative))
    return AbsoluteMargin(parse_percent(_given(margin.absolute, "margin")))


def _trip_wires(rollback: Rollback) -> TripWires:
    wires = _given(rollback.trip_wires, "rollback.tripWires")
    return TripWires(
        error_share=parse_percent(_given(wires.error_share, "rollback.tripWires.errorShare")),
        ticks=_given(wires.ticks, "rollback.tripWires.ticks"),
        min_requests=_given(wires.min_requests, "rollback.tripWires.minRequests"),
    )


def _given(value: _Value | None, field: str) -> _Value:
    """Return a setting that the defaults have filled in."""
    if value is None:
        raise SpecError(f"{field} is not set, neither in the ModelRollout nor in its policy")
    return value
