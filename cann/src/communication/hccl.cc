// The hccl interface over groups of this process: communicators and collective calls on streams.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "hccl/hccl.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "acl/acl_rt.h"
#include "cann/src/communication/group.h"
#include "cann/src/runtime/device.h"
#include "cann/src/runtime/failure.h"
#include "cann/src/runtime/handles.h"
#include "cann/src/runtime/memory.h"
#include "cann/src/runtime/stream.h"
#include "kernels/rows.h"

namespace opst::cann {
namespace {

constexpr uint32_t kMaxRanks = 64;

struct Communicator {
  std::shared_ptr<Group> group;
  int32_t rank = 0;
};
using Communicators = Handles<Communicator>;

template <typename Body>
HcclResult Hccl(const Body& body) {
  const int code = Guard(HCCL_E_PARA, body);
  return code == ACL_SUCCESS      ? HCCL_SUCCESS
         : code < HCCL_E_RESERVED ? static_cast<HcclResult>(code)
                                  : HCCL_E_RUNTIME;
}

std::shared_ptr<Communicator> FindCommunicator(HcclComm comm, const char* function) {
  auto found = Communicators::OfProcess().Find(comm);
  Require(found != nullptr, HCCL_E_PARA, function, "the communicator must be live", comm);
  return found;
}

size_t BytesOf(HcclDataType type, const char* function) {
  switch (type) {
    case HCCL_DATA_TYPE_INT8:
    case HCCL_DATA_TYPE_UINT8:
      return 1;
    case HCCL_DATA_TYPE_INT16:
    case HCCL_DATA_TYPE_UINT16:
    case HCCL_DATA_TYPE_FP16:
    case HCCL_DATA_TYPE_BFP16:
      return 2;
    case HCCL_DATA_TYPE_INT32:
    case HCCL_DATA_TYPE_UINT32:
    case HCCL_DATA_TYPE_FP32:
      return 4;
    case HCCL_DATA_TYPE_INT64:
    case HCCL_DATA_TYPE_UINT64:
    case HCCL_DATA_TYPE_FP64:
      return 8;
    default:
      Fail(HCCL_E_NOT_SUPPORT, function, "the element type must be known", static_cast<int>(type));
  }
}

// Device memory of a call, kept until it has run.
struct Buffer {
  std::byte* data = nullptr;
  std::shared_ptr<MemoryBlock> block;
};

Buffer CheckBuffer(const void* address, size_t bytes, const char* function) {
  if (bytes == 0) return {};
  Buffer buffer{static_cast<std::byte*>(const_cast<void*>(address)), Memory().Find(address)};
  Require(buffer.block != nullptr && buffer.block->kind == MemoryKind::kDevice &&
              bytes <= buffer.block->BytesFrom(address),
          HCCL_E_PARA, function, "buffers must lie in device memory with all their bytes", bytes,
          " bytes at ", address);
  return buffer;
}

using Bytes = std::vector<std::byte>;
using AllBytes = std::vector<std::shared_ptr<const Bytes>>;

AllBytes GatherBytes(const Communicator& communicator, const std::byte* data, size_t bytes) {
  return communicator.group->ExchangeAs<Bytes>(communicator.rank,
                                               std::make_shared<const Bytes>(data, data + bytes));
}

template <typename T>
void ReduceAs(HcclReduceOp op, const T* from, size_t count, T* to) {
  for (size_t i = 0; i < count; ++i) {
    switch (op) {
      case HCCL_REDUCE_PROD:
        to[i] = static_cast<T>(to[i] * from[i]);
        break;
      case HCCL_REDUCE_MAX:
        to[i] = std::max(to[i], from[i]);
        break;
      case HCCL_REDUCE_MIN:
        to[i] = std::min(to[i], from[i]);
        break;
      default:
        to[i] = static_cast<T>(to[i] + from[i]);
    }
  }
}

// The reduction of [first, first + count) over the ranks, ascending; halves in f32, rounded once.
Bytes Reduce(const AllBytes& all, HcclDataType type, HcclReduceOp op, size_t first, size_t count) {
  const auto as = [&]<typename T>(T) {
    Bytes result(count * sizeof(T));
    std::memcpy(result.data(), all[0]->data() + first * sizeof(T), result.size());
    for (size_t rank = 1; rank < all.size(); ++rank) {
      ReduceAs(op, reinterpret_cast<const T*>(all[rank]->data()) + first, count,
               reinterpret_cast<T*>(result.data()));
    }
    return result;
  };
  const auto as_halves = [&](DType dtype) {
    std::vector<float> sum(count), next(count);
    for (size_t rank = 0; rank < all.size(); ++rank) {
      ConvertToFloat(dtype, all[rank]->data() + first * 2, count, next.data());
      rank == 0 ? sum.swap(next) : ReduceAs(op, next.data(), count, sum.data());
    }
    Bytes result(count * 2);
    ConvertFromFloat(sum.data(), count, dtype, result.data());
    return result;
  };
  switch (type) {
    case HCCL_DATA_TYPE_FP16:
      return as_halves(DType::kF16);
    case HCCL_DATA_TYPE_BFP16:
      return as_halves(DType::kBf16);
    case HCCL_DATA_TYPE_FP32:
      return as(float{});
    case HCCL_DATA_TYPE_FP64:
      return as(double{});
    case HCCL_DATA_TYPE_INT8:
      return as(int8_t{});
    case HCCL_DATA_TYPE_INT16:
      return as(int16_t{});
    case HCCL_DATA_TYPE_INT32:
      return as(int32_t{});
    default:
      return as(int64_t{});
  }
}

void Queue(const char* function, aclrtStream stream, std::function<void()> task) {
  std::shared_ptr<Stream> queue;
  const Outcome outcome = Try(HCCL_E_PARA, [&] { queue = FindStream(stream, function); });
  Require(queue != nullptr, HCCL_E_PARA, function, "the stream must be live", outcome.text);
  queue->Enqueue(function, std::move(task));
}

void CheckReduction(HcclReduceOp op, HcclDataType type, const char* function) {
  Require(op >= HCCL_REDUCE_SUM && op <= HCCL_REDUCE_MIN, HCCL_E_PARA, function,
          "the reduction must be sum, prod, max or min", static_cast<int>(op));
  Require(type != HCCL_DATA_TYPE_UINT8 && type != HCCL_DATA_TYPE_UINT16 &&
              type != HCCL_DATA_TYPE_UINT32 && type != HCCL_DATA_TYPE_UINT64,
          HCCL_E_NOT_SUPPORT, function, "reductions must be of signed numbers",
          static_cast<int>(type));
}

std::vector<uint64_t> Counts(const void* values, size_t size) {
  const auto* const first = static_cast<const uint64_t*>(values);
  return {first, first + size};
}

// How many bytes a list of counts and displacements reaches.
size_t Reach(const std::vector<uint64_t>& counts, const std::vector<uint64_t>& starts,
             size_t bytes) {
  size_t reach = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    reach = std::max<size_t>(reach, (starts[i] + counts[i]) * bytes);
  }
  return reach;
}

struct Parts {
  Bytes bytes;
  std::vector<uint64_t> counts;
  std::vector<uint64_t> starts;
};

// Every rank sends its parts to their ranks.
void ExchangeParts(const Communicator& communicator, const Buffer& send, size_t send_reach,
                   const std::vector<uint64_t>& send_counts,
                   const std::vector<uint64_t>& send_starts, const Buffer& receive,
                   const std::vector<uint64_t>& counts, const std::vector<uint64_t>& starts,
                   size_t bytes) {
  const auto mine = std::make_shared<const Parts>(
      Parts{Bytes(send.data, send.data + send_reach), send_counts, send_starts});
  const auto all = communicator.group->ExchangeAs<Parts>(communicator.rank, mine);
  const auto me = static_cast<size_t>(communicator.rank);
  for (size_t rank = 0; rank < all.size(); ++rank) {
    Require(all[rank]->counts[me] == counts[rank], HCCL_E_PARA, "HcclAlltoAllV",
            "a rank must receive what the other one sends", counts[rank], " elements for ",
            all[rank]->counts[me], " from rank ", rank);
    std::copy_n(all[rank]->bytes.data() + all[rank]->starts[me] * bytes, counts[rank] * bytes,
                receive.data + starts[rank] * bytes);
  }
}

}  // namespace
}  // namespace opst::cann

