#pragma once

// One process that reads mutated inputs, and what it shares with the process that watches it.

#include <atomic>
#include <bitset>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/fuzz/reader.hpp"

namespace fluxformer::fuzz {

inline constexpr std::size_t largest_input = std::size_t{1} << 18U;
/// Exit codes of a worker: it is done, or wants to be started again because what it read left memory or open
/// identifiers behind. Every other end is a finding.
inline constexpr int worker_done = 70, worker_again = 71;

/// Memory shared by both processes: it is still there when the worker has crashed.
struct Shared {
  std::atomic<std::uint64_t> next{0};    ///< the number of the input being read
  std::atomic<std::int64_t> started{0};  ///< when its reading began, ns; 0 between inputs
  std::atomic<std::uint64_t> accepted{0}, findings{0};
  std::atomic<std::int64_t> slowest{0};    ///< ns
  std::atomic<std::int64_t> reading{0};    ///< ns in readers
  std::bitset<1U << 14U> messages, kinds;  ///< hashes of different refusals, and of different findings
  std::size_t size = 0;                    ///< of the input being read
  std::uint8_t bytes[largest_input];
};

/// Request to a worker.
struct Task {
  Reader reader;
  std::vector<Bytes> seeds;
  std::uint64_t key = 1;
  std::uint64_t runs = UINT64_MAX;
  double seconds = 1e30;  ///< from `begun`
  std::int64_t begun = 0;
  std::string findings;  ///< folder where findings are written
};

/// A clock that all processes share, ns.
std::int64_t now();
/// Whether a task has had its runs or its time.
bool over(const Task& task, std::uint64_t next);
/// Input `number` of a task: the same for the same seeds and key. The seeds themselves come first.
Bytes make_input(const Task& task, std::uint64_t number);
/// Writes an input and what happened to the folder of findings, unless a finding of this kind is there
/// already.
void save_finding(const Task& task, Shared& shared, std::span<const std::uint8_t> bytes,
                  const std::string& what, std::size_t kind);
/// Reads inputs from shared.next on. Returns the exit code.
int work(const Task& task, Shared& shared);

}  // namespace fluxformer::fuzz
