"""The ladder in looks: how long a rollout that nothing holds stays at each weight, and which looks count.

After a change of weight one interval passes before counting goes on (see `davylamp.core.evidence.new_stratum`), and
the first requests of a candidate need a look more to become series. The look after a change comes early, with the next
scrape, so that the looks of a bake fall just short of it and one more is needed.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from davylamp.core.plan import Plan
from davylamp.offline.demand import Demand


@dataclass(frozen=True, slots=True)
class Stage:
    """Time at one weight.

    Parameters
    ----------
    step
        Index of the step of the ladder that gives the weight.
    weight
        The candidate's share of the traffic, in (0, 1).
    looks
        How many, before the weight rises or a promotion may be decided.
    dead
        How many of them, the first ones, count nothing.
    """

    step: int
    weight: float
    looks: int
    dead: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """The stages of a ladder, the lowest weight first.

    Parameters
    ----------
    stages
        At least one.
    patience
        Looks that promotion may take longer at the end.
    planned
        Looks within which evidence expects late changes, see `davylamp.core.plan.Plan.planned_looks`.
    """

    stages: tuple[Stage, ...]
    patience: int
    planned: int

    @property
    def ladder(self) -> int:
        """Looks until a promotion can be decided at the earliest."""
        return sum(stage.looks for stage in self.stages)

    @property
    def end(self) -> int:
        """Looks until promotion.deadline, which counts from the last step on."""
        return max(self.ladder, self.ladder - self.stages[-1].looks + self.patience)

    def of_look(self, looks: int) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Return, for each of so many looks, the index of its stage and whether it counts."""
        place = np.full(looks, len(self.stages) - 1, dtype=np.intp)
        counts = np.ones(looks, dtype=np.bool_)
        start = 0
        for index, stage in enumerate(self.stages):
            last = index == len(self.stages) - 1
            place[start : None if last else start + stage.looks] = index
            counts[start : start + stage.dead] = False
            start += stage.looks
        return place, counts


def timeline(plan: Plan, demand: Demand) -> Timeline:
    """Return the looks of a rollout that nothing holds."""
    stages: list[Stage] = []
    for index, step in enumerate(plan.steps):
        looks = math.ceil(step.bake / plan.interval)
        if step.weight is None:
            if stages:
                before = stages[-1]
                stages[-1] = Stage(before.step, before.weight, before.looks + looks, before.dead)
            continue
        weight = min(step.weight.percent, 99) / 100
        fewer = min(weight, 1 - weight) * demand.requests * plan.interval.total_seconds()
        same = bool(stages) and stages[-1].weight == weight
        dead = 0 if same else 1 if stages else 2
        needed = math.ceil(step.min_samples / fewer) + dead
        stages.append(Stage(index, weight, max(looks + (not same), needed), dead))
    return Timeline(tuple(stages), math.ceil(plan.promotion_deadline / plan.interval), plan.planned_looks)


def alone(stage: Stage, looks: int, planned: int) -> Timeline:
    """Return the timeline of a rollout that stays at one weight for so many looks, of which some are planned."""
    return Timeline((Stage(stage.step, stage.weight, looks, stage.dead),), looks, planned)
