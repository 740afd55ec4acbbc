"""What the operator remembers: the same bits after a restart, and a safe beginning when it is lost."""

from davylamp.core.checkpoint import resume
from davylamp.core.evidence import begin
from davylamp.core.model import Phase
from tests.simulation_statistics.generator import Scraping
from tests.simulation_statistics.rollout import Rollout, plan_of
from tests.simulation_statistics.traffic import Buckets, Truth

_TRUTH = Truth(requests=100, length=250.0)


def test_a_restart_at_every_look_gives_the_same_bits() -> None:
    for buckets in Buckets:
        one, other = (Rollout(plan_of(3), _TRUTH, Scraping(buckets=buckets), 7) for _ in range(2))
        expected = one.run(16)
        while other.looks < one.looks:
            as_of = other.session.evidence.as_of
            if as_of is not None:
                other.session.evidence = resume(other.plan, other.session.evidence.to_json(), as_of)
            other.clock.time += other.look()
        assert other.session.evidence.to_json() == expected.evidence.to_json()
        assert other.session.reports == expected.reports


def test_evidence_that_is_lost_begins_anew_and_goes_on() -> None:
    for seed in range(6):
        rollout = Rollout(plan_of(4), _TRUTH, Scraping(buckets=Buckets.FINE), seed)
        rollout.run(8)
        rollout.session.evidence = begin(rollout.plan)
        outcome = rollout.run(24)
        assert rollout.session.progress.phase is Phase.PROGRESSING
        assert outcome.rolled_back is None
        # The scores of the latency gate are learnt again from the baseline that still serves.
        assert {"latency", "errors", "approvals:Higher"} <= outcome.evidence.streams.keys()
        assert all(stream.state.ticks > 8 for stream in outcome.evidence.streams.values())
