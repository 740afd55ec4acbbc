"""Serve one model with MLServer: ``python -m e2e.demo.serving MODEL.onnx --version int8 --host … --http-port …``.

Runs in the model servers' environment, from the checkout's top folder; the type checker does not see its packages.
"""

# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import argparse
import asyncio
import os
import signal
from pathlib import Path
from typing import Any, Final

import uvloop
from mlserver import MLServer
from mlserver.settings import ModelParameters, ModelSettings, Settings

from e2e.demo.serving.digits import DigitsModel
from e2e.demo.serving.income import IncomeModel

#: Longer than a gateway keeps an idle connection, so that it is always the gateway that closes: no request meets a
#: connection that the server has just given up.
_KEEP_ALIVE_SECONDS: Final = 7200
_MODELS: Final = {"income": IncomeModel, "digits": DigitsModel}


def main() -> None:
    """Serve until SIGTERM, or until the parent named on the command line is gone."""
    uvloop.run(_serve(_arguments()))


async def _serve(asked: argparse.Namespace) -> None:
    server = MLServer(_settings(asked))
    orphaned = asyncio.create_task(_end_with(asked.parent)) if asked.parent else None
    await server.start([_model_settings(asked)])
    if orphaned:
        orphaned.cancel()


async def _end_with(parent: int) -> None:
    while os.getppid() == parent:  # noqa: ASYNC110  # the end of another process is no event of this loop
        await asyncio.sleep(1)
    os.kill(os.getpid(), signal.SIGTERM)


def _settings(asked: argparse.Namespace) -> Settings:
    settings = Settings(
        debug=False,
        host=asked.host,
        http_port=asked.http_port,
        metrics_port=asked.metrics_port,
        grpc_port=0,  # nobody asks for it, and MLServer cannot leave it out: any free port will do
        parallel_workers=0,
        gzip_enabled=False,
    )
    # Every answer names the variant that gave it, errors too.
    settings._custom_rest_server_settings = {  # noqa: SLF001  # MLServer offers no public name for uvicorn's settings
        "headers": [("x-model-version", asked.version)],
        "timeout_keep_alive": _KEEP_ALIVE_SECONDS,
        "log_level": "warning",
    }
    settings._custom_metrics_server_settings = {"log_level": "warning"}  # noqa: SLF001  # as above
    return settings


def _model_settings(asked: argparse.Namespace) -> ModelSettings:
    extra: dict[str, Any] = {"seed": asked.seed}
    if asked.fault_file:
        extra["fault_file"] = str(asked.fault_file)
    return ModelSettings(
        name=asked.name,
        implementation=_MODELS[asked.name],
        parameters=ModelParameters(uri=str(asked.model), version=asked.version, extra=extra),
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m e2e.demo.serving", description="Serve one model with MLServer.")
    parser.add_argument("model", type=Path, help="the ONNX file")
    parser.add_argument(
        "--name", choices=_MODELS, default="income", help="what it decides, and its name in /v2/models/NAME/infer"
    )
    parser.add_argument("--version", required=True, help="the variant's name, sent as x-model-version with each answer")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on")
    parser.add_argument("--http-port", type=int, default=8080)
    parser.add_argument("--metrics-port", type=int, default=8082)
    parser.add_argument("--fault-file", type=Path, help="a file with the share of requests to fail, 0 to 1 (income)")
    parser.add_argument("--seed", type=int, default=0, help="for the draw of the requests that fail")
    parser.add_argument("--parent", type=int, help="end when this process is not the parent any more")
    asked = parser.parse_args()
    if asked.fault_file and asked.name != "income":
        parser.error(f"--fault-file: {asked.name} cannot fail on purpose")
    return asked


if __name__ == "__main__":
    main()
