// Reading whole tensors of a model source as floats, for tests.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CONVERT_TESTING_SOURCES_H_
#define OPST_CONVERT_TESTING_SOURCES_H_

#include <stdexcept>
#include <string_view>
#include <vector>

#include "convert/model_source.h"
#include "io/safetensors_dtype.h"
#include "kernels/rows.h"

namespace opst::testing {

inline std::vector<float> FloatsOf(std::string_view dtype, std::span<const std::byte> bytes) {
  const DType type = DTypeFromSafetensors(dtype).value();
  std::vector<float> values(bytes.size() / ByteSize(type));
  ConvertToFloat(type, bytes.data(), values.size(), values.data());
  return values;
}

inline const SourceTensor& TensorNamed(const ModelSource& source, std::string_view name) {
  const SourceTensor* tensor = source.Find(name);
  if (tensor == nullptr) throw std::out_of_range(std::string(name));
  return *tensor;
}

inline std::vector<float> ReadFloats(const ModelSource& source, std::string_view name) {
  const SourceTensor& tensor = TensorNamed(source, name);
  return FloatsOf(tensor.tensor->dtype, source.Read(tensor).bytes());
}

}  // namespace opst::testing

#endif  // OPST_CONVERT_TESTING_SOURCES_H_
