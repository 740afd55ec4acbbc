"""What is simulated, by name: by the tests, and with more runs by hand (`tests.simulation_statistics.campaign`)."""

from dataclasses import dataclass, replace
from typing import Final

from tests.simulation_statistics.generator import Scraping
from tests.simulation_statistics.rollout import GATES, Outcome, Rollout, plan_of
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
    alone
        Whether it is the only one.
    """

    truth: Truth
    scraping: Scraping | None = None
    bake: int = 5
    looks: int = 25
    gate: str = ""
    alone: bool = False

    def run(self, seed: int) -> Outcome:
        """Run one rollout."""
        scraping = self.scraping or SCRAPINGS[seed % len(SCRAPINGS)]
        gates = tuple(gate for gate in GATES if not self.alone or gate.name == self.gate)
        return Rollout(plan_of(self.bake, gates), self.truth, scraping, seed).run(self.looks)


SCRAPINGS: Final = tuple(
    Scraping(gateway=gateway, buckets=buckets, baseline_servers=2 if gateway else 3)
    for gateway in (False, True)
    for buckets in Buckets
)
_LENGTH: Final = 250.0
_FEW: Final = Truth(requests=100, length=_LENGTH)

_FINE, _NATIVE, _COARSE = (Scraping(buckets=kind) for kind in (Buckets.FINE, Buckets.NATIVE, Buckets.COARSE))
_OUTAGES: Final = tuple(Outage(start + 0.5, start + 17.5, 0.3) for start in (30, 80, 130, 180))


def _at_margin(gate: str, truth: Truth, scraping: Scraping | None = None) -> Scenario:
    return Scenario(truth, scraping, gate=gate, alone=True)


SCENARIOS: Final = {
    "equal": Scenario(_FEW),
    "equal-drifting": Scenario(replace(_FEW, latency_drift=1.5), _COARSE),
    "margin-errors": _at_margin("errors", Truth(100, 0.03, 1.25, drift=2.0, length=_LENGTH)),
    "margin-more-errors": _at_margin("more-errors", Truth(100, 0.02, error_gain=0.01, drift=2.0, length=_LENGTH)),
    "margin-latency-fine": _at_margin("latency", replace(_FEW, slowdown=1.1), _FINE),
    "margin-latency-native": _at_margin("latency", replace(_FEW, slowdown=_GROWTH), _NATIVE),
    "margin-latency-coarse": _at_margin("latency", replace(_FEW, slowdown=1.1), _COARSE),
    "margin-latency-coarse-drifting": _at_margin("latency", replace(_FEW, slowdown=1.1, latency_drift=1.5), _COARSE),
    "margin-approvals-up": _at_margin("approvals", replace(_FEW, approvals_gain=0.03)),
    "margin-approvals-down": _at_margin("approvals", replace(_FEW, approvals_gain=-0.03)),
    "margin-refusals": _at_margin("refusals", replace(_FEW, refusals_ratio=1.25)),
    "errors-double": Scenario(Truth(50, 0.01, 0.02 / 0.98 * 99, drift=1.0), bake=12, looks=150, gate="errors"),
    "errors-fivefold": Scenario(Truth(50, 0.01, 0.05 / 0.95 * 99, drift=1.0), bake=12, looks=60, gate="errors"),
    "latency-quarter": Scenario(Truth(50, slowdown=1.25), _NATIVE, bake=12, looks=60, gate="latency"),
    "latency-quarter-coarse": Scenario(Truth(50, slowdown=1.25), _COARSE, bake=12, looks=100, gate="latency"),
    "approvals-fall": Scenario(Truth(50, approvals_gain=-0.08), bake=12, looks=100, gate="approvals"),
    "burst-2": Scenario(replace(_FEW, burst=2.0)),
    "burst-5": Scenario(replace(_FEW, burst=5.0)),
    "outage-servers": Scenario(replace(_FEW, outages=_OUTAGES), Scraping()),
    "outage-gateway": Scenario(replace(_FEW, outages=_OUTAGES), Scraping(gateway=True, baseline_servers=2)),
}
