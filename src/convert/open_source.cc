// Chooses the kind of source by the path.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "convert/open_source.h"

#include <utility>

#include "base/check.h"
#include "convert/gguf_source.h"
#include "convert/moe_of_dense.h"
#include "convert/safetensors_source.h"
#include "io/gguf_checkpoint.h"

namespace opst {

std::unique_ptr<const ModelSource> OpenSource(const std::string& path,
                                              const ConvertOptions& options) {
  OPST_CHECK_ARG(IsModelFloat(options.expanded), "convert",
                 "quantised weights expand to f32, bf16 or f16", Name(options.expanded));
  std::unique_ptr<const ModelSource> source;
  if (GgufCheckpoint::IsGguf(path)) {
    source = std::make_unique<GgufSource>(path, options.expanded);
  } else {
    source = std::make_unique<SafetensorsSource>(path, options.expanded);
  }
  if (options.moe_of_dense.kind == MoeOfDenseOptions::Kind::kNone) return source;
  return std::make_unique<MoeOfDense>(std::move(source), options.moe_of_dense);
}

}  // namespace opst
