"""What the statistics promise, measured on simulated rollouts: `python -m e2e.bench.statistics`."""  # noqa: A005 - the target is named so, and the package is only ever imported by its full name
