from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from davylamp.api.v1alpha1.quantities import (
    DurationBetween,
    PercentBetween,
    format_duration,
    format_percent,
    parse_duration,
    parse_percent,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1s", 1),
        ("90s", 90),
        ("5m", 300),
        ("5m30s", 330),
        ("1h30m", 5_400),
        ("1h5s", 3_605),
        ("1h1m1s", 3_661),
        ("7d", 604_800),
    ],
)
def test_a_duration_is_read_as_people_write_it(text: str, seconds: int) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "5",
        "s",
        "-5m",
        "+5m",
        "1_0s",
        "٥m",
        "1e3s",
        "5s1m",
        "1d12h",
        "1.5h",
        " 5m",
        "5m ",
        "5m\n",
        "5M",
        "1000d",
        "5ms",
    ],
)
def test_anything_else_is_no_duration_and_the_message_shows_it(text: str) -> None:
    with pytest.raises(ValueError, match='such as "30s"'):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "share"), [("0%", 0.0), ("1%", 0.01), ("2.5%", 0.025), ("0.01%", 0.0001), ("100%", 1.0)]
)
def test_a_percentage_is_a_share(text: str, share: float) -> None:
    assert parse_percent(text) == pytest.approx(share, rel=1e-15)


@pytest.mark.parametrize(
    "text",
    ["", "%", "1", "0.01", "101%", "100.1%", "-1%", "1 %", "١%", "1_0%", "1e1%", ".5%", "5.%", "1%\n", "0.00001%"],
)
def test_anything_else_is_no_percentage_and_the_message_shows_it(text: str) -> None:
    with pytest.raises(ValueError, match="percentage"):
        parse_percent(text)


@given(st.integers(min_value=0, max_value=1_000_000))
def test_a_percentage_survives_writing_and_reading(parts: int) -> None:
    share = parts / 1_000_000
    assert parse_percent(format_percent(share)) == pytest.approx(share, abs=1e-12)


@given(st.integers(min_value=0, max_value=9_999 * 3_600))
def test_a_duration_survives_writing_and_reading(seconds: int) -> None:
    span = timedelta(seconds=seconds)
    assert parse_duration(format_duration(span)) == span


def test_a_remaining_time_never_shows_as_over_before_it_is() -> None:
    assert format_duration(timedelta(milliseconds=1)) == "1s"


def test_no_share_and_no_span_below_zero_is_written() -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        format_percent(1.1)
    with pytest.raises(ValueError, match="not negative"):
        format_duration(timedelta(seconds=-1))


def test_limits_are_part_of_the_range_unless_open() -> None:
    assert PercentBetween("1%", "50%").check("1%") == "1%"
    assert PercentBetween("1%", "50%").check("50%") == "50%"
    with pytest.raises(ValueError, match="above 0% and up to 50%"):
        PercentBetween("0%", "50%", open_low=True).check("0%")
    assert DurationBetween("1s", "1m").check("60s") == "60s"
    with pytest.raises(ValueError, match="from 1s to 1m"):
        DurationBetween("1s", "1m").check("61s")
