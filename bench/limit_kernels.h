// The loops whose speed is a limit of the machine: arithmetic in registers, and reading.
// They compute nothing of use; threads and clocks are in limits.cc.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_BENCH_LIMIT_KERNELS_H_
#define OPST_BENCH_LIMIT_KERNELS_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace opst::bench {

// Enough independent chains of f32 multiply-adds to fill the pipes, each of `length`. Writes their
// sum to *sink, which keeps the compiler from dropping them. Returns the flop done.
double FmaChains(size_t length, float* sink) noexcept;

// The same of the integer tiles' arithmetic: products of two pairs of 16-bit integers added to a
// 32-bit sum, counted as four operations. *sink is a sum of the sums.
double PairDotChains(size_t length, float* sink) noexcept;

// The same of four pairs of 8-bit integers, counted as eight; on instruction sets without such
// products, PairDotChains.
double QuadDotChains(size_t length, float* sink) noexcept;

// In which order a worker reads its part of a buffer. What is fastest differs between machines; a
// kernel may use any of them, so the fastest is the limit.
enum class ReadOrder : uint8_t {
  kOneStream,           // ascending
  kFourStreams,         // four quarters side by side, as four weight rows
  kFourStreamsFetched,  // the same, prefetching 1 KB ahead
};
inline constexpr ReadOrder kReadOrders[] = {ReadOrder::kOneStream, ReadOrder::kFourStreams,
                                            ReadOrder::kFourStreamsFetched};
std::string_view Name(ReadOrder order);

// Reads `bytes` (a multiple of 256) from 64-byte aligned memory; returns a sum of it.
uint64_t SumBytes(ReadOrder order, const std::byte* data, size_t bytes) noexcept;

}  // namespace opst::bench

#endif  // OPST_BENCH_LIMIT_KERNELS_H_
