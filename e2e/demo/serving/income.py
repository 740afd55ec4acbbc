"""The runtime inside MLServer: one ONNX network, one thread, and counters of what it decides.

Runs in the model servers' environment only, whose packages the type checker does not see.
"""

# mypy: disable-error-code="import-not-found, misc"

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import onnxruntime
from mlserver import MLModel, types
from mlserver.codecs import NumpyCodec
from mlserver.errors import InferenceError, MLServerError
from mlserver.utils import get_model_uri
from prometheus_client import Counter, Gauge

from e2e.demo.serving.faults import FaultSwitch

THRESHOLD: Final = 0.5
_LABELS: Final = ("model", "version")
_SCORED = Counter("income_scored", "Rows that were given a decision", _LABELS)
_POSITIVE = Counter("income_positive", "Rows decided as an income over 50K", _LABELS)
_FAULTS = Counter("income_faults", "Requests failed on purpose", _LABELS)
_FIRST_FAULT = Gauge("income_first_fault_timestamp_seconds", "When the first request was failed on purpose", _LABELS)


class InjectedFaultError(MLServerError):
    """A request was failed on purpose; answered with HTTP 500."""

    def __init__(self) -> None:
        super().__init__("this server was told to fail a share of its requests", status_code=500)


class IncomeModel(MLModel):
    """Answers rows of the census with the probability of an income over 50K, and the decision at one half."""

    async def load(self) -> bool:
        """Open the network and make its counters visible, at zero."""
        self._session = _session(await get_model_uri(self.settings))
        self._width = self._session.get_inputs()[0].shape[1]
        extra = self.settings.parameters.extra or {}
        path = extra.get("fault_file")
        self._faults = FaultSwitch(Path(path) if path else None, seed=extra.get("seed", 0))
        labels = (self.name, self.version)
        # Counters that exist from the start let a reader tell "no request yet" from "no server".
        self._scored, self._positive = _SCORED.labels(*labels), _POSITIVE.labels(*labels)
        self._failed, self._first_fault = _FAULTS.labels(*labels), _FIRST_FAULT.labels(*labels)
        self._healthy_so_far = True
        return True

    async def predict(self, payload: types.InferenceRequest) -> types.InferenceResponse:
        """Answer one Open Inference Protocol request with one tensor of rows."""
        if self._faults.fails():
            self._fail()
        rows = self._rows(payload)
        (probability,) = self._session.run(["probability"], {"features": rows})
        decision = probability >= THRESHOLD
        self._scored.inc(len(rows))
        self._positive.inc(int(decision.sum()))
        return types.InferenceResponse(
            model_name=self.name,
            model_version=self.version,
            outputs=[
                NumpyCodec.encode_output("probability", probability),
                NumpyCodec.encode_output("over_50k", decision.astype(np.int64)),
            ],
        )

    def _rows(self, payload: types.InferenceRequest) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        if len(payload.inputs) != 1:
            raise InferenceError(f"send one input tensor, got {len(payload.inputs)}")
        tensor = payload.inputs[0]
        if len(tensor.shape) != 2 or tensor.shape[1] != self._width:
            raise InferenceError(f"input {tensor.name} must have the shape [rows, {self._width}], got {tensor.shape}")
        return np.asarray(NumpyCodec.decode_input(tensor), dtype=np.float32)

    def _fail(self) -> None:
        self._failed.inc()
        if self._healthy_so_far:
            self._healthy_so_far = False
            self._first_fault.set_to_current_time()
        raise InjectedFaultError


def _session(path: str) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    # So small a network gains nothing from threads, and spinning threads of eight servers would eat the machine.
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
