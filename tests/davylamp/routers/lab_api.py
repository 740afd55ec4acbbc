"""The Kubernetes API as routers need it, over the lab's client; errors as the port names them."""

import asyncio
import http.client
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from davylamp.errors import Conflict, NotFound, SpecError, Unavailable
from e2e.lab import Api, ApiError


@dataclass
class LabApi:
    """Implements `davylamp.routers.api.Api`, counts what is sent, and lets a test act just before a patch."""

    api: Api
    before_patch: Callable[[], Awaitable[None]] | None = None
    patches: list[Any] = field(default_factory=list)

    async def get(self, path: str) -> dict[str, Any]:
        answer: dict[str, Any] = await self._send("GET", path)
        return answer

    async def patch(self, path: str, body: Any, content_type: str, field_manager: str) -> dict[str, Any]:
        if self.before_patch:
            await self.before_patch()
        self.patches.append(body)
        answer: dict[str, Any] = await self._send(
            "PATCH", f"{path}?fieldManager={field_manager}", body, content_type=content_type
        )
        return answer

    async def _send(self, method: str, path: str, body: Any = None, **options: str) -> Any:
        try:
            return await asyncio.to_thread(self.api.request, method, path, body, **options)  # type: ignore[arg-type]
        except ApiError as error:
            raise translated(error) from error
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable(str(error)) from error


def translated(error: ApiError) -> Exception:
    failed_test = error.status == HTTPStatus.UNPROCESSABLE_ENTITY and "the server rejected our request" in str(error)
    if error.status == HTTPStatus.CONFLICT or failed_test:
        return Conflict(str(error))
    if error.status == HTTPStatus.NOT_FOUND:
        return NotFound(str(error))
    if error.status == HTTPStatus.TOO_MANY_REQUESTS or error.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Unavailable(str(error))
    return SpecError(str(error))
