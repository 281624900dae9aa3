// Looks tensors up by name and expands quantised ones piece by piece.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "convert/model_source.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "base/check.h"
#include "convert/finite_check.h"
#include "io/quote.h"
#include "io/safetensors_dtype.h"
#include "kernels/rows.h"

namespace opst {
namespace {

// Floats expanded at a time: enough rows that column-wise formats are read in long runs, and little
// enough to stay in the second-level cache.
constexpr int64_t kChunkFloats = int64_t{1} << 17;

}  // namespace

void ModelSource::AddPlain(std::string name, std::string dtype, std::vector<int64_t> shape,
                           ByteReader read) {
  const uint64_t num_bytes = TensorBytes(shape, SafetensorsBits(dtype).value_or(8)).value_or(0);
  entries_.push_back({{std::move(name), std::move(dtype), std::move(shape), 0, num_bytes},
                      std::move(read),
                      nullptr});
  tensors_.push_back({entries_.size() - 1, &entries_.back().tensor});
}

void ModelSource::AddExpanded(std::string name, DType dtype, std::vector<int64_t> shape,
                              RowReader read, bool is_mxfp4) {
  const auto bits = static_cast<uint32_t>(8 * ByteSize(dtype));
  const auto num_bytes = TensorBytes(shape, bits);
  OPST_CHECK_IO(num_bytes.has_value(), folder_, "expanded tensors must stay below 2^60 bytes",
                Quote(name), " ", ShapeText(shape));
  entries_.push_back(
      {{std::move(name), std::string(SafetensorsSpelling(dtype)), std::move(shape), 0, *num_bytes},
       nullptr,
       std::move(read),
       is_mxfp4});
  tensors_.push_back({entries_.size() - 1, &entries_.back().tensor});
}

void ModelSource::IndexNames() {
  by_name_.resize(tensors_.size());
  for (size_t i = 0; i < by_name_.size(); ++i) by_name_[i] = static_cast<uint32_t>(i);
  std::sort(by_name_.begin(), by_name_.end(),
            [&](uint32_t a, uint32_t b) { return tensors_[a].name() < tensors_[b].name(); });
  for (size_t i = 1; i < by_name_.size(); ++i) {
    const std::string& name = tensors_[by_name_[i]].name();
    OPST_CHECK_IO(tensors_[by_name_[i - 1]].name() != name, folder_,
                  "every tensor must have one source", Quote(name), " has two");
  }
}

const SourceTensor* ModelSource::Find(std::string_view name) const {
  const auto found = std::lower_bound(by_name_.begin(), by_name_.end(), name,
                                      [&](uint32_t index, std::string_view wanted) {
                                        return std::string_view(tensors_[index].name()) < wanted;
                                      });
  if (found == by_name_.end() || tensors_[*found].name() != name) return nullptr;
  return &tensors_[*found];
}

const SourceTensor* ModelSource::Declare(const std::string&, const std::vector<int64_t>&) const {
  return nullptr;
}

SourceBytes ModelSource::Read(const SourceTensor& source, uint64_t begin,
                              uint64_t num_bytes) const {
  const Entry& entry = entries_[source.shard];
  OPST_CHECK_ARG(begin <= entry.tensor.num_bytes && num_bytes <= entry.tensor.num_bytes - begin,
                 "model_source", "Read must stay inside the tensor", entry.tensor.Describe(), ", [",
                 begin, ", +", num_bytes, "]");
  const std::optional<DType> stored = DTypeFromSafetensors(entry.tensor.dtype);
  if (entry.bytes) {
    SourceBytes bytes = entry.bytes(begin, num_bytes);
    if (stored && IsModelFloat(*stored)) {
      const auto first = static_cast<int64_t>(begin / ByteSize(*stored));
      CheckFinite(folder_, entry.tensor, *stored, first, bytes.bytes());
    }
    return bytes;
  }
  return ReadExpanded(entry, *stored, begin, num_bytes);
}

SourceBytes ModelSource::ReadExpanded(const Entry& entry, DType dtype, uint64_t begin,
                                      uint64_t num_bytes) const {
  const auto element_bytes = static_cast<int64_t>(ByteSize(dtype));
  const int64_t first = static_cast<int64_t>(begin) / element_bytes;
  const int64_t last = first + static_cast<int64_t>(num_bytes) / element_bytes;
  AlignedBuffer out(static_cast<size_t>(num_bytes), {.is_zeroed = false});
  if (first == last) return SourceBytes::Own(std::move(out));
  const int64_t columns = entry.tensor.shape.back();
  const int64_t end_row = (last + columns - 1) / columns;
  const int64_t step = std::max<int64_t>(1, kChunkFloats / columns);
  std::vector<float> values(static_cast<size_t>(step * columns));
  std::byte* next = out.data();
  for (int64_t row = first / columns; row < end_row; row += step) {
    const int64_t count = std::min(step, end_row - row);
    entry.rows(row, count, values.data());
    const int64_t from = std::max(first, row * columns);
    const int64_t to = std::min(last, (row + count) * columns);
    const std::span<const float> wanted(values.data() + (from - row * columns),
                                        static_cast<size_t>(to - from));
    CheckFinite(folder_, entry.tensor, DType::kF32, from, std::as_bytes(wanted));
    ConvertFromFloat(wanted.data(), wanted.size(), dtype, next);
    CheckFits(folder_, entry.tensor, dtype, from, wanted, next);
    next += (to - from) * element_bytes;
  }
  return SourceBytes::Own(std::move(out));
}

}  // namespace opst
