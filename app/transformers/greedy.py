#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long greedy text stays that of the exact cache when the cache is packed.

    greedy.py MODEL [PROMPTS] --settings q4_0 hadamard+q4_0 best=best.so4.h5 [--tokens 128] [--json FILE]

PROMPTS is a text with one prompt per line, by default the 20 of prompts.txt beside this script; settings as in
perplexity.py. Every prompt is continued with the exact cache and with packed ones; the number is how many new tokens
agree before the first that differs, at most --tokens. The last prompt is continued to the end with every cache, and
bytes are those of the arrays that the caches then hold. --keep-decoded is faster and changes nothing that is reported.

Exit codes: 0 done; 1 bad input; 2 usage; 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from load_model import MODEL_DTYPES, InputError, load_model, load_tokenizer

import torch
from transformers import DynamicCache, StoppingCriteria, StoppingCriteriaList

from codec_sets import load_codecs
from dump_kv import non_negative, positive
from so4_cache import So4Cache


PROMPTS = Path(__file__).with_name("prompts.txt")


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="greedy.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path, metavar="MODEL", help="model folder or .gguf file")
    parser.add_argument("prompts", type=Path, nargs="?", default=PROMPTS, metavar="PROMPTS", help="a prompt per line")
    parser.add_argument("--settings", nargs="+", required=True, metavar="SETTING", help="what to compare")
    parser.add_argument("--tokens", type=positive, default=128, help="new tokens at most (default %(default)s)")
    parser.add_argument("--sink", type=non_negative, default=4, help="exact first tokens (default %(default)s)")
    parser.add_argument("--recent", type=non_negative, default=0, help="exact latest tokens (default %(default)s)")
    parser.add_argument("--keep-decoded", action="store_true", help="keep unpacked rows between tokens")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the counts of every prompt")
    parser.add_argument("--codec-library", type=Path, metavar="LIB", help="libso4codec (default: SO4CAL_CODEC, build/)")
    parser.add_argument("--model-dtype", choices=tuple(MODEL_DTYPES), default="f32", help="default %(default)s")
    parser.add_argument("--device", default="cpu", help="where the model runs (default %(default)s)")
    return parser.parse_args(argv)


class Leaves(StoppingCriteria):
    """Stops when the newest token is not that of `text` at its place."""

    def __init__(self, text: list[int], prompt_length: int) -> None:
        self._text, self._prompt_length = text, prompt_length

    def __call__(self, input_ids: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
        expected = self._text[input_ids.shape[1] - self._prompt_length - 1]
        return input_ids[:, -1] != expected


def continuation(
    model: Any, prompt: torch.Tensor, cache: Any, num_tokens: int, until_it_leaves: list[int] | None = None
) -> list[int]:
    """The `num_tokens` most likely tokens one after the other, past any end of text."""
    criteria = [] if until_it_leaves is None else [Leaves(until_it_leaves, prompt.shape[1])]
    tokens = model.generate(
        prompt, attention_mask=torch.ones_like(prompt), cache=cache, do_sample=False, num_beams=1,
        max_new_tokens=num_tokens, min_new_tokens=num_tokens, eos_token_id=None, pad_token_id=0,
        stopping_criteria=StoppingCriteriaList(criteria),
    )  # fmt: skip
    return tokens[0, prompt.shape[1] :].tolist()


def common_length(a: list[int], b: list[int]) -> int:
    """Of the two texts' common beginning; `b` may be shorter."""
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), len(b))


def dynamic_bytes(cache: DynamicCache) -> int:
    return sum(x.untyped_storage().nbytes() for layer in cache.layers for x in (layer.keys, layer.values))


def run(arguments: argparse.Namespace) -> None:
    sets = dict(load_codecs(setting, arguments.codec_library) for setting in arguments.settings)
    try:
        lines = [line for line in arguments.prompts.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{arguments.prompts}: expected a readable UTF-8 text: {error}") from error
    if not lines:
        raise InputError(f"{arguments.prompts}: expected a prompt per line, found none")
    tokenizer = load_tokenizer(arguments.model)
    model = load_model(arguments.model, arguments.model_dtype, arguments.device)
    counts: dict[str, list[int]] = {name: [] for name in sets}
    caches: dict[str, So4Cache] = {}
    for number, line in enumerate(lines, 1):
        prompt = tokenizer(line, return_tensors="pt")["input_ids"].to(model.device)
        exact_cache = DynamicCache(config=model.config)
        exact = continuation(model, prompt, exact_cache, arguments.tokens)
        for name, codecs in sets.items():
            caches[name] = So4Cache(model.config, codecs, arguments.sink, arguments.recent, arguments.keep_decoded)
            stop = None if number == len(lines) else exact
            text = continuation(model, prompt, caches[name], arguments.tokens, stop)
            counts[name].append(common_length(exact, text))
        found = ", ".join(f"{name} {counts[name][-1]}" for name in sets)
        print(f"prompt {number}/{len(lines)}: {found}", file=sys.stderr)
    memory = {name: cache.memory() for name, cache in caches.items()}
    print(
        f"{len(lines)} prompts, {arguments.tokens} new tokens, sink {arguments.sink}, recent {arguments.recent}; exact "
        f"cache {dynamic_bytes(exact_cache)} bytes after the last prompt"
    )
    for name, found in counts.items():
        print(
            f"{name}: same tokens: median {statistics.median(found):g}, mean {statistics.mean(found):.1f}; "
            f"{memory[name].packed} packed + {memory[name].exact} exact bytes, "
            f"{memory[name].bits_per_packed_value:.3f} bits per packed value"
        )
    if arguments.json:
        content = {name: {"same_tokens": counts[name], **memory[name]._asdict()} for name in sets}
        arguments.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    try:
        run(parse_arguments(argv))
    except InputError as error:
        print(f"greedy.py: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("greedy.py: interrupted", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
