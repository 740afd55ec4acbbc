"""Descriptive detectors: the statistics that the field expects, with thresholds that hold when nothing has changed.

Rule 1: they describe and alert. Each looks once at a fixed amount of data; looking again and again raises their false
alarms without bound, so none of them rolls back. Whoever must decide at every look uses the e-processes beside.
Rule 2: nothing observed is the value `NoData` with its reason: not zero, not NaN, not an error.
Rule 3: no result holds NaN. A value that exists and is infinite is infinite, and the result says where that comes from.

`divergences` (PSI, KL, JS), `distances` (KS, Wasserstein), `contingency` (chi-square, G), `control_charts` (EWMA,
CUSUM, Page-Hinkley), `z_scores`, `intervals` (Jeffreys, Newcombe), `bootstrap` (BCa), `multiplicity`, `calibration`,
`ranking` (AUC), `group_rates`. Most need scipy; they are imported one by one: `import gatestats` does not pay.
"""
