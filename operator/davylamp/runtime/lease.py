"""Leadership by a Lease, and the epoch that fences former leaders.

Rule 1: whether the lease of another has expired is judged by when this process saw it change, never by the times in it.
Rule 2: the epoch rises with every takeover; it stands on every route and status that is written, and never falls, also
where the Lease itself was lost: a new one begins at the minutes since 1970, which are ahead of any count before.
Rule 3: a leader that could not renew in time stops by itself before another may begin.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import structlog

from davylamp.errors import Conflict, DavylampError, NotFound
from davylamp.ports import Clock
from davylamp.runtime.kube import Kube
from davylamp.runtime.settings import Settings

NAME = "davylamp"
#: A send that begins this long before the deadline has left the process by then.
_MARGIN = timedelta(seconds=2)


class Leadership:
    """What this process holds of the lease.

    Parameters
    ----------
    kube, clock, settings
        API server, time, and the durations.
    """

    def __init__(self, kube: Kube, clock: Clock, settings: Settings) -> None:
        self._kube = kube
        self._clock = clock
        self._settings = settings
        self._path = f"/apis/coordination.k8s.io/v1/namespaces/{settings.namespace}/leases"
        self._renewed: datetime | None = None
        self._seen: tuple[Any, ...] = ()
        self._seen_at: datetime | None = None
        self.epoch = 0
        self._log = structlog.get_logger("davylamp.lease")

    @property
    def valid(self) -> bool:
        """Whether this process leads, surely enough to send a write now."""
        if self._renewed is None:
            return False
        return self._clock.now() < self._renewed + self._settings.lease_deadline - _MARGIN

    async def keep(self, changed: Callable[[], None]) -> None:
        """Acquire and renew for ever.

        Parameters
        ----------
        changed
            Called after each renewal that began or ended leadership.
        """
        told = False
        while True:
            try:
                await self._renew()
            except DavylampError as error:
                self._log.warning("lease_not_renewed", why=str(error))
            if self.valid != told:
                told = self.valid
                self._log.info("leadership", leads=told, epoch=self.epoch)
                changed()
            await asyncio.sleep(self._settings.lease_retry.total_seconds())

    async def release(self) -> None:
        """Let another lead at once."""
        if self._renewed is None:
            return
        self._renewed = None
        try:
            lease = await self._kube.get(f"{self._path}/{NAME}")
            if self._ours(lease.get("spec") or {}):
                lease["spec"]["holderIdentity"] = ""
                await self._kube.replace(f"{self._path}/{NAME}", lease)
        except DavylampError as error:
            self._log.warning("lease_not_released", why=str(error))

    async def _renew(self) -> None:
        asked_at = self._clock.now()
        try:
            lease = await self._kube.get(f"{self._path}/{NAME}")
        except NotFound:
            minutes = int(asked_at.timestamp()) // 60
            await self._write(None, max(self.epoch + 1, minutes), asked_at)
            return
        spec = lease.get("spec") or {}
        if self._ours(spec) and self._renewed is not None:
            await self._write(lease, self.epoch, asked_at)
        elif self._free(spec) or self._expired(spec, asked_at):
            await self._write(lease, max(self.epoch, _epoch(spec)) + 1, asked_at)
        else:
            self._renewed = None

    def _ours(self, spec: dict[str, Any]) -> bool:
        """Whether the lease says what this process wrote last; another of the same name has another epoch."""
        return spec.get("holderIdentity") == self._settings.identity and _epoch(spec) == self.epoch

    def _free(self, spec: dict[str, Any]) -> bool:
        """Whether nobody holds the lease, or this process did before it was started again."""
        holder = spec.get("holderIdentity") or ""
        return not holder or (holder == self._settings.identity and self.epoch == 0)

    def _expired(self, spec: dict[str, Any], now: datetime) -> bool:
        record = (spec.get("holderIdentity"), spec.get("renewTime"), spec.get("leaseTransitions"))
        if record != self._seen or self._seen_at is None:
            self._seen, self._seen_at = record, now
            return False
        return now - self._seen_at >= self._settings.lease_duration

    async def _write(self, lease: dict[str, Any] | None, epoch: int, asked_at: datetime) -> None:
        stamp = asked_at.isoformat(timespec="microseconds").replace("+00:00", "Z")
        spec = {
            "holderIdentity": self._settings.identity,
            "leaseDurationSeconds": int(self._settings.lease_duration.total_seconds()),
            "renewTime": stamp,
            "leaseTransitions": epoch,
        }
        try:
            if lease is None:
                body = {
                    "apiVersion": "coordination.k8s.io/v1",
                    "kind": "Lease",
                    "metadata": {"name": NAME},
                    "spec": spec,
                }
                await self._kube.create(self._path, body)
            else:
                await self._kube.replace(
                    f"{self._path}/{NAME}", {**lease, "spec": {**(lease.get("spec") or {}), **spec}}
                )
        except Conflict:
            self._renewed = None
            raise
        self.epoch, self._renewed = epoch, asked_at


def _epoch(spec: dict[str, Any]) -> int:
    return int(spec.get("leaseTransitions") or 0)
