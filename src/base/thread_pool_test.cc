// Tests of the worker team: completeness, errors, nesting, callers, phases, waiting and idling.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/stopwatch.h"
#include "opst/error.h"

namespace opst {
namespace {

// More than the cores of a small machine, so that waiting must give cores away.
constexpr int kTeamSizes[] = {1, 2, 3, 17};

double ProcessCpuUs() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return 1e6 * static_cast<double>(time.tv_sec) + 1e-3 * static_cast<double>(time.tv_nsec);
}

void Sleep(int milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

TEST(ThreadPoolTest, ParallelForVisitsEveryIndexOnce) {
  for (const int team : kTeamSizes) {
    ThreadPool pool(team);
    for (const size_t n : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> visits(n);
      pool.ParallelFor(n, [&](size_t index, int worker) {
        EXPECT_TRUE(worker >= 0 && worker < team);
        visits[index].fetch_add(1, std::memory_order_relaxed);
      });
      for (size_t index = 0; index < n; ++index) EXPECT_EQ(visits[index], 1) << index;
    }
  }
}

TEST(ThreadPoolTest, RunCallsEveryWorkerOnceAndTheCallerIsWorkerZero) {
  for (const int team : kTeamSizes) {
    ThreadPool pool(team);
    std::vector<int> calls(static_cast<size_t>(team));
    std::thread::id zero;
    pool.Run([&](int worker, int num_workers) {
      EXPECT_EQ(num_workers, team);
      ++calls[static_cast<size_t>(worker)];
      if (worker == 0) zero = std::this_thread::get_id();
    });
    EXPECT_EQ(calls, std::vector<int>(static_cast<size_t>(team), 1));
    EXPECT_EQ(zero, std::this_thread::get_id());
  }
}

TEST(ThreadPoolTest, FewerThanOneWorkerMeansOne) {
  EXPECT_EQ(ThreadPool(0).num_workers(), 1);
  EXPECT_EQ(ThreadPool(-3).num_workers(), 1);
}

TEST(ThreadPoolTest, ExceptionOfAnyWorkerReachesTheCallerAndThePoolStaysUsable) {
  for (const int team : kTeamSizes) {
    ThreadPool pool(team);
    for (int thrower = 0; thrower < team; ++thrower) {
      try {
        pool.Run([&](int worker, int) {
          if (worker == thrower) throw std::runtime_error("worker " + std::to_string(worker));
        });
        FAIL() << "nothing was thrown";
      } catch (const std::runtime_error& error) {
        EXPECT_EQ(error.what(), "worker " + std::to_string(thrower));
      }
    }
    std::atomic<int> calls{0};
    pool.Run([&](int, int) { ++calls; });
    EXPECT_EQ(calls, team);
  }
}

TEST(ThreadPoolTest, OneOfSeveralExceptionsIsRethrown) {
  ThreadPool pool(4);
  for (int i = 0; i < 20; ++i) {
    EXPECT_THROW(pool.Run([](int, int) { throw std::logic_error("all"); }), std::logic_error);
  }
}

TEST(ThreadPoolTest, ExceptionOfOneIndexIsRethrown) {
  ThreadPool pool(2);
  EXPECT_THROW(pool.ParallelFor(100,
                                [](size_t index, int) {
                                  if (index == 50) throw std::out_of_range("50");
                                }),
               std::out_of_range);
}

TEST(ThreadPoolTest, NestedSectionsRunOnTheirWorkerAlone) {
  ThreadPool pool(3);
  std::atomic<int> inner_calls{0};
  pool.Run([&](int, int) {
    const std::thread::id self = std::this_thread::get_id();
    pool.Run([&](int worker, int num_workers) {
      EXPECT_EQ(worker, 0);
      EXPECT_EQ(num_workers, 1);
      EXPECT_EQ(std::this_thread::get_id(), self);
      ++inner_calls;
    });
    pool.ParallelFor(5, [&](size_t, int) { EXPECT_EQ(std::this_thread::get_id(), self); });
  });
  EXPECT_EQ(inner_calls, 3);
}

TEST(ThreadPoolTest, ExceptionOfANestedSectionReachesTheOuterCaller) {
  ThreadPool pool(2);
  EXPECT_THROW(pool.Run([&](int, int) {
    pool.ParallelFor(4, [](size_t, int) { throw std::runtime_error("inner"); });
  }),
               std::runtime_error);
}

TEST(ThreadPoolTest, SectionsOfSeveralCallersTakeTurns) {
  for (const int team : {2, 4}) {
    ThreadPool pool(team);
    std::atomic<int> inside{0};
    std::atomic<int64_t> total{0};
    std::vector<std::thread> callers;
    for (int caller = 0; caller < 4; ++caller) {
      callers.emplace_back([&] {
        for (int i = 0; i < 200; ++i) {
          pool.Run([&](int, int num_workers) {
            EXPECT_LE(inside.fetch_add(1) + 1, num_workers);
            total.fetch_add(1);
            inside.fetch_sub(1);
          });
        }
      });
    }
    for (std::thread& caller : callers) caller.join();
    EXPECT_EQ(total, 4 * 200 * team);
  }
}

TEST(ThreadPoolTest, SectionsSeparatePhases) {
  for (const int team : kTeamSizes) {
    ThreadPool pool(team);
    std::vector<int> phase_of(40, -1);  // plain: the end of a section must order it
    for (int phase = 0; phase < 50; ++phase) {
      pool.ParallelFor(phase_of.size(), [&](size_t index, int) { phase_of[index] = phase; });
      pool.ParallelFor(phase_of.size(), [&](size_t, int) {
        for (const int seen : phase_of) EXPECT_EQ(seen, phase);
      });
    }
  }
}

// Peers that waited for the failed worker would hang here.
TEST(ThreadPoolTest, AWorkerThatThrowsInAnyPhaseHoldsUpNobody) {
  for (const int team : kTeamSizes) {
    ThreadPool pool(team);
    for (int round = 0; round < 50; ++round) {
      std::atomic<size_t> done{0};
      EXPECT_THROW(pool.ParallelFor(200,
                                    [&](size_t index, int) {
                                      if (index == 100) throw std::runtime_error("phase");
                                      done.fetch_add(1);
                                    }),
                   std::runtime_error);
      // A team of one stops at the error, peers of a larger one finish what is left.
      EXPECT_GE(done, 100u);
    }
  }
}

// Both directions: a caller that waits for a worker, a worker that waits for the next section.
TEST(ThreadPoolTest, WhoeverWaitsLongGoesToSleep) {
  ThreadPool pool(2);
  // The time limit only ends a failing test.
  const auto wait_for_more_than = [&](uint64_t num_sleeps) {
    const Stopwatch watch;
    while (pool.num_sleeps() <= num_sleeps && watch.elapsed_us() < 60e6) std::this_thread::yield();
    return pool.num_sleeps();
  };
  std::atomic<bool> has_worker_come{false};
  std::atomic<int64_t> before{-1};  // read while both are awake
  uint64_t of_caller = 0;
  pool.Run([&](int worker, int) {
    if (worker == 0) {
      while (!has_worker_come) std::this_thread::yield();
      before = static_cast<int64_t>(pool.num_sleeps());
      return;
    }
    has_worker_come = true;
    while (before < 0) std::this_thread::yield();
    of_caller = wait_for_more_than(static_cast<uint64_t>(before));  // holds the caller up
    EXPECT_GT(of_caller, static_cast<uint64_t>(before));
  });
  EXPECT_GT(wait_for_more_than(of_caller), of_caller);
}

TEST(ThreadPoolTest, ParkedWorkersWakeForEachSection) {
  ThreadPool pool(3);
  std::atomic<int> calls{0};
  for (int i = 0; i < 100; ++i) {
    pool.Run([&](int, int) { ++calls; });
    // Some sections meet spinning workers, some parked ones, some those in between.
    std::this_thread::sleep_for(std::chrono::microseconds(37 * (i % 10)));
  }
  EXPECT_EQ(calls, 300);
}

TEST(ThreadPoolTest, PlainMemoryOfWorkersIsVisibleAfterTheSection) {
  ThreadPool pool(4);
  std::vector<int> values(1000);
  for (int round = 1; round <= 50; ++round) {
    pool.ParallelFor(values.size(), [&](size_t index, int) { values[index] += round; });
    for (const int value : values) ASSERT_EQ(value, round * (round + 1) / 2);
  }
}

TEST(ThreadPoolTest, SeveralPoolsLiveSideBySide) {
  ThreadPool first(2);
  ThreadPool second(3);
  std::atomic<int> calls{0};
  first.Run([&](int, int) { second.Run([&](int, int num_workers) { calls += num_workers; }); });
  EXPECT_EQ(calls, 2);  // nested, although in another pool: cores are not asked for twice
  second.Run([&](int, int) { ++calls; });
  EXPECT_EQ(calls, 5);
}

TEST(ThreadPoolTest, IdlePoolUsesNoCpuTime) {
  ThreadPool pool(8);
  pool.Run([](int, int) {});
  Sleep(50);
  const double before = ProcessCpuUs();
  const Stopwatch stopwatch;
  Sleep(300);
  EXPECT_LT(ProcessCpuUs() - before, 0.05 * stopwatch.elapsed_us());
}

TEST(ThreadPoolTest, DestructionWakesParkedAndSpinningWorkers) {
  for (int i = 0; i < 20; ++i) {
    ThreadPool pool(5);
    if (i % 2 == 0) pool.Run([](int, int) {});
    if (i % 4 == 0) Sleep(2);
  }
}

// The end of the pool may come while a worker tries to enter its last section.
TEST(ThreadPoolTest, PoolsEndRightAfterTheirLastSection) {
  for (int i = 0; i < 3000; ++i) {
    ThreadPool pool(4);
    for (int section = 0; section <= i % 3; ++section) pool.ParallelFor(2, [](size_t, int) {});
  }
}

// The thread sanitizer delivers signals only when the thread calls into it, which a waiting worker
// does not.
#if !defined(__SANITIZE_THREAD__)
std::atomic<bool> is_held{false};
std::atomic<bool> holds{false};
void HoldThisThread(int) {
  is_held = true;
  while (holds) {
  }
}

// A worker without a core, as on a machine whose cores are busy with other processes: it is kept in
// a signal handler.
TEST(ThreadPoolTest, AWorkerThatCannotRunHoldsUpNoQueueOfTasks) {
  struct sigaction action {};
  action.sa_handler = HoldThisThread;
  struct sigaction former {};
  ASSERT_EQ(sigaction(SIGUSR1, &action, &former), 0);
  {
    ThreadPool pool(2);
    pthread_t threads[2];
    pool.Run([&](int worker, int) { threads[worker] = pthread_self(); });
    holds = true;
    ASSERT_EQ(pthread_kill(threads[1], SIGUSR1), 0);
    while (!is_held) std::this_thread::yield();
    std::vector<int> visits(100, 0);  // plain: only the caller can come
    for (int round = 0; round < 10; ++round) {
      pool.ParallelFor(visits.size(), [&](size_t index, int worker) {
        EXPECT_EQ(worker, 0);
        ++visits[index];
      });
    }
    EXPECT_EQ(visits, std::vector<int>(100, 10));
    holds = false;
    std::atomic<int> calls{0};
    pool.Run([&](int, int) { ++calls; });  // and it comes back
    EXPECT_EQ(calls, 2);
  }
  sigaction(SIGUSR1, &former, nullptr);
}
#endif

// Sanitizers reserve more address space than this test leaves.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
[[noreturn]] void StartMoreWorkersThanFit() {
  const rlimit limit{size_t{1} << 30, size_t{1} << 30};
  setrlimit(RLIMIT_AS, &limit);
  try {
    const ThreadPool pool(4096);
  } catch (const Error& error) {
    std::_Exit(error.kind() == ErrorKind::kOutOfMemory ? 0 : 1);
  }
  std::_Exit(2);
}

TEST(ThreadPoolTest, ThreadsTheSystemRefusesAreOutOfMemory) {
  // In a child process, whose address space may stay small.
  EXPECT_EXIT(StartMoreWorkersThanFit(), testing::ExitedWithCode(0), "");
}
#endif

TEST(WorkQueueTest, HandsOutEachIndexOnceAndThenNothing) {
  WorkQueue queue(3);
  size_t index = 0;
  for (size_t expected = 0; expected < 3; ++expected) {
    ASSERT_TRUE(queue.Pop(index));
    EXPECT_EQ(index, expected);
  }
  EXPECT_FALSE(queue.Pop(index));
  EXPECT_FALSE(queue.Pop(index));
  WorkQueue empty(0);
  EXPECT_FALSE(empty.Pop(index));
}

}  // namespace
}  // namespace opst
