"""Bring a lab up and take it down: order, configuration, what is remembered on disk."""

import json
import shutil
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from e2e.lab import layout as at
from e2e.lab import rendering
from e2e.lab.api import Api, condition
from e2e.lab.build import collected, link_built, locked
from e2e.lab.component import Component
from e2e.lab.failure import LabError
from e2e.lab.layout import Layout
from e2e.lab.namespace import Namespace
from e2e.lab.parts import contour_bootstrap
from e2e.lab.places import cache
from e2e.lab.processes import Process, last_lines
from e2e.lab.recipes import MANIFESTS
from e2e.lab.waiting import until

STATE: Final = "lab.json"
HOLDER: Final = "network"
_GATEWAY_PATIENCE: Final = timedelta(seconds=60)


def read_state(files: Layout) -> dict[str, Any]:
    """Return what is remembered of a lab; nothing if that is absent or damaged."""
    try:
        state = json.loads(files.file(STATE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return (
        state if isinstance(state, dict) and {"profile", "token", "owner", "scrape_interval_ms"} <= state.keys() else {}
    )


def owner_of(files: Layout) -> Process | None:
    """Return the program whose own the lab is; None for a lab that lasts."""
    owner = read_state(files).get("owner")
    try:
        return None if owner is None else Process(int(owner[0]), int(owner[1]), str(owner[2]))
    except (ValueError, TypeError, IndexError, KeyError):
        return None


def orphaned(files: Layout) -> bool:
    """Whether the lab was a program's own, and that program is gone."""
    owner = owner_of(files)
    return owner is not None and not owner.alive


def write_secret(file: Path, text: str) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    fresh = file.with_name(f".{file.name}.new")
    fresh.unlink(missing_ok=True)
    fresh.touch(mode=0o600)
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(file)


def write_configuration(files: Layout, token: str, scrape_interval: timedelta) -> None:
    """Write what the programs read when they start."""
    server = f"https://127.0.0.1:{at.API_PORT}"
    write_secret(files.file("tokens.csv"), rendering.tokens(token))
    write_secret(files.kubeconfig, rendering.kubeconfig(server, str(files.authority), token))
    envoy = f"127.0.0.1:{at.ENVOY_STATS_PORT}"
    configuration = rendering.prometheus(str(files.targets), scrape_interval, envoy)
    files.file("prometheus.yaml").write_text(configuration, encoding="utf-8")
    link_built(files.file("bin"))
    files.file("contour.yaml").write_text(rendering.contour(), encoding="utf-8")


def make_namespace(files: Layout) -> Namespace:
    """Make the lab's network and remember who holds it."""
    namespace = Namespace.make(files.log(HOLDER))
    namespace.holder.write(files.process(HOLDER))
    return namespace


def start(components: Mapping[str, Component], files: Layout, api: Api) -> None:
    """Start what does not run, everything at once that does not need the other, and wait until all of it is ready.

    The calling thread must be inside the lab's network: the threads made here inherit it.
    """
    with ThreadPoolExecutor(max_workers=4, thread_name_prefix="lab") as pool:
        control_plane = pool.submit(_start_control_plane, components)
        others = [pool.submit(_start_one, components["prometheus"])] if "prometheus" in components else []
        control_plane.result()
        others.append(pool.submit(_start_one, components["kube-controller-manager"]))
        if "envoy" in components:
            _start_gateway(components, files, api)
        for other in others:
            other.result()


def _start_one(component: Component) -> None:
    component.start()
    component.wait_ready()


def _start_control_plane(components: Mapping[str, Component]) -> None:
    _start_one(components["etcd"])
    _start_one(components["kube-apiserver"])


def _start_envoy(envoy: Component, files: Layout) -> None:
    if not envoy.running:
        _write_bootstrap(files)
    _start_one(envoy)


def _write_bootstrap(files: Layout) -> None:
    log = files.log("envoy")
    with log.open("ab") as output:
        outcome = subprocess.run(contour_bootstrap(files), stdout=output, stderr=output, check=False)
    if outcome.returncode != 0:
        raise LabError(f"contour wrote no configuration for Envoy; the end of {log}:\n{last_lines(log)}")


def _start_gateway(components: Mapping[str, Component], files: Layout, api: Api) -> None:
    if not components["contour"].running:
        for manifests in MANIFESTS:
            api.install_crds(collected(manifests))
        for thing in rendering.gateway_objects():
            api.apply(thing)
    _start_one(components["contour"])
    # Only now: an Envoy that finds no Contour waits long before it tries again.
    _start_envoy(components["envoy"], files)
    path = api.path_of(rendering.gateway_objects()[-1])
    until(
        lambda: condition(api.get(path), "Programmed") == "True",
        f"the Gateway is Programmed (see {files.log('contour')})",
        within=_GATEWAY_PATIENCE,
    )


def clear(files: Layout, *, keep_logs: bool = False) -> None:
    """End every process that is remembered, whoever started it, and remove the lab's files.

    Works on whatever a crash left behind, and on nothing.
    """
    remembered = sorted(files.process("*").parent.glob("*.json"))
    processes = {file.stem: process for file in remembered if (process := Process.read(file))}
    holder = processes.pop(HOLDER, None)
    # Nothing is kept of the data, so there is nothing to end gently.
    with ThreadPoolExecutor(max_workers=4) as pool:
        list(pool.map(lambda process: process.end(patience=timedelta(0)), processes.values()))
    if holder:
        Namespace(holder).remove()
    if not files.folder.exists():
        return
    for entry in files.folder.iterdir():
        if keep_logs and entry == files.logs:
            continue
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink(missing_ok=True)
    with suppress(OSError):
        files.folder.rmdir()


def clear_orphans() -> list[str]:
    """Remove labs whose program died without stopping them; return their names."""
    return [folder.name for folder in sorted(cache().glob("labs/*/")) if _clear_if_orphan(Layout(folder))]


def clear_logs() -> None:
    """Remove the logs that failed labs have left."""
    for folder in cache().glob("labs/*/"):
        if {entry.name for entry in folder.iterdir()} == {"logs"}:
            shutil.rmtree(folder)


def _clear_if_orphan(files: Layout) -> bool:
    if not orphaned(files):
        return False
    with locked(files.lock):
        if orphan := orphaned(files):
            clear(files)
    return orphan
