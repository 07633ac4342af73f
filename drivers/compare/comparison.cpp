#include "drivers/compare/comparison.hpp"

#include <chrono>
#include <sstream>

#include "base/progress.hpp"
#include "base/session.hpp"
#include "drivers/common/announce.hpp"
#include "drivers/common/stop_request.hpp"
#include "drivers/compare/compare_variables.hpp"

namespace fluxformer {
namespace {

class CompareExperiment final : public Experiment {
 public:
  CompareExperiment(const Settings& settings, const RunContext& context, const MakeComparison& make)
      : settings_(settings),
        context_(context),
        problem_(settings_, context.comm),
        comparison_(make(settings_, problem_)) {}

  std::string describe() const override { return problem_.describe(); }
  Report run() override;

 private:
  using WallClock = std::chrono::steady_clock;
  static double since(WallClock::time_point start) {
    return std::chrono::duration<double>(WallClock::now() - start).count();
  }

  WallClock::time_point start_ = WallClock::now();
  Settings settings_;
  RunContext context_;
  CompareProblem problem_;
  std::unique_ptr<Comparison> comparison_;
};

Report CompareExperiment::run() {
  catch_stop_signals();
  StopRequest stop(context_.comm, settings_.real("run.time_limit"));
  CompareRecord record(settings_, context_, problem_);
  const bool speaks = announce(*this, context_);
  const double set_up = since(start_);
  const auto& models = problem_.models();
  const std::size_t total = models.seeds().size() * models.names().size();
  Progress progress(context_.experiment, static_cast<double>(total), "models", speaks);
  comparison_->begin(record);
  std::size_t done = 0;
  for (std::size_t seed = 0; seed < models.seeds().size(); ++seed)
    for (const auto& name : models.names()) {
      progress.update(static_cast<double>(done), name + ", seed " + std::to_string(models.seeds()[seed]));
      const auto began = WallClock::now();
      comparison_->measure(seed, name, record);
      double seconds = since(began);
      check_mpi(MPI_Bcast(&seconds, 1, MPI_DOUBLE, 0, context_.comm));
      record.add(name, compare::seconds, {seconds});
      if (++done < total && stop.asked()) {
        progress.finish();
        return {ExitCode::stopped, "fluxformer: stopped by " + stop.reason() + " after " +
                                       std::to_string(done) + " of " + std::to_string(total) +
                                       " models; nothing was written, start it again"};
      }
    }
  progress.update(static_cast<double>(total));
  progress.finish();
  const double measured = since(start_) - set_up;
  record.finish({{"set_up", set_up}, {"measure", measured}});
  std::ostringstream text;
  text << "done: " << total << " models, " << since(start_) << " s";
  if (const auto line = comparison_->summary(); !line.empty()) text << "; " << line;
  text << "; written to " << settings_.word("output.file");
  return {ExitCode::done, text.str()};
}

}  // namespace

std::unique_ptr<Experiment> make_comparison(const Settings& settings, const RunContext& context,
                                            const MakeComparison& make) {
  return std::make_unique<CompareExperiment>(settings, context, make);
}

}  // namespace fluxformer
