"""Kubeconfigs of every kind; no cluster is spoken to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from davylamp.cli import kubeconfig
from davylamp.cli.failure import ExitCode, FailureError
from davylamp.cli.kubeconfig import Choice, connect

Config = dict[str, Any]


def config(name: str = "one", *, user: Config | None = None, namespace: str | None = None) -> Config:
    context = {"cluster": name, "user": name} | ({"namespace": namespace} if namespace else {})
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": f"http://{name}.invalid:6443"}}],
        "contexts": [{"name": name, "context": context}],
        "users": [{"name": name, "user": user or {"token": "planted-token"}}],
    }


def written(path: Path, value: Any) -> str:
    path.write_text(value if isinstance(value, str) else yaml.safe_dump(value))
    return str(path)


def refused(choice: Choice) -> str:
    with pytest.raises(FailureError) as caught:
        connect(choice)
    assert caught.value.code is ExitCode.UNREACHABLE
    assert "planted-token" not in str(caught.value)
    return str(caught.value)


@pytest.fixture(autouse=True)
def nothing_around(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)


def test_the_namespace_is_that_of_the_option_then_of_the_context_then_default(tmp_path: Path) -> None:
    plain = written(tmp_path / "plain", config())
    named = written(tmp_path / "named", config(namespace="ml"))

    assert connect(Choice(plain)).namespace == "default"
    assert connect(Choice(named)).namespace == "ml"
    assert connect(Choice(named, namespace="other")).namespace == "other"


def test_the_option_goes_before_the_environment_and_that_before_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home" / ".kube"
    home.mkdir(parents=True)
    written(home / "config", config("home"))
    assert connect(Choice()).server == "http://home.invalid:6443"

    monkeypatch.setenv("KUBECONFIG", written(tmp_path / "environment", config("environment")))
    assert connect(Choice()).server == "http://environment.invalid:6443"

    assert connect(Choice(written(tmp_path / "option", config("option")))).server == "http://option.invalid:6443"


def test_several_files_are_merged_and_missing_ones_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [written(tmp_path / name, config(name)) for name in ("one", "two")]
    monkeypatch.setenv("KUBECONFIG", ":".join([str(tmp_path / "missing"), *files]))

    assert connect(Choice(context="one")).server == "http://one.invalid:6443"
    assert connect(Choice(context="two")).server == "http://two.invalid:6443"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "names no cluster|cannot be used"),
        ("a: [", "is not YAML"),
        ("- 1\n", "cannot be used|names no cluster"),
        ({"contexts": [], "clusters": []}, "names no cluster"),
        (config() | {"current-context": ""}, "has no current context: give --context, one of one"),
        (config() | {"current-context": "gone"}, "has no context 'gone'"),
        (config() | {"clusters": [{"name": "other", "cluster": {}}]}, "cannot be used"),
    ],
)
def test_a_kubeconfig_that_leads_nowhere_is_named_with_the_remedy(tmp_path: Path, content: Any, words: str) -> None:
    import re

    path = written(tmp_path / "config", content)
    message = refused(Choice(path))
    assert re.search(words, message)
    assert path in message


def test_a_context_that_is_not_there_is_answered_with_those_that_are(tmp_path: Path) -> None:
    assert "one of one" in refused(Choice(written(tmp_path / "config", config()), context="two"))


def test_no_kubeconfig_at_all_says_where_it_was_looked_for(tmp_path: Path) -> None:
    assert f"{tmp_path}/home/.kube/config" in refused(Choice())
    assert "set KUBECONFIG" in refused(Choice())


def test_a_pod_without_a_service_account_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    assert "no usable service account" in refused(Choice())


def plugin(tmp_path: Path, script: str) -> str:
    program = tmp_path / "plugin"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(program)}}
    return written(tmp_path / "config", config(user=user))


GOOD = '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "t"}}'


def test_a_credential_plugin_is_asked(tmp_path: Path) -> None:
    connection = connect(Choice(plugin(tmp_path, f"echo '{GOOD}'")))
    assert connection.client.configuration.api_key == {"BearerToken": "Bearer t"}


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo junk", "failed to decode process output"),
        ("echo session expired >&2; exit 1", "session expired"),
        ("echo '{}'", "missing key"),
        (f"echo '{GOOD.replace('token', 'nothing')}'", "missing token"),
    ],
)
def test_a_credential_plugin_that_fails_is_named_with_what_it_said(tmp_path: Path, script: str, words: str) -> None:
    message = refused(Choice(plugin(tmp_path, script)))
    assert str(tmp_path / "plugin") in message
    assert words in message


def test_a_credential_plugin_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubeconfig, "_LONGEST_LOGIN", 0.2)
    fifo = tmp_path / "fifo"
    path = plugin(tmp_path, f"mkfifo {fifo}; read line < {fifo}; echo '{GOOD}'")
    try:
        assert "did not answer within" in refused(Choice(path))
    finally:
        fifo.write_text("go\n")


def test_a_certificate_that_is_no_certificate_is_said_to_be_so(tmp_path: Path) -> None:
    user = {"client-certificate-data": "not base64 at all", "client-key-data": "x"}
    broken = config(user=user)
    broken["clusters"][0]["cluster"]["server"] = "https://one.invalid"
    assert "credentials cannot be used" in refused(Choice(written(tmp_path / "config", broken)))
