"""The runtime inside MLServer: one ONNX network and one thread; what is decided, and counted, is for each model to say.

Runs in the model servers' environment only, whose packages the type checker does not see.
"""

# mypy: disable-error-code="import-not-found, misc"

from __future__ import annotations

import numpy as np
import onnxruntime
from mlserver import MLModel, types
from mlserver.codecs import NumpyCodec
from mlserver.errors import InferenceError
from mlserver.utils import get_model_uri
from numpy.typing import NDArray


class NetworkModel(MLModel):
    """Answers rows of features with probabilities, and the decisions that follow from them."""

    async def load(self) -> bool:
        """Open the network."""
        self._session = _session(await get_model_uri(self.settings))
        self._width = self._session.get_inputs()[0].shape[1]
        return True

    async def predict(self, payload: types.InferenceRequest) -> types.InferenceResponse:
        """Answer one Open Inference Protocol request with one tensor of rows."""
        (probability,) = self._session.run(["probability"], {"features": self._rows(payload)})
        return types.InferenceResponse(
            model_name=self.name,
            model_version=self.version,
            outputs=[NumpyCodec.encode_output("probability", probability), self._decide(probability)],
        )

    def _decide(self, probability: NDArray[np.float32]) -> types.ResponseOutput:
        """Return the decisions as a tensor, and count them."""
        raise NotImplementedError

    def _rows(self, payload: types.InferenceRequest) -> NDArray[np.float32]:
        if len(payload.inputs) != 1:
            raise InferenceError(f"send one input tensor, got {len(payload.inputs)}")
        tensor = payload.inputs[0]
        if len(tensor.shape) != 2 or tensor.shape[1] != self._width:
            raise InferenceError(f"input {tensor.name} must have the shape [rows, {self._width}], got {tensor.shape}")
        return np.asarray(NumpyCodec.decode_input(tensor), dtype=np.float32)


def _session(path: str) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    # So small a network gains nothing from threads, and spinning threads of eight servers would eat the machine.
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
