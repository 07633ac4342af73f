#include "analysis/accumulator.hpp"

#include <cmath>
#include <stdexcept>

#include "analysis/state_examples.hpp"
#include "base/mpi.hpp"

namespace fluxformer {

void Accumulator::reduce(MPI_Comm comm) {
  if (reduced_) throw std::logic_error("sums over samples are reduced twice");
  sum_over_ranks(sums_, comm);
  reduced_ = true;
}

double* Accumulator::local() {
  if (reduced_) throw std::logic_error("something is added to sums that are reduced");
  return sums_.data();
}

const std::vector<double>& Accumulator::total() const {
  if (!reduced_) throw std::logic_error("sums over samples are read before they are reduced");
  return sums_;
}

double SampleTable::mean(Index column) const {
  // Sum over the size() / columns_ samples, divided by their number
  double sum = 0;
  for (Index at = column; at < size(); at += columns_) sum += total()[at];
  return sum * columns_ / size();
}

double SampleTable::largest(Index column) const {
  // NaN is taken over wherever it stands, and it stays, because no number is greater than NaN.
  double most = total()[column];
  for (Index at = column; at < size(); at += columns_)
    if (std::isnan(total()[at]) || total()[at] > most) most = total()[at];
  return most;
}

void require_whole_samples(const SampleSet& samples) {
  need_whole_line(samples.line(), "sums over samples");
}

}  // namespace fluxformer
