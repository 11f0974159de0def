#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Perplexity of a model whose keys and values went through a codec, and how far its predictions move.

    perplexity.py MODEL TEXT -o FOLDER --settings q4_0 hadamard+q4_0 best=best.so4.h5 [--pair best,q4_0]

A setting is a native table of `so4cal fit` (TABLE or NAME=TABLE), q4_0, hadamard+q4_0 or q8_0; `exact` always runs too.
Each window of text is one forward pass per setting, in which every query sees keys and values of all tokens packed and
unpacked, but those of the first --sink tokens. FOLDER holds one JSON file per setting, written after every window, so
that the same command goes on where it stopped; and summary.json. KL is from the exact distribution to the setting's, in
nats per token. Intervals are of 95 %, from windows drawn with replacement, the same ones for both settings of a pair.

Exit codes: 0 done; 1 bad input; 2 usage; 130 interrupted, finished windows are kept.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from load_model import MODEL_DTYPES, InputError, leading_bos, load_model, load_tokenizer, read_tokens

import torch

from codec_sets import CodecSet, load_codecs, refuse_shared_caches
from dump_kv import check_context, make_sequences, non_negative, positive
from window_scores import RoundTrip, WindowScore, compare, mean_scores, score_window, window_logits

EXACT = "exact"


def pair(text: str) -> tuple[str, str]:
    names = text.split(",")
    if len(names) != 2 or not all(names):
        raise argparse.ArgumentTypeError(f"expected two settings such as best,q4_0, found {text!r}")
    return names[0], names[1]


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="perplexity.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path, metavar="MODEL", help="model folder or .gguf file")
    parser.add_argument("text", type=Path, metavar="TEXT", help="UTF-8 text to score")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER", help="results; made if need be")
    parser.add_argument("--force", action="store_true", help="throw away results of other runs in FOLDER")
    parser.add_argument("--settings", nargs="+", required=True, metavar="SETTING", help="what to score, see above")
    parser.add_argument("--pair", type=pair, action="append", default=[], metavar="A,B", help="compare A with B")
    parser.add_argument("--ctx", type=positive, default=2048, help="tokens per window (default %(default)s)")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--windows", type=positive, default=4, help="windows (default %(default)s)")
    length.add_argument("--tokens", type=positive, help="tokens in all, instead; the last window may be shorter")
    parser.add_argument("--start", type=non_negative, default=0, help="text tokens to skip (default %(default)s)")
    parser.add_argument("--sink", type=non_negative, default=4, help="exact first tokens (default %(default)s)")
    parser.add_argument("--bos", choices=("auto", "yes", "no"), default="auto", help="begin each window with BOS")
    parser.add_argument("--seed", type=non_negative, default=1, help="of the intervals (default %(default)s)")
    parser.add_argument("--resamples", type=positive, default=10000, help="for the intervals (default %(default)s)")
    parser.add_argument("--codec-library", type=Path, metavar="LIB", help="libso4codec (default: SO4CAL_CODEC, build/)")
    parser.add_argument("--model-dtype", choices=tuple(MODEL_DTYPES), default="f32", help="default %(default)s")
    parser.add_argument("--device", default="cpu", help="where the model runs (default %(default)s)")
    return parser.parse_args(argv)


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Whole or not at all, under its name."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    os.replace(partial, path)


def token_hash(tokens: list[int]) -> str:
    return hashlib.sha256(json.dumps(tokens).encode()).hexdigest()


class Results:
    """The scored windows of one setting in its file."""

    def __init__(self, folder: Path, name: str, what: dict[str, Any], force: bool) -> None:
        self._path, self._what = folder / f"{name}.json", what
        self._windows: dict[int, tuple[str, WindowScore]] = {}  # by place: hash of the tokens, score
        if self._path.exists() and not self._load() and not force:
            raise InputError(
                f"{self._path}: holds results of another run (model, text, range, table or options differ): use "
                "another folder, or --force to replace it"
            )

    def _load(self) -> bool:
        try:
            content = json.loads(self._path.read_text(encoding="utf-8"))
            if content["what"] != self._what:
                return False
            for index, window in content["windows"].items():
                self._windows[int(index)] = window["tokens_sha256"], WindowScore(**window["score"])
        except (ValueError, KeyError, TypeError, AttributeError):
            return False
        return True

    def get(self, index: int, tokens: list[int]) -> WindowScore | None:
        found, score = self._windows.get(index, ("", None))
        return score if found == token_hash(tokens) else None

    def add(self, index: int, tokens: list[int], score: WindowScore) -> None:
        self._windows[index] = token_hash(tokens), score
        windows = {
            str(i): {"tokens_sha256": found, "score": asdict(scored)}
            for i, (found, scored) in sorted(self._windows.items())
        }
        write_json(self._path, {"what": self._what, "windows": windows})


def score_all(
    model: Any,
    windows: list[list[int]],
    settings: dict[str, CodecSet | None],
    results: dict[str, Results],
    sink: int,
) -> None:
    """Every window that a setting lacks. None stands for exact; its logits live for one window at a time."""
    for index, tokens in enumerate(windows):
        missing = [name for name in settings if results[name].get(index, tokens) is None]
        if not missing:
            continue
        exact = window_logits(model, tokens, None)
        for name in missing:
            began, codecs = time.monotonic(), settings[name]
            round_trip = None if codecs is None else RoundTrip(codecs, sink)
            logits = exact if round_trip is None else window_logits(model, tokens, round_trip)
            score = score_window(tokens, exact, logits, round_trip)
            results[name].add(index, tokens, score)
            seconds = f"{time.monotonic() - began:.1f} s"
            kl = f"KL {score.kl / score.tokens:.4f}"
            print(f"window {index + 1}/{len(windows)}, {name}: {kl}, {seconds}", file=sys.stderr)


