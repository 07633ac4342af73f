#pragma once

// The frame of an experiment that compares models: set up, every model of every seed in turn, write.

#include <memory>
#include <string>

#include "drivers/common/experiment.hpp"
#include "drivers/compare/compare_problem.hpp"
#include "drivers/compare/compare_record.hpp"

namespace fluxformer {

/// What one such experiment measures. Made after the problem, which it borrows: its constructor throws
/// BadInput for anything in its own keys that cannot run.
class Comparison {
 public:
  virtual ~Comparison() = default;
  /// Its axes and what is measured once. Collective.
  virtual void begin(CompareRecord& record) = 0;
  /// Model `name` of the seed at place `seed`: all numbers it adds are the same on all ranks. Seeds come in
  /// order, for each the Transformer first. Collective.
  virtual void measure(std::size_t seed, const std::string& name, CompareRecord& record) = 0;
  /// One line for the end of the run; "" for none.
  virtual std::string summary() const { return {}; }
};

using MakeComparison =
    std::function<std::unique_ptr<Comparison>(const Settings& settings, const CompareProblem& problem)>;

/// Collective; throws BadInput (agreed).
std::unique_ptr<Experiment> make_comparison(const Settings& settings, const RunContext& context,
                                            const MakeComparison& make);

}  // namespace fluxformer
