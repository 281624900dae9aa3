// Call: one call across the C boundary. Checks what came from C, turns it into what the rooms take,
// and what is thrown into a status. No operator and no handle is known here.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CAPI_CALL_H_
#define OPST_CAPI_CALL_H_

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "capi/enums.h"
#include "opst/c/status.h"
#include "opst/c/tensor.h"
#include "opst/tensor.h"

// Checks what came from C; rule and facts are only formatted when the rule is broken.
#define OPST_CHECK_CALL(call, condition, name, rule, ...) \
  OPST_CHECK_ARG(condition, (call).function(), ::opst::Concat(name, " ", rule), __VA_ARGS__)

namespace opst::capi {

// Thrown where a cancelled context is noticed; becomes OPST_CANCELLED.
struct Cancelled {};

// The exception that is being handled as a status, with its text for opst_last_error. For catch
// blocks only.
opst_status StatusOfException(const char* function) noexcept;

// The arguments' names are those of the C headers, for error texts. Every method throws
// kInvalidArgument for what it refuses.
class Call {
 public:
  explicit Call(const char* function) : function_(function) {}

  void CheckNotNull(const void* pointer, const char* name) const {
    OPST_CHECK_CALL(*this, pointer != nullptr, name, "must not be NULL", "NULL");
  }

  // Views. The forms with Optional turn NULL into an empty view.
  ConstTensorView In(const opst_view* view, const char* name) const;
  ConstTensorView OptionalIn(const opst_view* view, const char* name) const;
  TensorView Out(const opst_view* view, const char* name) const;
  TensorView OptionalOut(const opst_view* view, const char* name) const;

  // The elements of a contiguous view of any rank.
  template <typename T>
  std::span<const T> Values(const opst_view* view, const char* name) const {
    return Elements<const T>(In(view, name), name);
  }
  template <typename T>
  std::span<const T> OptionalValues(const opst_view* view, const char* name) const {
    return view == nullptr ? std::span<const T>() : Values<T>(view, name);
  }
  template <typename T>
  std::span<T> OutValues(const opst_view* view, const char* name) const {
    const TensorView out = Out(view, name);
    const std::span<const T> elements = Elements<const T>(out, name);
    return {out.mutable_as<T>(), elements.size()};
  }
  // The same with so many elements; nothing for NULL, an output that is not wanted.
  template <typename T>
  std::span<T> Room(const opst_view* view, size_t size, const char* name) const {
    if (view == nullptr) return {};
    const std::span<T> out = OutValues<T>(view, name);
    OPST_CHECK_CALL(*this, out.size() == size, name, Concat("must have ", size, " elements"),
                    out.size());
    return out;
  }
  // Copies what an operator returned into the caller's array.
  template <typename T>
  void Copy(std::span<const T> values, const opst_view* view, const char* name) const {
    CheckNotNull(view, name);
    std::copy(values.begin(), values.end(), Room<T>(view, values.size(), name).begin());
  }
  // Not 0 = no token; u8 or bool.
  std::span<const uint8_t> Padding(const opst_view* view) const;

  // An array of plain C values.
  template <typename T>
  std::span<const T> Array(const T* values, int64_t count, const char* name) const {
    OPST_CHECK_CALL(*this, count >= 0, name, "must not have a negative length", count);
    OPST_CHECK_CALL(*this, count == 0 || values != nullptr, name,
                    "must not be NULL when its length is not 0", "NULL");
    OPST_CHECK_CALL(*this, count <= kMaxArray, name, "must not be longer than any memory", count);
    return {values, static_cast<size_t>(count)};
  }
  std::string_view Text(const char* text, const char* name) const {
    CheckNotNull(text, name);
    return text;
  }

  // What a handle stands for.
  template <typename Handle>
  auto& Get(Handle* handle, const char* name) const {
    CheckNotNull(handle, name);
    return handle->value;
  }

