#include "tests/fuzz/worker.hpp"

#include <hdf5.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <functional>
#include <iostream>

#include "tests/fuzz/mutation.hpp"

namespace fluxformer::fuzz {
namespace {

constexpr long leaked_before_restart = 256L << 10U;  // kB

/// Digest of a kind of messages: of all words but numbers and quoted names.
std::size_t kind_of(const std::string& message) {
  std::string words;
  char quote = 0;
  for (const char c : message) {
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if ((c < '0' || c > '9') && static_cast<unsigned char>(c) < 0x80) {
      words += c;
    }
  }
  return std::hash<std::string>()(words.substr(0, 400));
}

long resident() {
  std::ifstream file("/proc/self/statm");
  long size = 0, pages = 0;
  file >> size >> pages;
  return 4 * pages;
}

}  // namespace

std::int64_t now() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

bool over(const Task& task, std::uint64_t next) {
  return next >= task.runs || static_cast<double>(now() - task.begun) > 1e9 * task.seconds;
}

Bytes make_input(const Task& task, std::uint64_t number) {
  const auto& seeds = task.seeds;
  if (number < seeds.size()) return seeds[number];
  Draws draws(task.key + 0x9E3779B97F4A7C15U * (number + std::hash<std::string>()(task.reader.name)));
  draws.next();
  Bytes bytes = seeds[draws.below(seeds.size())];
  mutate(bytes, seeds[draws.below(seeds.size())], draws, largest_input);
  if (task.reader.repair != nullptr && draws.one_in(2)) task.reader.repair(bytes);
  return bytes;
}

void save_finding(const Task& task, Shared& shared, std::span<const std::uint8_t> bytes,
                  const std::string& what, std::size_t kind) {
  if (shared.kinds[kind % shared.kinds.size()]) return;
  shared.kinds.set(kind % shared.kinds.size());
  const auto stem = task.findings + "/" + task.reader.name + "-" + std::to_string(++shared.findings);
  std::ofstream(stem, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  std::ofstream(stem + ".txt") << what << '\n';
  std::cout << task.reader.name << ": " << what.substr(0, what.find('\n')) << "\n  input " << shared.next
            << ", written to " << stem << std::endl;
}

int work(const Task& task, Shared& shared) {
  const long at_first = resident();
  for (; !over(task, shared.next); ++shared.next) {
    const Bytes bytes = make_input(task, shared.next);
    std::ranges::copy(bytes, shared.bytes);
    shared.size = bytes.size();
    const auto begun = now();
    shared.started = begun;
    const Outcome outcome = judge(task.reader, bytes);
    shared.started = 0;
    const auto took = now() - begun;
    shared.reading += took;
    shared.slowest = std::max(shared.slowest.load(), took);
    if (outcome.kind == Outcome::Kind::accepted) ++shared.accepted;
    if (outcome.kind == Outcome::Kind::refused)
      shared.messages.set(kind_of(outcome.what) % shared.messages.size());
    if (outcome.kind == Outcome::Kind::finding)
      save_finding(task, shared, bytes, outcome.what, kind_of(outcome.what));

    const bool left_open = H5Fget_obj_count(H5F_OBJ_ALL, H5F_OBJ_ALL) > 0;
    if (left_open || (shared.next % 64 == 63 && resident() > at_first + leaked_before_restart)) {
      H5close();  // as at the end of the program
      ++shared.next;
      return worker_again;
    }
  }
  H5close();
  return worker_done;
}

}  // namespace fluxformer::fuzz
