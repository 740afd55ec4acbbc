"""What is built from Go modules, how, and under which name it is kept."""

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from e2e.lab.failure import LabError
from e2e.lab.places import GO_MODULES

_REQUIRE = re.compile(r"^\s*(?:require\s+)?(\S+)\s+(v\S+)", re.MULTILINE)
_GO_LINE = re.compile(r"^go (\d+)\.(\d+)(?:\.(\d+))?", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Program:
    """One program of one Go module.

    Parameters
    ----------
    name
        What the executable is called.
    group
        The folder below `go/` whose go.mod pins its versions.
    package
        The Go package to build.
    module
        The module of `group` that gives the program its version.
    tags
        Build tags.
    stamps
        Variables that the linker sets: `{version}`, `{major}` and `{minor}` stand for those of `module`.
    optional
        Built only when asked for.
    """

    name: str
    group: str
    package: str
    module: str
    tags: tuple[str, ...] = ()
    stamps: tuple[str, ...] = ()
    optional: bool = False

    @property
    def folder(self) -> Path:
        """The folder of go.mod and go.sum."""
        return GO_MODULES / self.group

    @property
    def version(self) -> str:
        """The version that go.mod asks for, such as v1.37.2."""
        return module_version(self.folder, self.module)

    @property
    def flags(self) -> tuple[str, ...]:
        """What `go build` is told."""
        major, minor, *_ = self.version.removeprefix("v").split(".")
        stamps = [f"-X {stamp.format(version=self.version, major=major, minor=minor)}" for stamp in self.stamps]
        tags = (f"-tags={','.join(self.tags)}",) if self.tags else ()
        return ("-mod=readonly", "-trimpath", *tags, f"-ldflags={' '.join(['-s -w', *stamps])}")

    def file_name(self, go_version: str) -> str:
        """Return the name in the cache: another module, flag or Go makes another name."""
        return f"{self.name}-{_digest(self.folder, go_version, *self.flags)}"


_KUBERNETES_STAMPS = tuple(
    f"k8s.io/component-base/version.{variable}={value}"
    for variable, value in (("gitVersion", "{version}"), ("gitMajor", "{major}"), ("gitMinor", "{minor}"))
)
_KUBERNETES = "k8s.io/kubernetes"

PROGRAMS: Final = (
    Program("etcd", "etcd", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3"),
    *(
        Program(name, "kubernetes", f"{_KUBERNETES}/cmd/{name}", _KUBERNETES, stamps=_KUBERNETES_STAMPS)
        for name in ("kube-apiserver", "kube-controller-manager")
    ),
    Program("contour", "contour", "github.com/projectcontour/contour/cmd/contour", "github.com/projectcontour/contour"),
    Program(
        "prometheus",
        "prometheus",
        "github.com/prometheus/prometheus/cmd/prometheus",
        "github.com/prometheus/prometheus",
        tags=("remove_all_sd",),
    ),
    Program("helm", "helm", "helm.sh/helm/v3/cmd/helm", "helm.sh/helm/v3", optional=True),
)


def program(name: str) -> Program:
    """Return the recipe of `name`.

    Raises
    ------
    LabError
        There is none.
    """
    for known in PROGRAMS:
        if known.name == name:
            return known
    raise LabError(f"no recipe builds {name!r}; known are {', '.join(known.name for known in PROGRAMS)}")


@dataclass(frozen=True, slots=True)
class Manifests:
    """Custom resource definitions that a Go module carries.

    Parameters
    ----------
    name
        What the file in the cache is called.
    group
        The folder below `go/` whose go.mod pins the module.
    module
        The module that carries them.
    paths
        Files inside the module; `*` stands for any name.
    """

    name: str
    group: str
    module: str
    paths: str

    def file_name(self) -> str:
        """Return the name in the cache."""
        return f"{self.name}-{_digest(GO_MODULES / self.group, self.paths)}.json"


MANIFESTS: Final = (
    # Contour watches BackendTLSPolicy v1alpha3, which only the experimental channel has.
    Manifests("gateway-api", "contour", "sigs.k8s.io/gateway-api", "config/crd/experimental/gateway.*.yaml"),
    Manifests("contour", "contour", "github.com/projectcontour/contour", "examples/contour/01-crds.yaml"),
)


#: The whole of Contour, for a cluster that runs pods.
KIND_MANIFESTS: Final = Manifests(
    "contour-kind", "contour", "github.com/projectcontour/contour", "examples/render/contour-gateway.yaml"
)


@cache
def _digest(folder: Path, *more: str) -> str:
    parts = [(folder / file).read_bytes() for file in ("go.mod", "go.sum")] + [part.encode() for part in more]
    whole = hashlib.sha256()
    for part in parts:
        whole.update(len(part).to_bytes(8, "big") + part)
    return whole.hexdigest()[:16]


def module_version(folder: Path, module: str) -> str:
    """Return the version of `module` that the go.mod in `folder` asks for."""
    for name, version in _REQUIRE.findall((folder / "go.mod").read_text(encoding="utf-8")):
        if name == module:
            return str(version)
    raise LabError(f"{folder / 'go.mod'} does not require {module}")


def needed_go(folder: Path) -> tuple[int, int, int]:
    """Return the oldest Go that the go.mod in `folder` accepts."""
    line = _GO_LINE.search((folder / "go.mod").read_text(encoding="utf-8"))
    if line is None:
        raise LabError(f"{folder / 'go.mod'} has no line `go 1.N.M`")
    return int(line[1]), int(line[2]), int(line[3] or 0)
