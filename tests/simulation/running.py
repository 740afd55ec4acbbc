"""How the state machine is run: many short examples, without a clock and without a memory of earlier runs."""

from typing import Final

from hypothesis import HealthCheck, Phase, settings

#: A failing example prints a blob; `@reproduce_failure` with it brings the example back.
THOROUGH: Final = settings(
    max_examples=500,
    stateful_step_count=30,
    deadline=None,
    database=None,
    print_blob=True,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
#: Three times what a bug that was put in by intent has needed at most; the first example that meets it is the last.
SEEDED: Final = settings(THOROUGH, max_examples=2000, phases=[Phase.generate], derandomize=True, print_blob=False)
