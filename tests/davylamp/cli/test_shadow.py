"""`davylamp shadow`: its options count before the environment, and it says what is missing."""

import sys

import pytest

from tests.davylamp.cli.calling import call


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--namespace", "A space"], "DAVYLAMP_NAMESPACE"),
        (["--service", "A service"], "DAVYLAMP_SHADOW_SERVICE"),
        (["--listen", "8080"], "DAVYLAMP_LISTEN"),
        (["--resolve-endpoints", "--listen", "x"], "DAVYLAMP_LISTEN"),
    ],
)
def test_an_option_counts_before_the_environment(
    options: list[str], words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    good = {"DAVYLAMP_NAMESPACE": "ml", "DAVYLAMP_SHADOW_SERVICE": "mine", "DAVYLAMP_LISTEN": "127.0.0.1:0"}
    for name, value in good.items():
        monkeypatch.setenv(name, value)
    ended = call(capsys, "shadow", *options)
    assert ended.code == 2
    assert ended.err.startswith(f"davylamp: {words} must")


def test_without_its_libraries_it_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "davylamp.runtime.comparator", None)
    ended = call(capsys, "shadow")
    assert ended.code == 2
    assert "the comparator needs davylamp[shadow]" in ended.err


def test_its_help_names_every_variable(capsys: pytest.CaptureFixture[str]) -> None:
    from davylamp.runtime.comparator_settings import COMPARATOR_VARIABLES

    text = call(capsys, "shadow", "--help").out
    assert all(name in text for name in COMPARATOR_VARIABLES)
