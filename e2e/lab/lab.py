"""A lab: a real control plane, gateway and Prometheus as local processes in a network namespace of their own."""

import json
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from types import TracebackType
from typing import Any, Final, Self

from e2e.lab import netns, starting
from e2e.lab.build import build, locked
from e2e.lab.component import Component
from e2e.lab.failure import LabError
from e2e.lab.layout import Layout
from e2e.lab.namespace import Namespace
from e2e.lab.parts import Part, Profile, parts_of, programs_of
from e2e.lab.places import INSIDE_VARIABLE, NAME_VARIABLE, chosen_name, lab_folder
from e2e.lab.processes import Process
from e2e.lab.toolchain import beside_python
from e2e.lab.workbench import Workbench

ONE_SECOND: Final = timedelta(seconds=1)


class Lab(Workbench):
    """One lab, by its name.

    `with Lab("mine") as lab:` starts it and stops it at the end. While it is started, the calling thread, and every
    thread and child that it starts afterwards, are inside the lab's network, where ports are the same in every lab.

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
        The lab outlives this program. Otherwise it is this program's own, and what a killed program leaves of it is
        cleared away by the next lab that starts or stops.
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
        super().__init__(Layout(lab_folder(self.name)))
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
            raise LabError(f"the lab {lab.name!r} is down: `make lab-up`, or `python -m e2e.lab up`, starts it")
        lab.profile = Profile(lab._remembered()["profile"])
        lab._enter(lab._living_namespace())
        return lab

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
        starting.clear_orphans()
        with locked(self.files.lock):
            fresh = not self.up
            if fresh:
                starting.clear(self.files)
                self.files.make()
            self._remember(owner=self._own_process() if fresh else self._checked_owner())
            try:
                self._bring_up()
            except BaseException:
                if fresh:
                    self._take_down(keep_logs=True)
                raise
        return self

    def _bring_up(self) -> None:
        self._enter(self._living_namespace() or starting.make_namespace(self.files))
        interval = timedelta(milliseconds=self._remembered()["scrape_interval_ms"])
        starting.write_configuration(self.files, self.token, interval)
        starting.start(self._components, self.files, self.api)

    def stop(self, *, keep_logs: bool = False) -> None:
        """Stop all that it started and remove its network; the thread returns to where it was."""
        with locked(self.files.lock):
            self._take_down(keep_logs=keep_logs)

    def _take_down(self, *, keep_logs: bool) -> None:
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

    @property
    def namespace(self) -> Namespace:
        """Its network namespace: `lab.namespace.command([...])` starts a program inside from anywhere."""
        if self._namespace is None:
            raise LabError(f"the lab {self.name!r} is not started")
        return self._namespace

    @property
    def inhabitants(self) -> tuple[Process, ...]:
        """The processes in its network, whoever started them; none if it is down."""
        namespace = self._living_namespace()
        return namespace.inhabitants if namespace else ()

    @property
    def token(self) -> str:
        """The administrator's bearer token."""
        return str(self._remembered()["token"])

    def component(self, name: str) -> Component:
        """Return one of its programs, which `components` lists."""
        try:
            return self._components[name]
        except KeyError:
            known = ", ".join(self._components) or "none"
            raise LabError(f"the lab {self.name!r} runs no {name!r}; it runs {known}") from None

    @property
    def components(self) -> Mapping[str, Component]:
        """Its programs by name: etcd, kube-apiserver, and so on, and those of `run`."""
        return self._components

    def run(self, part: Part) -> Component:
        """Run a program of one's own inside, such as a model server: the lab stops it with the rest."""
        component = Component(part, self.files, self.namespace)
        component.start()
        self._components[part.name] = component
        component.wait_ready()
        return component

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

    def _own_process(self) -> Process | None:
        return None if self._lasting else Process.of(os.getpid())

    def _checked_owner(self) -> Process | None:
        owner = starting.owner_of(self.files)
        if not self._lasting and owner != self._own_process():
            whose = f"process {owner.pid}'s own" if owner else "up to stay"
            raise LabError(f"the lab {self.name!r} is {whose}: choose another name, or use Lab.attach")
        return owner

    def _remember(self, *, owner: Process | None) -> None:
        before = self._remembered()
        if before.get("profile") == Profile.FULL:
            self.profile = Profile.FULL
        state = {
            "profile": self.profile.value,
            "token": before.get("token") or secrets.token_hex(16),
            "scrape_interval_ms": before.get("scrape_interval_ms")
            or self._scrape_interval // timedelta(milliseconds=1),
            "owner": None if owner is None else [owner.pid, owner.started, owner.boot],
        }
        starting.write_secret(self.files.file(starting.STATE), json.dumps(state))
