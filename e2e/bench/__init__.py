"""Benchmarks on the lab: measured, printed, and never part of a test."""
