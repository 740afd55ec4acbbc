"""What is allowed in a spec, and perhaps not meant."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from davylamp.api.v1alpha1.policy import PolicySpec
from davylamp.api.v1alpha1.quantities import format_duration, parse_duration
from davylamp.api.v1alpha1.rollout import ModelRolloutSpec
from davylamp.api.v1alpha1.steps import OnNoDataPolicy, Step
from davylamp.api.v1alpha1.strict import Strict

Hint = tuple[tuple[str | int, ...], str]

#: A first step above this shows a bad candidate to many users before anything is known.
_BOLD_START: Final = 25
#: A step up by more than this factor and this many points.
_BOLD_RISE: Final = 5
_BOLD_POINTS: Final = 30
#: Ticks that a bake should hold: with fewer, a step ends before its evidence is seen.
_FEW_TICKS: Final = 3


def hints(spec: Strict) -> Iterator[Hint]:
    """Yield what may surprise, each with the path of its field inside the spec."""
    if isinstance(spec, PolicySpec):
        yield from _ladder(spec)
        yield from _no_data(spec)
    if isinstance(spec, ModelRolloutSpec):
        yield from _rollout(spec)


def _ladder(spec: PolicySpec) -> Iterator[Hint]:
    weights = [(index, step.weight) for index, step in enumerate(spec.steps or ()) if step.weight is not None]
    if weights and weights[0][1] > _BOLD_START:
        index, weight = weights[0]
        yield (
            ("steps", index, "weight"),
            f"the first step gives {weight} % of the users an untried candidate: begin with 1 to 10",
        )
    for (_, low), (index, high) in pairwise(weights):
        if high >= _BOLD_RISE * low and high - low >= _BOLD_POINTS:
            yield ("steps", index, "weight"), f"this is a rise from {low} % to {high} % at once: put a step between"
    yield from _last(spec.steps or ())


def _last(steps: tuple[Step, ...]) -> Iterator[Hint]:
    if steps and steps[-1].pause is not None:
        yield (
            ("steps", len(steps) - 1, "pause"),
            "a pause at the end of the ladder only delays the promotion: put it before a step, or use promotion.bake",
        )


def _no_data(spec: PolicySpec) -> Iterator[Hint]:
    rollback = spec.rollback
    if rollback is not None and rollback.on_no_data and rollback.on_no_data.policy is OnNoDataPolicy.HOLD:
        yield (
            ("rollback", "onNoData", "policy"),
            "with Hold, a candidate whose metrics are gone keeps its traffic until a person decides",
        )


def _rollout(spec: ModelRolloutSpec) -> Iterator[Hint]:
    if spec.notify is None and spec.policy_ref is None:
        yield ("notify",), "nobody is told of a rollback: add a channel, such as {channel: oncall, from: Incident}"
    if spec.candidate.model is None or spec.candidate.model.digest is None:
        yield (
            ("candidate", "model", "digest"),
            "without a digest, a candidate that was rolled back is recognised by its description alone",
        )
    interval = parse_duration(spec.interval)
    for index, step in enumerate(spec.steps or ()):
        if step.bake is not None and parse_duration(step.bake) < _FEW_TICKS * interval:
            yield (
                ("steps", index, "bake"),
                f"{step.bake} is too short for {_FEW_TICKS} looks: make it {format_duration(_FEW_TICKS * interval)}",
            )
    if spec.paused:
        yield ("paused",), "the rollout is paused from its beginning: it will not rise above its present weight"
    yield from _total(spec)


def _total(spec: ModelRolloutSpec) -> Iterator[Hint]:
    """Say when a deadline ends before the ladder could."""
    deadline = spec.promotion.deadline if spec.promotion else None
    last = spec.steps[-1].bake if spec.steps else None
    if deadline is not None and last is not None and parse_duration(deadline) <= parse_duration(last):
        yield ("promotion", "deadline"), f"the deadline ({deadline}) ends before the last step has baked ({last})"
