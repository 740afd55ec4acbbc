"""The demo's models, made once for all tests, and addresses to serve them on."""

import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from e2e.demo.models.artifacts import HeldOut, HeldOutDigits, Models, ensure_models
from e2e.demo.serving.process import ServerSpec


@pytest.fixture(scope="session")
def models() -> Models:
    return ensure_models()


@pytest.fixture(scope="session")
def people(models: Models) -> HeldOut:
    return models.held_out()


@pytest.fixture(scope="session")
def images(models: Models) -> HeldOutDigits:
    return models.held_out_digits()


@pytest.fixture(scope="module")
def ports() -> tuple[int, int]:
    with ExitStack() as held:
        sockets = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]
        http, metrics = (listening.getsockname()[1] for listening in sockets)
    return http, metrics


@pytest.fixture
def spec(models: Models, ports: tuple[int, int], tmp_path: Path) -> ServerSpec:
    http, metrics = ports
    return ServerSpec(models.onnx("int8"), "int8", "127.0.0.1", http, metrics, fault_file=tmp_path / "share")
