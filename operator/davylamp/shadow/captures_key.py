"""The key that captured pairs are behind: whoever may read the Secret that it is kept in may see them.

Rule 1: without a key nobody sees anything.
Rule 2: the key is read anew each time, for Kubernetes changes a mounted Secret in its place; nobody is shown it, and
no log.
"""

import hmac
from collections.abc import Mapping
from pathlib import Path
from typing import Final

#: Not Authorization, which the proxy of the API server keeps to itself.
HEADER: Final = "x-davylamp-captures-key"
SECRET: Final = "davylamp-shadow-captures"  # noqa: S105 - its name
FIELD: Final = "key"
#: Bytes.
_SHORTEST: Final = 16
_LONGEST: Final = 4096


class CapturesKey:
    """Says who may see captured pairs.

    Parameters
    ----------
    file
        That holds the key; None for nobody.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file

    def refusal(self, headers: Mapping[str, str], namespace: str) -> str:
        """Return why whoever sent these headers may see nothing; empty if they may.

        Parameters
        ----------
        headers
            Of the request; names in any case.
        namespace
            Of the Secret.
        """
        key = self._key()
        if len(key) < _SHORTEST:
            return f"captured pairs are shown to those who have the key, and there is none: {creation(namespace)}"
        given = headers.get(HEADER, "").encode("utf-8", "surrogateescape")
        if not hmac.compare_digest(given, key):
            return f"the key in the header {HEADER} is not that of the Secret {SECRET} in namespace {namespace}"
        return ""

    def _key(self) -> bytes:
        if self._file is None:
            return b""
        try:
            with self._file.open("rb") as file:
                return file.read(_LONGEST).strip()
        except OSError:
            return b""


def creation(namespace: str) -> str:
    """Return how the key is made."""
    secret = f"{SECRET} --namespace {namespace}"
    return (
        f'create it with kubectl create secret generic {secret} --from-literal={FIELD}="$(openssl rand -hex 32)"; it '
        "reaches the comparator within two minutes"
    )
