from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, given
from hypothesis import settings as example_settings
from hypothesis import strategies as st

from davylamp.core.reading import Reading
from davylamp.errors import SpecError, Unavailable
from davylamp.sources.answers import read_answer
from davylamp.sources.questions import questions
from davylamp.sources.targets import Look, sort_answers
from tests.davylamp.sources.looks import (
    APPROVALS,
    ERRORS,
    LATENCY,
    NOW,
    SETTINGS,
    request,
)


def damaged_answers() -> st.SearchStrategy[Any]:
    """Whole answers in which any one value may have been replaced by anything."""
    numbers_of_any_kind = st.none() | st.booleans() | st.integers() | st.floats()
    odd: st.SearchStrategy[Any] = numbers_of_any_kind | st.text(max_size=5) | st.just([]) | st.just({})
    numbers = st.sampled_from(["1", "2", "NaN", "1e999", "", "1_0", NOW, NOW - 1, NOW + 99])
    pair = st.lists(numbers, min_size=1, max_size=3) | st.tuples(st.sampled_from([NOW - 1, NOW]), numbers).map(list)
    histogram = st.fixed_dictionaries(
        {"count": numbers, "buckets": st.lists(st.lists(numbers, max_size=4), max_size=2)}
    )
    labels = st.fixed_dictionaries(
        {
            "__name__": st.sampled_from(["ok_total", "failed_total", "seconds_bucket", "seconds"]) | odd,
            "namespace": st.just("ml"),
            "service": st.sampled_from(["fp32", "int8"]),
        },
        optional={"le": st.sampled_from(["1", "1.0", "+Inf", "x"]), "instance": st.text(max_size=2)},
    )
    entry = st.fixed_dictionaries(
        {"metric": labels | odd},
        optional={
            "values": st.lists(pair | odd, max_size=3) | odd,
            "histograms": st.lists(st.tuples(st.just(NOW), histogram | odd).map(list) | odd, max_size=2) | odd,
        },
    )
    data = st.fixed_dictionaries(
        {"resultType": st.just("matrix") | odd, "result": st.lists(entry | odd, max_size=5) | odd}
    )
    return st.fixed_dictionaries(
        {"status": st.sampled_from(["success", "success", "error"]) | odd},
        optional={"data": data | data | odd, "warnings": odd, "infos": odd, "error": odd, "errorType": odd},
    ) | st.recursive(odd, lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=3), inner), max_leaves=8)


@given(damaged_answers())
@example_settings(max_examples=500, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_any_answer_is_a_reading_or_one_of_the_two_errors(answer: Any) -> None:
    asked = request(ERRORS, LATENCY, APPROVALS)
    try:
        read = read_answer(json.dumps(answer).encode())
        reading = sort_answers(Look(asked, SETTINGS), [(question, read) for question in questions(asked)])
    except (SpecError, Unavailable):
        return
    assert isinstance(reading, Reading)
    for signal in reading.signals.values():
        assert all(sentence.isprintable() for sentence in signal.trouble.values())
