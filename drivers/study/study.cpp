#include "drivers/study/study.hpp"

#include <algorithm>
#include <iostream>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "base/error.hpp"
#include "base/mpi.hpp"
#include "base/progress.hpp"
#include "base/provenance.hpp"
#include "base/text_stream.hpp"
#include "drivers/common/earlier_runs.hpp"
#include "drivers/common/run_options.hpp"
#include "io/axes.hpp"
#include "io/checkpoint.hpp"

namespace fluxformer {

bool Study::conclude(const Findings& found, RunFrame&, StudyRecord& record) {
  std::vector<std::string> groups;
  for (const auto& place : found.places()) groups.push_back(place.group);
  add_seconds(found, groups, record);
  return true;
}

std::string Study::summary(const Findings& found) const {
  std::string all;
  for (std::size_t k = 0; k < found.count(); ++k)
    if (const auto& words = found.of(k).words; !words.empty()) all += (all.empty() ? "" : "; ") + words;
  return all;
}

void add_seconds(const Findings& found, const std::vector<std::string>& groups, StudyRecord& record) {
  std::map<std::pair<std::string, std::size_t>, double> sums;  // by group and seed
  for (std::size_t k = 0; k < found.count(); ++k)
    if (const auto& place = found.places()[k]; std::ranges::find(groups, place.group) != groups.end())
      sums[{place.group, place.along(axes::seed)}] += found.of(k).seconds;
  for (const auto& [of, sum] : sums)
    record.add({.group = of.first, .index = {{axes::seed.name, of.second}}}, study::seconds, {sum});
}

void declare_study_run(Options& options, const std::string& file) {
  options.declare(output_option(file));
  options.declare(overwrite_option());
  options.declare(trust_files_option());
  options.declare(points_option());
  options.declare(restart_option());
  options.declare(time_limit_option());
}

namespace {

// Items of a checkpoint beside the results: the experiment, the revision of the program, a digest for each of
// the sources, whether the place after the finished ones has begun, and if so, the wall time spent on it.
constexpr const char* name_of_experiment = "experiment";
constexpr const char* revision_of_program = "git_revision";
constexpr const char* digests_of_sources = "sources";
constexpr io::WholeItem begun_place{"half_way", 0, 1};
constexpr io::RealItem seconds_in_place{"half_way_seconds", 0};

/// The revision of this program.
std::string revision() {
  for (const auto& [fact, value] : provenance())
    if (fact == "git_revision") return value;
  return {};
}

class StudyExperiment final : public Experiment {
 public:
  StudyExperiment(const Settings& settings, const RunContext& context, const study::Contents& contents,
                  const MakeStudy& make)
      : settings_(settings), context_(context), contents_(contents), study_(make(settings_, context.comm)) {}

  std::string describe() const override { return study_->describe(); }
  Report run() override;

 private:
  /// Variables that places can give, and the places.
  Findings nothing_yet() const;
  /// The sources of the study, looked at once.
  const std::vector<Study::Source>& sources();
  /// Takes over the finished places of the checkpoint that checkpoint.restart asks for, if any. Collective;
  /// throws BadInput (agreed).
  void restart();
  /// Measures the next place on each group of ranks. Returns false if the run was asked to stop within it.
  /// Collective; throws (agreed) what `measure` throws.
  bool advance(Progress& progress);
  /// Progress within a place (Results::go_on). Collective.
  bool go_on(Progress& progress, double share, const std::string& note);
  /// Measures the remaining places. Returns false if the run was asked to stop; a checkpoint is then written,
  /// as it is when a place fails. Collective.
  bool measure_all();
  /// Writes a checkpoint of the finished places and, with `within`, of the one that is half measured.
  void checkpoint(bool within = true);
  /// True if it is time for a checkpoint. Collective.
  bool checkpoint_due() {
    const bool due = frame_.due(checkpoints_);
    return due || (study_->worth_keeping() && settings_.real("checkpoint.every") > 0);
  }
  /// True if there is something that a checkpoint can keep.
  bool has_results() const { return found_.count() > 0 || study_->half_way(); }
  /// True if there is something to keep that the checkpoint beside the output does not hold. Job scripts tell by
  /// the time of that file whether a run has got on.
  bool has_news() const {
    const bool beside_output = continued_.empty() || settings_.word("checkpoint.restart") == "auto";
    return found_.count() > kept_ || study_->half_way() || (has_results() && !beside_output);
  }
  Report stopped(const std::string& after) const {
    return frame_.stopped(after, has_results() ? "continue with --checkpoint.restart=auto"
                                               : "nothing was written; start the run again");
  }
  std::string after() const;

