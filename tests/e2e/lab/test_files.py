import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest
import yaml

from e2e.lab import LabError, Profile, kind, layout, rendering, starting
from e2e.lab.api import condition
from e2e.lab.layout import Layout
from e2e.lab.places import cache, checked_name, chosen_name
from e2e.lab.processes import Process

SECOND = timedelta(seconds=1)


def test_the_cache_is_where_the_environment_says() -> None:
    assert cache({"DAVYLAMP_CACHE": "/c", "XDG_CACHE_HOME": "/x"}) == Path("/c")
    assert cache({"XDG_CACHE_HOME": "/x"}) == Path("/x/davylamp")
    assert cache({}) == Path.home() / ".cache" / "davylamp"


def test_the_lab_is_named_by_the_environment_or_called_default() -> None:
    assert chosen_name({"DAVYLAMP_LAB": "mine"}) == "mine"
    assert chosen_name({"DAVYLAMP_LAB": ""}) == "default"


@pytest.mark.parametrize("name", ["", "a/b", "..", "A", "-a", "a-", "a" * 41, "a b", "a\n"])
def test_a_name_that_could_leave_its_folder_is_refused(name: str) -> None:
    with pytest.raises(LabError, match="cannot name a lab: use 1 to 40 of a-z"):
        checked_name(name)


def test_addresses_are_given_once_even_to_several_programs_at_once(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        given = list(pool.map(lambda _: Layout(tmp_path).next_address(), range(40)))
    assert len(set(given)) == 40
    assert layout.ADVERTISED not in given
    assert all(ip_address(address) in ip_network("10.244.0.0/16") for address in given)


def test_running_out_of_addresses_is_said(tmp_path: Path) -> None:
    (tmp_path / "addresses").write_text("65278", encoding="ascii")
    assert Layout(tmp_path).next_address() == "10.244.255.254"
    with pytest.raises(LabError, match="all 65279 addresses"):
        Layout(tmp_path).next_address()


def test_secrets_are_readable_by_their_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    starting.write_secret(file, "one")
    starting.write_secret(file, "two")
    assert file.read_text(encoding="utf-8") == "two"
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("stored", ["", "null", "[]", '{"profile": "full"}'])
def test_a_damaged_state_is_no_state(stored: str, tmp_path: Path) -> None:
    (tmp_path / starting.STATE).write_text(stored, encoding="utf-8")
    assert starting.read_state(Layout(tmp_path)) == {}
    assert not starting.orphaned(Layout(tmp_path))


def test_a_lab_is_an_orphan_when_its_own_program_is_gone(tmp_path: Path) -> None:
    state = {"profile": "full", "token": "t", "scrape_interval_ms": 1000}
    for owner, orphaned in ((None, False), ([1, -1, "an earlier boot"], True)):
        (tmp_path / starting.STATE).write_text(json.dumps({**state, "owner": owner}), encoding="utf-8")
        assert starting.orphaned(Layout(tmp_path)) is orphaned


def test_clearing_what_a_reboot_left_ends_nothing_and_removes_all(tmp_path: Path) -> None:
    files = Layout(tmp_path / "lab")
    files.make()
    files.file(starting.STATE).write_text("{", encoding="utf-8")
    for component in ("etcd", starting.HOLDER):
        Process(1, 0, "an earlier boot").write(files.process(component))
    starting.clear(files)
    assert not files.folder.exists()
    starting.clear(files)


def test_clearing_can_leave_the_logs(tmp_path: Path) -> None:
    files = Layout(tmp_path / "lab")
    files.make()
    files.log("etcd").write_text("why", encoding="utf-8")
    starting.clear(files, keep_logs=True)
    assert [entry.name for entry in files.folder.iterdir()] == ["logs"]


def test_prometheus_scrapes_at_the_interval_asked_for_and_the_gateway_too() -> None:
    rendered = yaml.safe_load(rendering.prometheus("/targets", timedelta(milliseconds=250), "127.0.0.1:8002"))
    assert rendered["global"]["scrape_interval"] == "250ms"
    files, envoy = rendered["scrape_configs"]
    assert files["file_sd_configs"][0]["files"] == ["/targets/*.json"]
    assert envoy["static_configs"] == [{"targets": ["127.0.0.1:8002"]}]


def test_a_scrape_interval_below_10_ms_is_refused() -> None:
    with pytest.raises(LabError, match="at least 10 ms, got 9 ms"):
        rendering.prometheus("/targets", timedelta(milliseconds=9), "127.0.0.1:8002")


def test_each_target_keeps_labels_of_its_own() -> None:
    groups = json.loads(rendering.target_groups("model", {"10.244.1.0:80": {"pod": "a"}, "10.244.1.1:80": {}}))
    assert groups == [
        {"targets": ["10.244.1.0:80"], "labels": {"job": "model", "pod": "a"}},
        {"targets": ["10.244.1.1:80"], "labels": {"job": "model"}},
    ]


def test_a_condition_that_is_absent_is_none() -> None:
    assert condition({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, "Ready") == "False"
    for empty in ({}, {"status": None}, {"status": {"conditions": None}}):
        assert condition(empty, "Ready") is None


def test_profiles_are_spelled_as_on_the_command_line() -> None:
    assert [profile.value for profile in Profile] == ["control-plane", "full"]


def test_kind_shows_gateway_and_prometheus_where_the_local_lab_does() -> None:
    mappings = kind.cluster_configuration()["nodes"][0]["extraPortMappings"]
    assert [(port["containerPort"], port["hostPort"]) for port in mappings] == [(80, 8080), (30090, 9090)]
    assert {port["listenAddress"] for port in mappings} == {"127.0.0.1"}


def test_kind_runs_contour_for_the_gateway_of_the_lab() -> None:
    theirs = [
        {"kind": "Gateway", "metadata": {"name": "contour"}},
        {"kind": "GatewayClass", "metadata": {"name": "example"}},
        {"kind": "ConfigMap", "metadata": {"name": "contour"}, "data": {"contour.yaml": "theirs"}},
        {"kind": "Deployment", "metadata": {"name": "contour"}},
    ]
    kept = kind.contour_objects(theirs)
    assert [thing["kind"] for thing in kept] == ["ConfigMap", "Deployment"]
    assert yaml.safe_load(kept[0]["data"]["contour.yaml"])["gateway"]["gatewayRef"] == {
        "namespace": "gateway",
        "name": "lab",
    }
    assert theirs[2]["data"] == {"contour.yaml": "theirs"}


def test_kind_runs_the_release_of_prometheus_that_the_local_lab_builds() -> None:
    assert kind.release("v0.316.0") == "v3.16.0"
    assert kind.release("v0.305.2") == "v3.5.2"
    with pytest.raises(LabError, match=r"such as v0\.316\.0, got v2\.5\.0"):
        kind.release("v2.5.0")


def test_prometheus_in_kind_scrapes_marked_pods_and_the_gateway() -> None:
    things = {thing["kind"]: thing for thing in kind.prometheus_objects(SECOND)}
    rendered = yaml.safe_load(things["ConfigMap"]["data"]["prometheus.yml"])
    assert [job["job_name"] for job in rendered["scrape_configs"]] == ["lab", "envoy"]
    assert things["Service"]["spec"]["ports"][0]["nodePort"] == 30090
    assert things["Deployment"]["spec"]["template"]["spec"]["containers"][0]["image"] == "prom/prometheus:v3.16.0"
