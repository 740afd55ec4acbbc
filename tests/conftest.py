"""Fixtures that every test may ask for."""

pytest_plugins = ["tests.support.lab", "tests.support.installation"]
