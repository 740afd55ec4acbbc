"""A simulated world around the core: API server, gateway, services, metrics, operators that crash, and people."""
