#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Dumps what a model's KV cache would hold for a text: the input of `so4cal fit`.

    dump_kv.py MODEL TEXT -o dump.h5 [--tokens 4096] [--ctx 2048] [--layers 0-7,12]

MODEL is a local folder that transformers loads as a causal language model, or a GGUF file. The dump has, per layer,
k and v after RoPE, q after RoPE, the output projection w_o, the softmax scale and the sliding window. It holds one
sequence of one layer in memory at a time, and appears under its name only when it is complete.

Exit codes: 0 done; 1 bad input or a model that cannot be dumped; 2 usage; 130 interrupted.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from load_model import MODEL_DTYPES, InputError, leading_bos, load_model, load_tokenizer, read_tokens
from kv_capture import AttentionCall, observed_attention, run_sequence
from kv_probe import LayerInfo, Probe, num_layers, probe_model
from kv_writer import FILE_TYPES, DumpWriter

PROBE_TOKENS = 48  # enough to tell a bias or a gate from rounding; the probe keeps every layer's q, k and v


@dataclass
class DumpOptions:
    output: Path
    dtype: str = "f16"
    layers: set[int] | None = None  # None: all
    queries: int | None = None  # None: all rows; 0: no q
    compress: bool = True
    force: bool = False


def parse_layers(text: str) -> set[int]:
    """0-7,12 -> {0, ..., 7, 12}"""
    layers: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not first.isdigit() or (dash and not last.isdigit()) or (dash and int(last) < int(first)):
            raise argparse.ArgumentTypeError(f"expected layers such as 0-7,12, found {text!r}")
        layers.update(range(int(first), int(last if dash else first) + 1))
    return layers


def positive(text: str) -> int:
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"expected a number of 1 or more, found {text!r}")
    return int(text)


def non_negative(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"expected a number of 0 or more, found {text!r}")
    return int(text)


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="dump_kv.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path, metavar="MODEL", help="model folder or .gguf file")
    parser.add_argument("text", type=Path, metavar="TEXT", help="UTF-8 text to run through the model")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DUMP", help="HDF5 file to write")
    parser.add_argument("--force", action="store_true", help="replace an existing output")
    parser.add_argument("--tokens", type=positive, default=4096, help="tokens to dump (default %(default)s)")
    parser.add_argument("--ctx", type=positive, default=2048, help="tokens per sequence (default %(default)s)")
    parser.add_argument("--start", type=non_negative, default=0, help="text tokens to skip (default %(default)s)")
    parser.add_argument("--bos", choices=("auto", "yes", "no"), default="auto",
                        help="begin each sequence with BOS, which counts as a token; auto: as the tokenizer does")
    parser.add_argument("--layers", type=parse_layers, metavar="0-7,12", help="layers to dump (default: all)")
    parser.add_argument("--queries", type=non_negative, metavar="N", help="evenly spaced q rows (default all; 0 none)")
    parser.add_argument("--dtype", choices=tuple(FILE_TYPES), default="f16", help="stored type (default %(default)s)")
    parser.add_argument("--no-compress", dest="compress", action="store_false", help="no gzip and shuffle filters")
    parser.add_argument("--model-name", help="the dump's `model` attribute (default: the file's or folder's name)")
    parser.add_argument("--model-dtype", choices=tuple(MODEL_DTYPES), default="f32",
                        help="type the model computes in; auto: as stored (default %(default)s)")
    parser.add_argument("--device", default="cpu", help="where the model runs, as torch names it (default %(default)s)")
    return parser.parse_args(argv)


