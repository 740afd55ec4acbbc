"""What is simulated, by name; used by the tests, and with more runs by hand: see `tests.simulation_statistics.campaign`."""

from dataclasses import dataclass
from typing import Final

from tests.simulation_statistics.generator import Scraping
from tests.simulation_statistics.rollout import Outcome, Rollout, plan_of
from tests.simulation_statistics.traffic import Buckets, Outage, Truth

_GROWTH: Final = 2 ** (1 / 8)


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is true, how it is seen, and how long.

    Parameters
    ----------
    truth
        Rates.
    scraping
        None for every way of scraping and every kind of buckets in turn.
    bake, looks
        Looks for each step, and all looks under traffic.
    gate
        The gate that the effect is about; empty if there is none.
    """

    truth: Truth
    scraping: Scraping | None = None
    bake: int = 6
    looks: int = 30
    gate: str = ""

    def run(self, seed: int) -> Outcome:
        """Run one rollout."""
        scraping = self.scraping or SCRAPINGS[seed % len(SCRAPINGS)]
        return Rollout(plan_of(self.bake), self.truth, scraping, seed).run(self.looks)


SCRAPINGS: Final = tuple(
    Scraping(gateway=gateway, buckets=buckets, baseline_servers=2 if gateway else 3)
    for gateway in (False, True)
    for buckets in Buckets
)
_LENGTH: Final = 300.0
_FEW: Final = Truth(requests=100, length=_LENGTH)
_MANY: Final = Truth(requests=100, error_rate=0.03, drift=2.0, length=_LENGTH)

SCENARIOS: Final = {
    "equal": Scenario(_FEW),
    "equal-drifting": Scenario(Truth(requests=100, length=_LENGTH, latency_drift=1.5)),
    "margin-errors": Scenario(Truth(100, 0.03, 1.25, drift=2.0, length=_LENGTH), gate="errors"),
    "margin-more-errors": Scenario(Truth(100, 0.03, error_gain=0.01, drift=2.0, length=_LENGTH), gate="more-errors"),
    "margin-latency-fine": Scenario(
        Truth(100, length=_LENGTH, slowdown=1.1), Scraping(buckets=Buckets.FINE), gate="latency"
    ),
    "margin-latency-native": Scenario(Truth(100, length=_LENGTH, slowdown=_GROWTH), Scraping(), gate="latency"),
    "margin-latency-coarse": Scenario(
        Truth(100, length=_LENGTH, slowdown=1.1), Scraping(buckets=Buckets.COARSE), gate="latency"
    ),
    "margin-latency-coarse-drifting": Scenario(
        Truth(100, length=_LENGTH, slowdown=1.1, latency_drift=1.5), Scraping(buckets=Buckets.COARSE), gate="latency"
    ),
    "margin-approvals-up": Scenario(Truth(100, length=_LENGTH, approvals_gain=0.03), gate="approvals"),
    "margin-approvals-down": Scenario(Truth(100, length=_LENGTH, approvals_gain=-0.03), gate="approvals"),
    "margin-refusals": Scenario(Truth(100, length=_LENGTH, refusals_ratio=1.25), gate="refusals"),
    "errors-double": Scenario(Truth(50, 0.01, 2.0206, drift=1.0), bake=12, looks=150, gate="errors"),
    "errors-fivefold": Scenario(Truth(50, 0.01, 5.2105, drift=1.0), bake=12, looks=60, gate="errors"),
    "latency-quarter": Scenario(Truth(50, slowdown=1.25), Scraping(), bake=12, looks=60, gate="latency"),
    "latency-quarter-coarse": Scenario(
        Truth(50, slowdown=1.25), Scraping(buckets=Buckets.COARSE), bake=12, looks=100, gate="latency"
    ),
    "approvals-fall": Scenario(Truth(50, approvals_gain=-0.08), bake=12, looks=100, gate="approvals"),
    "burst-2": Scenario(Truth(100, length=_LENGTH, burst=2.0)),
    "burst-5": Scenario(Truth(100, length=_LENGTH, burst=5.0)),
    "outage-servers": Scenario(
        Truth(100, length=_LENGTH, outages=(Outage(95.5, 120.0, 0.2),)), Scraping(missed=0, late=0)
    ),
    "outage-gateway": Scenario(
        Truth(100, length=_LENGTH, outages=(Outage(95.5, 120.0, 0.2),)), SCRAPINGS[3]
    ),
}
