"""Trains models/austen-moe, the small Qwen3-MoE language model the demo runs; not a general trainer.

SPDX-FileCopyrightText: ops-transformer authors
SPDX-License-Identifier: Apache-2.0

    python examples/train_bundled_model.py --out models/austen-moe

Needs torch, transformers >= 5, tokenizers, and Debian's apt-get for the text (bundled_corpus.py).
The Hugging Face module only holds the parameters; bundled_forward.py is the training forward.
"""

import argparse
import json
import math
import os
import shutil
import time
from pathlib import Path

import bundled_corpus
import torch
import torch.nn.functional as F
import transformers
from bundled_forward import losses, rope_tables
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    PreTrainedTokenizerFast,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
)

WINDOW = 256  # tokens per window of the held-out measure
SAMPLE_CHARACTERS = 26_000  # per source in heldout.txt


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="models/austen-moe", help="folder for the finished model")
    parser.add_argument("--work", default=".deps/austen-moe", help="folder for text, ids and checkpoints")
    parser.add_argument("--steps", type=int, default=4500, help="optimizer steps")
    parser.add_argument(
        "--minutes",
        type=float,
        default=math.inf,
        help="wall time; the schedule is shortened to end by then",
    )
    parser.add_argument("--batch", type=int, default=4, help="sequences per step")
    parser.add_argument("--context", type=int, default=512, help="tokens per training sequence")
    parser.add_argument("--lr", type=float, default=1.5e-3, help="peak learning rate")
    parser.add_argument("--weight-decay", type=float, default=0.1)
    parser.add_argument("--dropout", type=float, default=0.0, help="on each branch before its residual sum")
    parser.add_argument("--aux", type=float, default=0.01, help="weight of the load-balancing loss")
    parser.add_argument("--vocab", type=int, default=4096)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--save-every", type=int, default=250, help="steps between checkpoints")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint in --work")
    parser.add_argument("--export-only", action="store_true", help="write --out from the checkpoint and stop")
    return parser.parse_args()


# Tokenizer and data ---------------------------------------------------------------------------------


