"""The facts of one look, gathered before anything is judged."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final

from davylamp.core.model import Ruling, Verdict, Weight, worst
from davylamp.core.moves import Diversion

#: Stands for slices of which it cannot be said whether the route diverts them, since others changed its rules.
ALTERED: Final = Diversion("", "")


class Extent(StrEnum):
    """How many of the rules of a route."""

    NONE = "None"
    SOME = "Some"
    ALL = "All"


@dataclass(frozen=True, slots=True)
class RouteView:
    """What the route object says, read from the API server.

    Parameters
    ----------
    uid
        Of the route object.
    weight
        The candidate's share of the pair's weight, rounded up to whole percent (0 only if it is exactly 0).
    prepared
        Whether the candidate's reference and Davylamp's annotations are in place.
    asked
        The weight that Davylamp wrote last, by annotation; None if it wrote none.
    attempt, ruling, epoch
        What Davylamp wrote last, by annotation; None if absent or unreadable.
    accepted
        Whether every gateway has accepted this generation of the route.
    acceptance
        One sentence on why not, or that it has.
    editor
        Field manager that last changed the rules, if it is not Davylamp; None otherwise.
    repointed
        Whether the rules point to the candidate alone, as after a promotion.
    lowest
        The candidate's least share in a rule that Davylamp shares; None if it is the same in all of them.
    mirror
        Where Davylamp has mirrored requests to, as ``name:port``; empty if nowhere.
    mirroring
        How many of the rules that are shared do so: none, some or all.
    diverted
        The slices that the route sends to the baseline alone, sorted; only `ALTERED` if the rules that do so are not
        all as Davylamp writes them.
    """

    uid: str
    weight: Weight
    prepared: bool
    asked: Weight | None = None
    attempt: str | None = None
    ruling: Ruling | None = None
    epoch: int | None = None
    accepted: bool = False
    acceptance: str = ""
    editor: str | None = None
    repointed: bool = False
    lowest: Weight | None = None
    mirror: str = ""
    mirroring: Extent = Extent.NONE
    diverted: tuple[Diversion, ...] = ()

    @property
    def floor(self) -> Weight:
        """The candidate's share in the rule that gives it least."""
        return self.weight if self.lowest is None else self.lowest

    @property
    def marked(self) -> bool:
        """Whether anything on the route says that Davylamp works on it, or has left something behind."""
        marks = (self.asked, self.attempt, self.ruling, self.epoch)
        return self.prepared or bool(self.mirror or self.diverted) or any(mark is not None for mark in marks)


@dataclass(frozen=True, slots=True)
class RouteTrouble:
    """The route cannot be used, and why. A route with marks of Davylamp always has a view, whatever others do to it.

    Parameters
    ----------
    message
        Why, and what to do.
    missing
        Whether it is gone, rather than unfit.
    taken
        Whether another, older ModelRollout works on it.
    """

    message: str
    missing: bool = False
    taken: bool = False


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the gates say at one look.

    Parameters
    ----------
    verdicts
        By gate name; empty means that nothing was read.
    required
        Names of the gates that promotion waits for.
    log_evidence
        ln of the weighted mean e-value over all streams, nats.
    log_threshold
        ln(1 / false rollback rate of this attempt), nats.
    culprits
        Gates behind the evidence once it is suspicious, the strongest first.
    messages
        By gate name: one sentence with the numbers.
    samples
        Requests at this step by variant, the fewer of both gates and variants.
    candidate_errors, candidate_requests
        Of this tick; None if unknown.
    baseline_readable
        Whether every gate finds the baseline's series.
    shadow
        Names of the gates that are judged on shadow traffic.
    pairs, mirrored
        Pairs of answers that were compared, and requests that arrived at the comparator, at this step.
    small
        Gates on slices with too few pairs to be judged, and how many they have.
    regressed_slices
        Labels of the slices that are to go to the baseline alone: with them goes all that has regressed. Empty if all
        traffic has to.
    mirrored_at
        When requests arrived at the comparator last, at this step; None if none did.
    """

    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    log_evidence: float = 0.0
    log_threshold: float = float("inf")
    culprits: tuple[str, ...] = ()
    messages: Mapping[str, str] = field(default_factory=dict)
    samples: int = 0
    candidate_errors: int | None = None
    candidate_requests: int | None = None
    baseline_readable: bool = False
    shadow: frozenset[str] = frozenset()
    pairs: int = 0
    mirrored: int = 0
    mirrored_at: datetime | None = None
    small: Mapping[str, int] = field(default_factory=dict)
    regressed_slices: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of all gates."""
        return worst(self.verdicts.values())

    @property
    def regressed(self) -> bool:
        """Whether the evidence has crossed its threshold, or a gate says so."""
        return self.log_evidence >= self.log_threshold or self.verdict is Verdict.REGRESSED

    @property
    def suspicious(self) -> bool:
        """Whether the evidence has gone half the way (in nats) to its threshold; what is not a number, has."""
        return not self.log_evidence < self.log_threshold / 2

    @property
    def proven(self) -> bool:
        """Whether every required gate is NonInferior; no gate at all proves nothing."""
        return self._all_non_inferior(self.required)

    @property
    def shadow_verdict(self) -> Verdict:
        """The worst verdict of the gates that are judged on shadow traffic."""
        return worst(self.verdicts.get(name, Verdict.NO_DATA) for name in self.shadow)

    @property
    def shadow_proven(self) -> bool:
        """Whether every required gate on shadow traffic is NonInferior, and there is one of any kind."""
        needed = self.required & self.shadow
        return bool(self.shadow) and (not needed or self._all_non_inferior(needed))

    def _all_non_inferior(self, names: frozenset[str]) -> bool:
        needed = [self.verdicts.get(name, Verdict.NO_DATA) for name in names]
        return bool(needed) and all(verdict is Verdict.NON_INFERIOR for verdict in needed)


@dataclass(frozen=True, slots=True)
class World:
    """All facts of one look, gathered before anything is judged.

    Parameters
    ----------
    uid
        Of the ModelRollout.
    deleting
        Whether it is being deleted.
    route
        What the route says, or why it cannot be used.
    baseline_ready, candidate_ready
        Ready endpoints of the Services, >= 0; 0 if the Service is gone.
    judgement
        What the gates say.
    refusal
        Why the last change of the route was refused for good; empty if it was not, or the route is another since.
    comparator_ready
        Ready endpoints of the comparator's Service, >= 0.
    comparator_user
        Another ModelRollout that the port of the comparator belongs to; empty if it is free.
    """

    uid: str
    deleting: bool
    route: RouteView | RouteTrouble
    baseline_ready: int
    candidate_ready: int
    judgement: Judgement
    refusal: str = ""
    comparator_ready: int = 0
    comparator_user: str = ""
