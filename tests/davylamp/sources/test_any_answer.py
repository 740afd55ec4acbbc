"""Whatever a server says, it is a reading or one of two errors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from hypothesis import HealthCheck, given
from hypothesis import settings as example_settings
from hypothesis import strategies as st

from davylamp.core.reading import Reading
from davylamp.errors import SpecError, Unavailable
from davylamp.sources.answers import read_answer
from davylamp.sources.questions import questions
from davylamp.sources.targets import Look, sort_answers
from tests.davylamp.sources.looks import APPROVALS, ERRORS, LATENCY, NOW, SETTINGS, envelope, request

NUMBERS = st.sampled_from(["1", "2", "2", "3", "3", "3", "NaN", "1e999", "", "1_0", "0.5", "-1", 5])
ODD: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=10**308, max_value=10**320)
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from([[], {}, [[]], "error", "vector", "NaN", "+Inf", NOW + 99, "ok_total", "seconds"])
)
PAIRS = st.lists(NUMBERS, min_size=1, max_size=3).map(
    lambda texts: [[NOW - len(texts) + place, text] for place, text in enumerate(texts, 1)]
)
HISTOGRAMS = st.lists(st.tuples(NUMBERS, NUMBERS), max_size=2).map(
    lambda pairs: [
        [NOW - place, {"count": count, "sum": "1", "buckets": [[0, "0.5", "1", inside], [0, "1", "2", "1"]]}]
        for place, (count, inside) in reversed(list(enumerate(pairs)))
    ]
)
LABELS = st.fixed_dictionaries(
    {
        "__name__": st.sampled_from(["ok_total", "failed_total", "seconds_bucket", "seconds", "scored_total"]),
        "namespace": st.just("ml"),
        "service": st.sampled_from(["fp32", "int8"]),
    },
    optional={"le": st.sampled_from(["1", "1.0", "+Inf", "x"]), "instance": st.sampled_from(["a", "b\n"])},
)
SERIES = st.fixed_dictionaries({"metric": LABELS}, optional={"values": PAIRS, "histograms": HISTOGRAMS})


def places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every place of a JSON tree at which something stands, as its container and key."""
    inside = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in list(inside):
        yield tree, key
        yield from places(value)


@st.composite
def answers(draw: st.DrawFn) -> Any:
    """Return a whole answer in which up to two values were replaced by anything."""
    answer = json.loads(json.dumps(envelope(draw(st.lists(SERIES, max_size=6)), infos=[], warnings=[])))
    for _ in range(draw(st.integers(0, 2))):
        found = list(places(answer))
        container, key = found[draw(st.integers(0, len(found) - 1))]
        container[key] = draw(ODD)
    return answer


def told(answer: Any) -> Reading | SpecError | Unavailable:
    asked = request(ERRORS, LATENCY, APPROVALS)
    try:
        read = read_answer(json.dumps(answer).encode())
        return sort_answers(Look(asked, SETTINGS), [(question, read) for question in questions(asked)])
    except (SpecError, Unavailable) as error:
        return error


@given(answers())
@example_settings(max_examples=600, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_a_damaged_answer_is_a_reading_or_one_of_the_two_errors(answer: Any) -> None:
    reading = told(answer)

    if isinstance(reading, Reading):
        assert all(
            sentence.isprintable() for signal in reading.signals.values() for sentence in signal.trouble.values()
        )


@given(st.recursive(ODD, lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=3), inner), max_leaves=8))
def test_any_json_at_all_is_one_of_the_two_errors(answer: Any) -> None:
    assert isinstance(told(answer), (SpecError, Unavailable))
