#include "drivers/compare/compare_problem.hpp"

#include <algorithm>
#include <sstream>

#include "base/error.hpp"
#include "base/reductions.hpp"
#include "drivers/common/data_options.hpp"

namespace fluxformer {

CompareProblem::CompareProblem(const Settings& settings, MPI_Comm comm)
    : comm_(comm),
      precision_(precision_of(settings)),
      models_(settings, comm),
      data_(open_data(settings, "test", models_.words(), comm)),
      line_(TokenLine::even(MPI_COMM_SELF, data_->tokens_x(), data_->tokens_y())),
      drawn_(
          shuffled(data_->size(), static_cast<std::uint64_t>(settings.integer("run.seed")), "compared", 0)),
      members_(drawn_) {
  models_.require_input(shape_of(*data_));
  const auto wanted = static_cast<std::size_t>(settings.integer("samples.count"));
  if (wanted > drawn_.size())
    throw BadInput("samples.count = " + std::to_string(wanted) + ": " + data_->name() + " has " +
                   std::to_string(drawn_.size()) + " test samples");
  if (wanted > 0) members_.resize(wanted);
  check_mpi(MPI_Comm_rank(comm, &replica_.index));
  check_mpi(MPI_Comm_size(comm, &replica_.count));
  const auto share = (members_.size() + static_cast<std::size_t>(replica_.count) - 1) /
                     static_cast<std::size_t>(replica_.count);
  batch_ = static_cast<int>(std::min(share, static_cast<std::size_t>(settings.count("samples.batch"))));
}

std::unique_ptr<ModelProbe> CompareProblem::probe(const Parameters& parameters) const {
  return std::make_unique<ModelProbe>(parameters, line_, batch_, parameters.spec.cells, precision_);
}

std::vector<std::size_t> CompareProblem::other_members(long count, const std::string& key) const {
  if (members_.size() + static_cast<std::size_t>(count) > drawn_.size())
    throw BadInput(key + " = " + std::to_string(count) + ": " + data_->name() + " has only " +
                   std::to_string(drawn_.size() - members_.size()) +
                   " test samples beside those of samples.count");
  const auto first = drawn_.begin() + static_cast<std::ptrdiff_t>(members_.size());
  return {first, first + count};
}

void CompareProblem::for_samples(const std::vector<std::size_t>& members,
                                 const std::function<void(const Batch&)>& visit) const {
  collectively(comm_, [&] { for_all_samples(*data_, members, batch_, replica_, visit); });
}

void CompareProblem::sum(std::vector<double>& numbers) const {
  sum_over_ranks(numbers, comm_);
}

std::string CompareProblem::describe() const {
  std::ostringstream text;
  text << models_.seeds().size() << " seed(s); " << data_->name() << ": " << members_.size()
       << " test samples, " << line_.tokens_x() << " x " << line_.tokens_y() << " tokens; " << replica_.count
       << " rank(s), up to " << batch_ << " samples each at a time";
  for (const auto& name : models_.names()) {
    const auto& one = models_.at(0, name).parameters;
    text << '\n'
         << name << ": " << one.spec.layers << " layers on " << one.spec.cells << " depth cells, "
         << one.spec.knots << " sets of weights, norm " << to_word(one.spec.norm) << ", " << one.values.size()
         << " parameters; " << models_.at(0, name).trained;
  }
  return text.str();
}

}  // namespace fluxformer
