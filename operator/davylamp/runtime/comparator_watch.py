"""Objects of the API server, kept as they are by listing and watching.

Rule 1: a list shows what is; a watch only says sooner what the next list would show. Deletions come by either.
Rule 2: an API server that does not answer changes nothing: what is known stays until it says something else.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Any, Final

import structlog

from davylamp.errors import DavylampError, NotFound
from davylamp.runtime.catalogue import Name, Object
from davylamp.runtime.kube import Kube

_log: Final = structlog.get_logger("davylamp")
_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 10.0


class Collection:
    """All objects of one kind.

    Parameters
    ----------
    kube
        API server.
    path
        Of the list.
    relist_every
        Seconds between two lists, >= 1.
    changed
        Told when an object has changed, and when the first list was read.
    """

    def __init__(self, kube: Kube, path: str, relist_every: int, changed: Callable[[], None]) -> None:
        self._kube = kube
        self._path = path
        self._relist_every = relist_every
        self._changed = changed
        self._trouble = ""
        self._objects: dict[Name, Object] = {}
        #: Whether a list was read.
        self.listed = False

    @property
    def objects(self) -> Mapping[Name, Object]:
        """What is known, by name."""
        return self._objects

    async def keep(self) -> None:
        """List and watch until cancelled."""
        loop, pause = asyncio.get_running_loop(), _FIRST_PAUSE
        while True:
            began = loop.time()
            try:
                await self._follow(await self._list())
                self._trouble = ""
            except NotFound as error:
                # The version is too old by now, or the kind is not installed.
                self._tell(error)
            except DavylampError as error:
                self._tell(error)
            if loop.time() - began > pause:
                pause = _FIRST_PAUSE
                continue
            await asyncio.sleep(pause)
            pause = min(_LONGEST_PAUSE, 2 * pause)

    def _tell(self, error: DavylampError) -> None:
        """Log a trouble once, however long it lasts."""
        if str(error) != self._trouble:
            self._trouble = str(error)
            _log.warning("watch_failed", of=self._path, why=self._trouble)

    async def _list(self) -> str:
        found = await self._kube.list(self._path)
        objects = {name: item for item in found["items"] if (name := _name(item)) is not None}
        if objects != self._objects or not self.listed:
            self._objects, self.listed = objects, True
            self._changed()
        return str((found.get("metadata") or {}).get("resourceVersion") or "0")

    async def _follow(self, version: str) -> None:
        async with aclosing(self._kube.watch(self._path, version, self._relist_every)) as events:
            async for event in events:
                self._take(str(event.get("type")), event["object"])

    def _take(self, what: str, item: Object) -> None:
        name = _name(item)
        if name is None:
            return
        if what == "DELETED":
            self._objects.pop(name, None)
        elif what in {"ADDED", "MODIFIED"}:
            self._objects[name] = item
        else:
            return
        self._changed()


def _name(item: Any) -> Name | None:
    metadata = item.get("metadata") if isinstance(item, Mapping) else None
    if not isinstance(metadata, Mapping) or not isinstance(metadata.get("name"), str):
        return None
    return Name(str(metadata.get("namespace") or ""), metadata["name"])
