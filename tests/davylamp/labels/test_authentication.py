"""Who may post."""

import hashlib
import hmac
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from davylamp.labels.authentication import WINDOW, KeyFile, Keys, signature

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
KEY, OTHER = "k" * 16, "o" * 32


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "keys"
    path.write_text(f"{KEY}\n\n  {OTHER}  \n")
    return path


def tokens(file: Path) -> Keys:
    return Keys(KeyFile(file), KeyFile(None))


def signers(file: Path) -> Keys:
    return Keys(KeyFile(None), KeyFile(file))


@pytest.mark.parametrize("header", [f"Bearer {KEY}", f"bearer {OTHER}", f"BEARER  {KEY} "])
def test_any_token_of_the_file_lets_in(file: Path, header: str) -> None:
    assert tokens(file).token_fits(header)


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer ", f"Basic {KEY}", KEY, f"Bearer {KEY[:-1]}", f"Bearer {KEY}k", "Bearer \udcff"]
)
def test_nothing_else_does(file: Path, header: str) -> None:
    assert not tokens(file).token_fits(header)


def test_a_key_of_signatures_is_no_token_and_a_token_does_not_sign(file: Path) -> None:
    assert not signers(file).token_fits(f"Bearer {KEY}")
    at = int(NOW.timestamp())
    assert not tokens(file).signature_fits(signature(KEY.encode(), b"body", at), b"body", NOW)


def test_a_signature_is_a_hash_over_time_and_body(file: Path) -> None:
    at = int(NOW.timestamp())
    digest = hmac.new(OTHER.encode(), f"{at}.".encode() + b"body", hashlib.sha256).hexdigest()
    assert signature(OTHER.encode(), b"body", at) == f"t={at},v1={digest}"
    assert signers(file).signature_fits(f"t={at},v1={digest}", b"body", NOW)


def test_a_signature_of_another_body_time_or_key_does_not_fit(file: Path) -> None:
    at = int(NOW.timestamp())
    good = signature(KEY.encode(), b"body", at)
    keys = signers(file)
    assert keys.signature_fits(good, b"body", NOW)
    assert not keys.signature_fits(good, b"body ", NOW)
    assert not keys.signature_fits(good.replace(str(at), str(at + 1)), b"body", NOW)
    assert not keys.signature_fits(signature(b"x" * 16, b"body", at), b"body", NOW)
    for broken in ("", good[:-1], good.upper(), f"{good},v1=0", good.removeprefix("t=")):
        assert not keys.signature_fits(broken, b"body", NOW)


@pytest.mark.parametrize(("seconds", "fits"), [(0, True), (WINDOW, True), (-WINDOW, True), (301, False), (-301, False)])
def test_a_signature_counts_five_minutes(file: Path, seconds: int, fits: bool) -> None:
    at = int((NOW + timedelta(seconds=seconds)).timestamp())
    assert signers(file).signature_fits(signature(KEY.encode(), b"body", at), b"body", NOW) is fits


def test_a_changed_file_counts_at_once(file: Path) -> None:
    keys = tokens(file)
    assert keys.token_fits(f"Bearer {KEY}")
    replaced = file.with_suffix(".new")
    replaced.write_text("n" * 20)
    os.replace(replaced, file)  # noqa: PTH105 - as a mounted Secret changes
    assert not keys.token_fits(f"Bearer {KEY}")
    assert keys.token_fits(f"Bearer {'n' * 20}")
    file.unlink()
    assert not keys.token_fits(f"Bearer {'n' * 20}")


def test_a_short_key_is_none(file: Path) -> None:
    file.write_text("short\n")
    assert not tokens(file).token_fits("Bearer short")
    assert KeyFile(file).read() == ()
