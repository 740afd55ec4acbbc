from datetime import timedelta

import pytest

from davylamp.errors import SpecError
from davylamp.runtime.settings import VARIABLES, Settings, from_environment


def test_without_any_variable_all_namespaces_are_served_on_8080() -> None:
    settings = from_environment({})
    assert settings == Settings(identity=settings.identity)
    assert settings.identity


@pytest.mark.parametrize(
    ("variable", "value", "field", "expected"),
    [
        ("DAVYLAMP_NAMESPACE", "platform", "namespace", "platform"),
        ("DAVYLAMP_NAMESPACE", "", "namespace", "davylamp-system"),
        ("DAVYLAMP_WATCH_NAMESPACES", "ml,risk", "watch_namespaces", ("ml", "risk")),
        ("DAVYLAMP_WATCH_NAMESPACES", " ml , risk,, ml", "watch_namespaces", ("ml", "risk")),
        ("DAVYLAMP_WATCH_NAMESPACES", "", "watch_namespaces", ()),
        ("DAVYLAMP_IDENTITY", "davylamp-0", "identity", "davylamp-0"),
        ("DAVYLAMP_LISTEN", "127.0.0.1:9999", "port", 9999),
        ("DAVYLAMP_LISTEN", "127.0.0.1:9999", "host", "127.0.0.1"),
        ("DAVYLAMP_LISTEN", "[::1]:0", "host", "::1"),
        ("DAVYLAMP_LOG_FORMAT", "console", "log_format", "console"),
        ("DAVYLAMP_STATUS_EVERY_SECONDS", "0.5", "status_every", timedelta(seconds=0.5)),
        ("DAVYLAMP_SLACK_ENDPOINT", "http://127.0.0.1:80", "endpoints", {"slack": "http://127.0.0.1:80"}),
        ("DAVYLAMP_PAGERDUTY_ENDPOINT", "https://pages/", "endpoints", {"pagerDuty": "https://pages"}),
        ("DAVYLAMP_KOPF_HINTS", "False", "kopf_hints", False),
        ("DAVYLAMP_KOPF_HINTS", "true", "kopf_hints", True),
        ("DAVYLAMP_KOPF_HINTS", "", "kopf_hints", True),
    ],
)
def test_each_variable_sets_its_field(variable: str, value: str, field: str, expected: object) -> None:
    assert getattr(from_environment({variable: value}), field) == expected


def test_every_variable_is_tried_above() -> None:
    marks = test_each_variable_sets_its_field.pytestmark  # type: ignore[attr-defined]
    assert {case[0] for case in marks[0].args[1]} == set(VARIABLES)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("DAVYLAMP_NAMESPACE", "Platform"),
        ("DAVYLAMP_NAMESPACE", "../kube-system"),
        ("DAVYLAMP_NAMESPACE", "a" * 64),
        ("DAVYLAMP_WATCH_NAMESPACES", "ml;risk"),
        ("DAVYLAMP_WATCH_NAMESPACES", "ml risk"),
        ("DAVYLAMP_WATCH_NAMESPACES", "*"),
        ("DAVYLAMP_LISTEN", "8080"),
        ("DAVYLAMP_LISTEN", ":8080"),
        ("DAVYLAMP_LISTEN", "0.0.0.0:65536"),
        ("DAVYLAMP_LISTEN", "0.0.0.0:-1"),
        ("DAVYLAMP_LISTEN", "0.0.0.0:٨"),
        ("DAVYLAMP_LISTEN", "0.0.0.0:http"),
        ("DAVYLAMP_LOG_FORMAT", "xml"),
        ("DAVYLAMP_STATUS_EVERY_SECONDS", "0"),
        ("DAVYLAMP_STATUS_EVERY_SECONDS", "-1"),
        ("DAVYLAMP_STATUS_EVERY_SECONDS", "3600"),
        ("DAVYLAMP_STATUS_EVERY_SECONDS", "nan"),
        ("DAVYLAMP_STATUS_EVERY_SECONDS", "inf"),
        ("DAVYLAMP_STATUS_EVERY_SECONDS", "ten"),
        ("DAVYLAMP_SLACK_ENDPOINT", "slack.example"),
        ("DAVYLAMP_SLACK_ENDPOINT", "ftp://slack"),
        ("DAVYLAMP_SLACK_ENDPOINT", "http://user:word@slack"),
        ("DAVYLAMP_PAGERDUTY_ENDPOINT", "http://pages/path"),
        ("DAVYLAMP_KOPF_HINTS", "0"),
        ("DAVYLAMP_KOPF_HINTS", "yes"),
    ],
)
def test_a_wrong_value_is_refused_by_a_message_that_names_the_variable(variable: str, value: str) -> None:
    with pytest.raises(SpecError) as caught:
        from_environment({variable: value})
    message = str(caught.value)
    assert message.startswith(variable)
    assert "must " in message
    assert repr(value if variable != "DAVYLAMP_WATCH_NAMESPACES" else value.strip()) in message
