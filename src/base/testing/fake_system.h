// A folder that looks like /proc and /sys of another machine; for tests only.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_BASE_TESTING_FAKE_SYSTEM_H_
#define OPST_BASE_TESTING_FAKE_SYSTEM_H_

#include <filesystem>
#include <fstream>
#include <string>

#include "base/testing/temp_folder.h"

namespace opst {

class FakeSystem {
 public:
  const std::string& root() const { return folder_.path(); }

  // `path` starts with '/'. The line end is added.
  void Write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root() + path).parent_path());
    std::ofstream(root() + path) << text << '\n';
  }

  // CPUs 0 … cores * smt - 1; the siblings of core c are c, c + cores, c + 2 * cores …
  void WriteCores(int cores, int smt, const std::string& file = "core_cpus_list") const {
    for (int core = 0; core < cores; ++core) {
      std::string siblings = std::to_string(core);
      for (int way = 1; way < smt; ++way) siblings += "," + std::to_string(core + way * cores);
      for (int way = 0; way < smt; ++way) {
        Write("/sys/devices/system/cpu/cpu" + std::to_string(core + way * cores) + "/topology/" +
                  file,
              siblings);
      }
    }
  }

 private:
  TempFolder folder_;
};

}  // namespace opst

#endif  // OPST_BASE_TESTING_FAKE_SYSTEM_H_
