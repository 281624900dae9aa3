// The bundled model, converted once for all tests of the executable.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_RUNTIME_TESTING_BUNDLED_MODEL_H_
#define OPST_RUNTIME_TESTING_BUNDLED_MODEL_H_

#include <filesystem>
#include <string>

#include "base/testing/temp_folder.h"
#include "opst/convert.h"
#include "opst/engine.h"

namespace opst::testing {

inline const std::filesystem::path kBundledSource =
    std::filesystem::path(OPST_SOURCE_DIR) / "models/austen-moe";

// `source` converted into `folder`.
inline Engine ConvertAndLoad(const Context& context, const std::filesystem::path& source,
                             const TempFolder& folder) {
  const std::string path = folder.File("model.opst");
  Convert(context, source.string(), path, {.overwrites = true});
  return Engine::Load(context, path);
}

struct BundledModel {
  Context context;
  TempFolder folder;
  Engine engine = ConvertAndLoad(context, kBundledSource, folder);
  std::string path() const { return folder.File("model.opst"); }

  static const BundledModel& Get() {
    static const BundledModel model;
    return model;
  }
};

}  // namespace opst::testing

#endif  // OPST_RUNTIME_TESTING_BUNDLED_MODEL_H_
