// Readers that do on purpose what a sound reader never does, so that a test can see that it is noticed. They
// misbehave for bytes that begin with a capital letter, once in a few hundred mutations of their seed.

#include <chrono>
#include <csignal>
#include <stdexcept>
#include <thread>

#include "base/error.hpp"
#include "tests/fuzz/reader.hpp"

namespace fluxformer::fuzz {
namespace {

bool tempted(std::span<const std::uint8_t> bytes) {
  return !bytes.empty() && bytes[0] >= 'A' && bytes[0] <= 'Z';
}

void crash(std::span<const std::uint8_t> bytes) {
  if (tempted(bytes)) std::raise(SIGSEGV);
}

void leave(std::span<const std::uint8_t> bytes) {
  if (tempted(bytes)) std::_Exit(0);
}

void hang(std::span<const std::uint8_t> bytes) {
  while (tempted(bytes)) std::this_thread::sleep_for(std::chrono::seconds(1));
}

void devour(std::span<const std::uint8_t> bytes) {
  if (!tempted(bytes)) return;
  std::vector<std::vector<char>> all;
  for (int k = 0; k < 300; ++k) all.emplace_back(std::size_t{1} << 23U, 'x');  // 8 MB each
}

void throw_another(std::span<const std::uint8_t> bytes) {
  if (tempted(bytes)) throw std::out_of_range("another exception");
}

void fail(std::span<const std::uint8_t> bytes) {
  if (tempted(bytes)) throw Error(ExitCode::failure, "not the file's fault");
}

}  // namespace

std::vector<Reader> misbehaving_readers() {
  return {{"crash", "ini", crash},   {"leave", "ini", leave},         {"hang", "ini", hang},
          {"devour", "ini", devour}, {"throw", "ini", throw_another}, {"fail", "ini", fail}};
}

}  // namespace fluxformer::fuzz
