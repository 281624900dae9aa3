"""The training forward of a Hugging Face Qwen3-MoE module, written for CPUs; inference does not use it.

SPDX-FileCopyrightText: ops-transformer authors
SPDX-License-Identifier: Apache-2.0

Reads the module's parameters and computes what its own forward computes, with bf16 products accumulated in
f32, tokens sorted by expert and one matrix product per expert, and the output layer fused with its loss.
Shapes: B sequences of S tokens, T = B·S tokens, H hidden, E experts, k experts per token, R rows = T·k token–
expert pairs and padding, V vocabulary.
"""

import torch
import torch.nn.functional as F

HEAD_BLOCK = 256  # tokens per block of the output layer
ROW_BLOCK = 64  # expert groups are padded to a multiple of this many rows; 256 costs a fifth of the speed


class GatherRows(torch.autograd.Function):
    """out[i] = x[index[i]]; d_x[t] = sum over j of d_out[back[t, j]]: a gather, faster on CPUs than a scatter.

    An index one past the last row reads zeros, in both directions.
    """

    @staticmethod
    def forward(ctx, x, index, back):
        ctx.save_for_backward(back)
        return F.pad(x, (0, 0, 0, 1)).index_select(0, index)

    @staticmethod
    def backward(ctx, d_out):
        (back,) = ctx.saved_tensors
        gathered = F.pad(d_out, (0, 0, 0, 1)).index_select(0, back.flatten())
        return gathered.view(*back.shape, -1).sum(dim=1), None, None


def linear(x, weight):
    """x [T, in] · weight [out, in]ᵀ in bf16 with f32 accumulation."""
    return F.linear(x, weight.to(torch.bfloat16))


def norm(x, module):
    """RMS norm over the last dimension, bf16 out."""
    weight = module.weight.to(x.dtype)  # one dtype for all operands, else PyTorch leaves its fused kernel
    return F.rms_norm(x, weight.shape, weight, module.variance_epsilon).to(torch.bfloat16)


def rope_tables(config, length):
    """cos and sin [S, head_dim], the two halves alike, as Qwen3 rotates."""
    half = torch.arange(0, config.head_dim, 2) / config.head_dim
    angles = torch.arange(length)[:, None] * config.rope_parameters["rope_theta"] ** -half
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos().to(torch.bfloat16), angles.sin().to(torch.bfloat16)


