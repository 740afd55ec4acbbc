import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from e2e.demo.models.artifacts import HeldOut, HeldOutDigits, Models
from e2e.demo.serving.environment import CHECKOUT
from e2e.demo.serving.faults import write_fault_share
from e2e.demo.serving.process import ModelServer, ServerError, ServerSpec, parse_first_fault


async def infer(spec: ServerSpec, body: Mapping[str, Any]) -> tuple[int, Mapping[str, str], dict[str, Any]]:
    url = f"http://{spec.host}:{spec.http_port}/v2/models/{spec.name}/infer"
    async with aiohttp.ClientSession() as session, session.post(url, json=body) as answer:
        return answer.status, answer.headers.copy(), await answer.json()


def rows(features: np.ndarray) -> dict[str, Any]:
    tensor = {"name": "features", "shape": list(features.shape), "datatype": "FP32", "data": features.ravel().tolist()}
    return {"inputs": [tensor]}


async def samples(spec: ServerSpec) -> list[Sample]:
    url = f"http://{spec.host}:{spec.metrics_port}/metrics"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        page = await answer.text()
    return [sample for family in text_string_to_metric_families(page) for sample in family.samples]


async def counters(spec: ServerSpec) -> dict[tuple[str, str], float]:
    return {
        (sample.name, sample.labels.get("version") or sample.labels.get("status_code", "")): sample.value
        for sample in await samples(spec)
    }


async def test_a_server_answers_as_the_network_does_counts_and_fails_when_told(
    models: Models, people: HeldOut, spec: ServerSpec, tmp_path: Path
) -> None:
    async with ModelServer(spec, models.python, tmp_path / "log") as server:
        before = await counters(spec)
        assert before["income_scored_total", "int8"] == 0
        assert before["income_positive_total", "int8"] == 0
        await answers_as_the_network(spec, people)
        refused, _, why = await infer(spec, rows(people.features[:1, :5]))
        assert refused == 400
        assert "[rows, 104], got [1, 5]" in why["error"]
        assert await server.first_fault() is None
        await fails_when_told(spec, people, server)


async def answers_as_the_network(spec: ServerSpec, people: HeldOut) -> None:
    asked, positive = 40, 0
    for at in range(asked):
        status, headers, answer = await infer(spec, rows(people.features[at : at + 1]))
        outputs = {output["name"]: output["data"][0] for output in answer["outputs"]}
        assert status == 200
        assert headers["x-model-version"] == answer["model_version"] == "int8"
        assert np.float32(outputs["probability"]) == people.probability["int8"][at]
        assert outputs["over_50k"] == (people.probability["int8"][at] >= 0.5)
        positive += outputs["over_50k"]
    counted = await counters(spec)
    assert counted["income_scored_total", "int8"] == asked
    assert counted["income_positive_total", "int8"] == positive > 0
    assert counted["model_infer_request_success_total", "None"] == asked
    assert counted["rest_server_requests_total", "200"] >= asked


async def fails_when_told(spec: ServerSpec, people: HeldOut, server: ModelServer) -> None:
    assert spec.fault_file is not None
    before = await counters(spec)
    started = datetime.now(UTC)  # noqa: TID251  # compared with the server's own clock on the same machine
    write_fault_share(spec.fault_file, 1)
    status, headers, answer = await infer(spec, rows(people.features[:1]))
    assert status == 500
    assert headers["x-model-version"] == "int8"
    assert "told to fail" in answer["error"]
    fault = await server.first_fault()
    assert fault is not None
    assert abs((fault - started).total_seconds()) < 60
    write_fault_share(spec.fault_file, 0)
    status, _, _ = await infer(spec, rows(people.features[:1]))
    assert status == 200
    after = await counters(spec)
    assert after["income_faults_total", "int8"] == 1
    # A failed request is no decision.
    assert after["income_scored_total", "int8"] == before["income_scored_total", "int8"] + 1
    assert await server.first_fault() == fault


