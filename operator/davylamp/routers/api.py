"""What a router needs of a Kubernetes client."""

from enum import StrEnum
from typing import Any, Final, Protocol

#: Who changed a route, in its managedFields.
FIELD_MANAGER: Final = "davylamp"


class PatchType(StrEnum):
    """How a patch is written."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"


class Api(Protocol):
    """The Kubernetes API. Paths begin with a slash and carry no query.

    `NotFound`: the object or its kind does not exist. `Conflict`: a stale resourceVersion (409), or a failed test in a
    JSON patch (422). `SpecError`: refused for good, by validation, admission or RBAC, in the server's words.
    `Unavailable`: no answer, an answer cut off, 429 or 5xx; whether a patch took effect is unknown.
    """

    async def get(self, path: str) -> dict[str, Any]:
        """Return the object as it is now; never from a cache."""
        ...

    async def patch(self, path: str, body: Any, content_type: str, field_manager: str) -> dict[str, Any]:
        """Change the object and return it as it is then; never sent twice by itself."""
        ...
