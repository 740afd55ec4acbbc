"""Adapters that split live traffic: one module each, and one line here."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from davylamp.ports import Router
from davylamp.routers.api import Api
from davylamp.routers.gateway_api import GatewayApiRouter

RouterFactory = Callable[[Api], Router]

#: By the word for the kind of route; the contract test runs over all of them.
ROUTERS: Final[Mapping[str, RouterFactory]] = MappingProxyType(
    {
        "gateway-api": GatewayApiRouter,
    }
)
