// The source tensors that a packed file was made of, by what its metadata says of their names.
// Writing them is hf_export.cc's; reading real ones the other sources'.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CONVERT_HF_EXPORT_H_
#define OPST_CONVERT_HF_EXPORT_H_

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "convert/model_source.h"
#include "model/packed_model.h"

namespace opst {

// A source without data: it knows the first and the last source name of every packed tensor, which
// tells the layout, and gives every tensor that a SourceMap asks for the shape it asks for.
class RecordedSource final : public ModelSource {
 public:
  explicit RecordedSource(const PackedModel& model);

  const SourceTensor* Declare(const std::string& name,
                              const std::vector<int64_t>& shape) const override;
  // In the order they were asked for. The dtypes are not known here.
  const std::deque<SourceTensor>& declared() const { return declared_; }

 private:
  mutable std::deque<SafetensorsTensor> shapes_;
  mutable std::deque<SourceTensor> declared_;
  mutable std::map<std::string, const SourceTensor*> by_name_;
};

}  // namespace opst

#endif  // OPST_CONVERT_HF_EXPORT_H_
