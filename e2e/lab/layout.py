"""The files, ports and addresses of one lab."""

import fcntl
import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from e2e.lab import netns
from e2e.lab.failure import LabError

#: What the API server says its own address is; no server of a test gets it.
ADVERTISED: Final = "10.244.0.1"
ETCD_PORT: Final = 2379
API_PORT: Final = 6443
CONTROLLER_MANAGER_PORT: Final = 10257
PROMETHEUS_PORT: Final = 9090
XDS_PORT: Final = 8099
CONTOUR_PORT: Final = 8000
GATEWAY_PORT: Final = 8080
ENVOY_STATS_PORT: Final = 8002

# 10.244.0.* stays the lab's own.
_FIRST_FREE: Final = 256


@dataclass(frozen=True, slots=True)
class Layout:
    """The files of one lab, all below `folder`; ports are the same in every lab, each having a network of its own."""

    folder: Path

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.folder / "kubeconfig"

    @property
    def certificates(self) -> Path:
        """The API server's key and certificate, made by itself."""
        return self.folder / "certificates"

    @property
    def authority(self) -> Path:
        """The certificates that vouch for the API server."""
        return self.certificates / "apiserver.crt"

    @property
    def signing_key(self) -> Path:
        """The key of service account tokens: the API server's own, which it makes before it reads this one."""
        return self.certificates / "apiserver.key"

    @property
    def targets(self) -> Path:
        """The folder of Prometheus' targets."""
        return self.folder / "targets"

    @property
    def logs(self) -> Path:
        """The folder of logs."""
        return self.folder / "logs"

    @property
    def lock(self) -> Path:
        """The file that whoever starts or stops the lab holds; beside the folder, so that it outlives it."""
        return self.folder.with_name(f".{self.folder.name}.lock")

    def file(self, name: str) -> Path:
        """Return a file of the lab."""
        return self.folder / name

    def log(self, component: str) -> Path:
        """Return the log of a component."""
        return self.logs / f"{component}.log"

    def process(self, component: str) -> Path:
        """Return the file that remembers the process of a component."""
        return self.folder / "processes" / f"{component}.json"

    def make(self) -> None:
        """Make the folders."""
        for folder in (self.certificates, self.targets, self.logs, self.folder / "processes"):
            folder.mkdir(parents=True, exist_ok=True)

    def next_address(self) -> str:
        """Return an address of the lab's network that nobody was given yet.

        Raises
        ------
        LabError
            All are given away.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.file("addresses").open("a+", encoding="ascii") as counter:
            fcntl.flock(counter, fcntl.LOCK_EX)
            counter.seek(0)
            given = int(counter.read() or 0)
            counter.truncate(0)
            counter.write(str(given + 1))
        return _address(given)


def _address(given: int) -> str:
    network = ipaddress.ip_network(f"{netns.NETWORK}/{netns.PREFIX_LENGTH}")
    index = _FIRST_FREE + given
    if index >= network.num_addresses - 1:
        raise LabError(f"all {given} addresses of {network} are given away: stop the lab and start it again")
    return str(network[index])
