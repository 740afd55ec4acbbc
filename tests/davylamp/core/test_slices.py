"""Which slices a request belongs to, and what metrics call them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from davylamp.core.slices import OTHER, Attribute, bins_of, declared, label_of, slices_of, value_of

SEX = Attribute("sex", ("Female", "Male"), header="x-sex")
RACE = Attribute("race", ("Black", "White"), protected=False)
AGE = Attribute("age", bins_of((25, 45.5)), (25, 45.5), protected=False)
ALL = (SEX, RACE, AGE)
KEY = "5c1f6d0e"


@pytest.mark.parametrize(
    ("found", "value"),
    [("Female", "Female"), ("female", OTHER), ("", OTHER), (None, OTHER), (["Female"], OTHER), ("x" * 9999, OTHER)],
)
def test_only_declared_values_have_a_slice_of_their_own(found: object, value: str) -> None:
    assert value_of(SEX, found) == value


def test_numbers_and_truth_values_are_told_by_how_json_writes_them() -> None:
    flag = Attribute("flag", ("1", "true", "2.5"))
    assert [value_of(flag, found) for found in (1, 1.0, True, 2.5, "1", 0, False)] == [
        "1",
        "1",
        "true",
        "2.5",
        "1",
        OTHER,
        OTHER,
    ]


@pytest.mark.parametrize(
    ("found", "value"),
    [
        (24.9, "<25"),
        (25, "25-45.5"),
        ("45", "25-45.5"),
        (45.5, ">=45.5"),
        (float("inf"), ">=45.5"),
        (float("nan"), OTHER),
        ("old", OTHER),
        (None, OTHER),
    ],
)
def test_a_number_falls_into_one_bin(found: object, value: str) -> None:
    assert value_of(AGE, found) == value


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=9, unique=True).map(sorted), st.floats(allow_nan=False))
def test_every_number_has_exactly_one_of_the_declared_bins(edges: list[float], number: float) -> None:
    attribute = Attribute("n", bins_of(edges), tuple(edges))
    assert value_of(attribute, number) == bins_of(edges)[sum(number >= edge for edge in edges)]


def test_a_protected_value_is_a_hash_under_the_key_of_its_rollout() -> None:
    labels = {label_of([(SEX, value)], key) for value in ("Female", "Male") for key in (KEY, "other")}
    assert len(labels) == 4
    assert all(re.fullmatch(r"sex=~[0-9a-f]{8}", label) for label in labels)
    assert label_of([(SEX, OTHER)], KEY) == "sex=other"
    assert label_of([(RACE, "Black")], KEY) == "race=Black"


def test_the_declared_slices_are_all_values_and_their_combinations_without_other() -> None:
    found = declared(ALL, [("race", "sex")], KEY)
    assert len(found) == 2 + 2 + 3 + 4
    assert len({each.label for each in found}) == len(found)
    assert found[-1].parts == (("race", "White"), ("sex", "Male"))
    assert found[-1].label == f"race=White,{label_of([(SEX, 'Male')], KEY)}"
    assert declared((), [], KEY) == ()


def test_a_request_belongs_to_one_slice_of_each_attribute_and_intersection() -> None:
    values = {"sex": "Female", "race": OTHER, "age": "<25"}
    found = slices_of(ALL, [("race", "sex")], values, KEY)
    female = label_of([(SEX, "Female")], KEY)
    assert found == (female, "race=other", "age=<25", f"race=other,{female}")
    assert slices_of(ALL, [], {}, KEY) == ("sex=other", "race=other", "age=other")


@given(
    st.dictionaries(st.sampled_from(["sex", "race", "age"]), st.sampled_from(["Female", "Black", "<25", OTHER, "x"]))
)
def test_what_a_request_belongs_to_is_declared_or_has_other_in_it(values: dict[str, str]) -> None:
    given_values = {name: value_of(next(a for a in ALL if a.name == name), value) for name, value in values.items()}
    known = {each.label for each in declared(ALL, [("race", "sex")], KEY)}
    for label in slices_of(ALL, [("race", "sex")], given_values, KEY):
        assert label in known or OTHER in label
