// The bundled model, converted once for all tests of the executable.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_RUNTIME_TESTING_BUNDLED_MODEL_H_
#define OPST_RUNTIME_TESTING_BUNDLED_MODEL_H_

#include <cstdlib>
#include <filesystem>
#include <string>

#include "opst/convert.h"
#include "opst/engine.h"

namespace opst::testing {

inline const std::filesystem::path kBundledSource =
    std::filesystem::path(OPST_SOURCE_DIR) / "models/austen-moe";

// A folder of its own, removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "opst-runtime-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// `source` converted into `folder`.
inline Engine ConvertAndLoad(const Context& context, const std::filesystem::path& source,
                             const TemporaryFolder& folder) {
  const std::string path = (folder.path() / "model.opst").string();
  Convert(context, source.string(), path, {.overwrites = true});
  return Engine::Load(context, path);
}

struct BundledModel {
  Context context;
  TemporaryFolder folder;
  Engine engine = ConvertAndLoad(context, kBundledSource, folder);
  std::string path() const { return (folder.path() / "model.opst").string(); }

  static const BundledModel& Get() {
    static const BundledModel model;
    return model;
  }
};

}  // namespace opst::testing

#endif  // OPST_RUNTIME_TESTING_BUNDLED_MODEL_H_
