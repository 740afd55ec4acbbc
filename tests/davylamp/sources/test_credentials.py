from __future__ import annotations

from dataclasses import replace

import pytest

from davylamp.errors import SpecError
from davylamp.sources.settings import Credentials, PrometheusSettings
from tests.davylamp.sources.conftest import Opener
from tests.davylamp.sources.looks import (
    ERRORS,
    both,
    envelope,
    request,
)
from tests.davylamp.sources.servers import Server

SECRET = "s3cr3t-token"


@pytest.mark.parametrize(
    ("credentials", "header"),
    [
        (Credentials(bearer=f"{SECRET}\n"), f"Bearer {SECRET}"),
        (Credentials(username="me", password="a:b é\n"), "Basic bWU6YTpiIMOp"),
        (Credentials(bearer=SECRET, username="me"), f"Bearer {SECRET}"),
    ],
)
async def test_credentials_are_read_for_each_query_and_sent(
    server: Server, settings: PrometheusSettings, opened: Opener, credentials: Credentials, header: str
) -> None:
    reads = []

    async def fresh() -> Credentials:
        reads.append(1)
        return credentials

    source = opened(replace(settings, headers=(("X-Scope-OrgID", "ml"),)), fresh)
    server.answer(envelope(both("ok_total", [1])))
    for _ in range(2):
        await source.read(request(ERRORS))

    assert len(reads) == 2
    assert [sent["Authorization"] for sent in server.headers] == [header] * 2
    assert server.headers[0]["X-Scope-OrgID"] == "ml"


@pytest.mark.parametrize(
    "credentials",
    [
        Credentials(bearer=f"{SECRET}\r\nX-Evil: 1"),
        Credentials(bearer=f"{SECRET} two"),
        Credentials(bearer=f"{SECRET}\x00"),
        Credentials(bearer=f"{SECRET}é"),
        Credentials(bearer=" "),
        Credentials(username=f"{SECRET}:x", password=SECRET),
        Credentials(authority=SECRET),
        Credentials(authority="-----BEGIN CERTIFICATE-----\n" + SECRET + "\n-----END CERTIFICATE-----\n"),
    ],
)
async def test_damaged_credentials_are_refused_without_being_shown_or_sent(
    server: Server, settings: PrometheusSettings, opened: Opener, credentials: Credentials
) -> None:
    async def damaged() -> Credentials:
        return credentials

    source = opened(settings, damaged)

    with pytest.raises(SpecError) as refused:
        await source.read(request(ERRORS))

    assert SECRET not in str(refused.value)
    assert SECRET not in repr(credentials)
    assert server.forms == []


async def test_what_the_reader_of_credentials_says_is_handed_on(settings: PrometheusSettings, opened: Opener) -> None:
    async def missing() -> Credentials:
        raise SpecError("Secret token does not exist")

    source = opened(settings, missing)

    with pytest.raises(SpecError, match=r"^Secret token does not exist$"):
        await source.read(request(ERRORS))
