#include "drivers/compare/compare_problem.hpp"

#include <sstream>

#include "base/error.hpp"
#include "base/random.hpp"
#include "drivers/common/data_options.hpp"

namespace fluxformer {

CompareProblem::CompareProblem(const Settings& settings, MPI_Comm comm)
    : comm_(comm),
      precision_(precision_of(settings)),
      models_(settings, comm),
      data_(open_data(settings, "test", models_.words(), comm)),
      line_(token_line(MPI_COMM_SELF, *data_)),
      drawn_(
          shuffled(data_->size(), static_cast<std::uint64_t>(settings.integer("run.seed")), "compared", 0)),
      samples_(choose_samples(settings)) {}

SampleSet CompareProblem::choose_samples(const Settings& settings) const {
  models_.require_input(shape_of(*data_));
  const auto wanted = static_cast<std::size_t>(settings.integer("samples.count"));
  if (wanted > drawn_.size())
    throw BadInput("samples.count = " + std::to_string(wanted) + ": " + data_->name() + " has " +
                   std::to_string(drawn_.size()) + " test samples");
  const SampleSet all(comm_, line_, *data_, drawn_, settings.count("samples.batch"));
  return all.first(wanted > 0 ? wanted : drawn_.size());
}

std::unique_ptr<ModelProbe> CompareProblem::probe(const Parameters& parameters) const {
  return std::make_unique<ModelProbe>(parameters, line_, samples_.capacity(), parameters.spec.cells,
                                      precision_);
}

SampleSet CompareProblem::other_samples(long count, const std::string& key) const {
  if (samples_.size() + static_cast<std::size_t>(count) > drawn_.size())
    throw BadInput(key + " = " + std::to_string(count) + ": " + data_->name() + " has only " +
                   std::to_string(drawn_.size() - samples_.size()) +
                   " test samples besides those of samples.count");
  const auto first = drawn_.begin() + static_cast<std::ptrdiff_t>(samples_.size());
  return samples_.with({first, first + count}, samples_.capacity());
}

std::string CompareProblem::describe() const {
  std::ostringstream text;
  text << models_.seeds().size() << " seed(s); " << data_->name() << ": " << samples_.size()
       << " test samples, " << line_.tokens_x() << " x " << line_.tokens_y() << " tokens; "
       << samples_.replica().count << " rank(s), up to " << samples_.capacity() << " samples each at a time";
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
