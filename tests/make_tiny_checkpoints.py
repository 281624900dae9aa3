# Makes the checkpoints of tests/data/tiny and their golden outputs; tests only read them.
# SPDX-FileCopyrightText: ops-transformer authors
# SPDX-License-Identifier: Apache-2.0
"""Usage: python tests/make_tiny_checkpoints.py [NAME...]

Rewrites the named checkpoints, by default all, with transformers itself (the packages of
scripts/requirements.txt). A seed is taken only if neither a greedy token nor an expert choice
hangs on rounding, so that a correct implementation has to reproduce both exactly.
"""

import itertools
import json
import pathlib
import shutil
import sys

import tiny_families
import torch
import transformers
from safetensors.torch import save_file
from transformers import MixtralConfig, OlmoeConfig, Qwen3MoeConfig

DATA = pathlib.Path(__file__).resolve().parent / "data" / "tiny"
PROMPT_LENGTH = 24
GREEDY_LENGTH = 64
MIN_LOGIT_MARGIN = 2e-3  # (best - second) / max |logit|, at every greedy step
MIN_ROUTER_MARGIN = 2e-3  # k-th minus (k+1)-th router logit, for every token and layer
NOISE = 1e-3  # share of a router's input that must not change its choice, where logits do not decide
MIN_DISTINCT = 20  # different tokens among the greedy ones (the first four families had 28)
MAX_RUN = 5  # equal greedy tokens in a row


def config_of(family, vocab, hidden, layers, heads, kv_heads, experts, top_k, theta, **more):
    """`experts` is set through the name that the family's class has for it."""
    name = "num_local_experts" if family is MixtralConfig else "num_experts"
    return family(
        vocab_size=vocab,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        num_experts_per_tok=top_k,
        rope_parameters={"rope_type": "default", "rope_theta": theta},
        max_position_embeddings=512,
        **{name: experts, "bos_token_id": 1, "eos_token_id": 2, **more},
    )


# fmt: off
# Arguments of make(). Sizes are odd on purpose: no vector length divides them all.
CHECKPOINTS = {
    "mixtral": dict(
        config=config_of(
            MixtralConfig, 163, 48, 2, 6, 2, 5, 2, 5000.0, intermediate_size=40, head_dim=10,
        ),
    ),
    "mixtral-sharded": dict(
        config=config_of(
            MixtralConfig, 150, 36, 3, 3, 1, 7, 3, 700.0, intermediate_size=44, head_dim=12,
            rms_norm_eps=1e-6, tie_word_embeddings=True,
        ),
        max_shard_size="120KB",
        published_config=True,
    ),
    "olmoe": dict(
        config=config_of(
            OlmoeConfig, 160, 40, 2, 4, 4, 8, 3, 20000.0, intermediate_size=29, bos_token_id=None,
            norm_topk_prob=False,
        ),
        published_config=True,
    ),
    "olmoe-clip": dict(
        config=config_of(
            OlmoeConfig, 157, 48, 2, 4, 2, 6, 2, 3000.0, intermediate_size=27, bos_token_id=None,
            norm_topk_prob=True, clip_qkv=1.25, tie_word_embeddings=True,
        ),
        dtype=torch.float16,
    ),
    "qwen3-moe": dict(
        config=config_of(
            Qwen3MoeConfig, 160, 44, 3, 4, 2, 5, 2, 100000.0, intermediate_size=58, head_dim=14,
            moe_intermediate_size=35, norm_topk_prob=True, mlp_only_layers=[0],
        ),
        published_config=True,
    ),
    "qwen3-moe-step": dict(
        config=config_of(
            Qwen3MoeConfig, 161, 40, 4, 6, 3, 5, 3, 2500.0, intermediate_size=52, head_dim=14,
            moe_intermediate_size=33, norm_topk_prob=False, decoder_sparse_step=2,
            tie_word_embeddings=True, eos_token_id=[2, 3],
        ),
        dtype=torch.bfloat16,
    ),
    "qwen3-moe-bf16": dict(
        config=config_of(
            Qwen3MoeConfig, 160, 48, 2, 4, 1, 8, 2, 1000000.0, intermediate_size=64, head_dim=16,
            moe_intermediate_size=40, norm_topk_prob=True,
        ),
        dtype=torch.bfloat16,
        published_config=True,
    ),
}
# fmt: on
CHECKPOINTS |= tiny_families.CHECKPOINTS