using namespace opst;        // NOLINT: only the C functions follow
using namespace opst::cann;  // NOLINT

HcclResult HcclCommInitAll(uint32_t ndev, int32_t* devices, HcclComm* comms) {
  return Hccl([&] {
    Require(devices != nullptr && comms != nullptr, HCCL_E_PTR, "HcclCommInitAll",
            "pointers must not be null", "null");
    Require(ndev > 0 && ndev <= kMaxRanks, HCCL_E_PARA, "HcclCommInitAll",
            "there must be 1 to 64 ranks", ndev);
    const auto group = MakeGroup(static_cast<int32_t>(ndev));
    for (uint32_t rank = 0; rank < ndev; ++rank) {
      group->PlaceRank(static_cast<int32_t>(rank), devices[rank]);
      comms[rank] =
          Communicators::OfProcess().Make(Communicator{group, static_cast<int32_t>(rank)});
    }
  });
}

HcclResult HcclGetRootInfo(HcclRootInfo* rootInfo) {
  return Hccl([&] {
    Require(rootInfo != nullptr, HCCL_E_PTR, "HcclGetRootInfo", "rootInfo must not be null",
            "null");
    // Only the name is needed: the group is made by the first rank that joins.
    const auto named = MakeGroup(1);
    ForgetGroup(named->name());
    std::memset(rootInfo->internal, 0, sizeof(rootInfo->internal));
    std::strncpy(rootInfo->internal, named->name().c_str(), COMM_NAME_MAX_LENGTH - 1);
  });
}

