"""A lab: a real control plane, gateway and Prometheus as local processes in a network namespace of their own."""

import json
import os
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from e2e.lab import layout as at
from e2e.lab import measuring, netns, rendering, starting
from e2e.lab.api import Api
from e2e.lab.build import build, locked
from e2e.lab.component import Component
from e2e.lab.failure import LabError
from e2e.lab.layout import Layout
from e2e.lab.namespace import Namespace
from e2e.lab.parts import Part, Profile, parts_of, programs_of
from e2e.lab.places import INSIDE_VARIABLE, NAME_VARIABLE, binaries, chosen_name, lab_folder
from e2e.lab.processes import Process
from e2e.lab.toolchain import beside_python

ONE_SECOND: Final = timedelta(seconds=1)


class Lab:
    """One lab, by its name.

    `with Lab("mine") as lab:` starts it and stops it at the end. While it is started, the calling thread, and every thread and
    child that it starts afterwards, are inside the lab's network, where ports are the same in every lab.

    Parameters
    ----------
    name
        The lab, by default the one that $DAVYLAMP_LAB names. Labs of different names know nothing of each other.
    profile
        How much of it to start; a running lab grows to it.
    scrape_interval
        Of its Prometheus, at least 10 ms.
    unsafe_etcd
        Spare etcd the disk's fsync: faster, and as durable as the machine is up.
    lasting
        The lab outlives this program. Otherwise it is this program's own: what a killed program leaves, the next lab clears away.
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        profile: Profile = Profile.FULL,
        scrape_interval: timedelta = ONE_SECOND,
        unsafe_etcd: bool = True,
        lasting: bool = False,
    ) -> None:
        self.name = name or chosen_name()
        self.profile = profile
        self.files = Layout(lab_folder(self.name))
        self._scrape_interval = scrape_interval
        self._unsafe_etcd = unsafe_etcd
        self._lasting = lasting
        self._namespace: Namespace | None = None
        self._outside: int | None = None
        self._components: dict[str, Component] = {}

    @classmethod
    def attach(cls, name: str | None = None) -> Self:
        """Return a lab that runs, entered; it is never stopped by leaving it.

        Raises
        ------
        LabError
            It does not run.
        """
        lab = cls(name, lasting=True)
        if not lab.up:
            raise LabError(f"the lab {lab.name!r} is down: `python -m e2e.lab up` starts it")
        lab.profile = Profile(lab._remembered()["profile"])
        lab._enter(lab._living_namespace())
        return lab

    # -- life -------------------------------------------------------------------------------------------------------

    @property
    def up(self) -> bool:
        """Whether it was started and its network still exists."""
        return self._living_namespace() is not None

    def start(self, profile: Profile | None = None) -> Self:
        """Start what does not run yet, wait until it is ready, and move the calling thread inside.

        Raises
        ------
        LabError
            The machine does not allow it, or a program fails; the message has the end of its log.
        """
        if profile is Profile.FULL or (profile and not self.up):
            self.profile = profile
        build(programs_of(self.profile))
        clear_orphans()
        with locked(self.files.lock):
            namespace = self._living_namespace()
            if namespace is None:
                starting.clear(self.files)
                self.files.make()
                self._remember(owner=None if self._lasting else Process.of(os.getpid()))
                namespace = starting.make_namespace(self.files)
            else:
                self._remember(owner=self._owner())
            self._enter(namespace)
            starting.write_configuration(self.files, self.token, self._scrape_interval)
            starting.start(self._components, self.files, self.api)
        return self

    def stop(self, *, keep_logs: bool = False) -> None:
        """Stop all that it started and remove its network; the thread returns to where it was."""
        with locked(self.files.lock):
            starting.clear(self.files, keep_logs=keep_logs)
        self._namespace = None
        self._components = {}
        if self._outside is not None:
            # Whoever came in through a user namespace cannot go back, and need not: the program ends here.
            with suppress(OSError):
                netns.set_namespace(self._outside, netns.CLONE_NEWNET)
            os.close(self._outside)
            self._outside = None

    def ensure_ready(self) -> None:
        """Bring back whatever does not run and wait until all of it serves, as before a test."""
        starting.start(self._components, self.files, self.api)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._lasting:
            self.stop(keep_logs=error is not None)

    # -- what it offers ---------------------------------------------------------------------------------------------

    @property
    def namespace(self) -> Namespace:
        """Its network namespace: `lab.namespace.command([...])` starts a program inside from anywhere."""
        if self._namespace is None:
            raise LabError(f"the lab {self.name!r} is not started")
        return self._namespace

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.files.kubeconfig

    @property
    def api_url(self) -> str:
        """The API server's URL."""
        return f"https://127.0.0.1:{at.API_PORT}"

    @property
    def gateway_url(self) -> str:
        """Where Envoy takes requests: send them with the Host of an HTTPRoute. Closed as long as no HTTPRoute is attached."""
        return f"http://127.0.0.1:{at.GATEWAY_PORT}"

    @property
    def prometheus_url(self) -> str:
        """Prometheus' URL."""
        return f"http://127.0.0.1:{at.PROMETHEUS_PORT}"

    @property
    def envoy_metrics_url(self) -> str:
        """Where Envoy shows its metrics; Prometheus scrapes it as job `envoy`."""
        return f"http://127.0.0.1:{at.ENVOY_STATS_PORT}/stats/prometheus"

    @property
    def gateway(self) -> dict[str, str]:
        """The `parentRefs` entry of an HTTPRoute that is to be served."""
        return {"name": rendering.GATEWAY_NAME, "namespace": rendering.GATEWAY_NAMESPACE}

    @property
    def authority(self) -> Path:
        """The file of certificates that vouch for the API server."""
        return self.files.authority

    @property
    def token(self) -> str:
        """The administrator's bearer token."""
        return str(self._remembered()["token"])

    @property
    def api(self) -> Api:
        """A client of the API server with the administrator's rights."""
        return Api(at.API_PORT, self.authority, self.token)

    def component(self, name: str) -> Component:
        """Return one of its programs: etcd, kube-apiserver, kube-controller-manager, prometheus, contour, envoy, or one of `run`."""
        try:
            return self._components[name]
        except KeyError:
            known = ", ".join(self._components) or "none"
            raise LabError(f"the lab {self.name!r} runs no {name!r}; it runs {known}") from None

    @property
    def components(self) -> Mapping[str, Component]:
        """Its programs by name."""
        return self._components

    def run(self, part: Part) -> Component:
        """Run a program of one's own inside, such as a model server: the lab stops it with the rest."""
        component = Component(part, self.files, self.namespace)
        component.start()
        self._components[part.name] = component
        component.wait_ready()
        return component

    def address(self) -> str:
        """Return an address of the lab's network that is nobody else's, to bind a server to."""
        return self.files.next_address()

    def environment(self) -> dict[str, str]:
        """Return the environment for a program that is to use the lab."""
        path = [str(beside_python()), str(self.files.file("bin")), os.environ.get("PATH", os.defpath)]
        local = f"127.0.0.1,localhost,{netns.NETWORK}/{netns.PREFIX_LENGTH}"
        return {
            **os.environ,
            "KUBECONFIG": str(self.kubeconfig),
            "PATH": os.pathsep.join(path),
            "NO_PROXY": local,
            "no_proxy": local,
            NAME_VARIABLE: self.name,
            INSIDE_VARIABLE: self.name,
        }

    # -- Kubernetes and Prometheus ----------------------------------------------------------------------------------

    def publish_service(self, namespace: str, name: str, port: int, addresses: Sequence[str]) -> None:
        """Make servers known: a Service without a selector, and an EndpointSlice in which all of `addresses` are ready."""
        self.api.apply(rendering.service(namespace, name, port))
        self.api.apply(rendering.endpoint_slice(namespace, name, port, addresses))

    def set_ready(self, namespace: str, name: str, *, ready: bool, addresses: Sequence[str] | None = None) -> None:
        """Set the readiness of some (by default all) endpoints of a published Service."""
        slice_path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices/{name}-lab"
        endpoints = self.api.get(slice_path)["endpoints"] or []
        for endpoint in endpoints:
            if addresses is None or endpoint["addresses"][0] in addresses:
                endpoint["conditions"] = rendering.readiness(ready=ready)
        self.api.merge(slice_path, {"endpoints": endpoints})

    def kubeconfig_for(self, namespace: str, service_account: str) -> Path:
        """Write a kubeconfig with the rights of a service account, valid for a day."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{service_account}/token"
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 86400},
        }
        token = self.api.create(path, request)["status"]["token"]
        file = self.files.file(f"kubeconfig-{namespace}-{service_account}")
        starting.write_secret(file, rendering.kubeconfig(self.api_url, str(self.authority), token, namespace))
        return file

    def scrape(self, job: str, targets: measuring.Targets, *, within: timedelta = timedelta(seconds=20)) -> None:
        """Make `targets` (addresses with port, or these with labels) all that Prometheus scrapes as `job`, and wait for it."""
        measuring.scrape(self.files, job, targets, within=within)

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the result of an instant query of Prometheus."""
        return measuring.query(expression)

    # -- state ------------------------------------------------------------------------------------------------------

    def _enter(self, namespace: Namespace | None) -> None:
        if namespace is None:
            raise LabError(f"the lab {self.name!r} is down")
        if self._outside is None and not namespace.entered:
            self._outside = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        namespace.enter()
        self._namespace = namespace
        for name, part in parts_of(self.profile, self.files, self.token, unsafe_etcd=self._unsafe_etcd).items():
            self._components.setdefault(name, Component(part, self.files, namespace))

    def _living_namespace(self) -> Namespace | None:
        holder = Process.read(self.files.process(starting.HOLDER))
        return Namespace(holder) if holder and holder.alive and self._remembered() else None

    def _remembered(self) -> dict[str, Any]:
        return starting.read_state(self.files)

    def _owner(self) -> Process | None:
        return starting.owner_of(self.files)

    def _remember(self, *, owner: Process | None) -> None:
        before = self._remembered()
        grown = before.get("profile") == Profile.FULL
        self.profile = Profile.FULL if grown else self.profile
        state = {
            "profile": self.profile.value,
            "token": before.get("token") or secrets.token_hex(16),
            "owner": None if owner is None else [owner.pid, owner.started, owner.boot],
        }
        starting.write_secret(self.files.file(starting.STATE), json.dumps(state))


def clear_orphans() -> list[str]:
    """Remove labs whose program died without stopping them; return their names."""
    return [folder.name for folder in sorted(binaries().parent.glob("labs/*/")) if _clear_if_orphan(Layout(folder))]


def _clear_if_orphan(files: Layout) -> bool:
    if not starting.orphaned(files):
        return False
    with locked(files.lock):
        if orphan := starting.orphaned(files):
            starting.clear(files)
    return orphan