  template <typename Enum>
  Enum Choice(int32_t value, const char* name) const {
    OPST_CHECK_CALL(*this, value >= 0 && value <= kLastValue<Enum>, name,
                    Concat("must be one of the values 0 … ", kLastValue<Enum>), value);
    return static_cast<Enum>(value);
  }
  bool Claim(int32_t value, const char* name) const {
    OPST_CHECK_CALL(*this, value == 0 || value == 1, name, "must be 0 or 1", value);
    return value == 1;
  }

  // A struct in this library's version: `defaults`, overwritten by what the caller knows.
  template <typename Struct>
  Struct Options(const Struct* given, Struct defaults, const char* name = "options") const {
    if (given == nullptr) return defaults;
    CheckTail(given, sizeof(Struct), name);
    std::memcpy(&defaults, given, std::min<size_t>(given->struct_size, sizeof(Struct)));
    if constexpr (requires { defaults.reserved; }) {
      OPST_CHECK_CALL(*this, defaults.reserved == 0, name, "must have reserved = 0",
                      defaults.reserved);
    }
    return defaults;
  }
  // A struct that must be there.
  template <typename Struct>
  Struct Required(const Struct* given, Struct defaults, const char* name) const {
    CheckNotNull(given, name);
    return Options(given, defaults, name);
  }
  // Writes as much of `value` as the caller knows.
  template <typename Struct>
  void Fill(Struct* out, Struct value, const char* name) const {
    CheckNotNull(out, name);
    const uint32_t size = CheckSize(out->struct_size, name);
    value.struct_size = size;
    std::memcpy(out, &value, std::min<size_t>(size, sizeof(Struct)));
  }

  // A handle for the caller, in an output that Make has checked.
  template <typename Handle, typename... Args>
  void Create(Handle** out, Args&&... args) const {
    *out = new Handle{std::forward<Args>(args)...};
  }

  // Memory that the caller frees with opst_free. Texts end with a NUL that does not count.
  template <typename T>
  T* HandOver(std::span<const T> values) const {
    auto* memory = static_cast<T*>(Allocate(values.size_bytes()));
    if (!values.empty()) std::memcpy(memory, values.data(), values.size_bytes());
    return memory;
  }
  char* HandOver(std::string_view text) const;

  const char* function() const { return function_; }

 private:
  static constexpr int64_t kMaxArray = int64_t{1} << 40;

  void* Allocate(size_t num_bytes) const;
  uint32_t CheckSize(uint32_t struct_size, const char* name) const;
  void CheckTail(const void* given, size_t known_size, const char* name) const;

  template <typename T>
  std::span<T> Elements(const ConstTensorView& view, const char* name) const {
    using Element = std::remove_const_t<T>;
    OPST_CHECK_CALL(*this, view.dtype() == kDTypeOf<Element>, name,
                    Concat("must be ", Name(kDTypeOf<Element>)), view.ToString());
    OPST_CHECK_CALL(*this, view.is_contiguous(), name, "must be contiguous", view.ToString());
    return {view.as<Element>(), static_cast<size_t>(view.shape().num_elements())};
  }

  const char* function_;
};

// The body of every function of the C API.
template <typename Body>
opst_status Run(const char* function, Body&& body) noexcept {
  try {
    std::forward<Body>(body)(Call(function));
    return OPST_OK;
  } catch (...) {
    return StatusOfException(function);
  }
}

// The same for functions that give a handle, pointer or number, which must have a place to go and
// is NULL or 0 after a failure.
template <typename Out, typename Body>
opst_status Make(const char* function, Out* out, Body&& body) noexcept {
  if (out != nullptr) *out = Out{};
  return Run(function, [&](const Call& call) {
    call.CheckNotNull(out, "the output");
    std::forward<Body>(body)(call);
  });
}

// The body of opst_..._destroy.
template <typename Handle>
opst_status Destroy(const char* function, Handle* handle) noexcept {
  return Run(function, [&](const Call&) { delete handle; });
}

}  // namespace opst::capi

#endif  // OPST_CAPI_CALL_H_
