"""Fixtures that every test may ask for, and how Hypothesis runs."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.support.lab", "tests.support.installation"]

# How fast a machine is says nothing about the code, so no example is too slow. In CI the examples are the same in every
# run; elsewhere they are new ones each time, and a failure prints how to have it again.
settings.register_profile(
    "davylamp",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=os.environ.get("CI") == "true",
    print_blob=True,
)
settings.load_profile("davylamp")

TESTS = Path(__file__).parent
#: Thousands of examples of what other tests cover line by line: measuring coverage would double their time.
UNMEASURED = (
    "simulation/",
    "simulation_statistics/",
    "lab/",
    "gatestats/test_simulation.py",
    "davylamp/offline/test_prediction_holds.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.relative_to(TESTS).as_posix().startswith(UNMEASURED):
            item.add_marker(pytest.mark.no_cover)