HcclResult HcclCommInitRootInfo(uint32_t nRanks, const HcclRootInfo* rootInfo, uint32_t rank,
                                HcclComm* comm) {
  return Hccl([&] {
    Require(rootInfo != nullptr && comm != nullptr, HCCL_E_PTR, "HcclCommInitRootInfo",
            "pointers must not be null", "null");
    Require(nRanks > 0 && nRanks <= kMaxRanks && rank < nRanks, HCCL_E_PARA, "HcclCommInitRootInfo",
            "there must be 1 to 64 ranks, and rank be one of them", rank, " of ", nRanks);
    const std::string name(rootInfo->internal, strnlen(rootInfo->internal, COMM_NAME_MAX_LENGTH));
    const auto group = JoinGroup(name, static_cast<int32_t>(nRanks));
    group->PlaceRank(static_cast<int32_t>(rank), CurrentContext("HcclCommInitRootInfo")->device);
    *comm = Communicators::OfProcess().Make(Communicator{group, static_cast<int32_t>(rank)});
  });
}

HcclResult HcclCommDestroy(HcclComm comm) {
  return Hccl([&] {
    FindCommunicator(comm, "HcclCommDestroy");
    Communicators::OfProcess().Remove(comm);
  });
}

HcclResult HcclGetCommName(HcclComm comm, char* commName) {
  return Hccl([&] {
    Require(commName != nullptr, HCCL_E_PTR, "HcclGetCommName", "commName must not be null",
            "null");
    const std::string& name = FindCommunicator(comm, "HcclGetCommName")->group->name();
    std::memcpy(commName, name.c_str(), name.size() + 1);
  });
}

