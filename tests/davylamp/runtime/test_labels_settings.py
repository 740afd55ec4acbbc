"""What the service that joins labels is told at its start."""

from datetime import timedelta
from pathlib import Path

import pytest

from davylamp.errors import SpecError
from davylamp.labels.records import Terms
from davylamp.runtime.labels_settings import LABELS_VARIABLES, LabelsSettings, labels_settings

TOKENS = {"DAVYLAMP_LABELS_TOKEN_FILE": "/etc/tokens"}


def test_only_who_may_post_must_be_said() -> None:
    assert labels_settings(TOKENS) == LabelsSettings(tokens=Path("/etc/tokens"))
    assert labels_settings({"DAVYLAMP_LABELS_SIGNING_KEY_FILE": "/k"}) == LabelsSettings(signing_keys=Path("/k"))


def test_every_variable_sets_something() -> None:
    values = ("postgresql://u@h/n", "/t", "/k", "7d", "30m", "1d", "2d", "5", "127.0.0.2:0", "console")
    given = dict(zip(LABELS_VARIABLES, values, strict=True))
    terms = Terms(timedelta(days=7), timedelta(minutes=30), timedelta(days=1), timedelta(days=2), 5)
    assert labels_settings(given) == LabelsSettings(
        "postgresql://u@h/n", Path("/t"), Path("/k"), terms, "127.0.0.2", 0, "console"
    )


def test_somebody_must_be_able_to_post() -> None:
    with pytest.raises(SpecError, match="nobody could post"):
        labels_settings({})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DAVYLAMP_LABELS_TIME_TO_LIVE", "a month"),
        ("DAVYLAMP_LABELS_TIME_TO_LIVE", "0s"),
        ("DAVYLAMP_LABELS_WAIT", "367d"),
        ("DAVYLAMP_LABELS_REMEMBER", "-1d"),
        ("DAVYLAMP_LABELS_EXPORT", "1.5d"),
        ("DAVYLAMP_LABELS_SLICES", "1001"),
        ("DAVYLAMP_LABELS_SLICES", "many"),
        ("DAVYLAMP_LISTEN", "8080"),
        ("DAVYLAMP_LOG_FORMAT", "xml"),
    ],
)
def test_a_wrong_value_names_its_variable(name: str, value: str) -> None:
    with pytest.raises(SpecError, match=name):
        labels_settings({**TOKENS, name: value})
