"""Who uses which port of a comparator: requests of two rollouts on one port would count as pairs of one of them.

Rule 1: a port belongs to the oldest rollout that still has a step with shadow traffic.
Rule 2: whoever has a mirror on its route keeps the port until the mirror is off, so that two never mirror at once.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from davylamp.core.model import Progress, Ruling
from davylamp.core.plan import Plan
from davylamp.core.world import RouteTrouble, RouteView
from davylamp.runtime.catalogue import Name, Object, age, name_of


@dataclass(frozen=True, slots=True)
class Claim:
    """What the last look has seen of a rollout.

    Parameters
    ----------
    wanted
        Where it mirrors requests to at this step or a later one, as ``name:port``; empty if nowhere.
    mirror
        Where the route mirrors them to now; empty if nowhere.
    """

    wanted: str
    mirror: str


class ComparatorPorts:
    """The claims of all rollouts that were looked at."""

    def __init__(self) -> None:
        self._claims: defaultdict[str, dict[str, Claim]] = defaultdict(dict)

    def note(self, uid: str, claim: Claim, rollouts: Mapping[str, Object]) -> None:
        """Remember what a look has seen.

        Parameters
        ----------
        uid, claim
            Of the rollout that was looked at.
        rollouts
            All there are, by uid; what is gone has no claim.
        """
        mine = rollouts.get(uid)
        if mine is None:
            return
        here = self._claims[name_of(mine).namespace]
        here[uid] = claim
        for gone in here.keys() - rollouts.keys():
            del here[gone]

    def user(self, uid: str, comparator: str, rollouts: Mapping[str, Object]) -> Name | None:
        """Return the rollout that keeps another from mirroring to a comparator; None if none does.

        Parameters
        ----------
        uid
            Of the rollout that wants to.
        comparator
            As ``name:port``; empty for none.
        rollouts
            All there are, by uid.
        """
        mine = rollouts.get(uid)
        if mine is None or not comparator:
            return None
        for other, claim in self._claims[name_of(mine).namespace].items():
            theirs = None if other == uid else rollouts.get(other)
            if theirs is None:
                continue
            if claim.mirror == comparator or (claim.wanted == comparator and age(theirs) < age(mine)):
                return name_of(theirs)
        return None


def claim_of(plan: Plan, progress: Progress, view: RouteView | RouteTrouble) -> Claim:
    """Return what a rollout asks of its comparator now.

    Parameters
    ----------
    plan, progress
        What it runs by, and where it stands.
    view
        Its route.
    """
    over = progress.ended or progress.ruling is not Ruling.CONTINUE
    later = range(max(progress.step, 0), len(plan.steps))
    wants = not over and any(plan.shadow_at(step) is not None for step in later)
    ours = isinstance(view, RouteView) and progress.attempt is not None and view.attempt == progress.attempt.id
    return Claim(plan.comparator if wants else "", view.mirror if isinstance(view, RouteView) and ours else "")
