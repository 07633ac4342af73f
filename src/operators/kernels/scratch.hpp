#pragma once

// Work space of an operator: one aligned block of memory that is handed out in parts and never shrinks. Parts
// are aligned to cache lines, so that vector loads do not straddle two of them and timings are repeatable.

#include <cstddef>
#include <memory>
#include <new>

namespace fluxformer {

/// Not thread-safe; parts are plain pointers and end with the next reset.
template <class T>
class Scratch {
 public:
  /// Makes room for `count` numbers in at most `parts` parts of any size. Earlier parts become invalid.
  void reset(std::size_t count, std::size_t parts) {
    const std::size_t needed = count + parts * line;
    if (needed > capacity_) {
      memory_.reset(static_cast<T*>(::operator new (needed * sizeof(T), std::align_val_t{alignment})));
      capacity_ = needed;
    }
    used_ = 0;
  }
  /// The next part, aligned, not initialised.
  T* take(std::size_t count) {
    T* part = memory_.get() + used_;
    used_ += (count + line - 1) / line * line;
    return part;
  }

 private:
  static constexpr std::size_t alignment = 64;
  static constexpr std::size_t line = alignment / sizeof(T);
  struct Free {
    void operator()(T* memory) const { ::operator delete (memory, std::align_val_t{alignment}); }
  };
  std::unique_ptr<T, Free> memory_;
  std::size_t capacity_ = 0;
  std::size_t used_ = 0;
};

}  // namespace fluxformer