def query_positions(num_tokens: int, num_queries: int) -> list[int]:
    """The middles of `num_queries` equal stretches of the tokens."""
    return [(2 * i + 1) * num_tokens // (2 * num_queries) for i in range(num_queries)]


def make_sequences(
    text_tokens: list[int], bos: list[int], num_tokens: int, context: int, start: int
) -> list[list[int]]:
    """`num_tokens` tokens in sequences of `context` (the last may be shorter), each beginning with `bos`."""
    if context <= len(bos) + 1:
        raise InputError(f"--ctx {context}: expected more than BOS and one token")
    sequences, position, remaining = [], start, num_tokens
    while remaining > 0:
        length = min(context, remaining)
        taken = max(length - len(bos), 0)
        sequences.append((bos + text_tokens[position : position + taken])[:length])
        position, remaining = position + taken, remaining - length
    if position > len(text_tokens):
        raise InputError(
            f"--tokens {num_tokens} from --start {start} need {position} tokens of text, but the text has "
            f"{len(text_tokens)}: use a longer text or fewer tokens"
        )
    return sequences


def choose_layers(probe: Probe, wanted: set[int] | None) -> dict[int, LayerInfo]:
    if wanted is None:
        return probe.layers
    missing = sorted(wanted - probe.layers.keys())
    if missing:
        raise InputError(
            f"--layers: layer {', '.join(map(str, missing))} cannot be dumped; this model's layers with keys and "
            f"values of their own are {', '.join(map(str, probe.layers))}"
        )
    return {layer: probe.layers[layer] for layer in sorted(wanted)}


def check_context(model: Any, sequences: list[list[int]]) -> None:
    config = model.config.get_text_config()
    longest = max(map(len, sequences))
    limit = getattr(config, "max_position_embeddings", None)
    if limit and longest > limit:
        raise InputError(f"--ctx {longest}: the model has {limit} positions; use --ctx {limit} or less")
    chunk = getattr(config, "attention_chunk_size", None)
    if chunk and longest > chunk:
        raise InputError(f"--ctx {longest}: the model attends within chunks of {chunk}, which a dump cannot describe")


class SequenceWriter:
    """Passes the captured rows of one sequence after another to the file, in the dump's token order."""

    def __init__(
        self, writer: DumpWriter, layers: dict[int, LayerInfo], num_tokens: int, num_queries: int | None
    ) -> None:
        self.writer = writer
        self.layers = layers
        self.num_tokens = num_tokens
        chosen = num_queries is not None and 0 < num_queries < num_tokens
        self.positions = query_positions(num_tokens, num_queries) if chosen else None
        self.with_q = num_queries != 0
        self.first_token = 0

    def write_layer_constants(self) -> None:
        for layer, info in self.layers.items():
            window = {} if info.sliding_window is None else {"sliding_window": info.sliding_window}
            sink = {"softmax_sink": 1} if info.has_sink else {}
            cap = {"logit_softcap": float(info.softcap)} if info.softcap else {}
            self.writer.layer_attributes(layer, softmax_scale=info.softmax_scale, **window, **sink, **cap)
            if info.w_o is not None:
                self.writer.rows(f"layers/{layer}/w_o", info.w_o, 0, info.w_o.shape[0])
            if self.positions is not None:
                self.writer.integers(f"layers/{layer}/q_positions", self.positions)

    def observe(self, call: AttentionCall) -> None:
        if call.layer not in self.layers:
            return
        name = f"layers/{call.layer}"
        self.writer.rows(f"{name}/k", call.k.transpose(0, 1), self.first_token, self.num_tokens)
        self.writer.rows(f"{name}/v", call.v.transpose(0, 1), self.first_token, self.num_tokens)
        if self.with_q:
            self._write_queries(name, call.q.transpose(0, 1))

    def _write_queries(self, name: str, q: Any) -> None:
        if self.positions is None:
            self.writer.rows(f"{name}/q", q, self.first_token, self.num_tokens)
            return
        end = self.first_token + q.shape[0]
        rows = [i for i, position in enumerate(self.positions) if self.first_token <= position < end]
        if rows:
            chosen = q[[self.positions[i] - self.first_token for i in rows]]
            self.writer.rows(f"{name}/q", chosen, rows[0], len(self.positions))


def dump(model: Any, sequences: list[list[int]], options: DumpOptions, model_name: str, text: str) -> Probe:
    """Writes the dump of `sequences` and returns what the probe said. Raises InputError, then leaves no file."""
    if options.output.exists() and not options.force:
        raise InputError(f"{options.output}: already exists; use --force to replace it")
    if not options.output.resolve().parent.is_dir():
        raise InputError(f"{options.output}: its folder does not exist")
    check_context(model, sequences)
    probe = probe_model(model, max(sequences, key=len)[:PROBE_TOKENS])
    layers = choose_layers(probe, options.layers)
    with DumpWriter(options.output, options.dtype, options.compress) as writer:
        writer.root_attributes(model=model_name, num_layers=num_layers(model), text=text)
        sink = SequenceWriter(writer, layers, sum(map(len, sequences)), options.queries)
        sink.write_layer_constants()
        starts = []
        for sequence in sequences:
            began = time.monotonic()
            starts.append(sink.first_token)
            with observed_attention(model, sink.observe):
                run_sequence(model, sequence)
            sink.first_token += len(sequence)
            seconds = f"{time.monotonic() - began:.1f} s"
            print(f"sequence {len(starts)}/{len(sequences)}: {len(sequence)} tokens, {seconds}", file=sys.stderr)
        writer.integers("sequence_starts", starts)
    return probe


def run(arguments: argparse.Namespace) -> None:
    if arguments.output.exists() and not arguments.force:  # said before minutes of loading
        raise InputError(f"{arguments.output}: already exists; use --force to replace it")
    tokenizer = load_tokenizer(arguments.model)
    bos = leading_bos(tokenizer, arguments.bos)
    text_tokens = read_tokens(tokenizer, arguments.text)
    sequences = make_sequences(text_tokens, bos, arguments.tokens, arguments.ctx, arguments.start)
    model = load_model(arguments.model, arguments.model_dtype, arguments.device)
    name = arguments.model_name or arguments.model.resolve().name.removesuffix(".gguf")
    last = arguments.start + arguments.tokens - len(bos) * len(sequences) - 1
    text = f"{arguments.text.name}, tokens {arguments.start} to {last}, bos {bos or 'none'}"
    options = DumpOptions(
        arguments.output, arguments.dtype, arguments.layers, arguments.queries, arguments.compress, arguments.force
    )
    probe = dump(model, sequences, options, name, text)
    for note in probe.notes:
        print(f"note: {note}", file=sys.stderr)
    dumped = len(choose_layers(probe, arguments.layers))
    size = arguments.output.stat().st_size
    print(f"{arguments.output}: {dumped} layers, {arguments.tokens} tokens, {arguments.dtype}, {size / 1e6:.2f} MB")


def main(argv: Sequence[str] | None = None) -> int:
    arguments = parse_arguments(argv)
    try:
        run(arguments)
    except InputError as error:
        print(f"dump_kv.py: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("dump_kv.py: interrupted, nothing written", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
