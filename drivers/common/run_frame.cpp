#include "drivers/common/run_frame.hpp"

#include <algorithm>
#include <climits>
#include <filesystem>
#include <iostream>

#include "base/mpi.hpp"
#include "base/provenance.hpp"
#include "base/session.hpp"
#include "io/file_names.hpp"
#include "io/layout.hpp"
#include "operators/kernels/blas.hpp"

namespace fluxformer {

RunAttributes run_attributes(const Settings& settings, const RunContext& context) {
  RunAttributes attributes{{names::experiment, context.experiment},
                           {names::command_line, context.command_line},
                           {names::deck, context.deck},
                           {names::settings, settings.resolved()},
                           {names::seed, settings.integer("run.seed")},
                           {names::ranks, static_cast<long>(mpi::size(context.comm))},
                           {names::blas, blas_description()},
                           {names::cites, context.cites}};
  for (const auto& [name, value] : provenance()) attributes.emplace_back(name, value);
  return attributes;
}

RunFrame::RunFrame(const Settings& settings, const RunContext& context)
    : settings_(settings), context_(context), root_(mpi::is_root(context.comm)) {
  const auto& output = settings.word("output.file");
  if (output.empty()) throw BadInput("output.file: is empty; give the name of the file to write");
  const std::filesystem::path longest =
      io::previous_checkpoint_path(output);  // the longest name of all files beside it
  if (longest.filename().native().size() > NAME_MAX || longest.native().size() >= PATH_MAX)
    throw BadInput("output.file: " + output + ": is too long a name: that of a file beside it would be " +
                   longest.filename().string());
}

void RunFrame::begin() {
  collectively(context_.comm, leave_if_asked_to_stop);
  io::refuse_if_held(context_.comm, settings_.word("output.file"));
  add_seconds("set_up", seconds());
}

void RunFrame::announce(const Experiment& experiment) const {
  if (!root_) return;
  if (!context_.quiet) std::cerr << experiment.describe() << '\n';
  if (!blas_warning().empty()) std::cerr << "fluxformer: " << blas_warning() << '\n';
}

Progress RunFrame::progress(double total, const std::string& unit, double begun) const {
  return {context_.experiment, total, unit, root_ && !context_.quiet, begun};
}

bool RunFrame::due(Cadence& cadence) const {
  int due = cadence.due(seconds()) ? 1 : 0;
  check_mpi(MPI_Bcast(&due, 1, MPI_INT, 0, context_.comm));
  return due != 0;
}

bool RunFrame::asked_to_stop() {
  if (const int signal = stop_signal(context_.comm); signal != 0) {
    stop_reason_ = "signal " + std::to_string(signal);
    return true;
  }
  const double limit = settings_.real("run.time_limit");
  if (limit == 0) return false;
  int over = seconds() >= limit ? 1 : 0;
  check_mpi(MPI_Bcast(&over, 1, MPI_INT, 0, context_.comm));  // rank 0's clock decides
  if (over != 0) stop_reason_ = "run.time_limit";
  return over != 0;
}

void RunFrame::add_seconds(const std::string& part, double seconds) {
  const auto found = std::ranges::find(parts_, part, &std::pair<std::string, double>::first);
  if (found == parts_.end())
    parts_.emplace_back(part, seconds);
  else
    found->second += seconds;
}

Report RunFrame::done(const std::string& how) const {
  return {ExitCode::done, how + "; written to " + settings_.word("output.file")};
}

Report RunFrame::stopped(const std::string& after, const std::string& advice) const {
  return {ExitCode::stopped, "fluxformer: stopped by " + stop_reason_ + " " + after + "; " + advice};
}

}  // namespace fluxformer
