"""What stands on the lab for tests and the demo: an installed operator, model servers, a route, traffic."""
