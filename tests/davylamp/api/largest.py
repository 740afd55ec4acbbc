"""The largest rollout that a person can write, and the most that can be seen of it."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import datetime
from math import inf

from davylamp.core.evidence import Evidence, Stream, begin, designs
from davylamp.core.latency import Baseline, latency_design
from davylamp.core.plan import Plan, SignalKind
from gatestats.ticks import TwoArmCounts, TwoArmHistogram
from tests.davylamp.api.manifests import Manifest, changed, put, rollout

METRICS = 20
EDGES = 256
TICKS = 3


def largest_rollout() -> Manifest:
    """Every list at its limit, every name at its longest, every margin of the kind whose evidence is the longest."""
    names = [f"m{index:02}".ljust(40, "x") for index in range(METRICS)]
    metrics = [{"name": name, "counter": {"events": f"e_{name}".ljust(1024, "x"), "total": "t"}} for name in names]
    gates = [{"name": name, "worse": "Either", "margin": {"oddsRatio": 1.25}} for name in names]
    return changed(
        rollout(),
        put("metadata.name", "largest"),
        put("spec.steps", [{"weight": weight, "bake": "1h59m59s", "minSamples": 10**9} for weight in range(51, 101)]),
        put("spec.signals.metrics", metrics),
        put("spec.gates.metrics", gates),
        put("spec.notify", [{"channel": f"c{index}"} for index in range(8)]),
    )


def largest_evidence(plan: Plan, as_of: datetime) -> Evidence:
    """Every stream there can be after a few looks with very many requests, so that every number has all its digits."""
    chance = random.Random(7)  # noqa: S311 - any numbers will do, as long as they are the same each time
    edges = (*(0.001 * 1.05**index + chance.random() * 1e-9 for index in range(EDGES - 1)), inf)
    baseline = Baseline(edges, tuple(chance.randrange(10**11, 10**12) for _ in edges))
    streams = {}
    for gate in plan.gates:
        for name, design in designs(gate, baseline, looks=plan.planned_looks).items():
            state = design.start()
            for _ in range(TICKS):
                state = design.update(state, _tick(gate.kind, baseline, chance))
            streams[name] = Stream(gate.name, design, state)
    samples = {gate.name: (10**15, 10**15) for gate in plan.gates}
    return replace(begin(plan), as_of=as_of, streams=streams, baselines={"latency": baseline}, samples=samples)


def _tick(kind: SignalKind, baseline: Baseline, chance: random.Random) -> TwoArmCounts | TwoArmHistogram:
    if kind is not SignalKind.LATENCY:
        events, total = 10**9, 10**12
        first, second = ((chance.randrange(1, events), chance.randrange(events, total)) for _ in range(2))
        return TwoArmCounts(*first, *second)
    design = latency_design(baseline, 1.1)
    assert design is not None
    theirs, ours = (tuple(chance.randrange(10**9) for _ in baseline.edges) for _ in range(2))
    return design.tick(TwoArmHistogram(baseline.edges, theirs, ours))
