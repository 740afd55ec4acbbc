"""What the comparator is told at its start."""

from pathlib import Path

import pytest

from davylamp.errors import SpecError
from davylamp.runtime.comparator_settings import COMPARATOR_VARIABLES, ComparatorSettings, comparator_settings


def test_only_the_namespace_must_be_said() -> None:
    assert comparator_settings({"DAVYLAMP_NAMESPACE": "ml"}) == ComparatorSettings("ml")


def test_every_variable_sets_something() -> None:
    values = ("ml", "mine", "127.0.0.2:0", "console", "true", "/key", "http://labels:8080", "/token")
    given = dict(zip(COMPARATOR_VARIABLES, values, strict=True))
    wanted = ComparatorSettings(
        "ml",
        "mine",
        "127.0.0.2",
        0,
        "console",
        resolve_endpoints=True,
        captures_key_file=Path("/key"),
        labels_url="http://labels:8080",
        labels_token_file=Path("/token"),
    )
    assert comparator_settings(given) == wanted


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DAVYLAMP_NAMESPACE", ""),
        ("DAVYLAMP_NAMESPACE", "ml,vision"),
        ("DAVYLAMP_SHADOW_SERVICE", "A service"),
        ("DAVYLAMP_LISTEN", "8080"),
        ("DAVYLAMP_LOG_FORMAT", "xml"),
        ("DAVYLAMP_RESOLVE_ENDPOINTS", "perhaps"),
        ("DAVYLAMP_LABELS_URL", "labels:8080"),
    ],
)
def test_a_wrong_value_names_its_variable(name: str, value: str) -> None:
    with pytest.raises(SpecError, match=name):
        comparator_settings({"DAVYLAMP_NAMESPACE": "ml", name: value})
