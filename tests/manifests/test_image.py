"""What the image is made of. It is not built here: Docker is not on every machine."""

import re
from collections.abc import Iterator, Mapping
from importlib.metadata import requires

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.manifests.test_installation import container, one
from tests.support.installation import ROOT

DOCKERFILE = (ROOT / "operator/Dockerfile").read_text(encoding="utf-8")
LOCKS = ("operator/requirements.txt", "operator/build-requirements.txt")


def locked(path: str) -> Mapping[str, frozenset[str]]:
    """Return the hashes of a lock by name and version."""
    entries = re.split(r"\n(?=\S)", (ROOT / path).read_text(encoding="utf-8").strip())
    return {entry.split()[0]: frozenset(re.findall(r"--hash=(sha256:[0-9a-f]{64})", entry)) for entry in entries}


Wanted = tuple[str, frozenset[str]]


def needed(name: str, extras: frozenset[str]) -> Iterator[Wanted]:
    """Return what an installed distribution needs on this machine, with the extras that are asked for."""
    for text in requires(name) or ():
        requirement = Requirement(text)
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": e}) for e in extras or {""}):
            yield canonicalize_name(requirement.name), frozenset(requirement.extras)


@pytest.mark.parametrize("path", LOCKS)
def test_a_lock_of_the_image_is_part_of_the_lock_that_the_tests_ran_with(path: str) -> None:
    tested = locked(".ci/locks/dev.txt")
    for name, hashes in locked(path).items():
        assert hashes, name
        assert hashes == tested[name], name


def test_the_lock_of_the_image_holds_everything_that_the_processes_and_the_command_line_need() -> None:
    names = {name.split("==")[0] for name in locked("operator/requirements.txt")}
    seen: set[Wanted] = set()
    waiting = list(needed("davylamp", frozenset({"operator", "cli", "shadow", "labels", ""})))
    while waiting:
        wanted = waiting.pop()
        if wanted not in seen:
            seen.add(wanted)
            waiting += needed(*wanted)
    found = {name for name, _ in seen}
    assert found <= names
    assert names - found <= {"colorama", "tzdata"}, "these two are for another system"


@pytest.mark.parametrize("path", LOCKS)
def test_the_locks_name_no_address(path: str) -> None:
    assert "://" not in (ROOT / path).read_text(encoding="utf-8")


def test_nothing_is_installed_that_is_not_locked() -> None:
    installs = re.findall(r"pip install ([^\n&]*)", DOCKERFILE)
    assert len(installs) == 3
    for words in installs:
        assert "--require-hashes --only-binary :all: -r" in words or "--no-deps --no-index /wheels" in words


def test_the_image_runs_without_rights_as_the_user_that_the_pod_names() -> None:
    user, group = re.findall(r"^USER (\d+):(\d+)$", DOCKERFILE, re.MULTILINE)[-1]
    context = one("Deployment")["spec"]["template"]["spec"]["securityContext"]
    assert (context["runAsUser"], context["runAsGroup"]) == (int(user), int(group))
    assert int(user) > 0


def test_the_pod_starts_a_command_that_the_image_has() -> None:
    assert 'ENTRYPOINT ["davylamp"]' in DOCKERFILE
    assert container()["args"] == ["operator"]


def test_the_build_sees_only_what_it_copies() -> None:
    allowed = (ROOT / "operator/Dockerfile.dockerignore").read_text(encoding="utf-8").split()
    copied = {
        path for words in re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, re.MULTILINE) for path in words.split()
    }
    assert {f"!{path}" for path in copied} == {line for line in allowed if line.startswith("!")}
    assert all((ROOT / path).exists() for path in copied)
