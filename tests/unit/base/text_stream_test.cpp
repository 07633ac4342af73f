#include "base/text_stream.hpp"

#include <gtest/gtest.h>

#include <new>

namespace fluxformer {
namespace {

/// An allocator that has no memory for long strings.
template <class T>
struct LittleMemory {
  using value_type = T;
  LittleMemory() = default;
  template <class U>
  explicit LittleMemory(const LittleMemory<U>& /*other*/) {}
  T* allocate(std::size_t count) {
    if (count > 100) throw std::bad_alloc();
    return std::allocator<T>().allocate(count);
  }
  void deallocate(T* at, std::size_t count) { std::allocator<T>().deallocate(at, count); }
  bool operator==(const LittleMemory& /*other*/) const { return true; }
};
using LittleString = std::basic_string<char, std::char_traits<char>, LittleMemory<char>>;

TEST(TextStream, throws_where_memory_is_missing) {
  auto in = text_stream("one\n" + std::string(1000, 'a') + "\nthree\n");
  LittleString line;
  std::getline(in, line);
  EXPECT_EQ(line, "one");
  EXPECT_THROW(std::getline(in, line), std::bad_alloc);
}

TEST(TextStream, ends_as_others_do) {
  auto in = text_stream("1 a\n2 b");
  int number = 0, count = 0;
  std::string word;
  while (in >> number >> word) ++count;
  EXPECT_EQ(count, 2);
  EXPECT_EQ(number, 2);
}

}  // namespace
}  // namespace fluxformer