def scale_of(family, name, parameter):
    """A random tensor is mean + gain * noise / inputs**0.5."""
    last = ".".join(name.split(".")[-2:])
    if "correction_bias" in name:
        return 0.0, 0.1, 1
    if name.endswith("sinks"):
        return 0.0, 1.0, 1
    if "bias" in name:
        return 0.0, 0.3, 1
    if "norm" in name:
        return 1.0, 0.25, 1
    if "embed_tokens" in name:
        return 0.0, 0.05 if family == "granitemoe" else 0.6, 1  # Granite multiplies by 12
    gain = {"gate.weight": 1.5, "router.weight": 1.5, "lm_head.weight": 2.0}.get(last, 1.6)
    # gpt-oss keeps its experts as [E, in, out].
    is_transposed = family == "gpt_oss" and parameter.dim() == 3
    return 0.0, gain, parameter.shape[-2 if is_transposed else -1]


def random_model(config, dtype, generator, build=None):
    """A model with logits, router and norms that are far from flat, rounded to `dtype`."""
    model = transformers.AutoModelForCausalLM.from_config(
        config, dtype=torch.float32, attn_implementation="eager", experts_implementation="eager"
    )
    if build:
        build.replace_blocks(model)
    biases = [(n, b) for n, b in model.named_buffers() if "correction_bias" in n]
    with torch.no_grad():
        for name, parameter in [*model.named_parameters(), *biases]:
            noise = torch.randn(parameter.shape, generator=generator)
            mean, gain, inputs = scale_of(config.model_type, name, parameter)
            value = mean + gain * noise / inputs**0.5
            parameter.copy_(value.to(dtype).float())
    return model.eval()


class RouterWatch:
    """Keeps the smallest distance between the last chosen and the first rejected expert; 0 if some
    noise in a router's input changes its choice or, by more than 2 %, its weights."""

    def __init__(self, model):
        self.margin = float("inf")
        self.is_on = True
        for module in model.modules():
            if type(module).__name__.lower().endswith("topkrouter"):
                module.register_forward_hook(self.note)

    def note(self, module, inputs, outputs):
        if not self.is_on:
            return
        logits, weights, ids = outputs
        is_by_logit = not any(hasattr(module, x) for x in ("num_group", "moe_statics", "router_jitter_noise"))
        if is_by_logit:
            ranked = logits.float().sort(dim=-1, descending=True).values
            k = ids.shape[-1]
            self.margin = min(self.margin, (ranked[:, k - 1] - ranked[:, k]).min().item())
            return
        self.is_on = False  # no hooks inside
        generator = torch.Generator().manual_seed(0)
        for _ in range(4):
            noise = torch.randn(inputs[0].shape, generator=generator) * inputs[0].std() * NOISE
            _, other_weights, other_ids = module(inputs[0] + noise)
            order, other = ids.sort(dim=-1), other_ids.sort(dim=-1)
            if not torch.equal(order.values, other.values):
                self.margin = 0
            moved = weights.gather(-1, order.indices) - other_weights.gather(-1, other.indices)
            if moved.abs().max() > 0.02 * weights.abs().max():
                self.margin = 0
        self.is_on = True


@torch.no_grad()
def golden_outputs(model, prompt):
    """The tensors of golden.safetensors, and the smallest relative lead of a greedy token."""
    cache = transformers.DynamicCache(config=model.config)
    whole = model(prompt, cache=cache, use_cache=True)
    logits = whole.logits[0]
    greedy, margin, last = [], float("inf"), logits[-1]
    for _ in range(GREEDY_LENGTH):
        best = last.topk(2).values
        margin = min(margin, ((best[0] - best[1]) / last.abs().max()).item())
        greedy.append(last.argmax().item())
        last = model(torch.tensor([[greedy[-1]]]), cache=cache, use_cache=True).logits[0, -1]
    tensors = {
        "input_ids": prompt,
        "logits": logits.contiguous(),
        "greedy": torch.tensor(greedy),
    }
    # The same tokens in one piece, without a cache, must choose the same continuation; but not when
    # positions depend on the length of the text, and cached keys were made when it was shorter.
    if model.config.rope_parameters["rope_type"] == "dynamic":
        return tensors, margin
    everything = torch.cat([prompt[0], tensors["greedy"]])[None]
    again = model(everything, use_cache=False).logits[0, PROMPT_LENGTH - 1 : -1].argmax(dim=-1)
    assert again.tolist() == greedy, "cached and whole evaluation differ"
    return tensors, margin


