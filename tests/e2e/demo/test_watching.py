import asyncio

from e2e.demo.scenario import CASES
from e2e.demo.watching import Track, Witness, candidate_share
from tests.e2e.demo.played import INT8, PRUNED, after, backends, promoted, rolled_back, rollout, route


def test_the_candidate_s_share_is_that_of_all_weights_and_a_reference_without_a_weight_counts_once() -> None:
    assert candidate_share(backends(PRUNED, 20), PRUNED.candidate) == 20
    assert candidate_share([{"backendRefs": [{"name": "a"}, {"name": "b"}]}], "b") == 50
    assert candidate_share([{"backendRefs": [{"name": "a", "weight": 0}]}], "a") == 0
    assert candidate_share([{"filters": []}], "a") == 0


def test_a_weight_is_dated_by_when_it_was_first_seen() -> None:
    witness = Witness(CASES)
    for seconds, weight in ((0, None), (1, 20), (2, 20), (3, 50)):
        witness.saw_route(route(INT8, weight), after(seconds))
    assert witness.tracks["int8"].weights == [(after(0), 0.0), (after(1), 20.0), (after(3), 50.0)]


def test_the_end_of_traffic_is_looked_for_after_the_fault_only() -> None:
    track = rolled_back(PRUNED, zero=20.5)
    assert track.zero_after(after(2)) == after(20.5)
    assert track.zero_after(after(21)) is None


def test_the_owner_s_rules_are_remembered_and_others_routes_are_not_ours() -> None:
    witness = Witness(CASES)
    witness.saw_route(route(PRUNED, None), after(0))
    witness.saw_route(route(PRUNED, 50), after(1))
    other = route(PRUNED, 50)
    other["metadata"]["name"] = "another"
    witness.saw_route(other, after(2))
    assert witness.tracks["pruned"].rules == (backends(PRUNED, None), backends(PRUNED, 50))
    assert set(witness.tracks) == {case.name for case in CASES}


def test_a_step_counts_once_the_gateway_has_accepted_its_weight() -> None:
    track = Track()
    assert (track.accepted_step, track.ended) == (-1, False)
    track.rollout = {"status": {"phase": "Progressing", "step": {"index": 1}}}
    assert track.accepted_step == -1
    track.rollout = {"status": {"phase": "Progressing", "step": {"index": 1, "acceptedAt": after(1).isoformat()}}}
    assert track.accepted_step == 1
    assert promoted().ended


async def test_whoever_waits_is_woken_by_what_is_seen() -> None:
    witness = Witness(CASES)
    waiting = asyncio.ensure_future(witness.changes())
    await asyncio.sleep(0)
    assert not waiting.done()
    witness.saw_rollout(rollout(INT8, "Progressing"))
    await waiting
    assert witness.tracks["int8"].status["phase"] == "Progressing"