def load_settings(arguments: argparse.Namespace) -> dict[str, CodecSet | None]:
    settings: dict[str, CodecSet | None] = {EXACT: None}
    for setting in arguments.settings:
        if setting == EXACT:
            continue
        name, codecs = load_codecs(setting, arguments.codec_library)
        if name in settings:
            raise InputError(f"--settings: {name} is there twice; name tables apart with NAME=TABLE")
        settings[name] = codecs
    for name in (name for names in arguments.pair for name in names):
        if name not in settings:
            raise InputError(f"--pair: {name} is none of the settings {', '.join(settings)}")
    return settings


def describe_run(arguments: argparse.Namespace, bos: list[int]) -> dict[str, Any]:
    """What scores of a window depend on, besides its tokens: more windows can be added later."""
    return {
        "model": arguments.model.resolve().name, "model_dtype": arguments.model_dtype, "text": arguments.text.name,
        "start": arguments.start, "ctx": arguments.ctx, "bos": bos, "sink": arguments.sink,
    }  # fmt: skip


def summarize(
    arguments: argparse.Namespace, run: dict[str, Any], settings: dict[str, CodecSet | None],
    results: dict[str, Results], windows: list[list[int]], value_bits: int,
) -> dict[str, Any]:  # fmt: skip
    scores = {name: [results[name].get(i, window) for i, window in enumerate(windows)] for name in settings}
    summary = {
        "run": run,
        "windows": len(windows),
        "last_token": arguments.start + sum(len(window) - len(run["bos"]) for window in windows) - 1,
        "scored_tokens": sum(len(window) - 1 for window in windows),
        "seed": arguments.seed,
        "resamples": arguments.resamples,
        "settings": {name: mean_scores(scores[name], value_bits) for name in settings},
        "pairs": [
            {"a": a, "b": b} | compare(scores[a], scores[b], arguments.resamples, arguments.seed)
            for a, b in arguments.pair
        ],
    }
    for name, codecs in settings.items():
        summary["settings"][name]["table_bytes"] = codecs.table_bytes if codecs else 0
    return summary


def print_summary(summary: dict[str, Any]) -> None:
    run = summary["run"]
    print(
        f"{run['model']} ({run['model_dtype']}), {run['text']} tokens {run['start']} to {summary['last_token']}: "
        f"{summary['windows']} windows of at most {run['ctx']}, {summary['scored_tokens']} tokens scored, "
        f"first {run['sink']} of each exact, bos {run['bos'] or 'none'}, seed {summary['seed']}"
    )
    width = max(map(len, summary["settings"]))
    print(f"{'setting':{width}}   bits  perplexity       KL   top-1  table bytes")
    for name, row in summary["settings"].items():
        print(
            f"{name:{width}} {row['bits_per_value']:6.3f} {row['perplexity']:11.4f} {row['kl']:8.5f} "
            f"{row['top1_agreement']:7.4f} {row['table_bytes']:12d}"
        )
    for row in summary["pairs"]:
        parts = [
            f"{label} {row[key]['value']:.4f} [{row[key]['interval'][0]:.4f}, {row[key]['interval'][1]:.4f}]"
            for label, key in (("KL ratio", "kl_ratio"), ("perplexity ratio", "perplexity_ratio"))
            if key in row
        ]
        print(f"{row['a']} / {row['b']}: {', '.join(parts)}")


def run(arguments: argparse.Namespace) -> None:
    settings = load_settings(arguments)  # before minutes of loading
    tokenizer = load_tokenizer(arguments.model)
    bos = leading_bos(tokenizer, arguments.bos)
    num_tokens = arguments.tokens or arguments.windows * arguments.ctx
    windows = make_sequences(read_tokens(tokenizer, arguments.text), bos, num_tokens, arguments.ctx, arguments.start)
    if min(map(len, windows)) < arguments.sink + 2:
        raise InputError(f"--tokens {num_tokens}: the last window has {len(windows[-1])} tokens, too few to score")
    described = describe_run(arguments, bos)
    arguments.output.mkdir(parents=True, exist_ok=True)
    results = {
        name: Results(
            arguments.output, name, described | {"codec": codecs.identity if codecs else EXACT}, arguments.force
        )
        for name, codecs in settings.items()
    }
    model = load_model(arguments.model, arguments.model_dtype, arguments.device)
    refuse_shared_caches(model.config)
    check_context(model, windows)
    score_all(model, windows, settings, results, arguments.sink)
    summary = summarize(arguments, described, settings, results, windows, torch.finfo(model.dtype).bits)
    write_json(arguments.output / "summary.json", summary)
    print_summary(summary)


def main(argv: Sequence[str] | None = None) -> int:
    arguments = parse_arguments(argv)
    try:
        run(arguments)
    except InputError as error:
        print(f"perplexity.py: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("perplexity.py: interrupted; the same command goes on from here", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
