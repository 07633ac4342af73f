#include "drivers/compare/comparison.hpp"

#include <sstream>

#include "drivers/common/run_frame.hpp"

namespace fluxformer {
namespace {

class CompareExperiment final : public Experiment {
 public:
  CompareExperiment(const Settings& settings, const RunContext& context, const MakeComparison& make,
                    ModelNeeds needs)
      : context_(context),
        settings_(settings),
        problem_(settings_, context.comm, needs),
        comparison_(make(settings_, problem_)) {}

  std::string describe() const override { return problem_.describe(); }
  Report run() override;

 private:
  RunContext context_;
  Settings settings_;
  RunFrame frame_{settings_, context_};
  CompareProblem problem_;
  std::unique_ptr<Comparison> comparison_;
};

Report CompareExperiment::run() {
  frame_.begin();
  // An upper bound of the measures and notes of a model, for the claim on the output.
  const std::size_t datasets = 160 * problem_.models().names().size();
  auto claim = frame_.claim({.datasets = datasets});
  StudyRecord record(settings_, context_);
  problem_.describe(record);
  frame_.announce(*this);
  const auto& models = problem_.models();
  const std::size_t total = models.seeds().size() * models.names().size();
  Progress progress = frame_.progress(static_cast<double>(total), "models");
  const Stopwatch measuring;
  comparison_->begin(record);
  std::size_t done = 0;
  for (std::size_t seed = 0; seed < models.seeds().size(); ++seed)
    for (const auto& name : models.names()) {
      progress.update(static_cast<double>(done), name + ", seed " + std::to_string(models.seeds()[seed]));
      const Stopwatch watch;
      comparison_->measure(seed, name, record);
      double seconds = watch.seconds();
      check_mpi(MPI_Bcast(&seconds, 1, MPI_DOUBLE, 0, context_.comm));
      record.add(name, study::seconds, {seconds});
      if (++done < total && frame_.asked_to_stop()) {
        progress.finish();
        return frame_.stopped("after " + std::to_string(done) + " of " + std::to_string(total) + " models",
                              "nothing was written; start the run again");
      }
    }
  progress.update(static_cast<double>(total));
  progress.finish();
  frame_.add_seconds("measure", measuring.seconds());
  record.finish(std::move(claim), frame_.parts());
  std::ostringstream text;
  text << "done: " << total << " models, " << frame_.seconds() << " s";
  if (const auto line = comparison_->summary(); !line.empty()) text << "; " << line;
  return frame_.done(text.str());
}

}  // namespace

std::unique_ptr<Experiment> make_comparison(const Settings& settings, const RunContext& context,
                                            const MakeComparison& make, ModelNeeds needs) {
  return std::make_unique<CompareExperiment>(settings, context, make, needs);
}

}  // namespace fluxformer
