// The readers under libFuzzer, which keeps inputs that reach new code (README.md):
//
//   fuzz_readers_libfuzzer --reader=png -rss_limit_mb=2048 -timeout=30 FOLDER_OF_SEEDS

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "base/session.hpp"
#include "tests/fuzz/reader.hpp"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* bytes, std::size_t size, std::size_t most);

namespace fluxformer::fuzz {
namespace {

Reader chosen;

}  // namespace
}  // namespace fluxformer::fuzz

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  namespace fuzz = fluxformer::fuzz;
  for (int k = 1; k < *argc; ++k) {
    const std::string_view word = (*argv)[k];  // libFuzzer ignores those that begin with --
    if (!word.starts_with("--reader=")) continue;
    if (const auto found = fuzz::readers_called(std::string(word.substr(9))); found.size() == 1)
      fuzz::chosen = found.front();
  }
  if (fuzz::chosen.read == nullptr) {
    std::fputs("--reader=NAME is needed, the name of one reader\n", stderr);
    std::exit(2);
  }
  static fluxformer::Session session(*argc, *argv);
  fuzz::use_scratch_folder("/dev/shm/fluxformer-fuzz-" + std::to_string(getpid()));
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const auto outcome = fluxformer::fuzz::judge(fluxformer::fuzz::chosen, {bytes, size});
  if (outcome.kind != fluxformer::fuzz::Outcome::Kind::finding) return 0;
  std::fprintf(stderr, "%s: %s\n", fluxformer::fuzz::chosen.name.c_str(), outcome.what.c_str());
  std::abort();
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* bytes, std::size_t size, std::size_t most,
                                               unsigned seed) {
  size = LLVMFuzzerMutate(bytes, size, most);
  const auto repair = fluxformer::fuzz::chosen.repair;
  if (repair == nullptr || seed % 2 == 0) return size;
  fluxformer::fuzz::Bytes copy(bytes, bytes + size);
  repair(copy);  // keeps the size
  std::copy(copy.begin(), copy.end(), bytes);
  return size;
}
