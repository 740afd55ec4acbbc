from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from davylamp.shadow.comparing import compare
from davylamp.shadow.comparison import Comparison, Measure
from davylamp.shadow.exchange import Answer, Call, Failure, Outcome
from davylamp.shadow.task import Format, Notion, Rules
from e2e.bench.answers import JSON_TYPE, VALID, call, floats
from e2e.bench.fuzz_answers import check

TARGETS = sorted({found.target for found, _ in VALID.values()})
_NUMBERS = st.floats() | st.integers() | st.sampled_from([2**63, 2**64, 10**400, -9999.0])
_KEYS = st.sampled_from(
    ["outputs", "predictions", "choices", "data", "embedding", "message", "content", "error", "name"]
)
_JSON = st.recursive(
    st.none() | st.booleans() | _NUMBERS | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_KEYS | st.text(max_size=3), inner, max_size=4),
    max_leaves=20,
)
_BODIES = st.binary(max_size=60) | _JSON.map(lambda value: json.dumps(value).encode())
_RULES = st.builds(
    Rules,
    format=st.sampled_from(Format),
    notion=st.sampled_from(Notion),
    top_k=st.integers(1, 5),
    threshold=st.floats(0, 1),
    select=st.sampled_from([(), ("$..data",), ("$[*]", "$.outputs")]),
    ignore=st.sampled_from([(), ("$..name",), ("$.outputs[0]",)]),
)
_CALLS = st.sampled_from(TARGETS).map(call)


def answered(body: bytes) -> Answer:
    return Answer(200, JSON_TYPE, body)


@given(_CALLS, _BODIES, _BODIES, _RULES)
def test_any_two_answers_have_an_outcome_with_finite_numbers(
    call: Call, first: bytes, second: bytes, rules: Rules
) -> None:
    assert isinstance(check(call, answered(first), answered(second), rules), Comparison)


@given(_CALLS, _BODIES, _RULES)
def test_an_answer_never_differs_from_itself(call: Call, body: bytes, rules: Rules) -> None:
    found = check(call, answered(body), answered(body), rules)

    assert (found.disagrees, found.differences) == (False, frozenset())


@pytest.mark.parametrize("name", VALID)
@pytest.mark.parametrize("notion", Notion)
def test_a_valid_answer_is_read_and_never_differs_from_itself(name: str, notion: Notion) -> None:
    given_call, given_answer = VALID[name]
    found = check(given_call, given_answer, given_answer, Rules(notion=notion))

    assert (found.unread, found.disagrees, found.differences) == (None, False, frozenset())


_ROWS = st.integers(1, 5).flatmap(
    lambda width: st.lists(
        st.lists(
            st.floats(-5, 5) | st.floats(0, 1) | st.sampled_from([math.nan, math.inf, -math.inf]),
            min_size=width,
            max_size=width,
        ),
        min_size=2,
        max_size=6,
    )
)
_SYMMETRIC = {
    Measure.MAX_ABSOLUTE,
    Measure.MEAN_ABSOLUTE,
    Measure.ULPS,
    Measure.JS,
    Measure.RANK_CORRELATION,
    Measure.TOP_K_OVERLAP,
}


@given(_ROWS)
def test_the_other_way_round_the_decision_and_the_symmetric_measures_are_the_same(rows: list[list[float]]) -> None:
    half = len(rows) // 2
    sides = [json.dumps(floats(*side, datatype="FP64")).encode() for side in (rows[:half], rows[half : 2 * half])]
    there, back = (
        check(call("/v2/models/x/infer"), answered(first), answered(second), Rules(relative=0, top_k=2))
        for first, second in (sides, reversed(sides))
    )

    assert (there.disagrees, there.differences) == (back.disagrees, back.differences)
    assert there.scores == tuple((second, first) for first, second in back.scores)
    assert there.confidences == tuple((second, first) for first, second in back.confidences)
    assert there.measures.keys() == back.measures.keys()
    for measure in _SYMMETRIC & there.measures.keys():
        assert there.measures[measure] == pytest.approx(back.measures[measure], abs=1e-12)


_RESULTS = (
    st.sampled_from(Failure)
    | st.builds(answered, _BODIES)
    | st.builds(Answer, st.integers(100, 599), st.just(()), _BODIES)
)


@given(_RESULTS, _RESULTS)
def test_a_pair_that_could_not_be_compared_never_disagrees(first: Any, second: Any) -> None:
    found = compare(call("/v2/models/x/infer"), Outcome(first, 0.1), Outcome(second, 0.1), Rules())

    assert found.unread is None or not (found.disagrees or found.differences or found.measures)
