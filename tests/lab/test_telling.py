"""What people and machines are told: Slack, PagerDuty, Events, metrics, and no secret anywhere."""

import base64
import json
import signal
from typing import Any
from urllib.request import urlopen

import pytest

from e2e.faults.faults import Killing, Moment
from e2e.faults.proxy import Proxy
from e2e.faults.receivers import Receivers
from e2e.lab import Component, Lab
from e2e.lab.waiting import until
from e2e.stage.controller import NAMESPACE, SERVICE_ACCOUNT
from e2e.stage.rollout_stage import PATIENCE, RolloutStage

HOOK = "T0LAB/B0LAB/planted-hook-secret"
KEY = "planted0routing0key0000000000000"
LONG = [{"weight": 20, "bake": "60s", "minSamples": 5}]
NOTIFY = [{"channel": "ml-slack", "from": "Info"}, {"channel": "oncall", "from": "Incident"}]


def secret(namespace: str, name: str, value: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace},
        "data": {"value": base64.b64encode(value.encode()).decode()},
    }


def channel(namespace: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "davylamp.dev/v1alpha1", "kind": "NotificationChannel", "metadata": metadata, "spec": spec}


@pytest.fixture
def channels(lab: Lab, lab_namespace: str, receivers: Receivers) -> Receivers:
    """A channel of each kind, and the right to read their Secrets."""
    account = {"kind": "ServiceAccount", "name": SERVICE_ACCOUNT, "namespace": NAMESPACE}
    for manifest in (
        secret(lab_namespace, "slack", f"{receivers.address}/services/{HOOK}"),
        secret(lab_namespace, "pagerduty", KEY),
        channel(lab_namespace, "ml-slack", {"slack": {"webhook": {"name": "slack", "key": "value"}}}),
        channel(lab_namespace, "oncall", {"pagerDuty": {"routingKey": {"name": "pagerduty", "key": "value"}}}),
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "davylamp-secrets", "namespace": lab_namespace},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "davylamp-secrets"},
            "subjects": [account],
        },
    ):
        lab.api.apply(manifest)
    return receivers


def about_rollback(receivers: Receivers) -> tuple[list[str], list[str]]:
    """Return what Slack and PagerDuty got about the rollback, which alone is an incident."""
    posts = [json.dumps(post, ensure_ascii=False) for post in receivers.slack]
    pages = [json.dumps(page) for page in receivers.pagerduty if page.get("event_action") == "trigger"]
    return [post for post in posts if "· Incident ·" in post], pages


def told(receivers: Receivers) -> bool:
    posts, pages = about_rollback(receivers)
    return bool(posts and pages)


def test_a_rollback_is_told_once_to_each_channel_across_crashes(
    stage: RolloutStage, channels: Receivers, davylamp: Component, proxy: Proxy
) -> None:
    killing = Killing(
        1,
        Moment.AFTER,
        lambda: davylamp.process.signal(signal.SIGKILL) if davylamp.process else None,
        wanted=lambda call: call.path == stage.route_path and b"Rollback" in call.body,
    )
    proxy.fault = killing
    stage.apply(steps=LONG, notify=NOTIFY)
    stage.until_weight(20)
    stage.site.fleet.break_candidate(errors=0.6)
    stage.recorder.until(lambda _, __: killing.done.is_set(), "it was killed", within=PATIENCE)
    davylamp.kill()
    proxy.forget()
    davylamp.start()
    stage.until_phase("RolledBack")
    until(lambda: told(channels), "both were told", within=PATIENCE)
    stage.recorder.until(lambda rollout, _: not rollout["status"].get("outbox"), "the outbox is empty", within=PATIENCE)
    davylamp.kill()
    proxy.forget()
    davylamp.start()
    until(
        lambda: any(answered.call.path == stage.route_path for answered in proxy.answered),
        "it looks again",
        within=PATIENCE,
    )
    posts, pages = about_rollback(channels)
    assert len(pages) == 1, pages
    assert len(posts) == 1, posts
    assert stage.violations() == ()


def test_a_receiver_that_is_away_for_a_moment_is_told_soon_after(stage: RolloutStage, channels: Receivers) -> None:
    stage.apply(steps=LONG, notify=NOTIFY)
    until(lambda: any("gets 20 %" in post["text"] for post in channels.slack), "the step was told", within=PATIENCE)
    channels.refuse = 2
    stage.site.fleet.break_candidate(errors=0.6)
    stage.until_phase("RolledBack")
    until(lambda: told(channels), "both were told", within=PATIENCE)
    assert stage.violations() == ()


def test_a_receiver_that_never_answers_delays_no_rollback(stage: RolloutStage, channels: Receivers) -> None:
    channels.refuse = 1_000
    stage.apply(steps=LONG, notify=NOTIFY)
    stage.until_weight(20)
    stage.site.fleet.break_candidate(errors=0.6)
    stage.until_phase("RolledBack")
    assert not told(channels)
    assert stage.violations() == ()


def test_events_and_metrics_tell_the_story_and_no_secret(
    stage: RolloutStage, channels: Receivers, davylamp: Component, lab: Lab
) -> None:
    stage.apply(steps=LONG, notify=NOTIFY)
    stage.until_weight(20)
    stage.site.fleet.break_candidate(errors=0.6)
    stage.until_phase("RolledBack")
    until(lambda: told(channels), "both were told", within=PATIENCE)
    events = lab.api.get(f"/api/v1/namespaces/{stage.site.namespace}/events")["items"]
    reasons = {event["reason"] for event in events if event["involvedObject"]["kind"] == "ModelRollout"}
    assert "StepStarted" in reasons
    assert reasons & {"Regressed", "ErrorShare"}
    metrics = scraped(8081)
    labels = f'name="{stage.name}",namespace="{stage.site.namespace}"'
    assert f'davylamp_phase{{{labels},phase="RolledBack"}} 1.0' in metrics
    assert f'davylamp_weight_percent{{kind="requested",{labels}}} 0.0' in metrics
    assert "davylamp_rollback_seconds_count" in metrics
    everything = [
        json.dumps([seen.manifest for seen in stage.recorder.history]),
        json.dumps(events),
        metrics,
        lab.files.log(davylamp.name).read_text("utf-8"),
    ]
    for planted in (HOOK, KEY, HOOK.rpartition("/")[2]):
        for text in everything:
            assert planted not in text


def scraped(port: int) -> str:
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        return str(answer.read().decode())
