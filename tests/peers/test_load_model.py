# SPDX-License-Identifier: Apache-2.0
"""What load_model.py makes of a GGUF file. Its errors are tested through the scripts, in test_dump_kv.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest


def test_weights_are_those_of_the_gguf_file(smollm2: Any, smollm2_gguf: Path) -> None:
    """The gguf package reads the file on its own. Equal bits: both multiply a code by a scale and add, in float32."""
    gguf = pytest.importorskip("gguf")
    tensors = {tensor.name: tensor for tensor in gguf.GGUFReader(smollm2_gguf).tensors}
    ours = smollm2.state_dict()
    for name, their_name in (("self_attn.o_proj", "attn_output"), ("mlp.down_proj", "ffn_down")):
        for layer in (0, 29):
            theirs = tensors[f"blk.{layer}.{their_name}.weight"]
            expected = gguf.quants.dequantize(theirs.data, theirs.tensor_type)
            np.testing.assert_array_equal(ours[f"model.layers.{layer}.{name}.weight"].numpy(), expected)


def test_the_model_computes_in_the_chosen_type(smollm2: Any) -> None:
    assert {str(parameter.dtype) for parameter in smollm2.parameters()} == {"torch.float32"}
    assert not smollm2.training and smollm2.config.num_hidden_layers == 30
