"""Anytime-valid statistics for gates: pure functions over counts, usable without Kubernetes.

Start at `gatestats.process`: every design has the same face. Designs for events among requests: `odds_ratio`,
`non_inferiority`, `rates` (points or per cent), `two_margins` (points and per cent), `rate_gap` (a slice against the
rest), `pods` and `tempered` (bursts; `method` chooses), `limits` (a known limit). For latency: `histogram`. For pairs
of shadow traffic: `paired` (points), `paired_relative` (per cent), `paired_both`, `paired_precision`, `paired_gap` (a
slice against the rest), `bounded_pairs`. For means: `means`. For the traffic split itself: `split`.
Counts come from `counters` and `histogram_counters`, decisions over many streams from `combine`; `watch` looks after
what was promoted, `odds_ratio_batch` advances many streams at once.
"""