HcclResult HcclGetRankSize(HcclComm comm, uint32_t* rankSize) {
  return Hccl([&] {
    Require(rankSize != nullptr, HCCL_E_PTR, "HcclGetRankSize", "rankSize must not be null",
            "null");
    *rankSize = static_cast<uint32_t>(FindCommunicator(comm, "HcclGetRankSize")->group->size());
  });
}

HcclResult HcclGetRankId(HcclComm comm, uint32_t* rank) {
  return Hccl([&] {
    Require(rank != nullptr, HCCL_E_PTR, "HcclGetRankId", "rank must not be null", "null");
    *rank = static_cast<uint32_t>(FindCommunicator(comm, "HcclGetRankId")->rank);
  });
}

const char* HcclGetErrorString(HcclResult code) {
  switch (code) {
    case HCCL_SUCCESS:
      return "no error";
    case HCCL_E_PARA:
      return "invalid parameter";
    case HCCL_E_PTR:
      return "null pointer";
    case HCCL_E_MEMORY:
      return "not enough memory";
    case HCCL_E_NOT_SUPPORT:
      return "not supported";
    case HCCL_E_NOT_FOUND:
      return "not found";
    case HCCL_E_TIMEOUT:
      return "time ran out";
    case HCCL_E_RUNTIME:
      return "runtime call failed";
    default:
      return "internal error";
  }
}

HcclResult HcclBarrier(HcclComm comm, aclrtStream stream) {
  return Hccl([&] {
    const auto communicator = FindCommunicator(comm, "HcclBarrier");
    Queue("HcclBarrier", stream, [=] { communicator->group->Barrier(communicator->rank); });
  });
}

HcclResult HcclAllReduce(void* sendBuf, void* recvBuf, uint64_t count, HcclDataType dataType,
                         HcclReduceOp op, HcclComm comm, aclrtStream stream) {
  return Hccl([&] {
    const auto communicator = FindCommunicator(comm, "HcclAllReduce");
    CheckReduction(op, dataType, "HcclAllReduce");
    const size_t bytes = count * BytesOf(dataType, "HcclAllReduce");
    const Buffer send = CheckBuffer(sendBuf, bytes, "HcclAllReduce");
    const Buffer receive = CheckBuffer(recvBuf, bytes, "HcclAllReduce");
    Queue("HcclAllReduce", stream, [=] {
      const Bytes sum =
          Reduce(GatherBytes(*communicator, send.data, bytes), dataType, op, 0, count);
      std::copy(sum.begin(), sum.end(), receive.data);
    });
  });
}

HcclResult HcclReduceScatter(void* sendBuf, void* recvBuf, uint64_t recvCount,
                             HcclDataType dataType, HcclReduceOp op, HcclComm comm,
                             aclrtStream stream) {
  return Hccl([&] {
    const auto communicator = FindCommunicator(comm, "HcclReduceScatter");
    CheckReduction(op, dataType, "HcclReduceScatter");
    const size_t part = recvCount * BytesOf(dataType, "HcclReduceScatter");
    const size_t bytes = part * static_cast<size_t>(communicator->group->size());
    const Buffer send = CheckBuffer(sendBuf, bytes, "HcclReduceScatter");
    const Buffer receive = CheckBuffer(recvBuf, part, "HcclReduceScatter");
    Queue("HcclReduceScatter", stream, [=] {
      const size_t first = static_cast<size_t>(communicator->rank) * recvCount;
      const Bytes sum =
          Reduce(GatherBytes(*communicator, send.data, bytes), dataType, op, first, recvCount);
      std::copy(sum.begin(), sum.end(), receive.data);
    });
  });
}

