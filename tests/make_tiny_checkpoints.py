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

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import MixtralConfig, OlmoeConfig, Qwen3MoeConfig

DATA = pathlib.Path(__file__).resolve().parent / "data" / "tiny"
PROMPT_LENGTH = 24
GREEDY_LENGTH = 64
MIN_LOGIT_MARGIN = 2e-3  # (best - second) / max |logit|, at every greedy step
MIN_ROUTER_MARGIN = 2e-3  # k-th minus (k+1)-th router logit, for every token and layer
MIN_DISTINCT = 28  # different tokens among the greedy ones
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
        fused_copy="mixtral-fused",
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
    ),
    "qwen3-moe": dict(
        config=config_of(
            Qwen3MoeConfig, 160, 44, 3, 4, 2, 5, 2, 100000.0, intermediate_size=58, head_dim=14,
            moe_intermediate_size=35, norm_topk_prob=True, mlp_only_layers=[0],
        ),
        published_config=True,
        fused_copy="qwen3-moe-fused",
    ),
    "qwen3-moe-step": dict(
        config=config_of(
            Qwen3MoeConfig, 161, 40, 4, 6, 3, 5, 3, 2500.0, intermediate_size=52, head_dim=14,
            moe_intermediate_size=33, norm_topk_prob=False, decoder_sparse_step=2,
            tie_word_embeddings=True, eos_token_id=[2, 3],
        ),
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


def random_model(config, dtype, generator):
    """A model with logits, router and norms that are far from flat, rounded to `dtype`."""
    model = transformers.AutoModelForCausalLM.from_config(
        config, dtype=torch.float32, attn_implementation="eager", experts_implementation="eager"
    )
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if "norm" in name:
                value = 1.0 + 0.25 * noise
            elif "embed_tokens" in name:
                value = 0.6 * noise
            else:
                gain = {"gate.weight": 1.5, "lm_head.weight": 2.0}.get(".".join(name.split(".")[-2:]), 1.6)
                value = gain * noise / parameter.shape[-1] ** 0.5
            parameter.copy_(value.to(dtype).float())
    return model.eval()


class RouterWatch:
    """Keeps the smallest distance between the last chosen and the first rejected expert."""

    def __init__(self, model, top_k):
        self.margin = float("inf")
        self.top_k = top_k
        for module in model.modules():
            if type(module).__name__.endswith("TopKRouter"):
                module.register_forward_hook(self.note)

    def note(self, module, inputs, outputs):
        ranked = outputs[0].float().sort(dim=-1, descending=True).values
        self.margin = min(self.margin, (ranked[:, self.top_k - 1] - ranked[:, self.top_k]).min().item())


@torch.no_grad()
def golden_outputs(model, prompt):
    """The tensors of golden.safetensors, and the smallest relative lead of a greedy token."""
    cache = transformers.DynamicCache(config=model.config)
    whole = model(prompt, output_hidden_states=True, cache=cache, use_cache=True)
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
        "hidden_states": torch.stack([state[0] for state in whole.hidden_states]).contiguous(),
    }
    # The same tokens in one piece, without a cache, must choose the same continuation.
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
    config["rope_theta"] = rope["rope_theta"]
    config["rope_scaling"] = None
    config["torch_dtype"] = config.pop("dtype")
    if config["model_type"] != "mixtral":
        config["num_experts"] = config.pop("num_local_experts", config.get("num_experts"))
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def write_fused_copy(source, target):
    """The same weights as [E,2F,H] and [E,H,F] per layer, named as in transformers 5's memory."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for name in ("config.json", "generation_config.json", "golden.safetensors"):
        shutil.copy(source / name, target / name)
    fused, experts = {}, {}
    for name, tensor in load_file(source / "model.safetensors").items():
        name = name.replace(".block_sparse_moe.", ".mlp.")
        if ".experts." not in name:
            fused[name] = tensor
            continue
        prefix, rest = name.split(".experts.")
        number, role, _ = rest.split(".")
        role = {"w1": "gate_proj", "w3": "up_proj", "w2": "down_proj"}.get(role, role)
        experts.setdefault(prefix, {}).setdefault(int(number), {})[role] = tensor
    for prefix, table in experts.items():
        rows = [table[number] for number in range(len(table))]
        fused[f"{prefix}.experts.gate_up_proj"] = torch.stack(
            [torch.cat([row["gate_proj"], row["up_proj"]]) for row in rows]
        )
        fused[f"{prefix}.experts.down_proj"] = torch.stack([row["down_proj"] for row in rows])
    save_file(fused, target / "model.safetensors", metadata={"format": "pt"})
    (target / "model.safetensors").chmod(0o644)


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


def make(name, config, dtype=torch.float32, max_shard_size="1GB", published_config=False, fused_copy=None):
    for seed in range(1, 1000):
        generator = torch.Generator().manual_seed(seed)
        model = random_model(config, dtype, generator)
        prompt = torch.randint(4, config.vocab_size, (1, PROMPT_LENGTH), generator=generator)
        watch = RouterWatch(model, config.num_experts_per_tok)
        tensors, margin = golden_outputs(model, prompt)
        if is_usable(config, tensors, margin, watch.margin):
            break
    else:
        raise SystemExit(f"{name}: no usable seed")
    folder = DATA / name
    shutil.rmtree(folder, ignore_errors=True)
    model.to(dtype).save_pretrained(folder, max_shard_size=max_shard_size)
    if published_config:
        write_published_config(folder)
    # One key only: their order in the file is random, and the files should come out the same.
    versions = f"transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}"
    metadata = {"made_by": f"{versions}, seed {seed}"}
    save_file(tensors, folder / "golden.safetensors", metadata=metadata)
    for file in folder.iterdir():
        file.chmod(0o644)
    folders = [folder]
    if fused_copy:
        write_fused_copy(folder, DATA / fused_copy)
        folders.append(DATA / fused_copy)
    for each in folders:
        check_reload(each, tensors)
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
