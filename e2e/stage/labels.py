"""The service that joins labels as a process on the lab, as users run it in the namespace of their rollouts."""

from __future__ import annotations

import http.client
import json
import sys
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Self

from e2e.lab import Lab, Part
from e2e.lab.component import Component

NAME: Final = "davylamp-labels"
#: Who may post.
TOKEN: Final = "the-token-of-the-stage"  # noqa: S105 - lets in to the lab alone
PORT: Final = 8080
_AT_ONCE: Final = 1_000


class Labels:
    """A namespace's service, started and scraped by ``start`` or ``with Labels(…)``; its database outlives a kill.

    Parameters
    ----------
    lab
        Where it runs.
    namespace
        Whose rollouts it serves.
    """

    def __init__(self, lab: Lab, namespace: str) -> None:
        self._lab = lab
        self._namespace = namespace
        self._address = lab.address()
        self._token_file = lab.files.file(f"{NAME}-{namespace}.tokens")
        self._token_file.write_text(TOKEN, encoding="utf-8")
        settings = {
            "DAVYLAMP_LISTEN": f"{self._address}:{PORT}",
            "DAVYLAMP_LABELS_DATABASE": f"sqlite:///{lab.files.file(f'{NAME}-{namespace}.db')}",
            "DAVYLAMP_LABELS_TOKEN_FILE": str(self._token_file),
            "DAVYLAMP_LOG_FORMAT": "console",
        }
        command = (sys.executable, "-m", "davylamp.cli", "labels", "serve")
        part = Part(f"{NAME}-{namespace}", command, lambda: _ready(self._address), settings)
        self._process = Component(part, lab.files, lab.namespace)

    @property
    def url(self) -> str:
        """Where predictions and labels are posted."""
        return f"http://{self._address}:{PORT}"

    @property
    def token_file(self) -> Path:
        """The file with the token of who may post."""
        return self._token_file

    def start(self) -> None:
        """Start it unless it runs, and return when it serves and is scraped."""
        self._process.start()
        self._process.wait_ready()
        target = {f"{self._address}:{PORT}": {"pod": f"{NAME}-0"}}
        self._lab.scrape("labels", target, within=timedelta(seconds=60))

    def kill(self) -> None:
        """End it as a crash would, if it runs."""
        self._process.kill()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def predict(self, predictions: Sequence[Mapping[str, Any]]) -> None:
        """Post what both variants said, as the comparator does.

        Raises
        ------
        OSError, http.client.HTTPException
            If it does not answer.
        ValueError
            If it refuses.
        """
        self._post("predictions", predictions)

    def label(self, labels: Sequence[Mapping[str, Any]]) -> None:
        """Post labels, as whoever learns the truth does.

        Raises
        ------
        OSError, http.client.HTTPException
            If it does not answer.
        ValueError
            If it refuses.
        """
        self._post("labels", labels)

    def _post(self, what: str, items: Sequence[Mapping[str, Any]]) -> None:
        connection = http.client.HTTPConnection(self._address, PORT, timeout=10)
        try:
            for start in range(0, len(items), _AT_ONCE):
                headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
                connection.request("POST", f"/{what}", json.dumps({what: items[start : start + _AT_ONCE]}), headers)
                answer = connection.getresponse()
                text = answer.read().decode()
                if answer.status != http.HTTPStatus.OK:
                    raise ValueError(f"the service of labels refuses {what} with {answer.status}: {text}")
        finally:
            connection.close()


def _ready(address: str) -> bool:
    connection = http.client.HTTPConnection(address, PORT, timeout=10)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