async def test_a_server_of_digits_answers_with_ten_probabilities_and_the_likeliest_and_counts_each_digit(
    models: Models, images: HeldOutDigits, spec: ServerSpec, tmp_path: Path
) -> None:
    # Of int8, an answer depends on what else is in the batch.
    spec = replace(spec, model=models.digits_onnx("fp32"), version="fp32", fault_file=None, name="digits")
    asked = 40
    async with ModelServer(spec, models.python, tmp_path / "log"):
        assert await digits_read(spec) == dict.fromkeys(map(str, range(10)), 0)
        for at in range(asked):
            status, headers, answer = await infer(spec, rows(images.pixels[at : at + 1]))
            assert (status, headers["x-model-version"]) == (200, "fp32")
            outputs = {output["name"]: output for output in answer["outputs"]}
            expected = images.probability["fp32"][at]
            assert outputs["probability"]["shape"] == [1, 10]
            assert np.array_equal(np.float32(outputs["probability"]["data"]), expected)
            digit = outputs["digit"]
            assert (digit["shape"], digit["datatype"], digit["data"]) == ([1], "INT64", [int(expected.argmax())])
        status, _, answer = await infer(spec, rows(images.pixels[:asked]))
        assert status == 200
        assert [output["shape"] for output in answer["outputs"]] == [[asked, 10], [asked]]
        counted = await digits_read(spec)
    decided = images.probability["fp32"][:asked].argmax(axis=1)
    assert {digit: counted[str(digit)] for digit in range(10)} == {
        digit: 2 * np.count_nonzero(decided == digit) for digit in range(10)
    }


async def digits_read(spec: ServerSpec) -> dict[str, float]:
    return {
        sample.labels["digit"]: sample.value
        for sample in await samples(spec)
        if sample.name == "digits_read_total" and sample.labels["version"] == "fp32"
    }


async def test_a_server_of_digits_refuses_a_switch_that_it_would_not_heed(
    models: Models, spec: ServerSpec, tmp_path: Path
) -> None:
    server = ModelServer(replace(spec, name="digits"), models.python, tmp_path / "log")
    with pytest.raises(ServerError, match="digits cannot fail on purpose"):
        await server.start()


async def test_a_server_that_cannot_start_says_why_and_where_its_log_is(
    models: Models, spec: ServerSpec, tmp_path: Path
) -> None:
    server = ModelServer(replace(spec, model=tmp_path / "missing.onnx"), models.python, tmp_path / "log")
    with pytest.raises(ServerError, match=r"(?s)int8 on 127.0.0.1:\d+ ended.*log is .*missing\.onnx"):
        await server.start()
    assert server.pid is None


async def test_a_stopped_server_is_gone_and_stopping_twice_does_nothing(
    models: Models, spec: ServerSpec, tmp_path: Path
) -> None:
    server = ModelServer(spec, models.python, tmp_path / "log")
    await server.start()
    pid = server.pid
    assert pid is not None
    assert alive(pid)
    await server.stop()
    await server.stop()
    assert not alive(pid)


async def test_a_server_ends_with_the_program_that_started_it(models: Models, spec: ServerSpec, tmp_path: Path) -> None:
    program = (
        "import asyncio, json, sys; from pathlib import Path\n"
        "from e2e.demo.serving.process import ModelServer, ServerSpec\n"
        "async def main():\n"
        "    model, http, metrics, python, log = json.loads(sys.argv[1])\n"
        "    spec = ServerSpec(Path(model), 'int8', '127.0.0.1', http, metrics)\n"
        "    server = ModelServer(spec, Path(python), Path(log))\n"
        "    await server.start()\n"
        "    print(server.pid, flush=True)\n"
        "    await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    asked = [str(spec.model), spec.http_port, spec.metrics_port, str(models.python), str(tmp_path / "log")]
    starter = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, json.dumps(asked), stdout=subprocess.PIPE, cwd=CHECKOUT
    )
    assert starter.stdout is not None
    pid = int(await starter.stdout.readline())
    starter.send_signal(signal.SIGKILL)
    await starter.wait()
    async with asyncio.timeout(30):
        while alive(pid):  # noqa: ASYNC110  # the end of another process is no event of this loop
            await asyncio.sleep(0.05)


def alive(pid: int) -> bool:
    # Its new parent may be slow to collect it: a zombie serves nobody.
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def test_the_first_fault_is_read_from_the_page_of_metrics() -> None:
    page = '# TYPE x gauge\nincome_first_fault_timestamp_seconds{{model="income",version="int8"}} {}\n'
    assert parse_first_fault(page.format("0.0")) is None
    assert parse_first_fault(page.format("1.7e+09")) == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    assert parse_first_fault("") is None
