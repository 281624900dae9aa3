// Rows of matrices that safetensors checkpoints store quantised, expanded to f32.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "convert/quantised_rows.h"

#include <vector>

#include "base/check.h"
#include "io/safetensors_dtype.h"
#include "kernels/rows.h"
#include "tensor/dequantize.h"

namespace opst {
namespace {

std::vector<float> Floats(const ShardedCheckpoint& checkpoint, const SourceTensor& tensor) {
  const DType dtype = *DTypeFromSafetensors(tensor.tensor->dtype);
  const SourceBytes bytes = checkpoint.Read(tensor);
  std::vector<float> values(bytes.bytes().size() / ByteSize(dtype));
  ConvertToFloat(dtype, bytes.bytes().data(), values.size(), values.data());
  return values;
}

const uint32_t* Words(const SourceBytes& bytes) {
  return reinterpret_cast<const uint32_t*>(bytes.bytes().data());
}
const uint8_t* Bytes(const SourceBytes& bytes) {
  return reinterpret_cast<const uint8_t*>(bytes.bytes().data());
}

int Nibble(uint32_t word, int64_t index) { return static_cast<int>(word >> (4 * index) & 15); }

// Where AWQ keeps column j of eight.
constexpr int64_t kAwqNibble[8] = {0, 4, 1, 5, 2, 6, 3, 7};

}  // namespace

void Fp8Matrix::Rows(int64_t first, int64_t count, float* out) const {
  const std::vector<float> scale = Floats(*checkpoint, *scales);
  const SourceBytes bytes = checkpoint->Read(*weights, static_cast<uint64_t>(first * columns),
                                             static_cast<uint64_t>(count * columns));
  const uint8_t* next = Bytes(bytes);
  const int64_t scale_rows = (rows + block_rows - 1) / block_rows;
  const int64_t scale_columns = (columns + block_columns - 1) / block_columns;
  for (int64_t row = first; row < first + count; ++row) {
    const int64_t scale_row = row / rows * scale_rows + row % rows / block_rows;
    for (int64_t k = 0; k < columns; ++k) {
      const int64_t at = scale_row * scale_columns + k / block_columns;
      *out++ = Fp8E4m3ToFloat(*next++) * scale[static_cast<size_t>(at)];
    }
  }
}

void Mxfp4Matrix::Rows(int64_t first, int64_t count, float* out_rows) const {
  const int64_t in = 32 * groups;
  const int64_t first_expert = first / in;
  const int64_t num_experts = (first + count - 1) / in - first_expert + 1;
  const auto matrix_groups = static_cast<uint64_t>(out * groups);
  const auto lend = [&](const SourceTensor& tensor, uint64_t group_bytes) {
    return checkpoint->Read(tensor,
                            static_cast<uint64_t>(first_expert) * matrix_groups * group_bytes,
                            static_cast<uint64_t>(num_experts) * matrix_groups * group_bytes);
  };
  const SourceBytes block_bytes = lend(*blocks, 16);
  const SourceBytes scale_bytes = lend(*scales, 1);
  for (int64_t n = 0; n < out; ++n) {
    for (int64_t row = first; row < first + count; ++row) {
      const int64_t k = row % in;
      const int64_t group = ((row / in - first_expert) * out + n) * groups + k / 32;
      const uint8_t pair = Bytes(block_bytes)[group * 16 + k % 32 / 2];
      const float value = kFp4Values[k % 2 == 0 ? pair & 15 : pair >> 4];
      out_rows[(row - first) * out + n] = value * E8m0ToFloat(Bytes(scale_bytes)[group]);
    }
  }
}

void GptqMatrix::Rows(int64_t first, int64_t count, float* out_rows) const {
  const SourceBytes weight_bytes = checkpoint->Read(*weights);
  const SourceBytes zero_bytes = checkpoint->Read(*zeros);
  const SourceBytes group_bytes = groups == nullptr ? SourceBytes() : checkpoint->Read(*groups);
  const std::vector<float> scale = Floats(*checkpoint, *scales);
  for (int64_t k = 0; k < in; ++k) {
    const int64_t group =
        groups == nullptr ? k / group_size : static_cast<int32_t>(Words(group_bytes)[k]);
    OPST_CHECK_IO(group >= 0 && group < num_groups, checkpoint->folder(),
                  Concat("groups must be 0 to ", num_groups - 1), groups->name(), "[", k,
                  "] = ", group);
    for (int64_t n = first; n < first + count; ++n) {
      const int q = Nibble(Words(weight_bytes)[k / 8 * out + n], k % 8);
      const int zero = Nibble(Words(zero_bytes)[group * (out / 8) + n / 8], n % 8);
      const auto steps = static_cast<float>(q - zero - static_cast<int>(zero_offset));
      out_rows[(n - first) * in + k] = scale[static_cast<size_t>(group * out + n)] * steps;
    }
  }
}

void AwqMatrix::Rows(int64_t first, int64_t count, float* out_rows) const {
  const SourceBytes weight_bytes = checkpoint->Read(*weights);
  const SourceBytes zero_bytes = checkpoint->Read(*zeros);
  const std::vector<float> scale = Floats(*checkpoint, *scales);
  for (int64_t k = 0; k < in; ++k) {
    const int64_t group = k / group_size;
    for (int64_t n = first; n < first + count; ++n) {
      const int64_t nibble = kAwqNibble[n % 8];
      const int q = Nibble(Words(weight_bytes)[k * (out / 8) + n / 8], nibble);
      const int zero = Nibble(Words(zero_bytes)[group * (out / 8) + n / 8], nibble);
      out_rows[(n - first) * in + k] =
          scale[static_cast<size_t>(group * out + n)] * static_cast<float>(q - zero);
    }
  }
}

}  // namespace opst
