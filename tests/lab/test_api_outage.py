"""The API server goes away in mid-rollout, and comes back."""

from datetime import timedelta

from e2e.faults.proxy import Proxy
from e2e.lab import Lab
from e2e.lab.waiting import until
from e2e.stage.premises import Fleet
from e2e.stage.recorder import Object
from e2e.stage.rollout_stage import PATIENCE, RolloutStage

OUTAGE_SECONDS = 75
#: How long after the API server is ready the operator has looked at the route again.
ACTS_WITHIN_SECONDS = 10
BAKE = 10
#: Looks that are further apart than three intervals count as three intervals of bake.
COUNTED_AT_MOST = 3


def outage(lab: Lab, proxy: Proxy, seconds: float) -> float:
    """Kill the API server, bring it back, and return when it was ready, on the proxy's clock.

    The gateway's controller is started again, too: by itself it asks again only after its longest backoff, a minute
    and more, and how it bears an outage is not the question here.
    """
    api_server = lab.component("kube-apiserver")
    api_server.kill()
    begun = proxy.elapsed()
    until(lambda: proxy.elapsed() - begun >= seconds, "the outage is over", within=timedelta(seconds=seconds + 60))
    api_server.start()
    api_server.wait_ready()
    ready = proxy.elapsed()
    contour = lab.component("contour")
    contour.stop()
    contour.start()
    contour.wait_ready()
    return ready


def first_look(stage: RolloutStage, proxy: Proxy, after: float) -> float | None:
    """Return when the operator got an answer about the route; None if not yet."""
    looks = (
        answered.at
        for answered in proxy.answered
        if answered.at > after and answered.status == 200 and answered.call.path == stage.route_path
    )
    return next(looks, None)


def test_after_75_seconds_without_an_api_server_it_goes_on_within_ten(
    stage: RolloutStage, lab: Lab, proxy: Proxy
) -> None:
    stage.apply(
        steps=[{"weight": 20, "bake": f"{BAKE}s", "minSamples": 5}, {"weight": 50, "bake": "1s", "minSamples": 5}]
    )
    stage.recorder.until(lambda rollout, _: _accepted(rollout), "20 % are accepted", within=PATIENCE)
    accepted = proxy.elapsed()
    ready = outage(lab, proxy, OUTAGE_SECONDS)
    killed = max(answered.at for answered in proxy.answered if answered.at < ready - OUTAGE_SECONDS / 2)
    looked = until(lambda: first_look(stage, proxy, ready - OUTAGE_SECONDS / 2), "it looks again", within=PATIENCE)
    assert looked - ready <= ACTS_WITHIN_SECONDS
    stage.until_weight(50)
    baked = killed - accepted + proxy.elapsed() - looked
    assert baked >= BAKE - COUNTED_AT_MOST - 1, "the outage was counted as bake"
    stage.until_phase("Promoted")
    assert stage.violations() == ()


def test_a_candidate_that_broke_during_an_outage_is_taken_back(
    stage: RolloutStage, lab: Lab, proxy: Proxy, fleet: Fleet
) -> None:
    stage.apply(steps=[{"weight": 20, "bake": "60s", "minSamples": 5}])
    stage.until_weight(20)
    fleet.break_candidate(errors=0.6)
    outage(lab, proxy, 15)
    stage.until_phase("RolledBack")
    assert stage.violations() == ()


def _accepted(rollout: Object) -> bool:
    return "acceptedAt" in ((rollout.get("status") or {}).get("step") or {})
