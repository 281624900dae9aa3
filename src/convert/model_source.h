// A model's tensors under their Hugging Face names, whatever kind of file they come from. Which
// tensors a family needs is source_map.h's business.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CONVERT_MODEL_SOURCE_H_
#define OPST_CONVERT_MODEL_SOURCE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "io/sharded_checkpoint.h"
#include "opst/dtype.h"

namespace opst {

// A file that travels with the model as it is: tokenizer.json, chat_template.jinja, …
struct TextFile {
  std::string name;
  std::string content;
};

// A tensor here has a name, a shape and elements of one of the types that safetensors has. What
// the file stores quantised is expanded while it is read, some rows at a time.
// Thread safety: const members may be called from several threads. Lent bytes and SourceTensors
// must not outlive the source.
class ModelSource {
 public:
  virtual ~ModelSource() = default;
  ModelSource(const ModelSource&) = delete;
  ModelSource& operator=(const ModelSource&) = delete;

  // The folder, or the (first) file of a GGUF model; for errors.
  const std::string& folder() const { return folder_; }
  // config.json in the dialect of the family, without what the source has undone (quantisation),
  // and where it stands, for errors.
  const std::string& config_json() const { return config_json_; }
  const std::string& config_path() const { return config_path_; }
  // All files that the model is read from.
  const std::vector<std::string>& files() const { return files_; }
  const std::vector<TextFile>& text_files() const { return text_files_; }
  // Settings of the file that nothing asked for.
  const std::vector<std::string>& unknown_settings() const { return unknown_settings_; }

  const std::vector<SourceTensor>& tensors() const { return tensors_; }
  // nullptr when there is none of that name.
  const SourceTensor* Find(std::string_view name) const;
  // Only for a source without data (hf_export.h): the tensor `name`, with the shape it must have.
  virtual const SourceTensor* Declare(const std::string& name,
                                      const std::vector<int64_t>& shape) const;
  // Tensors and bytes as stored in the file.
  int64_t num_stored_tensors() const { return num_stored_tensors_; }
  uint64_t stored_bytes() const { return stored_bytes_; }

  // The whole tensor, or `num_bytes` of it from `begin`, both whole elements, aligned for them.
  // Throws kIo when the file changed since it was opened, holds an index out of range, or a weight
  // that is no finite number (F32, BF16, F16) or becomes none where it is expanded to.
  SourceBytes Read(const SourceTensor& source, uint64_t begin, uint64_t num_bytes) const;
  SourceBytes Read(const SourceTensor& source) const {
    return Read(source, 0, source.tensor->num_bytes);
  }
  // Whether the file stores it as MXFP4, in groups along the inputs of the matrix.
  bool IsMxfp4(const SourceTensor& source) const { return entries_[source.shard].is_mxfp4; }

 protected:
  ModelSource() = default;

  // Rows [first, first + count) of a tensor seen as [rows, last extent], as f32.
  using RowReader = std::function<void(int64_t first, int64_t count, float* out)>;
  // Bytes [begin, begin + count) of a tensor that is stored as it is asked for.
  using ByteReader = std::function<SourceBytes(uint64_t begin, uint64_t count)>;

  void AddPlain(std::string name, std::string dtype, std::vector<int64_t> shape, ByteReader read);
  // Rows are rounded to `dtype`, one of f32, bf16, f16.
  void AddExpanded(std::string name, DType dtype, std::vector<int64_t> shape, RowReader read,
                   bool is_mxfp4 = false);
  // After the last Add. Throws kIo when a name was given twice.
  void IndexNames();

  std::string folder_;
  std::string config_json_;
  std::string config_path_;
  std::vector<std::string> files_;
  std::vector<TextFile> text_files_;
  std::vector<std::string> unknown_settings_;
  int64_t num_stored_tensors_ = 0;
  uint64_t stored_bytes_ = 0;

 private:
  struct Entry {
    SafetensorsTensor tensor;
    ByteReader bytes;  // one of the two
    RowReader rows;
    bool is_mxfp4 = false;
  };

  SourceBytes ReadExpanded(const Entry& entry, DType dtype, uint64_t begin,
                           uint64_t num_bytes) const;

  std::deque<Entry> entries_;          // SourceTensor::shard counts them
  std::vector<SourceTensor> tensors_;  // in the order they were added
  std::vector<uint32_t> by_name_;      // indices of tensors_, ordered by name
};

}  // namespace opst

#endif  // OPST_CONVERT_MODEL_SOURCE_H_
