"""The operator's own client, watched: what is sent is kept, and a test may act just before."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from davylamp.routers.api import Api


@dataclass
class Watched:
    """Implements `davylamp.routers.api.Api` by another one."""

    api: Api
    before_patch: Callable[[], Awaitable[None]] | None = None
    patches: list[Any] = field(default_factory=list)

    async def get(self, path: str) -> dict[str, Any]:
        return await self.api.get(path)

    async def patch(self, path: str, body: Any, content_type: str, field_manager: str) -> dict[str, Any]:
        if self.before_patch:
            await self.before_patch()
        self.patches.append(body)
        return await self.api.patch(path, body, content_type, field_manager)