HcclResult HcclBroadcast(void* buf, uint64_t count, HcclDataType dataType, uint32_t root,
                         HcclComm comm, aclrtStream stream) {
  return Hccl([&] {
    const auto communicator = FindCommunicator(comm, "HcclBroadcast");
    Require(root < static_cast<uint32_t>(communicator->group->size()), HCCL_E_PARA, "HcclBroadcast",
            "root must be a rank", root);
    const size_t bytes = count * BytesOf(dataType, "HcclBroadcast");
    const Buffer buffer = CheckBuffer(buf, bytes, "HcclBroadcast");
    Queue("HcclBroadcast", stream, [=] {
      const bool is_root = static_cast<uint32_t>(communicator->rank) == root;
      const AllBytes all = GatherBytes(*communicator, buffer.data, is_root ? bytes : 0);
      std::copy(all[root]->begin(), all[root]->end(), buffer.data);
    });
  });
}

HcclResult HcclAllGather(void* sendBuf, void* recvBuf, uint64_t sendCount, HcclDataType dataType,
                         HcclComm comm, aclrtStream stream) {
  return Hccl([&] {
    const auto communicator = FindCommunicator(comm, "HcclAllGather");
    const size_t bytes = sendCount * BytesOf(dataType, "HcclAllGather");
    const auto ranks = static_cast<size_t>(communicator->group->size());
    const Buffer send = CheckBuffer(sendBuf, bytes, "HcclAllGather");
    const Buffer receive = CheckBuffer(recvBuf, bytes * ranks, "HcclAllGather");
    Queue("HcclAllGather", stream, [=] {
      std::byte* to = receive.data;
      for (const auto& part : GatherBytes(*communicator, send.data, bytes)) {
        to = std::copy(part->begin(), part->end(), to);
      }
    });
  });
}

HcclResult HcclAlltoAllV(const void* sendBuf, const void* sendCounts, const void* sdispls,
                         HcclDataType sendType, const void* recvBuf, const void* recvCounts,
                         const void* rdispls, HcclDataType recvType, HcclComm comm,
                         aclrtStream stream) {
  return Hccl([&] {
    const char* const name = "HcclAlltoAllV";
    const auto communicator = FindCommunicator(comm, name);
    Require(
        sendCounts != nullptr && sdispls != nullptr && recvCounts != nullptr && rdispls != nullptr,
        HCCL_E_PTR, name, "counts and displacements must not be null", "null");
    Require(sendType == recvType, HCCL_E_PARA, name, "both element types must be the same",
            static_cast<int>(sendType), " and ", static_cast<int>(recvType));
    const auto ranks = static_cast<size_t>(communicator->group->size());
    const size_t bytes = BytesOf(sendType, name);
    const auto send_counts = Counts(sendCounts, ranks), send_starts = Counts(sdispls, ranks);
    const auto counts = Counts(recvCounts, ranks), starts = Counts(rdispls, ranks);
    const size_t reach = Reach(send_counts, send_starts, bytes);
    const Buffer send = CheckBuffer(sendBuf, reach, name);
    const Buffer receive = CheckBuffer(recvBuf, Reach(counts, starts, bytes), name);
    Queue(name, stream, [=] {
      ExchangeParts(*communicator, send, reach, send_counts, send_starts, receive, counts, starts,
                    bytes);
    });
  });
}

HcclResult HcclAlltoAll(const void* sendBuf, uint64_t sendCount, HcclDataType sendType,
                        const void* recvBuf, uint64_t recvCount, HcclDataType recvType,
                        HcclComm comm, aclrtStream stream) {
  const auto communicator = Communicators::OfProcess().Find(comm);
  const size_t ranks =
      communicator == nullptr ? 0 : static_cast<size_t>(communicator->group->size());
  std::vector<uint64_t> sends(ranks, sendCount), receives(ranks, recvCount), from, to;
  for (uint64_t rank = 0; rank < ranks; ++rank) {
    from.push_back(rank * sendCount);
    to.push_back(rank * recvCount);
  }
  return HcclAlltoAllV(sendBuf, sends.data(), from.data(), sendType, recvBuf, receives.data(),
                       to.data(), recvType, comm, stream);
}
