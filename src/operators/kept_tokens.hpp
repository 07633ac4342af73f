#pragma once

// What later tokens need of those that were marched before: a line grows by marches of its new tokens alone. That is
// their keys and values, which attention takes beside the keys of its slab, as if another rank of the line held
// them, and the state of the last one, from which transport carries to the next.

#include <algorithm>
#include <deque>
#include <variant>
#include <vector>

#include "base/index.hpp"

namespace fluxformer {

/// The keys and values that one application of attention has seen so far, of all samples of a slab.
template <class T>
class KeptLayer {
 public:
  /// Room for `room` tokens of `per_token` = 2 G c numbers; with more the first ones are dropped. `betas` numbers of
  /// a token and sample are kept, too (heads for l2, else 0).
  KeptLayer(Index samples, Index room, Index per_token, Index betas)
      : room_(room),
        per_token_(per_token),
        betas_(betas),
        kv_(samples * room * per_token),
        beta_(samples * betas * room) {}

  Index per_token() const { return per_token_; }
  /// Global indices of the tokens, rising.
  const std::vector<int>& index() const { return index_; }
  /// Keys | values of a sample, token by token; and beta of a sample and head.
  const T* keys(Index sample) const { return kv_.data() + sample * room_ * per_token_; }
  const T* beta(Index sample, Index head) const { return beta_.data() + (sample * betas_ + head) * room_; }

  /// Adds `count` tokens of a sample, keys | values token by token. `add_index` follows, once for all samples.
  void add_keys(Index sample, Index count, const T* from) {
    add(kv_.data() + sample * room_ * per_token_, per_token_, count, from);
  }
  /// Adds their beta of a head.
  void add_beta(Index sample, Index head, Index count, const T* from) {
    add(beta_.data() + (sample * betas_ + head) * room_, 1, count, from);
  }
  /// Adds the global indices of these tokens, and drops those of the first ones that have no room.
  void add_index(const std::vector<int>& tokens) {
    const Index stay = staying(std::ssize(tokens)), fresh = std::min(room_, std::ssize(tokens));
    index_.erase(index_.begin(), index_.end() - stay);
    index_.insert(index_.end(), tokens.end() - fresh, tokens.end());
  }

 private:
  /// How many of the tokens stay when `count` are added.
  Index staying(Index count) const { return std::min(std::ssize(index_), std::max(room_ - count, Index{0})); }
  void add(T* to, Index numbers, Index count, const T* from) const {
    const Index there = std::ssize(index_), stay = staying(count), fresh = std::min(room_, count);
    if (stay < there) std::copy_n(to + (there - stay) * numbers, stay * numbers, to);
    std::copy_n(from + (count - fresh) * numbers, fresh * numbers, to + stay * numbers);
  }

  Index room_, per_token_, betas_;
  std::vector<T> kv_, beta_;  // [sample][token][2 G c], [sample][head][token]
  std::vector<int> index_;
};

/// Stores of all applications of terms in a march through depth, in their order: one for each cell, or for each
/// evaluation of its subflow.
class KeptTokens {
 public:
  /// For lines of up to `tokens` tokens.
  KeptTokens(int tokens, int samples) : tokens_(tokens), samples_(samples) {}

  /// To be called before each march.
  void begin_march() { next_ = next_row_ = 0; }
  /// The keys of the next application of attention, which are made in the first march. `window`: that of the layer,
  /// 0: none.
  template <class T>
  KeptLayer<T>& next(int window, Index per_token, Index betas) {
    // A token of a window hears itself and W - 1 before it.
    const Index room = window > 0 ? std::min(Index{window} - 1, tokens_) : tokens_;
    if (next_ == layers_.size()) layers_.emplace_back(KeptLayer<T>(samples_, room, per_token, betas));
    return std::get<KeptLayer<T>>(layers_[next_++]);
  }
  /// The row of the last token for the next application of transport; empty in the first march.
  std::vector<double>& next_row() {
    if (next_row_ == rows_.size()) rows_.emplace_back();
    return rows_[next_row_++];
  }

 private:
  Index tokens_, samples_;
  std::deque<std::variant<KeptLayer<float>, KeptLayer<double>>> layers_;  // which stay where they are
  std::deque<std::vector<double>> rows_;                                  // [sample][channel]
  std::size_t next_ = 0, next_row_ = 0;
};

}  // namespace fluxformer
