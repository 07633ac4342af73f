#pragma once

// Gradients of the losses of single samples, over the variables r of Trainable: with theta(r) and D = d theta
// / d r,
//
//   g_i = D (d l_i / d theta),   L = (1/N) sum_i l_i + penalty.
//
// l_i has no weight 1/N. For a model that guesses words it is the sum over the words of the sample, divided
// by the mean number of words of a sample: the mean of l_i is then the mean over words, as in L.

#include <mpi.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/index.hpp"
#include "model/sample_set.hpp"
#include "model/tasks/task.hpp"
#include "solvers/spectra/blocks.hpp"
#include "training/trainable.hpp"

namespace fluxformer::influence {

/// Entries of the flat vector that influence is measured over, all of them trained. `words`: {"all"}, all
/// trained entries, or kinds of hessian::block_kinds, where "head" is the last linear map, with its bias.
/// Throws BadInput, naming `key`, for another word, for "all" beside others, and where a model has no such
/// entry. Not collective.
spectra::Block chosen_variables(const Parameters& parameters, const Trainable& trainable,
                                const std::vector<std::string>& words, const std::string& key);

/// own := the entries of `block` out of `whole`, in its order. Not collective.
void take_entries(std::span<const double> whole, const spectra::Block& block, std::vector<double>& own);

/// One sample and the gradient of its loss, valid during a visit.
struct SampleGradient {
  Index place;                       ///< place among the members of the SampleSet
  std::span<const double> gradient;  ///< g_i of the entries of the block, in its order
  double loss;                       ///< l_i
  double correct;                    ///< 1 or 0: the class is right; of words: the share that counts in l_i
};

/// Numbers of the samples of a set, by their place; the same on all ranks.
struct SampleNumbers {
  std::vector<double> loss;     ///< l_i
  std::vector<double> correct;  ///< SampleGradient::correct
  std::vector<double> norm;     ///< |g_i|
};

/// The gradients of the samples of a set, computed one sample at a time and not kept.
class SampleGradients {
 public:
  /// Borrows the parameters, the variables and what the set borrows. The set may have any capacity, and its
  /// batches are prepared as the set says. The parameters keep their values as long as this lives. Not
  /// collective. Throws BadInput for a block that leaves the flat vector, and as make_task does.
  SampleGradients(const Parameters& parameters, const Trainable& trainable, const SampleSet& samples,
                  const Loss& loss, const spectra::Block& block);
  ~SampleGradients();
  SampleGradients(const SampleGradients&) = delete;
  SampleGradients& operator=(const SampleGradients&) = delete;

  /// Calls visit(sample) for each sample of this rank's replica, in the order of their places. All ranks of a
  /// token line get the same. Cost: a gradient for each sample, every time. Collective over the ranks of the
  /// samples; `visit` may communicate over the token line only; what it throws on one rank all throw.
  void for_each(const std::function<void(const SampleGradient&)>& visit);
  /// True on the rank of a token line that keeps what all of them get: of each sample on one rank.
  bool keeps() const;

  /// Number of samples on all ranks.
  Index samples() const { return samples_.size(); }
  /// Number of entries of a gradient.
  Index size() const { return spectra::block_size(block_); }
  const spectra::Block& block() const { return block_; }
  MPI_Comm comm() const { return samples_.comm(); }

 private:
  class Pass;
  void visit_batch(const Batch& batch, const std::function<void(const SampleGradient&)>& visit);
  const Parameters& parameters_;
  const Trainable& trainable_;
  SampleSet samples_;
  spectra::Block block_;
  std::unique_ptr<Pass> pass_;
  std::vector<double> whole_, own_;  // the gradient over all variables, and over the block
};

/// Collects SampleNumbers during visits.
class SampleNumbersOf {
 public:
  /// Numbers of so many samples, on all ranks together.
  explicit SampleNumbersOf(Index samples);
  /// Takes the numbers of a sample on the rank that keeps it. Not collective.
  void add(const SampleGradient& sample);
  /// The numbers of all samples, on all ranks. Collective.
  SampleNumbers gathered(MPI_Comm comm);

 private:
  SampleNumbers numbers_;
};

/// Throws BadInput unless gradients of training and of test samples have the same block. Not collective.
void require_one_block(const SampleGradients& train, const SampleGradients& test);

/// Losses and norms of all samples; costs a gradient for each. Collective.
SampleNumbers sample_numbers(SampleGradients& gradients);

}  // namespace fluxformer::influence