def make_tokenizer(documents, vocab, context):
    """A byte-level BPE tokenizer (GPT-2's splitting rule) trained on `documents`; id 0 is <|endoftext|>."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab,
        special_tokens=[bundled_corpus.END_OF_TEXT],
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(documents, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=bundled_corpus.END_OF_TEXT,
        model_max_length=context,
        clean_up_tokenization_spaces=False,
    )


def tokenizer_folder(args):
    return Path(args.work) / ("tokenizer-%d" % args.vocab)


def prepare(args):
    """(training ids [N], held-out ids {source: [n]}, held-out text {source: str})."""
    corpus = bundled_corpus.load(Path(args.work) / "corpus")
    documents = [document for train, _ in corpus.values() for document in train]
    folder = tokenizer_folder(args)
    if not folder.exists():
        make_tokenizer(documents, args.vocab, args.context).save_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = []
    for document in documents:
        ids += [tokenizer.eos_token_id] + tokenizer.encode(document)
    held_out = {source: text for source, (_, text) in corpus.items()}
    held_out_ids = {source: torch.tensor(tokenizer.encode(text)) for source, text in held_out.items()}
    return torch.tensor(ids), held_out_ids, held_out


def make_config(args):
    return Qwen3MoeConfig(
        vocab_size=args.vocab,
        hidden_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        num_experts=8,
        num_experts_per_tok=2,
        moe_intermediate_size=96,
        norm_topk_prob=True,
        intermediate_size=192,  # of dense layers, of which there are none; the field is required
        max_position_embeddings=args.context,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        tie_word_embeddings=True,
        router_aux_loss_coef=args.aux,
        bos_token_id=None,
        eos_token_id=0,
        pad_token_id=None,
    )


# Training -------------------------------------------------------------------------------------------


def optimizer_for(model, args):
    """AdamW; weight decay on matrices only."""
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    groups = [
        {"params": matrices, "weight_decay": args.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=args.lr, betas=(0.9, 0.95), fused=True)


def rate_factor(progress, step):
    """Warm-up over 100 steps, constant, then linear to zero over the last 40 % of the run."""
    return min(1.0, (step + 1) / 100, max(0.0, 1 - progress) / 0.4)


def held_out_loss(model, held_out_ids, tables, length):
    """{source: mean NLL over the first 32 windows}, by the training forward; for the log only."""
    result = {}
    with torch.no_grad():
        for source, ids in held_out_ids.items():
            count = min(32, (len(ids) - 1) // length)
            windows = torch.stack([ids[i * length : (i + 1) * length + 1] for i in range(count)])
            result[source] = round(losses(model, windows, tables, 0.0)[0].item(), 4)
    return result


def save_checkpoint(path, model, optimizer, state):
    """Written beside `path` and then renamed, so that a stop never leaves half a file."""
    part = path.with_suffix(".part")
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), **state}, part)
    part.replace(path)


def train(args, model, ids, held_out_ids):
    """Runs the schedule to its end; ids [N] is one stream, cut at random places."""
    work, tables = Path(args.work), rope_tables(model.config, args.context)
    checkpoint, optimizer = work / "checkpoint.pt", optimizer_for(model, args)
    step, elapsed = 0, 0.0
    if args.resume and checkpoint.exists():
        saved = torch.load(checkpoint)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        step, elapsed = saved["step"], saved["seconds"]
    generator = torch.Generator().manual_seed(args.seed + step)
    start = time.monotonic() - elapsed
    while True:
        elapsed = time.monotonic() - start
        progress = max(step / args.steps, elapsed / 60 / args.minutes)
        if step % args.save_every == 0 or progress >= 1:
            save_checkpoint(checkpoint, model, optimizer, {"step": step, "seconds": elapsed})
            print("held out", held_out_loss(model, held_out_ids, tables, args.context), flush=True)
        if progress >= 1:
            return
        for group in optimizer.param_groups:
            group["lr"] = args.lr * rate_factor(progress, step)
        # Short sequences first: the same tokens per step, but cheaper attention.
        length, count = (args.context, args.batch) if progress > 0.7 else (args.context // 2, args.batch * 2)
        starts = torch.randint(len(ids) - length, (count,), generator=generator)
        batch = ids[starts[:, None] + torch.arange(length + 1)]
        loss, balance = losses(model, batch, tables, args.dropout)
        (loss + args.aux * balance).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        step += 1
        if step % 25 == 0:
            seconds = time.monotonic() - start
            print(
                "step %d  loss %.4f  balance %.3f  progress %.3f  %.0f s  %.0f tokens/s"
                % (
                    step,
                    loss.item(),
                    balance.item(),
                    progress,
                    seconds,
                    args.batch * args.context / (seconds - elapsed),
                ),
                flush=True,
            )


# Export ---------------------------------------------------------------------------------------------


def perplexity(model, tokenizer, text):
    """Held-out measure: `text` tokenised as a whole, whole windows of WINDOW tokens, each on its own.

    Every window predicts its tokens 2 … WINDOW; perplexity = exp(mean NLL over all of them), in f32.
    """
    ids = torch.tensor(tokenizer.encode(text))
    windows = ids[: len(ids) // WINDOW * WINDOW].view(-1, WINDOW)
    total = 0.0
    with torch.no_grad():
        for window in windows.split(16):
            logits = model(window).logits.double()
            total += F.cross_entropy(logits[:, :-1].flatten(0, 1), window[:, 1:].flatten(), reduction="sum").item()
    predicted = windows.shape[0] * (WINDOW - 1)
    return {
        "window": WINDOW,
        "num_windows": windows.shape[0],
        "num_predicted": predicted,
        "nll": total / predicted,
        "perplexity": math.exp(total / predicted),
    }


def sample_text(held_out):
    """The start of each source's held-out text, cut at a line's end."""
    return "\n\n".join(text[: text.rindex("\n", 0, SAMPLE_CHARACTERS)] for text in held_out.values()) + "\n"


def export(args, model, held_out):
    """Writes the Hugging Face folder in bf16, reads it back, and measures what was read."""
    out = Path(args.out)
    model.to(torch.bfloat16)
    model.generation_config = GenerationConfig(
        do_sample=True, temperature=0.7, top_k=40, max_new_tokens=160, eos_token_id=0
    )
    model.save_pretrained(out)
    for file in tokenizer_folder(args).iterdir():
        shutil.copy(file, out)
    (out / "heldout.txt").write_text(sample_text(held_out), encoding="utf-8")
    model = AutoModelForCausalLM.from_pretrained(out, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(out)
    sample = (out / "heldout.txt").read_text(encoding="utf-8")
    measured = perplexity(model, tokenizer, sample)
    whole = {source: round(perplexity(model, tokenizer, text)["perplexity"], 4) for source, text in held_out.items()}
    report = {"file": "heldout.txt", **measured, "transformers_version": transformers.__version__}
    (out / "heldout.json").write_text(json.dumps(report, indent=2) + "\n")
    print(report, "perplexity of the whole held-out text:", whole, flush=True)


def main():
    args = parse_arguments()
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    ids, held_out_ids, held_out = prepare(args)
    print("%d training tokens, held out %s" % (len(ids), {s: len(i) for s, i in held_out_ids.items()}))
    model = Qwen3MoeForCausalLM(make_config(args))
    if args.export_only:
        model.load_state_dict(torch.load(Path(args.work) / "checkpoint.pt")["model"])
    else:
        train(args, model, ids, held_out_ids)
    export(args, model, held_out)


if __name__ == "__main__":
    main()
