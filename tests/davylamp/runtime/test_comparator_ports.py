"""Whose port of a comparator it is."""

from dataclasses import replace

import pytest

from davylamp.core.model import ALL, NONE, Outcome, PastAttempt, Progress, Ruling, Weight
from davylamp.core.plan import Shadow, Step
from davylamp.core.world import Extent, RouteTrouble
from davylamp.runtime.catalogue import Name
from davylamp.runtime.comparator_ports import Claim, ComparatorPorts, claim_of
from e2e.stage.manifests import model_rollout
from tests.davylamp.core.rollouts import ATTEMPT, BAKE, CLEAN, NOW, PLAN

HERE, THERE = "davylamp-shadow:8090", "davylamp-shadow:8091"
NOTHING, WANTS, MIRRORS = Claim("", ""), Claim(HERE, ""), Claim(HERE, HERE)
MARKED = replace(CLEAN, attempt=ATTEMPT.id, mirror=HERE, mirroring=Extent.ALL)
SHADOWED = replace(
    PLAN,
    steps=(Step(None, BAKE, shadow=Shadow(0.2, 100, BAKE)), Step(Weight(5), BAKE)),
    comparator=HERE,
)
RUNNING = Progress(attempt=ATTEMPT, step=0, requested=NONE)


def rollouts(*names: str, namespace: str = "ml") -> dict[str, dict[str, object]]:
    """Return rollouts by uid, the first the oldest."""
    found = {}
    for number, name in enumerate(names):
        made = model_rollout(namespace, name, baseline="fp32", candidate="int8")
        made["metadata"] |= {"uid": name, "creationTimestamp": f"2026-11-30T12:00:{number:02d}Z"}
        found[name] = made
    return found


@pytest.mark.parametrize(
    ("older", "younger", "user_of_older", "user_of_younger"),
    [
        (WANTS, WANTS, None, "old"),
        (MIRRORS, WANTS, None, "old"),
        (NOTHING, WANTS, None, None),
        (NOTHING, MIRRORS, "young", None),
        (WANTS, MIRRORS, "young", "old"),
        (Claim(THERE, THERE), MIRRORS, "young", None),
        (Claim("", HERE), WANTS, None, "old"),
    ],
)
def test_a_port_is_the_oldest_ones_and_nobody_mirrors_before_the_other_has_stopped(
    older: Claim, younger: Claim, user_of_older: str | None, user_of_younger: str | None
) -> None:
    ports, known = ComparatorPorts(), rollouts("old", "young")
    ports.note("old", older, known)
    ports.note("young", younger, known)
    users = [ports.user(uid, HERE, known) for uid in ("old", "young")]
    assert users == [name and Name("ml", name) for name in (user_of_older, user_of_younger)]


def test_what_is_gone_or_in_another_namespace_or_was_never_seen_has_no_port() -> None:
    ports, known = ComparatorPorts(), rollouts("old", "young") | rollouts("other", namespace="prod")
    for uid in known:
        ports.note(uid, MIRRORS, known)
    assert ports.user("other", HERE, known) is None
    del known["old"]
    ports.note("young", MIRRORS, known)
    ports.note("old", MIRRORS, known)
    assert ports.user("young", HERE, known) is None
    assert ports.user("old", HERE, known) is None
    assert ports.user("young", "", known) is None


@pytest.mark.parametrize(
    ("progress", "wanted"),
    [
        (RUNNING, HERE),
        (Progress(), HERE),
        (replace(RUNNING, step=1), ""),
        (replace(RUNNING, step=2, requested=ALL, ruling=Ruling.PROMOTE), ""),
        (replace(RUNNING, ruling=Ruling.ROLLBACK), ""),
        (replace(RUNNING, history=(PastAttempt(ATTEMPT.id, Outcome.SUPERSEDED, "Superseded", NOW, NOW),)), ""),
    ],
)
def test_a_port_is_wanted_until_no_step_mirrors_any_more(progress: Progress, wanted: str) -> None:
    assert claim_of(SHADOWED, progress, CLEAN) == Claim(wanted, "")


def test_a_mirror_counts_while_it_stands_on_the_route_with_the_marks_of_the_attempt() -> None:
    assert claim_of(PLAN, RUNNING, MARKED) == Claim("", HERE)
    assert claim_of(PLAN, RUNNING, replace(MARKED, attempt="other-1")) == NOTHING
    assert claim_of(PLAN, Progress(), MARKED) == NOTHING
    assert claim_of(PLAN, RUNNING, RouteTrouble("gone", missing=True)) == NOTHING
