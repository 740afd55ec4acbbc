"""Who may see captured pairs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from davylamp.shadow.captures_key import HEADER, CapturesKey
from davylamp.shadow.task import Capture
from tests.davylamp.shadow.servers import KEY, comparing, get, key_file, task

CAPTURING = task("127.0.0.1:1", "127.0.0.1:1", capture=Capture(5))
PATH = "/captures/ml/credit"


async def test_who_has_the_key_sees_the_pairs_and_nobody_else(tmp_path: Path) -> None:
    with capture_logs() as logs:
        async with comparing(CAPTURING, key=key_file(tmp_path)) as comparator:
            assert await get(comparator, PATH, key=KEY) == (200, '{"pairs": []}')
            for key in ("", KEY[:-1], f"{KEY}x", KEY.upper(), "schlüssel-schlüssel"):
                status, text = await get(comparator, PATH, key=key)
                assert (status, json.loads(text)["error"].split(" is ")[0]) == (403, f"the key in the header {HEADER}")
                assert KEY not in text
    assert KEY not in str(logs)


async def test_a_key_that_changes_counts_at_once(tmp_path: Path) -> None:
    file = key_file(tmp_path)
    async with comparing(CAPTURING, key=file) as comparator:
        file.write_text(2 * KEY, "utf-8")
        assert (await get(comparator, PATH, key=KEY))[0] == 403
        assert (await get(comparator, PATH, key=2 * KEY))[0] == 200
        file.unlink()
        assert (await get(comparator, PATH, key=2 * KEY))[0] == 403


@pytest.mark.parametrize("content", [None, b"", b"\n", b"too-short-a-key", b" " * 5000 + b"behind-the-longest"])
async def test_without_a_key_nobody_sees_anything_and_is_told_how_to_make_one(
    tmp_path: Path, content: bytes | None
) -> None:
    file = tmp_path / "key"
    if content is not None:
        file.write_bytes(content)
    async with comparing(CAPTURING, key=file) as comparator:
        for key in ("", "too-short-a-key", "behind-the-longest"):
            status, text = await get(comparator, PATH, key=key)
            assert status == 403
            assert "kubectl create secret generic davylamp-shadow-captures --namespace ml --from-literal=key=" in text


def test_where_no_file_is_named_there_is_no_key() -> None:
    assert "there is none" in CapturesKey(None).refusal({HEADER: KEY}, "ml")
