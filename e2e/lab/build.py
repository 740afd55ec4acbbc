"""Build what is missing, once, into the user's cache.

Two builds at once wait for each other by group of programs; what one has finished the other finds. A build that is
broken off leaves finished programs, and Go's own cache, so that the next one goes on from there.
"""

import fcntl
import json
import os
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from e2e.lab.failure import LabError
from e2e.lab.places import GO_MODULES, binaries
from e2e.lab.processes import last_lines
from e2e.lab.progress import on_stderr
from e2e.lab.recipes import MANIFESTS, PROGRAMS, Manifests, Program
from e2e.lab.toolchain import Go, find_go


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Hold `file` alone among all processes."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def default_programs() -> tuple[Program, ...]:
    """Return what a full lab needs."""
    return tuple(program for program in PROGRAMS if not program.optional)


def build(programs: Iterable[Program] = ()) -> None:
    """Build those of `programs` (by default: what a full lab needs) that the cache lacks, and its manifests.

    Raises
    ------
    LabError
        Go is missing or a build failed; the message has the end of its log.
    """
    go = find_go()
    wanted = tuple(programs) or default_programs()
    missing = [program for program in wanted if not _target(program, go).exists()]
    progress = on_stderr(len(missing))
    for number, program in enumerate(missing, start=1):
        with locked(binaries() / f".{program.group}.lock"), progress.step(number, f"{program.name} {program.version}"):
            if not _target(program, go).exists():
                _build_one(program, go)
    for manifests in MANIFESTS:
        collected(manifests)


def link_built(folder: Path) -> None:
    """Show in `folder`, under their plain names, the programs that are built: for a PATH."""
    go = find_go()
    folder.mkdir(exist_ok=True)
    for program in PROGRAMS:
        link, target = folder / program.name, _target(program, go)
        if target.exists() and not link.is_symlink():
            link.symlink_to(target)


def executable(program: Program) -> Path:
    """Return the built program.

    Raises
    ------
    LabError
        It is not built yet.
    """
    path = _target(program, find_go())
    if not path.exists():
        raise LabError(f"{program.name} is not built: run `python -m e2e.lab build {program.name}`")
    return path


def collected(manifests: Manifests) -> list[dict[str, Any]]:
    """Return the objects of a set of manifests, read from its module once and kept as JSON."""
    file = _manifest_file(manifests)
    if not file.exists():
        _collect(manifests, find_go())
    objects: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))
    return objects


def _manifest_file(manifests: Manifests) -> Path:
    return binaries().parent / "manifests" / manifests.file_name()


def _target(program: Program, go: Go) -> Path:
    return binaries() / program.file_name(go.version)


def _build_one(program: Program, go: Go) -> None:
    target = _target(program, go)
    unfinished = target.with_name(f".{target.name}.{os.getpid()}")
    log = binaries() / f".{program.name}.log"
    try:
        with log.open("wb") as output:
            outcome = subprocess.run(
                [str(go.path), "build", *program.flags, "-o", str(unfinished), program.package],
                cwd=program.folder,
                env=go.environment(),
                stdout=output,
                stderr=output,
                check=False,
            )
        if outcome.returncode != 0:
            raise LabError(f"{program.name} could not be built; the end of {log}:\n{last_lines(log)}")
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)


def _collect(manifests: Manifests, go: Go) -> None:
    """Read YAML from the module once, so that starting a lab reads JSON."""
    folder = GO_MODULES / manifests.group
    with locked(binaries() / f".{manifests.group}.lock"):
        module = _module_folder(go, folder, manifests.module)
        files = sorted(module.glob(manifests.paths))
        documents = [document for file in files for document in yaml.safe_load_all(file.read_bytes()) if document]
        if not documents:
            raise LabError(f"{manifests.module} carries nothing at {manifests.paths}")
        target = _manifest_file(manifests)
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = target.with_suffix(f".{os.getpid()}")
        fresh.write_text(json.dumps(documents), encoding="utf-8")
        fresh.replace(target)


def _module_folder(go: Go, folder: Path, module: str) -> Path:
    answer = subprocess.run(
        [str(go.path), "mod", "download", "-json", module],
        cwd=folder,
        env=go.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode != 0:
        raise LabError(f"cannot fetch the module {module}: {answer.stderr.strip() or answer.stdout.strip()}")
    return Path(json.loads(answer.stdout)["Dir"])
