// Packs one source matrix slice by slice, so that memory does not grow with the matrix.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CONVERT_MATRIX_PACKER_H_
#define OPST_CONVERT_MATRIX_PACKER_H_

#include <cstddef>
#include <functional>
#include <span>

#include "convert/source_map.h"
#include "opst/context.h"

namespace opst {

using ByteSink = std::function<void(std::span<const std::byte>)>;

// Sums over weights w and what they were rounded to.
struct RoundingSums {
  double squares = 0;        // Σ w²
  double error_squares = 0;  // Σ (packed - w)²
  void Add(const RoundingSums& other) {
    squares += other.squares;
    error_squares += other.error_squares;
  }
};

// Sends the panels of `source` to `sink` in order; slices are packed by all workers. Returns what
// integers lost, zeros for floats; the same for any number of workers.
RoundingSums PackSource(const Context& context, const ModelSource& checkpoint,
                        const PanelLayout& layout, const SourceMatrix& source,
                        const ByteSink& sink);

// Sends the rows of `source` as they are.
void CopySource(const ModelSource& checkpoint, const SourceMatrix& source, const ByteSink& sink);

}  // namespace opst

#endif  // OPST_CONVERT_MATRIX_PACKER_H_
