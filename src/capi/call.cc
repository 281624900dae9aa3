// Checks of views and struct sizes, the error text of each thread, and the map of exceptions.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "capi/call.h"

#include <cstdlib>
#include <exception>
#include <new>

namespace opst::capi {
namespace {

// The one state outside of handles: the text of this thread's last error.
thread_local std::string last_error;
// Instead of it when there is no memory for it; lives for ever.
thread_local const char* last_error_text = "";

opst_status Fail(opst_status status, const char* function, const char* text) noexcept {
  try {
    last_error = text[0] == '[' ? text : Concat("[", function, "] ", text);
    last_error_text = last_error.c_str();
  } catch (...) {
    last_error_text = "[opst] the error text must fit the memory; got an allocation that failed";
  }
  return status;
}

opst_status StatusOf(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalidArgument:
      return OPST_INVALID_ARGUMENT;
    case ErrorKind::kIo:
      return OPST_IO;
    case ErrorKind::kOutOfMemory:
      return OPST_OUT_OF_MEMORY;
    case ErrorKind::kComm:
      return OPST_COMM;
  }
  return OPST_INTERNAL;
}

}  // namespace

opst_status StatusOfException(const char* function) noexcept {
  try {
    throw;
  } catch (const Error& error) {
    return Fail(StatusOf(error.kind()), function, error.what());
  } catch (const Cancelled&) {
    return Fail(OPST_CANCELLED, function, "the context must not be cancelled; got a cancelled one");
  } catch (const std::bad_alloc&) {
    return Fail(OPST_OUT_OF_MEMORY, function,
                "what is computed must fit the memory of this process; got an allocation that "
                "failed");
  } catch (const std::exception& error) {
    return Fail(OPST_INTERNAL, function, error.what());
  } catch (...) {
    return Fail(OPST_INTERNAL, function, "exceptions must be known; got another one");
  }
}

TensorView Call::Out(const opst_view* view, const char* name) const {
  CheckNotNull(view, name);
  OPST_CHECK_CALL(*this, view->dtype >= 0 && view->dtype <= kLastValue<DType>, name,
                  Concat("must have a dtype of 0 … ", kLastValue<DType>), view->dtype);
  const auto dtype = static_cast<DType>(view->dtype);
  OPST_CHECK_CALL(*this, view->rank >= 0 && view->rank <= OPST_MAX_RANK, name,
                  "must have a rank of 0 … 4", view->rank);
  const auto rank = static_cast<size_t>(view->rank);
  const Shape shape(std::span<const int64_t>(view->shape, rank));
  OPST_CHECK_CALL(*this, view->data != nullptr || shape.num_elements() == 0, name, "must have data",
                  "NULL for ", shape.ToString());
  OPST_CHECK_CALL(*this, reinterpret_cast<uintptr_t>(view->data) % ByteSize(dtype) == 0, name,
                  "must have data aligned to its element", view->data, " for ", shape.ToString(),
                  " ", Name(dtype));
  const bool is_plain = view->row_stride == 0 || (rank > 0 && view->row_stride == shape[rank - 1]);
  if (is_plain) return TensorView(view->data, dtype, shape);
  return TensorView(view->data, dtype, shape, view->row_stride);
}

ConstTensorView Call::In(const opst_view* view, const char* name) const { return Out(view, name); }

ConstTensorView Call::OptionalIn(const opst_view* view, const char* name) const {
  return view == nullptr ? ConstTensorView() : In(view, name);
}

TensorView Call::OptionalOut(const opst_view* view, const char* name) const {
  return view == nullptr ? TensorView() : Out(view, name);
}

std::span<const uint8_t> Call::Padding(const opst_view* view) const {
  if (view == nullptr) return {};
  opst_view bytes = *view;
  if (bytes.dtype == OPST_BOOL) bytes.dtype = OPST_U8;
  return Values<uint8_t>(&bytes, "is_padding");
}

uint32_t Call::CheckSize(uint32_t struct_size, const char* name) const {
  OPST_CHECK_CALL(*this,
                  struct_size != 0 && struct_size % 8 == 0 && struct_size <= OPST_MAX_STRUCT_SIZE,
                  name, "must have the struct_size of its OPST_..._DEFAULT", struct_size);
  return struct_size;
}

void Call::CheckTail(const void* given, size_t known_size, const char* name) const {
  uint32_t size = 0;
  std::memcpy(&size, given, sizeof(size));
  CheckSize(size, name);
  const auto* bytes = static_cast<const unsigned char*>(given);
  for (size_t index = known_size; index < size; ++index) {
    OPST_CHECK_CALL(
        *this, bytes[index] == 0, name, "must not have members set that this library does not know",
        Concat("byte ", index, " of a struct of ", size, ", of which ", known_size, " are known"));
  }
}

void* Call::Allocate(size_t num_bytes) const {
  void* memory = std::malloc(std::max<size_t>(num_bytes, 1));
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

char* Call::HandOver(std::string_view text) const {
  auto* memory = static_cast<char*>(Allocate(text.size() + 1));
  std::memcpy(memory, text.data(), text.size());
  memory[text.size()] = '\0';
  return memory;
}

}  // namespace opst::capi

const char* opst_last_error() { return opst::capi::last_error_text; }

opst_status opst_free(void* memory) {
  std::free(memory);
  return OPST_OK;
}
