// Opens what a conversion reads, as its options ask for it.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CONVERT_OPEN_SOURCE_H_
#define OPST_CONVERT_OPEN_SOURCE_H_

#include <memory>
#include <string>

#include "convert/model_source.h"
#include "opst/convert.h"

namespace opst {

// `path`: a folder, an index file or any one shard of a safetensors checkpoint; a .gguf file, any
// part of one, or a folder with one. Throws kInvalidArgument for options that cannot be, kIo.
std::unique_ptr<const ModelSource> OpenSource(const std::string& path,
                                              const ConvertOptions& options);

}  // namespace opst

#endif  // OPST_CONVERT_OPEN_SOURCE_H_
