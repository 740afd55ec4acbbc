"""Several rollouts on a real API server, run by the whole operator."""

from tests.davylamp.runtime.premises import Premises, operating


async def test_a_good_candidate_is_promoted_and_the_route_is_left_clean(premises: Premises) -> None:
    premises.rollout()
    async with operating():
        status = await premises.until_phase("Promoted", "RolledBack")
    assert status["phase"] == "Promoted", status
    assert premises.marks() == {}
