// Model: a decoder loaded from a packed file, and the state of one sequence.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_MODEL_H_
#define OPST_MODEL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "opst/context.h"
#include "opst/model_config.h"
#include "opst/routing_plan.h"
#include "opst/tensor.h"

namespace opst {

class KvCache;
class DecoderWeights;
class PackedModel;

// The tokens a model has seen so far: their number, and their keys and values (f32). Movable.
// Used by one thread at a time.
class Sequence {
 public:
  Sequence(Sequence&&) noexcept;
  Sequence& operator=(Sequence&&) noexcept;
  ~Sequence();

  int64_t length() const { return length_; }
  int64_t capacity() const;
  // Forgets the tokens, keeps the memory.
  void Clear() { length_ = expected_length_ = 0; }
  // Says before the first token of a prompt how long it is. Models whose positions depend on the
  // length of the text (dynamic and longrope scaling) then treat the prompt as one, however it is
  // cut into calls; other models do not care.
  void ExpectLength(int64_t num_tokens) { expected_length_ = num_tokens; }
  // Forgets all tokens but the first `length`. Throws kInvalidArgument when it has fewer.
  void Truncate(int64_t length);

 private:
  friend class Model;
  explicit Sequence(std::unique_ptr<KvCache> cache);

  std::unique_ptr<KvCache> cache_;
  int64_t length_ = 0;
  int64_t expected_length_ = 0;
};

// An expert of one layer, or of all layers.
struct ExpertName {
  int64_t layer = -1;  // -1 = all layers
  int32_t expert = 0;
};

// What a caller changes in the routing of a model. Mixing weights are renormalised exactly when the
// model's recipe does so.
struct ExpertChoice {
  int64_t active_experts = 0;           // experts per token, strongest first; 0 = the recipe's
  std::vector<ExpertName> masked = {};  // never chosen
  std::vector<ExpertName> forced = {};  // in a layer with forced experts no other is chosen
  // How many of those experts a token takes, in every layer; none = the recipe's rule.
  std::optional<SelectionOptions> selection = {};

  // The part that concerns a layer of `num_experts`.
  RoutingOverride ForLayer(int64_t layer, int64_t num_experts) const;
};

struct ForwardOptions {
  ExpertChoice experts = {};
  // Called after each MoE layer with the plan of the tokens, e.g. to count experts.
  std::function<void(int64_t layer, const RoutingPlan& plan)> on_routing = {};
  // Called after each layer with the residual stream [T,H] f32, e.g. to compare it.
  std::function<void(int64_t layer, ConstTensorView x)> on_layer = {};
};

// New tokens of one sequence in a batch.
struct BatchEntry {
  std::span<const int32_t> tokens;
  Sequence* sequence;
};

// Thread safety: Forward may be called from several threads, each with a sequence of its own.
class Model {
 public:
  // Maps (load = "map") or reads (load = "read", the setting of the context) a file that `Convert`
  // wrote. Weights are used where they lie. With the setting `check_on_load` the checksum of every
  // tensor is compared first. Throws kIo, kOutOfMemory.
  static Model Load(const Context& context, const std::string& path);

  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;
  ~Model();

  const ModelConfig& config() const;

  // Room for `capacity` tokens. Throws kOutOfMemory.
  Sequence NewSequence(int64_t capacity) const;
  // Bytes that NewSequence reserves.
  size_t SequenceBytes(int64_t capacity) const;

  // Appends `tokens` to the sequence and computes logits of the last logits.dim(0) of them.
  //   tokens  ids in 0 … vocab_size-1, at least one, within the sequence's capacity
  //   logits  [n, vocab_size] f32, 1 ≤ n ≤ number of tokens
  // A token's logits have the same bits however the text before it was cut into calls.
  // Errors (kInvalidArgument): ids outside the vocabulary, no room, shapes. The sequence is then
  // unchanged.
  void Forward(const Context& context, std::span<const int32_t> tokens, Sequence& sequence,
               TensorView logits, const ForwardOptions& options = {}) const;

  // The same for several sequences at once, each of which may have any number of new tokens.
  //   logits  [entries, vocab_size] f32: of the last token of each entry
  // A token's logits have the same bits as when its sequence is computed alone.
  // Errors: as Forward; no entries, one sequence twice. All sequences are then unchanged.
  void ForwardBatch(const Context& context, std::span<const BatchEntry> entries, TensorView logits,
                    const ForwardOptions& options = {}) const;

  // Throws kInvalidArgument for a choice that leaves a layer without experts, or that names layers
  // or experts the model does not have. Forward checks it too.
  void CheckExperts(const ExpertChoice& experts) const;

  // Bytes of the weights in the file, and of the routed experts among them.
  struct WeightBytes {
    uint64_t all = 0;
    uint64_t routed_experts = 0;
  };
  WeightBytes CountWeightBytes() const;

  // A text file that came with the checkpoint ("tokenizer.json"); none when it had none.
  std::optional<std::string_view> TextFile(std::string_view name) const;

 private:
  explicit Model(std::shared_ptr<const PackedModel> file);
  void CheckEntry(const BatchEntry& entry) const;

  std::shared_ptr<const PackedModel> file_;
  std::unique_ptr<const DecoderWeights> weights_;
};

}  // namespace opst

#endif  // OPST_MODEL_H_
