"""The table of phases: what it promises, and that the picture of it is not out of date."""

import pytest

from davylamp.core.model import TERMINAL, Phase
from davylamp.core.transitions import MOVES, allowed, diagram
from docs.phases import PAGE, page


def test_every_phase_has_its_moves() -> None:
    assert MOVES.keys() == set(Phase)


@pytest.mark.parametrize("phase", sorted(set(Phase) - TERMINAL - {Phase.ROLLING_BACK}))
def test_a_rollback_is_one_move_away(phase: Phase) -> None:
    assert allowed(phase, Phase.ROLLING_BACK)


def test_a_rollback_has_one_way_to_go() -> None:
    assert MOVES[Phase.ROLLING_BACK] == {Phase.ROLLED_BACK}


@pytest.mark.parametrize("phase", sorted(TERMINAL))
def test_an_end_is_left_for_a_new_attempt_only(phase: Phase) -> None:
    assert [other for other in Phase if allowed(phase, other)] == [p for p in Phase if p in {phase, Phase.HELD}]
    assert [other for other in Phase if allowed(phase, other, new_attempt=True)] == [Phase.PENDING]


def test_the_diagram_shows_every_move() -> None:
    shown = [line.strip() for line in diagram().splitlines()]
    assert shown[0] == "stateDiagram-v2"
    assert {f"{before} --> {after}" for before, others in MOVES.items() for after in others} <= set(shown)
    assert "Promoted --> Pending: new attempt" in shown


def test_the_page_of_phases_is_what_the_code_says() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m docs.phases"
