# Writes golden.json: greedy continuations of SmolLM2's GGUF file as transformers computes them; tests only read it.
# SPDX-FileCopyrightText: ops-transformer authors
# SPDX-License-Identifier: Apache-2.0
"""Usage: python tests/models/make_golden.py FOLDER_WITH_THE_GGUF_FILE

Needs transformers, torch, accelerate and gguf. transformers expands the blocks to f32 and runs its own Llama.
"""

import json
import pathlib
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
PROMPTS = ["The capital of France is", "Once upon a time, in 1842, there lived", "def fibonacci(n):\n    "]
LENGTH = 32
MIN_MARGIN = 1e-3  # (best - second) / max |logit|; closer ones hang on rounding


@torch.no_grad()
def continuation(model, ids):
    result = model(torch.tensor([ids]), use_cache=True)
    greedy = []
    while len(greedy) < LENGTH:
        logits = result.logits[0, -1]
        best = logits.topk(2)
        if (best.values[0] - best.values[1]) / logits.abs().max() < MIN_MARGIN:
            break
        if best.indices[0].item() == model.config.eos_token_id:
            break  # the tool's text ends here too
        greedy.append(best.indices[0].item())
        result = model(torch.tensor([[greedy[-1]]]), past_key_values=result.past_key_values, use_cache=True)
    return greedy


def main():
    torch.set_num_threads(1)
    folder = sys.argv[1]
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=FILE)
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=FILE, dtype=torch.float32).eval()
    cases = []
    for prompt in PROMPTS:
        ids = tokenizer(prompt, add_special_tokens=False).input_ids
        greedy = continuation(model, ids)
        text = tokenizer.decode(greedy)
        cases.append({"prompt": prompt, "prompt_tokens": ids, "greedy_text_tokens": greedy, "text": text})
        print(prompt, greedy, text)
    path = pathlib.Path(__file__).parent / "golden.json"
    path.write_text(json.dumps(cases, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
