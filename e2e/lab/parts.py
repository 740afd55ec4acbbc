"""The lab's programs: how each is started, and how it shows that it is ready."""

import http.client
import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Final

from e2e.lab import layout as at
from e2e.lab.build import executable
from e2e.lab.layout import Layout
from e2e.lab.recipes import Program, program
from e2e.lab.toolchain import wheel_program

_SERVICE_NETWORK: Final = "10.96.0.0/16"
_ISSUER: Final = "https://kubernetes.default.svc"

# What the tests and the demo rely on; each of the others costs processor time in every lab.
_CONTROLLERS: Final = (
    "namespace-controller",
    "serviceaccount-controller",
    "root-ca-certificate-publisher-controller",
    "garbage-collector-controller",
    "endpointslice-controller",
    "endpoints-controller",
    "deployment-controller",
    "replicaset-controller",
    "clusterrole-aggregation-controller",
    "validatingadmissionpolicy-status-controller",
)


class Profile(StrEnum):
    """How much of the lab runs."""

    #: etcd, the API server, the controller manager.
    CONTROL_PLANE = "control-plane"
    #: And Prometheus, Contour, Envoy, with a Gateway.
    FULL = "full"


@dataclass(frozen=True, slots=True)
class Part:
    """One program of the lab.

    Parameters
    ----------
    name
        What it is called; its log is `logs/NAME.log`.
    command
        What starts it.
    ready
        Whether it serves, asked from inside the namespace.
    environment
        What it finds in its environment beside the lab's own.
    patience
        How long it may take to be ready.
    grace
        How long it may take to end by itself.
    """

    name: str
    command: tuple[str, ...]
    ready: Callable[[], bool]
    environment: Mapping[str, str] = field(default_factory=dict)
    patience: timedelta = timedelta(seconds=60)
    grace: timedelta = timedelta(seconds=5)


def answers(port: int, path: str, *, secure: bool = False, token: str | None = None) -> bool:
    """Whether a local server answers `path` with 200."""
    connection: http.client.HTTPConnection
    if secure:
        # Readiness only: who is asked is known by the namespace.
        trust_anyone = ssl.create_default_context()
        trust_anyone.check_hostname, trust_anyone.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=2, context=trust_anyone)
    else:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def listens(port: int) -> bool:
    """Whether a local server takes connections."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=2).close()
    except OSError:
        return False
    return True


def etcd(files: Layout, *, unsafe: bool) -> Part:
    """Return etcd; `unsafe` spares it the disk's fsync."""
    client, peer = f"http://127.0.0.1:{at.ETCD_PORT}", "http://127.0.0.1:2380"
    return Part(
        "etcd",
        (
            str(executable(program("etcd"))),
            f"--data-dir={files.file('etcd')}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--quota-backend-bytes=536870912",
            "--log-level=warn",
            f"--unsafe-no-fsync={str(unsafe).lower()}",
        ),
        lambda: answers(at.ETCD_PORT, "/readyz"),
        {"GOMAXPROCS": "2"},
    )


def api_server(files: Layout, token: str) -> Part:
    """Return kube-apiserver with RBAC, admission and service account tokens."""
    return Part(
        "kube-apiserver",
        (
            str(executable(program("kube-apiserver"))),
            f"--etcd-servers=http://127.0.0.1:{at.ETCD_PORT}",
            "--bind-address=127.0.0.1",
            f"--advertise-address={at.ADVERTISED}",
            f"--secure-port={at.API_PORT}",
            f"--cert-dir={files.certificates}",
            f"--service-account-key-file={files.signing_key}",
            f"--service-account-signing-key-file={files.signing_key}",
            f"--service-account-issuer={_ISSUER}",
            f"--service-cluster-ip-range={_SERVICE_NETWORK}",
            "--authorization-mode=RBAC",
            f"--token-auth-file={files.file('tokens.csv')}",
            "--allow-privileged=true",
            "--profiling=false",
        ),
        lambda: answers(at.API_PORT, "/readyz", secure=True, token=token),
        {"GOMAXPROCS": "2", "GOMEMLIMIT": "512MiB"},
        grace=timedelta(seconds=10),
    )


