#include "drivers/paths/path_points.hpp"

#include "base/mpi.hpp"

namespace fluxformer {
namespace {

/// Part of a list that belongs to the points after those of the theory.
template <typename T>
std::vector<T> after(const std::vector<T>& all, std::size_t count) {
  return {all.begin() + count, all.end()};
}

}  // namespace

PathPoints::PathPoints(const Settings& settings, PathTasks& tasks)
    : theory_(settings, tasks), ranks_of_point_(mpi::size(tasks.together())) {
  if (settings.word("paths.task") == "one_shot")
    source_ = {.called = "paths.attention = " + settings.word("paths.attention"),
               .digest = tasks.attention_digest()};
  if (settings.word("paths.study") == "sample")
    chains_ = std::make_unique<ChainPoints>(settings, tasks, theory_);
  if (settings.word("paths.study") == "prune")
    pruned_ = std::make_unique<PrunePoints>(settings, tasks, theory_.widths().front(),
                                            theory_.temperatures().front());
}

std::size_t PathPoints::numbers(std::size_t point) const {
  if (point < theory_.count()) return theory_.numbers(point);
  const std::size_t further = point - theory_.count();
  return chains_ ? chains_->numbers(further) : pruned_->numbers(further);
}

std::vector<double> PathPoints::measure(std::size_t point) {
  if (point < theory_.count()) return theory_.measure(point);
  const std::size_t further = point - theory_.count();
  return chains_ ? chains_->measure(further) : pruned_->measure(further);
}

std::string PathPoints::describe() const {
  return theory_.describe() + (chains_ ? chains_->describe() : "") + (pruned_ ? pruned_->describe() : "");
}

std::string PathPoints::summary(const std::vector<std::vector<double>>& found) const {
  const auto further = after(found, theory_.count());
  return theory_.summary(found) + (chains_ ? chains_->summary(further) : "") +
         (pruned_ ? pruned_->summary(further) : "");
}

void PathPoints::add_axes(StudyRecord& record) {
  theory_.add_axes(record);
  if (chains_) chains_->add_axes(record);
  if (pruned_) pruned_->add_axes(record);
}

void PathPoints::add(const std::vector<std::vector<double>>& found, const std::vector<double>& seconds,
                     StudyRecord& record) const {
  auto theory_seconds = seconds;
  theory_seconds.resize(theory_.count());
  theory_.add(found, theory_seconds, record);
  if (chains_) chains_->add(after(found, theory_.count()), after(seconds, theory_.count()), found, record);
  if (pruned_) pruned_->add(after(found, theory_.count()), record);
}

}  // namespace fluxformer
