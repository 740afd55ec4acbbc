"""Davylamp: safe rollout and rollback of optimised models on Kubernetes."""

__version__ = "0.1.0"
