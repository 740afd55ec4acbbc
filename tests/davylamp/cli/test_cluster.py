"""The commands against a real API server."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from kubernetes import client

from davylamp.cli.cluster import Cluster, NotThereError, _refusal
from davylamp.cli.failure import ExitCode, FailureError
from davylamp.cli.kubeconfig import Connection
from e2e.lab import Lab
from tests.davylamp.api.manifests import CRDS
from tests.davylamp.cli import rollouts
from tests.davylamp.cli.calling import Ended, call
from tests.davylamp.cli.rollouts import Manifest

PROGRAM: Final = str(Path(sys.executable).with_name("davylamp"))


class Home:
    """A namespace of one test, and the commands in it."""

    def __init__(self, lab: Lab, namespace: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.lab = lab
        self.namespace = namespace
        self._capsys = capsys

    def call(self, *arguments: str, namespace: str | None = None) -> Ended:
        where = ("--kubeconfig", str(self.lab.kubeconfig), "--namespace", namespace or self.namespace)
        return call(self._capsys, *arguments, *where)

    def create(self, name: str, manifest: Manifest, **metadata: Any) -> None:
        body = {"apiVersion": manifest["apiVersion"], "kind": manifest["kind"], "spec": manifest["spec"]}
        body["metadata"] = {"name": name, "namespace": self.namespace, **metadata}
        self.lab.api.create(self.path(), body)
        self.become(name, manifest)

    def become(self, name: str, manifest: Manifest) -> None:
        """Let a rollout have the status of another, as if it were about its present spec."""
        if "status" in manifest:
            now = self.lab.api.get(self.path(name))
            status = manifest["status"] | {"observedGeneration": now["metadata"]["generation"]}
            self.lab.api.request("PUT", f"{self.path(name)}/status", now | {"status": status})

    def path(self, name: str = "") -> str:
        plural = f"/apis/davylamp.dev/v1alpha1/namespaces/{self.namespace}/modelrollouts"
        return f"{plural}/{name}" if name else plural

    @contextmanager
    def running(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """A command in a process of its own, for those that wait."""
        where = ("--kubeconfig", str(self.lab.kubeconfig), "--namespace", self.namespace)
        with subprocess.Popen(
            [PROGRAM, *arguments, *where],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.lab.environment(),
        ) as process:
            try:
                yield process
            finally:
                process.kill()


def line_with(process: subprocess.Popen[str], words: str) -> str:
    """Read lines until one holds these words."""
    assert process.stdout is not None
    for line in process.stdout:
        if words in line:
            return line
    raise AssertionError(f"the command ended before it said {words!r}")


@pytest.fixture
def home(control_plane: Lab, lab_namespace: str, capsys: pytest.CaptureFixture[str]) -> Home:
    control_plane.api.install_crds([yaml.safe_load(path.read_text()) for path in sorted(CRDS.glob("*.yaml"))])
    return Home(control_plane, lab_namespace, capsys)


def test_rollouts_are_listed_with_their_phase_and_weight(home: Home) -> None:
    home.create("credit", rollouts.baking())
    home.create("churn", rollouts.rolled_back(), labels={"team": "crm"})

    lines = [line.split() for line in home.call("list").out.splitlines()]
    assert lines[0] == ["NAME", "PHASE", "STEP", "WEIGHT", "VERDICT", "AGE"]
    assert lines[1][:5] == ["churn", "RolledBack", "3/5", "0", "Regressed"]
    assert lines[2][:5] == ["credit", "Progressing", "3/5", "25", "Inconclusive"]
    assert "churn" not in home.call("list", "-l", "team!=crm").out
    assert home.call("list", "-o", "wide").out.split()[6:9] == ["BASELINE", "CANDIDATE", "REASON"]
    everywhere = home.call("list", "-A").out
    assert everywhere.startswith("NAMESPACE")
    assert home.namespace in everywhere


def test_a_list_is_printed_for_programs(home: Home) -> None:
    home.create("credit", rollouts.baking())

    assert home.call("list", "-o", "name").out == "modelrollout.davylamp.dev/credit\n"
    assert json.loads(home.call("list", "-o", "json").out)["items"][0]["metadata"]["name"] == "credit"
    assert yaml.safe_load(home.call("list", "-o", "yaml").out)["kind"] == "List"


def test_an_empty_namespace_is_said_to_be_empty(home: Home) -> None:
    ended = home.call("list")
    assert (ended.code, ended.out) == (0, "")
    assert f"no ModelRollouts in namespace {home.namespace}" in ended.err


def test_a_rollout_is_shown(home: Home) -> None:
    home.create("credit", rollouts.rolled_back())

    text = home.call("get", "credit").out
    assert "RolledBack" in text
    assert "approvals" in text
    assert "\x1b" not in text
    wide = home.call("get", "credit", "-o", "wide").out.splitlines()
    assert len(wide[0]) == 140
    assert json.loads(home.call("get", "credit", "-o", "json").out)["status"]["phase"] == "RolledBack"
    assert home.call("get", "credit", "-o", "name").out == "modelrollout.davylamp.dev/credit\n"


def test_the_ladder_of_a_policy_is_read_and_explained(home: Home) -> None:
    home.lab.api.create(
        f"/apis/davylamp.dev/v1alpha1/namespaces/{home.namespace}/rolloutpolicies",
        {
            "apiVersion": "davylamp.dev/v1alpha1",
            "kind": "RolloutPolicy",
            "metadata": {"name": "shared"},
            "spec": {"steps": [{"weight": 7, "bake": "2m"}]},
        },
    )
    manifest = rollouts.unseen()
    del manifest["spec"]["steps"]
    manifest["spec"]["policyRef"] = {"kind": "RolloutPolicy", "name": "shared"}
    home.create("credit", manifest)
    manifest["spec"]["policyRef"] = {"kind": "ClusterRolloutPolicy", "name": f"none-{secrets.token_hex(4)}"}
    home.create("churn", manifest)

    assert "7 %" in home.call("get", "credit").out
    explained = home.call("explain", "credit")
    assert explained.code == 0
    assert "RolloutPolicy shared" in explained.out
    orphan = home.call("explain", "churn")
    assert orphan.code == 0
    assert "The policy cannot be read" in orphan.out


@pytest.mark.parametrize(
    ("situation", "code"),
    [
        ("promoted", ExitCode.OK),
        ("rolled_back", ExitCode.ROLLED_BACK),
        ("invalid", ExitCode.WRONG),
        ("baking", ExitCode.UNDECIDED),
        ("unseen", ExitCode.UNDECIDED),
    ],
)
def test_the_exit_code_says_how_a_rollout_stands(situation: str, code: ExitCode, home: Home) -> None:
    home.create("credit", rollouts.SITUATIONS[situation]())
    assert home.call("status", "credit", "--no-watch").code == code


def test_waiting_ends_when_the_time_is_over(home: Home) -> None:
    home.create("credit", rollouts.baking())
    ended = home.call("status", "credit", "--timeout", "1s")
    assert ended.code == ExitCode.UNDECIDED
    assert "not decided after 1s" in ended.err


@pytest.mark.parametrize(("situation", "code"), [("promoted", ExitCode.OK), ("rolled_back", ExitCode.ROLLED_BACK)])
def test_waiting_ends_when_the_rollout_is_decided(situation: str, code: ExitCode, home: Home) -> None:
    home.create("credit", rollouts.baking())
    with home.running("status", "credit") as waiting:
        line_with(waiting, "baking at 25 %")
        home.become("credit", rollouts.SITUATIONS[situation]())
        assert waiting.wait(60) == code


def test_waiting_outlives_an_api_server_that_goes_away(home: Home) -> None:
    home.create("credit", rollouts.baking())
    server = home.lab.component("kube-apiserver")
    with home.running("status", "credit") as waiting:
        line_with(waiting, "baking at 25 %")
        server.kill()
        line_with(waiting, "cannot be reached")
        home.lab.ensure_ready()
        line_with(waiting, "baking at 25 %")
        home.become("credit", rollouts.promoted())
        assert waiting.wait(60) == ExitCode.OK


def test_each_change_is_a_line_where_there_is_no_terminal(home: Home) -> None:
    home.create("credit", rollouts.baking())
    with home.running("get", "credit", "--watch") as watching:
        line_with(watching, "Progressing at 25 %: baking")
        home.become("credit", rollouts.held())
        line_with(watching, "Held at 50 %: the weight is held")
        home.lab.api.delete(home.path("credit"))
        line_with(watching, "was deleted")
        assert watching.wait(60) == 0


def test_what_is_not_there_ends_with_5(home: Home) -> None:
    ended = home.call("get", "nothing")
    assert ended.code == ExitCode.REFUSED
    assert f"cannot get modelrollout nothing: there is none in namespace {home.namespace}" in ended.err


@pytest.mark.parametrize("name", ["", "credit%00", "../configmaps/x", "Credit", "a" * 254])
def test_what_is_no_name_is_refused_before_anything_is_asked(home: Home, name: str) -> None:
    ended = home.call("get", name)
    assert ended.code == ExitCode.WRONG
    assert "is not the name of a ModelRollout" in ended.err


def test_what_is_no_namespace_is_refused_before_anything_is_asked() -> None:
    cluster = Cluster(Connection(client.ApiClient(), "a/b?x=1", "https://nowhere.test"))
    with pytest.raises(FailureError, match=r"'a/b\?x=1' is not the name of a namespace"):
        cluster.rollouts(cluster.namespace)
    with pytest.raises(FailureError, match="is not the name of a namespace"):
        cluster.rollout("credit")


def with_token(home: Home, tmp_path: Path, token: str) -> str:
    config = yaml.safe_load(home.lab.kubeconfig.read_text())
    for user in config["users"]:
        user["user"] = {"token": token}
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return str(path)


def test_who_may_not_look_is_told_which_right_is_missing(
    home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    accounts = f"/api/v1/namespaces/{home.namespace}/serviceaccounts"
    home.lab.api.create(accounts, {"metadata": {"name": "nobody"}})
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = home.lab.api.create(f"{accounts}/nobody/token", request)["status"]["token"]

    ended = call(capsys, "list", "-n", home.namespace, "--kubeconfig", with_token(home, tmp_path, token))

    assert ended.code == ExitCode.REFUSED
    assert f"you may not list modelrollouts in namespace {home.namespace}" in ended.err
    assert "modelrollouts.davylamp.dev" in ended.err


def test_who_is_not_known_is_told_to_log_in(home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ended = call(capsys, "list", "--kubeconfig", with_token(home, tmp_path, "no-such-token"))
    assert ended.code == ExitCode.REFUSED
    assert "log in again" in ended.err


def test_names_of_rollouts_are_completed(home: Home) -> None:
    from davylamp.cli.completion import rollout_names

    for name in ("credit", "credit-eu", "churn"):
        home.create(name, rollouts.unseen())
    options = {"kubeconfig": str(home.lab.kubeconfig), "namespace": home.namespace}
    assert rollout_names(options, "cr") == ["credit", "credit-eu"]
    assert rollout_names({"kubeconfig": "/nowhere"}, "cr") == []


@pytest.mark.parametrize(
    ("status", "body", "code", "words"),
    [
        (404, "404 page not found\n", ExitCode.REFUSED, "install Davylamp's CustomResourceDefinitions"),
        (422, '{"message": "no"}', ExitCode.REFUSED, "no"),
        (503, "", ExitCode.UNREACHABLE, "a fault of its own (503)"),
    ],
)
def test_an_answer_of_the_api_server_is_said_in_words(status: int, body: str, code: ExitCode, words: str) -> None:
    error = client.ApiException(status=status)
    error.body = body
    failure = _refusal(error, "get modelrollout credit", "ml")
    assert failure.code is code
    assert words in str(failure)
    assert not isinstance(failure, NotThereError)
