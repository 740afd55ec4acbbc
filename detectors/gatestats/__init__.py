"""Anytime-valid statistics for gates: pure functions over counts, usable without Kubernetes.

Start at `gatestats.process`: every design has the same face. Designs: `odds_ratio`, `non_inferiority` (error rates),
`rates` (points and per cent), `histogram` (latency), `limits` (shadow disagreement), `paired` (labels), `pods`.
Counts come from `counters` and `histogram_counters`, decisions over many streams from `combine`.
"""
