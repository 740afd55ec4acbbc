"""Which slices a request belongs to, and what both variants decided on it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from davylamp.core.slices import OTHER, Attribute, bins_of, declared, slices_of
from davylamp.shadow.comparison import Comparison, Decision, Kind
from davylamp.shadow.slicing import decided, slices_of_request
from davylamp.shadow.task import SlicedBy, Slicing

SEX = Attribute("sex", ("Female", "Male"), protected=False, header="x-sex")
JOB = Attribute("job", ("1", "2"), protected=False)
AGE = Attribute("age", bins_of((25, 45)), (25, 45), protected=False)
SLICING = Slicing(
    (SlicedBy(SEX), SlicedBy(JOB, path="$.person.job"), SlicedBy(AGE, tensor="x", column=1)),
    (("age", "sex"),),
    "key",
    "a-1",
    "0",
)


def request(job: object = 1, data: object = (0.5, 30.0)) -> bytes:
    return json.dumps({"person": {"job": job}, "inputs": [{"name": "y"}, {"name": "x", "data": data}]}).encode()


@pytest.mark.parametrize(
    ("headers", "body", "slices"),
    [
        ((("x-sex", "Female"),), request(), ("sex=Female", "job=1", "age=25-45", "age=25-45,sex=Female")),
        (
            (("x-sex", "F"),),
            request(3, [[0.5, 50.0], [1, 1]]),
            ("sex=other", "job=other", "age=>=45", "age=>=45,sex=other"),
        ),
        ((), request("2", []), ("sex=other", "job=2", "age=other", "age=other,sex=other")),
        ((), b"not JSON", ("sex=other", "job=other", "age=other", "age=other,sex=other")),
        ((), b"[1, 2]", ("sex=other", "job=other", "age=other", "age=other,sex=other")),
        (
            (),
            b'{"inputs": [{"name": "x", "data": "12"}]}',
            ("sex=other", "job=other", "age=other", "age=other,sex=other"),
        ),
        ((), b"[" * 100_000, ("sex=other", "job=other", "age=other", "age=other,sex=other")),
    ],
)
def test_attributes_are_found_where_the_rollout_says_and_all_else_is_other(
    headers: tuple[tuple[str, str], ...], body: bytes, slices: tuple[str, ...]
) -> None:
    assert slices_of_request(headers, body, SLICING) == slices


@given(st.binary(max_size=200), st.text(max_size=20))
def test_whatever_a_request_carries_makes_no_slice_that_was_not_declared(body: bytes, header: str) -> None:
    known = {each.label for each in declared(SLICING.attributes, SLICING.intersections, SLICING.key)}
    for label in slices_of_request((("x-sex", header),), body, SLICING):
        assert label in known or OTHER in label


@given(st.sampled_from(["Female", "Male", "x"]), st.integers(0, 3), st.floats(0, 90))
def test_replicas_agree_with_the_words_of_the_design(sex: str, job: int, age: float) -> None:
    found = slices_of_request((("x-sex", sex),), request(job, [0, age]), SLICING)
    values = {
        "sex": sex if sex in SEX.values else OTHER,
        "job": str(job) if str(job) in JOB.values else OTHER,
        "age": AGE.values[sum(age >= edge for edge in AGE.edges)],
    }
    assert found == slices_of(SLICING.attributes, SLICING.intersections, values, "key")


@pytest.mark.parametrize(
    ("decisions", "positive", "expected"),
    [
        (((True, False),), "1", ("1", "")),
        (((True, True),), ">50K", (">50K", ">50K")),
        ((("7", "1"),), "1", ("7", "1")),
        ((("True", "false"),), "1", ("1", "0")),
        ((("1.0", "-3.00"),), "1", ("1", "-3")),
        (((">50K", "1.5"),), ">50K", (">50K", "1.5")),
        ((), "1", None),
        (((True, True), (True, True)), "1", None),
    ],
)
def test_a_pair_has_a_decision_if_it_is_a_single_one(
    decisions: tuple[tuple[Decision, Decision], ...], positive: str, expected: tuple[str, str] | None
) -> None:
    assert decided(Comparison(Kind.TENSORS, decisions=decisions), positive) == expected
