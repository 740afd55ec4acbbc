"""Secrets, read when they are used and kept nowhere."""

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from davylamp.errors import NotFound, SpecError
from davylamp.runtime.kube import Kube


async def secret_value(kube: Kube, namespace: str, ref: Mapping[str, Any]) -> str:
    """Return one value of a Secret.

    Parameters
    ----------
    kube
        API server.
    namespace
        Of the Secret.
    ref
        ``name`` and ``key``.

    Raises
    ------
    SpecError
        If the Secret or the key does not exist, or the value is no text; the message names both and no value.
    Unavailable
        If the API server does not answer.
    """
    name, key = ref["name"], ref["key"]
    try:
        secret = await kube.get(f"/api/v1/namespaces/{namespace}/secrets/{name}")
    except NotFound as missing:
        raise SpecError(f"Secret {namespace}/{name} does not exist: create it with the key {key}") from missing
    encoded = (secret.get("data") or {}).get(key)
    if encoded is None:
        raise SpecError(f"Secret {namespace}/{name} has no key {key}: add it, or correct the reference")
    try:
        text = base64.b64decode(encoded, validate=True).decode("utf-8").strip()
    except (binascii.Error, UnicodeDecodeError) as broken:
        raise SpecError(f"Secret {namespace}/{name}, key {key}: not a text") from broken
    if not text:
        raise SpecError(f"Secret {namespace}/{name}, key {key}: empty")
    return text
