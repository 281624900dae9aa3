// Reads NumPy's .npy files: one array each. Writes none, and reads no pickled objects.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_IO_NPY_H_
#define OPST_IO_NPY_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/mapped_file.h"
#include "opst/dtype.h"

namespace opst {

// Untrusted input: after Open the array lies inside the file. Format:
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html, versions 1 to 3.
class NpyFile {
 public:
  // Throws kIo naming the file and the value: no .npy, another element type than those of DType,
  // big-endian or column-major data, a size that the file does not have.
  static NpyFile Open(const std::string& path);

  DType dtype() const { return dtype_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  std::span<const std::byte> bytes() const { return file_.bytes().subspan(data_offset_); }

 private:
  MappedFile file_;
  DType dtype_ = DType::kF32;
  std::vector<int64_t> shape_;
  size_t data_offset_ = 0;
};

}  // namespace opst

#endif  // OPST_IO_NPY_H_
