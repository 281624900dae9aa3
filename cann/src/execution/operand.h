// A tensor as an operator call holds it: its layout, and the memory that it keeps alive.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CANN_EXECUTION_OPERAND_H_
#define OPST_CANN_EXECUTION_OPERAND_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "aclnn/acl_meta.h"
#include "cann/src/runtime/memory.h"

namespace opst::cann {

enum class Role : uint8_t { kInput, kOutput };

struct Operand {
  std::string name;
  Role role = Role::kInput;
  std::vector<int64_t> dims;
  std::vector<int64_t> strides;
  std::vector<int64_t> storage_dims;
  int64_t offset = 0;
  aclDataType dtype = ACL_DT_UNDEFINED;
  aclFormat format = ACL_FORMAT_ND;
  std::byte* data = nullptr;  // of the view's first element
  std::shared_ptr<MemoryBlock> memory;

  size_t rank() const { return dims.size(); }
  int64_t dim(size_t axis) const { return dims[axis]; }
  int64_t num_elements() const;
  size_t num_bytes() const;  // contiguous; int4 elements stand two in a byte
  bool is_contiguous() const;
  bool is_fractal() const { return format == ACL_FORMAT_FRACTAL_NZ; }
  // "expandedX [4,8] f32", for texts.
  std::string Describe() const;
};

// Points the operand at `base`, an address of device memory, after checking that all elements lie
// inside. Throws Failure, naming `function`.
void Attach(void* base, std::string_view function, Operand& operand);

// Copies between the operand's own layout and a contiguous buffer.
void CopyToContiguous(const Operand& operand, std::byte* contiguous);
void CopyFromContiguous(const std::byte* contiguous, const Operand& operand);

}  // namespace opst::cann

#endif  // OPST_CANN_EXECUTION_OPERAND_H_
