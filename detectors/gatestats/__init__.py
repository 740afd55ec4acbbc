"""Anytime-valid statistics for gates: pure functions over counts, usable without Kubernetes."""