  Settings settings_;
  RunContext context_;
  RunFrame frame_{settings_, context_};
  study::Contents contents_;
  std::unique_ptr<Study> study_;
  StudyRecord record_{settings_, context_, contents_.group};
  Findings found_ = nothing_yet();
  Cadence checkpoints_{settings_.real("checkpoint.every")};
  std::optional<std::vector<Study::Source>> sources_;
  std::size_t kept_ = 0;         // finished places in the last checkpoint
  Stopwatch in_place_;           // since this run has begun the present place, or gone on with it
  double seconds_before_ = 0;    // spent on that place by earlier runs
  double writing_ = 0;           // seconds of this run's checkpoints
  bool stopped_ = false;         // within a place
  std::string continued_;        // path of the checkpoint; empty if there was none
  std::string revision_before_;  // of the program that wrote it
};

Findings StudyExperiment::nothing_yet() const {
  auto variables = contents_.measures;
  const auto kept = study_->kept();
  variables.insert(variables.end(), kept.begin(), kept.end());
  return {record_, study_->places(), variables};
}

const std::vector<Study::Source>& StudyExperiment::sources() {
  if (!sources_) sources_ = study_->sources();
  return *sources_;
}

void StudyExperiment::restart() {
  const auto from = find_checkpoint(context_.comm, settings_);
  if (!from) return;
  if (const auto of = from->text(name_of_experiment); of != context_.experiment)
    throw BadInput(from->called() + ": is a checkpoint of " + of + ", not of " + context_.experiment);
  auto digests = text_stream(from->text(digests_of_sources));
  for (const auto& source : sources()) {
    std::string line;
    std::getline(digests, line);
    if (line != std::to_string(source.digest))
      throw BadInput(from->called() + ": " + source.called + " is no longer what its " + study_->unit() +
                     " were computed from; start anew with checkpoint.restart = no, once the checkpoint is "
                     "removed");
  }
  found_.load(*from);
  if (from->integer(begun_place) != 0) {
    if (found_.count() == found_.places().size())
      throw BadInput(from->called() + ": is half way beyond its last place");
    study_->load(found_.places()[found_.count()], *from);
    seconds_before_ = from->real(seconds_in_place);
  }
  kept_ = found_.count();
  continued_ = from->path();
  revision_before_ = from->text(revision_of_program);
}

void StudyExperiment::checkpoint(bool within) {
  const Stopwatch watch;
  io::CheckpointWriter file(context_.comm, settings_.word("output.file"));
  file.put("settings", settings_.resolved());
  file.put(name_of_experiment, context_.experiment);
  file.put(revision_of_program, revision());
  std::string digests;
  for (const auto& source : sources()) digests += std::to_string(source.digest) + '\n';
  file.put(digests_of_sources, digests);
  found_.save(file);
  const bool begun = within && study_->half_way();
  file.put(begun_place, begun ? 1L : 0L);
  if (begun) {
    double seconds = seconds_before_ + in_place_.seconds();
    broadcast_numbers({&seconds, 1}, 0, context_.comm);  // clocks differ
    file.put(seconds_in_place, seconds);
    study_->save(file);
  }
  file.commit();
  kept_ = found_.count();
  const double seconds = watch.seconds();
  writing_ += seconds;
  frame_.add_seconds("output", seconds);
}

bool StudyExperiment::go_on(Progress& progress, double share, const std::string& note) {
  progress.update(static_cast<double>(found_.count()) + share,
                  found_.places()[found_.count()].name + ": " + note);
  stopped_ = frame_.asked_to_stop();
  if (!stopped_ && checkpoint_due() && has_news()) checkpoint();
  return !stopped_;
}

bool StudyExperiment::advance(Progress& progress) {
  const int rank = mpi::rank(context_.comm), ranks = mpi::size(context_.comm);
  const bool by_all = study_->ranks_of_place() == Study::all_ranks;
  const int together = by_all ? ranks : study_->ranks_of_place();
  const std::size_t first = found_.count(), left = found_.places().size() - first,
                    count = std::min(left, static_cast<std::size_t>(ranks / together));
  const auto here = static_cast<std::size_t>(rank / together);
  Found mine;
  in_place_ = {};
  const auto measure = [&] {
    if (here >= count) return;
    const auto& place = found_.places()[first + here];
    Results::GoOn within;
    if (by_all) within = [&](double share, const std::string& note) { return go_on(progress, share, note); };
    Results results(found_, place, within);
    study_->measure(place, results);
    mine = results.found();
    mine.seconds = seconds_before_ + in_place_.seconds();
  };
  if (by_all) {
    measure();  // all ranks throw, or none
  } else if (together == 1) {
    collectively(context_.comm, measure);
  } else {
    // A group throws together, but the other groups do not know of it. An exception that is no Error was not
    // agreed on in its group: it ends the program, since the rest of the group may be waiting.
    RankFailure failure;
    try {
      measure();
    } catch (const Error& e) {
      failure.keep(e.what(), e.code());
    }
    failure.share(context_.comm);
  }
  if (stopped_) return false;
  found_.share(context_.comm, count, together, mine);
  seconds_before_ = 0;
  return true;
}

std::string StudyExperiment::after() const {
  return "after " + std::to_string(found_.count()) + " of " + std::to_string(found_.places().size()) + ' ' +
         study_->unit() + (stopped_ ? ", within the next" : "");
}

bool StudyExperiment::measure_all() {
  const auto& places = found_.places();
  const auto done = [&] { return static_cast<double>(found_.count()); };
  Progress progress = frame_.progress(static_cast<double>(places.size()), study_->unit(), done());
  while (found_.count() < places.size()) {
    progress.update(done(), places[found_.count()].name);
    bool whole = false;
    try {
      whole = advance(progress);
    } catch (const Error&) {
      progress.finish();
      // Whatever failed may have left its place half changed: an earlier checkpoint of it stays.
      if (found_.count() > kept_) checkpoint(false);
      throw;
    }
    if (!whole || (found_.count() < places.size() && frame_.asked_to_stop())) {
      progress.finish();
      if (has_news()) checkpoint();
      return false;
    }
    if (checkpoint_due()) checkpoint();
  }
  progress.update(done());
  progress.finish();
  return true;
}

Report StudyExperiment::run() {
  frame_.begin();
  collectively(context_.comm, [&] { study_->begin(record_); });
  restart();
  const auto& measures = contents_.measures;
  std::set<std::string> groups;
  for (const auto& place : found_.places()) groups.insert(place.group);
  auto claim = frame_.claim({.datasets = (measures.size() + 8) * groups.size()});
  if (frame_.root() && !continued_.empty())
    std::cerr << "fluxformer: continuing from " << continued_ << " after " << found_.count() << ' '
              << study_->unit()
              << (revision_before_ == revision()
                      ? ""
                      : ", computed by revision " + revision_before_ + " of the program")
              << '\n';
  frame_.announce(*this);
  const Stopwatch measuring;
  if (!measure_all()) return stopped(after());
  for (std::size_t k = 0; k < found_.count(); ++k)
    for (const auto& variable : measures)
      for (const auto& [name, values] : found_.of(k).results)
        if (name == variable.name) record_.add(found_.places()[k], variable, values);
  if (!study_->conclude(found_, frame_, record_)) {
    if (has_news()) checkpoint();
    return stopped("after all " + study_->unit());
  }
  frame_.add_seconds("measure", measuring.seconds() - writing_);
  record_.finish(std::move(claim), frame_.parts());
  std::ostringstream text;
  text << "done: " << found_.count() << ' ' << study_->unit() << ", " << frame_.seconds() << " s";
  if (const auto line = study_->summary(found_); !line.empty()) text << "; " << line;
  return frame_.done(text.str());
}

}  // namespace

std::unique_ptr<Experiment> make_study(const Settings& settings, const RunContext& context,
                                       const study::Contents& contents, const MakeStudy& make) {
  return std::make_unique<StudyExperiment>(settings, context, contents, make);
}

ExperimentEntry study_entry(ExperimentEntry entry, study::Contents (*contents)(), const MakeStudy& make,
                            const OwnSettings& own) {
  if (!entry.describe)
    entry.describe = [name = entry.name, contents](io::Description& description) {
      study::describe(description, name, contents());
    };
  entry.make = [=](const Settings& settings, const RunContext& context) {
    return make_study(own ? own(settings) : settings, context, contents(), make);
  };
  return entry;
}

}  // namespace fluxformer