def controller_manager(files: Layout) -> Part:
    """Return kube-controller-manager with the controllers that somebody here needs."""
    return Part(
        "kube-controller-manager",
        (
            str(executable(program("kube-controller-manager"))),
            f"--kubeconfig={files.kubeconfig}",
            f"--controllers={','.join(_CONTROLLERS)}",
            f"--service-account-private-key-file={files.signing_key}",
            f"--root-ca-file={files.authority}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--secure-port={at.CONTROLLER_MANAGER_PORT}",
            "--profiling=false",
        ),
        lambda: answers(at.CONTROLLER_MANAGER_PORT, "/healthz", secure=True),
        {"GOMAXPROCS": "2", "GOMEMLIMIT": "256MiB"},
    )


def prometheus(files: Layout) -> Part:
    """Return Prometheus, which sees a change of its targets at once."""
    return Part(
        "prometheus",
        (
            str(executable(program("prometheus"))),
            f"--config.file={files.file('prometheus.yaml')}",
            f"--storage.tsdb.path={files.file('prometheus')}",
            "--storage.tsdb.retention.time=12h",
            f"--web.listen-address=127.0.0.1:{at.PROMETHEUS_PORT}",
            "--web.enable-lifecycle",
            "--web.enable-admin-api",
            "--scrape.discovery-reload-interval=100ms",
            "--log.level=warn",
        ),
        lambda: answers(at.PROMETHEUS_PORT, "/-/ready"),
        {"GOMAXPROCS": "2", "GOMEMLIMIT": "512MiB"},
    )


def contour(files: Layout) -> Part:
    """Return Contour, the controller that tells Envoy what Gateway and HTTPRoutes say."""
    return Part(
        "contour",
        (
            str(executable(program("contour"))),
            "serve",
            "--no-incluster",
            f"--kubeconfig={files.kubeconfig}",
            "--insecure",
            "--xds-address=127.0.0.1",
            f"--xds-port={at.XDS_PORT}",
            "--disable-leader-election",
            f"--config-path={files.file('contour.yaml')}",
            "--envoy-service-http-address=127.0.0.1",
            f"--envoy-service-http-port={at.GATEWAY_PORT}",
            "--stats-address=127.0.0.1",
            f"--stats-port={at.ENVOY_STATS_PORT}",
            "--http-address=127.0.0.1",
            f"--http-port={at.CONTOUR_PORT}",
            "--health-address=127.0.0.1",
            f"--health-port={at.CONTOUR_PORT}",
            "--debug-http-address=127.0.0.1",
            "--kubernetes-client-qps=100",
            "--kubernetes-client-burst=200",
        ),
        lambda: answers(at.CONTOUR_PORT, "/healthz") and listens(at.XDS_PORT),
        {"GOMAXPROCS": "2", "GOMEMLIMIT": "256MiB"},
    )


def contour_bootstrap(files: Layout) -> list[str]:
    """Return the command that writes Envoy's first configuration."""
    return [
        str(executable(program("contour"))),
        "bootstrap",
        str(files.file("envoy.json")),
        "--xds-address=127.0.0.1",
        f"--xds-port={at.XDS_PORT}",
        f"--admin-address={files.file('envoy-admin.sock')}",
    ]


def envoy(files: Layout) -> Part:
    """Return Envoy; it is ready when Contour has told it of its listeners."""
    return Part(
        "envoy",
        (
            str(wheel_program("envoy")),
            *("--config-path", str(files.file("envoy.json"))),
            *("--service-cluster", "contour", "--service-node", "lab", "--concurrency", "1"),
            # Shared memory is for hot restarts; several labs would meet in it.
            "--disable-hot-restart",
            *("--log-level", "warning"),
        ),
        lambda: answers(at.ENVOY_STATS_PORT, "/ready"),
    )


def parts_of(profile: Profile, files: Layout, token: str, *, unsafe_etcd: bool) -> dict[str, Part]:
    """Return the parts that a profile runs, by name."""
    parts = [etcd(files, unsafe=unsafe_etcd), api_server(files, token), controller_manager(files)]
    if profile is Profile.FULL:
        parts += [prometheus(files), contour(files), envoy(files)]
    return {part.name: part for part in parts}


def programs_of(profile: Profile) -> tuple[Program, ...]:
    """Return what must be built for a profile."""
    full = ("prometheus", "contour") if profile is Profile.FULL else ()
    return tuple(program(name) for name in ("etcd", "kube-apiserver", "kube-controller-manager", *full))