def is_usable(config, tensors, margin, router_margin):
    greedy = tensors["greedy"].tolist()
    ends = config.eos_token_id if isinstance(config.eos_token_id, list) else [config.eos_token_id]
    return (
        margin > MIN_LOGIT_MARGIN
        and router_margin > MIN_ROUTER_MARGIN
        and len(set(greedy)) >= MIN_DISTINCT
        and max(len(list(run)) for _, run in itertools.groupby(greedy)) <= MAX_RUN
        and not set(greedy) & set(ends)
    )


def write_published_config(folder):
    """Gives config.json the keys of published checkpoints, which transformers 5 renamed."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    if "partial_rotary_factor" in rope:
        config["partial_rotary_factor"] = rope.pop("partial_rotary_factor")
    kind = rope.pop("rope_type")
    config["rope_scaling"] = None if kind == "default" else {"type": kind, **rope}
    config["torch_dtype"] = config.pop("dtype")
    if config["model_type"] in ("qwen3_moe", "olmoe"):
        config["num_experts"] = config.pop("num_local_experts", config.get("num_experts"))
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def check_reload(folder, tensors):
    """What stands in the folder must give the golden logits when transformers reads it back."""
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", experts_implementation="eager"
    )
    with torch.no_grad():
        logits = model.eval()(tensors["input_ids"]).logits[0]
    assert torch.equal(logits, tensors["logits"]), f"{folder} does not reproduce its golden logits"
    if getattr(model.config, "clip_qkv", None) is not None:
        model.config.clip_qkv = None
        with torch.no_grad():
            unclipped = model(tensors["input_ids"]).logits[0]
        assert (unclipped - logits).abs().max() > 0.1 * logits.abs().max(), "clip_qkv never clips"


def make(name, config, dtype=torch.float32, max_shard_size="1GB", published_config=False, build=None):
    for seed in range(1, 1000):
        generator = torch.Generator().manual_seed(seed)
        model = random_model(config, dtype, generator, build)
        prompt = torch.randint(4, config.vocab_size, (1, PROMPT_LENGTH), generator=generator)
        watch = RouterWatch(model)
        tensors, margin = golden_outputs(model, prompt)
        if is_usable(config, tensors, margin, watch.margin):
            break
    else:
        raise SystemExit(f"{name}: no usable seed")
    folder = DATA / name
    shutil.rmtree(folder, ignore_errors=True)
    model.to(dtype)
    if build:
        build.save(model, folder)
    else:
        model.save_pretrained(folder, max_shard_size=max_shard_size)
    if published_config:
        write_published_config(folder)
    # One key only: their order in the file is random, and the files should come out the same.
    versions = f"transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}"
    metadata = {"made_by": f"{versions}, seed {seed}"}
    save_file(tensors, folder / "golden.safetensors", metadata=metadata)
    for file in folder.iterdir():
        file.chmod(0o644)
    if not build:
        check_reload(folder, tensors)
    greedy, logits = tensors["greedy"].tolist(), tensors["logits"]
    print(
        f"{name}: seed {seed}, logit margin {margin:.1e}, router margin {watch.margin:.1e}, "
        f"{len(set(greedy))} distinct tokens, max |logit| {logits.abs().max():.2f}, "
        f"std {logits.std():.2f}"
    )
    print("   ", greedy)


def main():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    names = sys.argv[1:] or list(CHECKPOINTS)
    for name in names:
        make(name, **CHECKPOINTS[name])


if __name__ == "__main__":
    main()
