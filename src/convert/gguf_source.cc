// Gives GGUF tensors their plain names and undoes what the GGUF writer did to their rows.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "convert/gguf_source.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "convert/gguf_config.h"
#include "convert/gguf_tokenizer.h"
#include "io/safetensors_dtype.h"
#include "kernels/rows.h"
#include "model/family.h"
#include "tensor/dequantize.h"

namespace opst {
namespace {

using Stored = GgufCheckpoint::Tensor;

// Blocks [first, first + count) of a tensor, counted through all of it; a plain element is a block
// of its own.
SourceBytes LendBlocks(const Stored& stored, int64_t first, int64_t count) {
  const GgmlType& type = *stored.tensor->type;
  return SourceBytes::Lend(
      stored.file->file(), stored.tensor->offset + static_cast<uint64_t>(first) * type.block_bytes,
      static_cast<uint64_t>(count) * type.block_bytes, type.dtype ? ByteSize(*type.dtype) : 1);
}

void Expand(const GgmlType& type, const std::byte* blocks, int64_t count, float* out) {
  if (type.dtype) {
    ConvertToFloat(*type.dtype, blocks, static_cast<size_t>(count), out);
  } else {
    Dequantize(*type.quant, blocks, count, out);
  }
}

// Rows [first, first + count) of the tensor as it stands in the file.
void ReadRows(const Stored& stored, int64_t first, int64_t count, float* out) {
  const int64_t blocks = stored.tensor->shape.back() / stored.tensor->type->block_values;
  const SourceBytes lent = LendBlocks(stored, first * blocks, count * blocks);
  Expand(*stored.tensor->type, lent.bytes().data(), count * blocks, out);
}

}  // namespace

GgufSource::GgufSource(const std::string& path, DType expanded)
    : checkpoint_(GgufCheckpoint::Open(path)), expanded_(expanded) {
  folder_ = config_path_ = checkpoint_.path();
  GgufConfig config = ReadGgufConfig(checkpoint_);
  unknown_settings_ = std::move(config.unknown_keys);
  num_heads_ = config.config["num_attention_heads"].get<int64_t>();
  num_kv_heads_ = config.config["num_key_value_heads"].get<int64_t>();
  const auto model_type = config.config["model_type"].get<std::string>();
  config_json_ = config.config.dump(2);
  for (const GgufFile& file : checkpoint_.files()) files_.push_back(file.path());
  text_files_ = GgufTextFiles(checkpoint_.metadata());
  num_stored_tensors_ = static_cast<int64_t>(checkpoint_.tensors().size());
  stored_bytes_ = checkpoint_.total_bytes();
  const std::vector<GgufRule> rules = GgufRules(model_type);
  for (const auto& entry : checkpoint_.tensors()) {
    // No structured binding: clang 14 does not let the lambda see its names.
    const std::string_view name = entry.first;
    const auto& stored = entry.second;
    const GgufMatch match = MatchGgufName(rules, name);
    const bool is_partner = std::any_of(rules.begin(), rules.end(), [&](const GgufRule& rule) {
      const std::vector<GgufRule> other = {{rule.partner, rule.plain}};
      return !rule.partner.empty() && MatchGgufName(other, name).rule != nullptr;
    });
    if (is_partner) continue;  // taken together with its other half, which must be there
    OPST_CHECK_IO(match.rule != nullptr, folder_,
                  Concat("every tensor must have a place in a ", model_type, " model"),
                  stored.tensor->Describe());
    AddTensor(stored, match);
  }
  IndexNames();
}

DType GgufSource::DTypeFor(const Stored& stored) const {
  const GgmlType& type = *stored.tensor->type;
  if (type.quant) return expanded_;
  OPST_CHECK_IO(type.dtype && IsModelFloat(*type.dtype), folder_,
                "weights must be F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K, Q3_K, Q4_K, "
                "Q5_K, Q6_K, IQ4_NL or MXFP4",
                stored.tensor->Describe());
  return *type.dtype;
}

const Stored& GgufSource::Partner(const GgufMatch& match) const {
  const std::string name = TensorName(match.rule->partner, match.layer);
  const Stored* partner = checkpoint_.Find(name);
  OPST_CHECK_IO(partner != nullptr, folder_, Concat("the file must have the tensor ", name),
                "none of that name");
  return *partner;
}

void GgufSource::AddTensor(const Stored& stored, const GgufMatch& match) {
  std::string name = TensorName(match.rule->plain, match.layer, match.expert);
  const std::vector<int64_t>& shape = stored.tensor->shape;
  switch (match.rule->change) {
    case GgufChange::kNone:
      return AddSlice(std::move(name), stored, shape, 0);
    case GgufChange::kMatrixOfRow:
      return AddSlice(std::move(name), stored, {1, shape.back()}, 0);
    case GgufChange::kQueryRows:
      return AddHeads(std::move(name), stored, num_heads_);
    case GgufChange::kKeyRows:
      return AddHeads(std::move(name), stored, num_kv_heads_);
    case GgufChange::kPerExpert:
      return AddExperts(stored, match);
    case GgufChange::kTranspose:
      return AddTranspose(std::move(name), stored, nullptr);
    case GgufChange::kGateOfPairs:
      return AddTranspose(std::move(name), stored, &Partner(match));
    case GgufChange::kBiasOfPairs:
      return AddPairs(std::move(name), stored, Partner(match));
    case GgufChange::kKeyOfKvUp:
      return AddKvUp(std::move(name), stored, Partner(match));
    case GgufChange::kIgnored:
    case GgufChange::kRopeFactors:
      return;
  }
}

void GgufSource::AddSlice(std::string name, const Stored& stored, std::vector<int64_t> shape,
                          int64_t first_row) {
  const DType dtype = DTypeFor(stored);
  if (stored.tensor->type->quant) {
    return AddExpanded(
        std::move(name), dtype, std::move(shape),
        [stored, first_row](int64_t first, int64_t count, float* out) {
          ReadRows(stored, first_row + first, count, out);
        },
        *stored.tensor->type->quant == QuantType::kMxfp4);
  }
  const uint64_t offset =
      stored.tensor->offset +
      static_cast<uint64_t>(first_row * stored.tensor->shape.back()) * ByteSize(dtype);
  AddPlain(std::move(name), std::string(SafetensorsSpelling(dtype)), std::move(shape),
           [stored, offset, dtype](uint64_t begin, uint64_t count) {
             return SourceBytes::Lend(stored.file->file(), offset + begin, count, ByteSize(dtype));
           });
}

void GgufSource::AddExperts(const Stored& stored, const GgufMatch& match) {
  const std::vector<int64_t>& shape = stored.tensor->shape;
  OPST_CHECK_IO(shape.size() == 3, folder_, "joined experts must have three dimensions",
                stored.tensor->Describe());
  for (int64_t expert = 0; expert < shape[0]; ++expert) {
    AddSlice(TensorName(match.rule->plain, match.layer, expert), stored, {shape[1], shape[2]},
             expert * shape[1]);
  }
}

void GgufSource::AddRows(std::string name, const Stored& stored, std::vector<int64_t> shape,
                         std::function<int64_t(int64_t)> order) {
  const int64_t columns = stored.tensor->shape.back();
  AddExpanded(
      std::move(name), DTypeFor(stored), std::move(shape),
      [stored, columns, order = std::move(order)](int64_t first, int64_t count, float* out) {
        for (int64_t i = 0; i < count; ++i) {
          ReadRows(stored, order(first + i), 1, out + i * columns);
        }
      });
}

// The writer turned pairs (j, j + d/2) of each head into neighbours (2j, 2j + 1).
void GgufSource::AddHeads(std::string name, const Stored& stored, int64_t num_heads) {
  const std::vector<int64_t>& shape = stored.tensor->shape;
  const int64_t rows = shape.front();
  OPST_CHECK_IO(shape.size() <= 2 && rows % (2 * num_heads) == 0, folder_,
                Concat("rows must be ", num_heads, " heads of even length"),
                stored.tensor->Describe());
  const int64_t head = rows / num_heads;
  const auto order = [head](int64_t row) {
    const int64_t within = row % head;
    return row - within + within % (head / 2) * 2 + within / (head / 2);
  };
  if (shape.size() == 2) return AddRows(std::move(name), stored, shape, order);
  AddExpanded(std::move(name), DTypeFor(stored), shape,
              [stored, rows, order](int64_t, int64_t, float* out) {
                std::vector<float> values(static_cast<size_t>(rows));
                ReadRows(stored, 0, 1, values.data());
                for (int64_t i = 0; i < rows; ++i) out[i] = values[static_cast<size_t>(order(i))];
              });
}

// [E, N, K] as [E, K, N]; with a second tensor as [E, K, 2N], columns taken from both in turn.
void GgufSource::AddTranspose(std::string name, const Stored& stored, const Stored* odd_columns) {
  const std::vector<int64_t>& shape = stored.tensor->shape;
  OPST_CHECK_IO(
      shape.size() == 3 && (odd_columns == nullptr || odd_columns->tensor->shape == shape), folder_,
      "joined experts must have three dimensions, gate and up the same", stored.tensor->Describe());
  std::vector<Stored> sources = {stored};
  if (odd_columns != nullptr) sources.push_back(*odd_columns);
  const int64_t out = shape[1], in = shape[2];
  const auto stride = static_cast<int64_t>(sources.size());
  const auto read = [sources, out, in, stride](int64_t first, int64_t count, float* values) {
    std::vector<float> part;
    for (int64_t expert = first / in; expert <= (first + count - 1) / in; ++expert) {
      const int64_t begin = std::max(first - expert * in, int64_t{0});
      const int64_t end = std::min(first + count - expert * in, in);
      for (int64_t turn = 0; turn < stride; ++turn) {
        const Stored& source = sources[static_cast<size_t>(turn)];
        const GgmlType& type = *source.tensor->type;
        const int64_t row_blocks = in / type.block_values;
        const SourceBytes matrix = LendBlocks(source, expert * out * row_blocks, out * row_blocks);
        // Only the blocks that hold inputs [begin, end).
        const int64_t block = begin / type.block_values;
        const int64_t num_blocks = (end + type.block_values - 1) / type.block_values - block;
        part.resize(static_cast<size_t>(num_blocks * type.block_values));
        for (int64_t n = 0; n < out; ++n) {
          const auto at = static_cast<size_t>(n * row_blocks + block) * type.block_bytes;
          Expand(type, matrix.bytes().data() + at, num_blocks, part.data());
          for (int64_t k = begin; k < end; ++k) {
            values[((expert * in + k - first) * out + n) * stride + turn] =
                part[static_cast<size_t>(k - block * type.block_values)];
          }
        }
      }
    }
  };
  AddExpanded(std::move(name), DTypeFor(stored), {shape[0], in, out * stride}, read);
}

void GgufSource::AddPairs(std::string name, const Stored& even, const Stored& odd) {
  const std::vector<int64_t>& shape = even.tensor->shape;
  OPST_CHECK_IO(shape.size() == 2 && odd.tensor->shape == shape, folder_,
                "joined biases must have two dimensions, gate and up the same",
                even.tensor->Describe(), " and ", odd.tensor->Describe());
  const int64_t columns = shape[1];
  AddExpanded(std::move(name), DTypeFor(even), {shape[0], 2 * columns},
              [even, odd, columns](int64_t first, int64_t count, float* out) {
                std::vector<float> row(static_cast<size_t>(columns));
                for (int64_t i = 0; i < 2 * count; ++i) {
                  ReadRows(i % 2 == 0 ? even : odd, first + i / 2, 1, row.data());
                  for (int64_t c = 0; c < columns; ++c) {
                    out[i / 2 * 2 * columns + 2 * c + i % 2] = row[static_cast<size_t>(c)];
                  }
                }
              });
}

// keys [heads, rank, k] and values [heads, v, rank] as [heads · (k + v), rank].
void GgufSource::AddKvUp(std::string name, const Stored& keys, const Stored& values) {
  const std::vector<int64_t>& k = keys.tensor->shape;
  const std::vector<int64_t>& v = values.tensor->shape;
  OPST_CHECK_IO(k.size() == 3 && v.size() == 3 && k[0] == v[0] && k[1] == v[2], folder_,
                "latent keys must be [heads,rank,k] and values [heads,v,rank]",
                keys.tensor->Describe(), " and ", values.tensor->Describe());
  const int64_t rank = k[1], key_rows = k[2], value_rows = v[1];
  const auto read = [=](int64_t first, int64_t count, float* out) {
    std::vector<float> head_keys(static_cast<size_t>(rank * key_rows));
    int64_t head_read = -1;
    for (int64_t row = first; row < first + count; ++row, out += rank) {
      const int64_t head = row / (key_rows + value_rows);
      const int64_t within = row % (key_rows + value_rows);
      if (within >= key_rows) {
        ReadRows(values, head * value_rows + within - key_rows, 1, out);
        continue;
      }
      if (head != head_read) ReadRows(keys, head * rank, rank, head_keys.data());
      head_read = head;
      for (int64_t r = 0; r < rank; ++r) {
        out[r] = head_keys[static_cast<size_t>(r * key_rows + within)];
      }
    }
  };
  AddExpanded(std::move(name), DTypeFor(keys), {k[0] * (key_rows + value_rows), rank}, read);
}

}  // namespace opst