def rotate(x, cos, sin):
    """x [B, heads, S, head_dim], rotated by position."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


def attention(module, x, batch, tables):
    """x [T, H] → [T, H]; causal inside each of the `batch` sequences.

    Plain products instead of scaled_dot_product_attention: 540 instead of 690 ms a step at S = 256.
    The query heads that share a key head stand in one matrix, [B·kv, heads/kv·S, head_dim].
    """
    length = x.shape[0] // batch
    shape = (batch, length, -1, module.head_dim)
    query = norm(linear(x, module.q_proj.weight).view(shape), module.q_norm).transpose(1, 2)
    key = norm(linear(x, module.k_proj.weight).view(shape), module.k_norm).transpose(1, 2)
    value = linear(x, module.v_proj.weight).view(shape).transpose(1, 2)
    query, key = rotate(query, *tables) * module.scaling, rotate(key, *tables)
    groups = batch * key.shape[1]
    query, key, value = (a.reshape(groups, -1, module.head_dim) for a in (query, key, value))
    future = torch.full((length, length), -1e9, dtype=torch.bfloat16).triu(1)
    scores = torch.bmm(query, key.transpose(1, 2)).view(groups, -1, length, length) + future
    shares = torch.softmax(scores, dim=-1).view(groups, -1, length)
    mixed = torch.bmm(shares, value).view(batch, -1, length, module.head_dim)
    return linear(mixed.transpose(1, 2).reshape(x.shape[0], -1), module.o_proj.weight)


def plan_rows(ids, num_experts):
    """ids [T, k] → (padded rows per expert, row_to_slot [R], slot_to_row [T, k]); R counts padding too.

    Rows are sorted by expert, each expert's group padded to whole ROW_BLOCKs: oneDNN builds a kernel for
    every new number of rows, so few distinct numbers are faster than few rows. Padding has slot T·k.
    """
    flat = ids.flatten()
    counts = flat.bincount(minlength=num_experts)
    padded = (counts + ROW_BLOCK - 1) // ROW_BLOCK * ROW_BLOCK
    order = flat.argsort(stable=True)
    shift = (padded.cumsum(0) - padded) - (counts.cumsum(0) - counts)  # [E]
    row_of_sorted = torch.arange(flat.numel()) + shift[flat[order]]
    row_to_slot = torch.full((int(padded.sum()),), flat.numel()).scatter_(0, row_of_sorted, order)
    slot_to_row = torch.empty_like(flat).scatter_(0, order, row_of_sorted)
    return counts, padded.tolist(), row_to_slot, slot_to_row.view(ids.shape)


def moe(module, x, config):
    """x [T, H] → (output [T, H], load-balancing loss): softmax over E, top k, renormalised (Qwen3)."""
    num_experts, top_k = config.num_experts, config.num_experts_per_tok
    scores = torch.softmax(F.linear(x.float(), module.gate.weight), dim=-1)  # [T, E]
    weights, ids = scores.topk(top_k, dim=-1)  # [T, k]
    weights = weights / weights.sum(dim=-1, keepdim=True)
    counts, padded, row_to_slot, slot_to_row = plan_rows(ids, num_experts)
    rows = GatherRows.apply(x, row_to_slot // top_k, slot_to_row)  # padding is zeros: no share in any gradient
    gate_up = module.experts.gate_up_proj.to(torch.bfloat16).unbind()
    down = module.experts.down_proj.to(torch.bfloat16).unbind()
    outputs = []
    for expert, chunk in enumerate(rows.split(padded)):
        gate, up = F.linear(chunk, gate_up[expert]).chunk(2, dim=-1)
        outputs.append(F.linear(F.silu(gate) * up, down[expert]))
    slots = GatherRows.apply(torch.cat(outputs), slot_to_row.flatten(), row_to_slot[:, None])
    slots = slots.view(-1, top_k, x.shape[1])
    balance = num_experts * (counts / x.shape[0] * scores.mean(dim=0)).sum()
    return (slots * weights.to(slots.dtype)[..., None]).sum(dim=1), balance


class HeadLoss(torch.autograd.Function):
    """Mean NLL of targets [T] under x [T, H] · weight [V, H]ᵀ, with its gradients computed on the way.

    In blocks of tokens whose f32 logits stay in the cache; [T, V] never exists.
    """

    @staticmethod
    def forward(ctx, x, weight, targets):
        total, d_x = 0.0, torch.empty_like(x)
        d_weight = torch.zeros(weight.shape)
        for start in range(0, x.shape[0], HEAD_BLOCK):
            rows = slice(start, start + HEAD_BLOCK)
            logits = F.linear(x[rows], weight).float()
            target = targets[rows, None]
            log_sum = logits.logsumexp(dim=-1, keepdim=True)
            total += (log_sum - logits.gather(1, target)).sum()
            d_logits = logits.sub_(log_sum).exp_()
            d_logits.scatter_add_(1, target, torch.full(target.shape, -1.0))
            d_logits = d_logits.div_(x.shape[0]).to(x.dtype)
            d_x[rows] = d_logits @ weight
            d_weight += d_logits.T @ x[rows]
        ctx.save_for_backward(d_x, d_weight)
        return total / x.shape[0]

    @staticmethod
    def backward(ctx, d_loss):
        d_x, d_weight = ctx.saved_tensors
        return d_x * d_loss, d_weight * d_loss, None


def losses(model, ids, tables, dropout):
    """ids [B, S + 1] → (mean next-token NLL, mean load-balancing loss over layers; 2 = k when balanced)."""
    decoder, config = model.model, model.config
    batch, balance = ids.shape[0], 0.0
    tables = [table[: ids.shape[1] - 1] for table in tables]
    x = F.embedding(ids[:, :-1], decoder.embed_tokens.weight).flatten(0, 1)  # [T, H], kept in f32
    for layer in decoder.layers:
        branch = attention(layer.self_attn, norm(x, layer.input_layernorm), batch, tables)
        x = x + F.dropout(branch, dropout, training=dropout > 0)
        branch, layer_balance = moe(layer.mlp, norm(x, layer.post_attention_layernorm), config)
        x = x + F.dropout(branch, dropout, training=dropout > 0)
        balance = balance + layer_balance / config.num_hidden_layers
    head = decoder.embed_tokens.weight.to(torch.bfloat16)  # tied
    return HeadLoss.apply(norm(x, decoder.norm), head, ids[:, 1:].flatten()), balance
