import asyncio
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np

from e2e.demo.models.artifacts import HeldOut, Models
from e2e.demo.serving.environment import CHECKOUT
from e2e.demo.serving.faults import write_fault_share
from e2e.demo.serving.process import ModelServer, ServerSpec
from e2e.demo.traffic.bodies import request_bodies
from e2e.demo.traffic.generator import Pace, Target, Traffic


async def test_replayed_people_get_the_decisions_that_the_models_were_judged_by(
    models: Models, people: HeldOut, spec: ServerSpec, tmp_path: Path
) -> None:
    spec = replace(spec, model=models.onnx("pruned"), version="pruned")
    url = f"http://{spec.host}:{spec.http_port}"
    async with ModelServer(spec, models.python, tmp_path / "log") as server:
        traffic = Traffic(Target(url, "income.demo"), request_bodies(people.features, seed=5), Pace(100, seconds(2)))
        async with traffic:
            await traffic.finished()
        served = traffic.snapshot().served["pruned"]
        first = np.random.default_rng(5).permutation(len(people.features))[:200]
        assert (served.requests, served.failed) == (200, 0)
        assert served.positive == (people.probability["pruned"][first] >= 0.5).sum()

        assert spec.fault_file is not None
        write_fault_share(spec.fault_file, 0.5)
        printed = await replay("--gateway", url, "--host", "income.demo", "--rate", "50", "--seconds", "2")
        fault = await server.first_fault()
    assert "asked 100, answered 100, failed" in printed
    assert "pruned 500: " in printed
    assert "pruned: 100 requests" in printed
    assert fault is not None


async def replay(*arguments: str) -> str:
    run = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "e2e.demo.traffic", *arguments, stdout=asyncio.subprocess.PIPE, cwd=CHECKOUT
    )
    output, _ = await run.communicate()
    assert run.returncode == 0
    return output.decode()


def seconds(count: int) -> timedelta:
    return timedelta(seconds=count)
