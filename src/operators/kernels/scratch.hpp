#pragma once

// Work space of an operator: one aligned block of memory that is handed out in parts and never shrinks. Parts
// are aligned to cache lines, so that vector loads do not straddle two of them and timings are repeatable.

#include <memory>
#include <new>

#include "base/index.hpp"

namespace fluxformer {

/// Memory for numbers T. Not thread-safe; parts are plain pointers and end with the next reset.
template <class T>
class Scratch {
 public:
  /// Makes room for `count` numbers in at most `parts` parts of any size. Earlier parts become invalid.
  void reset(Index count, Index parts) {
    const Index needed = count + parts * line;
    if (needed > capacity_) {
      memory_.reset(static_cast<T*>(::operator new (needed * sizeof(T), std::align_val_t{alignment})));
      capacity_ = needed;
    }
    used_ = 0;
  }
  /// The next part, aligned, not initialised.
  T* take(Index count) {
    T* part = memory_.get() + used_;
    used_ += (count + line - 1) / line * line;
    return part;
  }

 private:
  static constexpr Index alignment = 64;
  static constexpr Index line = alignment / sizeof(T);
  struct Free {
    void operator()(T* memory) const { ::operator delete (memory, std::align_val_t{alignment}); }
  };
  std::unique_ptr<T, Free> memory_;
  Index capacity_ = 0;
  Index used_ = 0;
};

}  // namespace fluxformer
