"""Which API server is spoken to, and as whom: found as kubectl finds it."""

from __future__ import annotations

import logging
import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from kubernetes import client, config
from kubernetes.config.kube_config import ENV_KUBECONFIG_PATH_SEPARATOR, KubeConfigLoader, KubeConfigMerger

from davylamp.cli.failure import ExitCode, FailureError
from davylamp.wording import shortened

_DEFAULT_FILE: Final = Path("~/.kube/config")
_SERVICE_ACCOUNT_NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
#: A credential plugin may open a browser; what takes longer than this hangs.
_LONGEST_LOGIN: Final = 120.0
_SHOWN: Final = 400


@dataclass(frozen=True, slots=True)
class Choice:
    """What the command line says about the cluster; None for what the kubeconfig says."""

    kubeconfig: str | None = None
    context: str | None = None
    namespace: str | None = None


@dataclass(frozen=True, slots=True)
class Connection:
    """A client of an API server, and the namespace that commands work in."""

    client: client.ApiClient
    namespace: str
    server: str


def connect(choice: Choice) -> Connection:
    """Return a connection; nothing is sent yet, but for what a credential plugin sends.

    Raises
    ------
    FailureError
        If no kubeconfig leads to an API server; the message says which file or context and what to do.
    """
    path = choice.kubeconfig or os.environ.get("KUBECONFIG") or ""
    if not path and not _DEFAULT_FILE.expanduser().exists() and "KUBERNETES_SERVICE_HOST" in os.environ:
        return _in_cluster(choice)
    loader = _loader(path or str(_DEFAULT_FILE), choice)
    settings = client.Configuration()
    settings.retries = False
    complaints = _load_within(loader, settings, _LONGEST_LOGIN)
    user = loader._user  # noqa: SLF001 - the loader logs what a plugin did wrong and goes on without credentials
    if user is not None and "exec" in user and not (settings.api_key or settings.cert_file):
        said = shortened("; ".join(complaints) or "it gave neither a token nor a certificate", _SHOWN)
        raise FailureError(
            f"the credential plugin {user['exec'].safe_get('command')!r} of the kubeconfig failed: {said}. "
            "Log in again, or run the plugin by itself to see why",
            ExitCode.UNREACHABLE,
        )
    namespace = choice.namespace or loader.current_context["context"].get("namespace") or "default"
    return Connection(client.ApiClient(settings), namespace, settings.host)


def _in_cluster(choice: Choice) -> Connection:
    settings = client.Configuration()
    try:
        config.load_incluster_config(client_configuration=settings)
    except (config.ConfigException, OSError) as error:
        raise FailureError(f"this pod has no usable service account: {error}", ExitCode.UNREACHABLE) from error
    settings.retries = False
    namespace = choice.namespace or _service_account_namespace()
    return Connection(client.ApiClient(settings), namespace, settings.host)


def _service_account_namespace() -> str:
    try:
        return _SERVICE_ACCOUNT_NAMESPACE.read_text(encoding="utf-8").strip() or "default"
    except OSError:
        return "default"


def _loader(path: str, choice: Choice) -> KubeConfigLoader:
    files = [Path(part).expanduser() for part in path.split(ENV_KUBECONFIG_PATH_SEPARATOR) if part]
    if not any(file.exists() for file in files):
        listed = ", ".join(str(file) for file in files)
        raise FailureError(
            f"there is no kubeconfig at {listed}: set KUBECONFIG or --kubeconfig to the file of your cluster",
            ExitCode.UNREACHABLE,
        )
    try:
        merged = KubeConfigMerger(path).config
        _complete(merged.value, path)
        _known_context(merged.value, choice.context, path)
        return KubeConfigLoader(config_dict=merged, active_context=choice.context, config_base_path=None)
    except yaml.YAMLError as error:
        raise FailureError(f"the kubeconfig {path} is not YAML: {_first_line(error)}", ExitCode.UNREACHABLE) from error
    except (config.ConfigException, OSError, AttributeError, KeyError, TypeError) as error:
        said = shortened(str(error), _SHOWN)
        raise FailureError(f"the kubeconfig {path} cannot be used: {said}", ExitCode.UNREACHABLE) from error


def _complete(value: Any, path: str) -> None:
    if not isinstance(value, dict) or not value.get("contexts") or not value.get("clusters"):
        raise FailureError(f"the kubeconfig {path} names no cluster: log in to one first", ExitCode.UNREACHABLE)


def _known_context(value: dict[str, Any], asked: str | None, path: str) -> None:
    names = sorted(str(context["name"]) for context in value["contexts"])
    chosen = asked or value.get("current-context")
    if not chosen:
        raise FailureError(
            f"the kubeconfig {path} has no current context: give --context, one of {', '.join(names)}",
            ExitCode.UNREACHABLE,
        )
    if chosen not in names:
        raise FailureError(
            f"the kubeconfig {path} has no context {chosen!r}: give --context, one of {', '.join(names)}",
            ExitCode.UNREACHABLE,
        )


def _load_within(loader: KubeConfigLoader, settings: client.Configuration, seconds: float) -> list[str]:
    """Load credentials, and return what the loader only logs; a plugin that hangs does not hang the command."""
    complaints: list[str] = []
    faults: list[BaseException] = []

    class _Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            complaints.append(record.getMessage())

    def load() -> None:
        try:
            loader.load_and_set(settings)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told below
            faults.append(error)

    ear, root = _Ear(logging.ERROR), logging.getLogger()
    root.addHandler(ear)
    thread = threading.Thread(target=load, daemon=True)
    thread.start()
    thread.join(seconds)
    root.removeHandler(ear)
    if thread.is_alive():
        raise FailureError(
            f"the credential plugin of the kubeconfig did not answer within {seconds:.0f} s", ExitCode.UNREACHABLE
        )
    if faults:
        said = shortened(str(faults[0]), _SHOWN)
        raise FailureError(f"the kubeconfig's credentials cannot be used: {said}", ExitCode.UNREACHABLE) from faults[0]
    return complaints


def _first_line(error: Exception) -> str:
    return shortened(str(error).splitlines()[0] if str(error) else type(error).__name__, _SHOWN)
