"""Kopf in its thread, watching a real API server with the operator's rights."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import kopf
import pytest

from davylamp.runtime import hints as module
from davylamp.runtime.hints import Hints
from tests.davylamp.runtime.premises import BASELINE, Premises
from tests.davylamp.runtime.waiting import eventually, kopf_ended

Seen = list[tuple[str, str, str, str]]


@asynccontextmanager
async def hinting(*namespaces: str) -> AsyncIterator[tuple[Hints, Seen]]:
    seen: Seen = []
    hints = Hints(lambda *what: seen.append(what), namespaces)
    hints.start()
    try:
        yield hints, seen
    finally:
        hints.stop()
        await kopf_ended(lambda: hints.running)


def about(seen: Seen, kind: str, namespace: str, name: str) -> set[str]:
    """Return the versions that were hinted at."""
    return {version for each, where, what, version in seen if (each, where, what) == (kind, namespace, name)}


async def test_that_kopf_takes_no_signals_is_not_said(premises: Premises, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "kopf")
    async with hinting(premises.namespace) as (_, seen):
        premises.rollout()
        await eventually(lambda: bool(seen), "Kopf works")
    assert [record.getMessage() for record in caplog.records if "signal" in record.getMessage().lower()] == []
    assert [record for record in caplog.records if record.name.startswith("kopf")]


@pytest.mark.parametrize("everywhere", [True, False])
async def test_a_change_of_any_kind_leads_to_a_hint(premises: Premises, everywhere: bool) -> None:
    namespace = premises.namespace
    premises.rollout("before")
    async with hinting(*(() if everywhere else (namespace,))) as (_, seen):
        await eventually(lambda: about(seen, "rollout", namespace, "before"), "what was there is hinted at")
        rollout = premises.rollout("after")
        await eventually(lambda: about(seen, "rollout", namespace, "after"), "a new rollout is hinted at")
        assert rollout["metadata"]["resourceVersion"] in about(seen, "rollout", namespace, "after")
        await eventually(lambda: about(seen, "route", namespace, "after"), "its route is hinted at")
        known = about(seen, "service", namespace, BASELINE)
        premises.lab.set_ready(namespace, BASELINE, ready=False)
        await eventually(lambda: about(seen, "service", namespace, BASELINE) - known, "readiness is hinted at")
        known = about(seen, "rollout", namespace, "after")
        premises.lab.api.delete(premises.path("after"))
        await eventually(lambda: about(seen, "rollout", namespace, "after") - known, "an end is hinted at")


async def test_namespaces_that_are_not_served_are_not_watched(premises: Premises) -> None:
    async with hinting("kube-public") as (_, seen):
        premises.rollout()
        async with hinting(premises.namespace) as (_, others):
            await eventually(lambda: about(others, "rollout", premises.namespace, "credit"), "the other one sees it")
    assert not about(seen, "rollout", premises.namespace, "credit")


async def test_nothing_of_kopf_stays_on_objects_of_users(premises: Premises) -> None:
    premises.rollout()
    async with hinting(premises.namespace) as (_, seen):
        await eventually(lambda: about(seen, "rollout", premises.namespace, "credit"), "it is hinted at")
        await eventually(lambda: about(seen, "route", premises.namespace, "credit"), "its route is hinted at")
    for path in (premises.path(), premises.route_path()):
        metadata = premises.lab.api.get(path)["metadata"]
        assert "finalizers" not in metadata
        assert not [key for key in metadata.get("annotations", {}) if "kopf" in key]


async def test_kopf_is_started_again_when_it_ends(premises: Premises, monkeypatch: pytest.MonkeyPatch) -> None:
    operate, runs = kopf.operator, []

    async def dies_twice(**settings: Any) -> None:
        runs.append(threading.current_thread().name)
        if len(runs) == 1:
            raise RuntimeError("a garbled line")
        if len(runs) > 2:
            await operate(**settings)

    monkeypatch.setattr(kopf, "operator", dies_twice)
    monkeypatch.setattr(module, "_FIRST_BACKOFF", 0.01)
    async with hinting(premises.namespace) as (_, seen):
        premises.rollout()
        await eventually(lambda: about(seen, "rollout", premises.namespace, "credit"), "the third run hints")
    assert runs == ["kopf"] * 3


async def test_without_a_kubeconfig_kopf_goes_on_trying_and_can_be_stopped(
    account: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    async with hinting() as (hints, seen):
        await eventually(lambda: "will try again" in caplog.text, "it says that it will try again")
        assert hints.running
    assert seen == []


async def test_a_hint_for_a_loop_that_has_ended_is_lost_in_silence() -> None:
    calls: list[object] = []

    def start() -> Hints:
        async def inside() -> Hints:
            hints = Hints(lambda *what: calls.append(what), ())
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(threading.Thread, "start", lambda _: None)
                hints.start()
            return hints

        return asyncio.run(inside())

    hints = await asyncio.to_thread(start)
    assert hints._thread is not None
    (passed_on,) = hints._thread._args  # type: ignore[attr-defined]
    passed_on("rollout", "ml", "credit", "1")
    assert calls == []
