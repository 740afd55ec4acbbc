from __future__ import annotations

import pytest

from davylamp.cli.failure import ExitCode
from davylamp.cli.sight import sight
from davylamp.cli.waiting import outcome
from tests.davylamp.cli.rollouts import SITUATIONS, promoted

EXPECTED = {
    "unseen": None,
    "baking": None,
    "held": None,
    "promoting": None,
    "promoted": ExitCode.OK,
    "rolled_back": ExitCode.ROLLED_BACK,
    "invalid": ExitCode.WRONG,
    "damaged": None,
}


@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_situation_decides_or_does_not(situation: str) -> None:
    assert outcome(sight(SITUATIONS[situation]())) is EXPECTED[situation]


def test_a_promotion_of_an_older_spec_decides_nothing() -> None:
    manifest = promoted()
    manifest["metadata"]["generation"] = 4
    assert outcome(sight(manifest)) is None
