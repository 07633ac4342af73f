#include "drivers/scaling_record.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <numeric>
#include <sstream>

#include "base/rank_of.hpp"
#include "drivers/machine_benchmark.hpp"
#include "drivers/model_options.hpp"
#include "drivers/run_attributes.hpp"
#include "io/archive_writer.hpp"
#include "io/schema_scaling.hpp"

namespace fluxformer {
namespace {

constexpr int product_side = 768;  // three matrices of 2 to 5 MB: beyond the caches near a core

std::vector<double> least_median_greatest(std::vector<double> numbers) {
  std::ranges::sort(numbers);
  const std::size_t n = numbers.size();
  return {numbers.front(), (numbers[(n - 1) / 2] + numbers[n / 2]) / 2, numbers.back()};
}

double median(const std::vector<double>& numbers) {
  return least_median_greatest(numbers)[1];
}

/// One number of each rank. Collective.
std::vector<double> gathered(double mine, MPI_Comm comm) {
  std::vector<double> all(static_cast<std::size_t>(RankOf(comm).ranks));
  check_mpi(MPI_Allgather(&mine, 1, MPI_DOUBLE, all.data(), 1, MPI_DOUBLE, comm));
  return all;
}

double memory_high_water() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return 1024.0 * static_cast<double>(usage.ru_maxrss);
}

long nodes_of(MPI_Comm comm) {
  MPI_Comm made = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &made));
  const Communicator node(made);
  const auto first = gathered(RankOf(node).root() ? 1 : 0, comm);
  return std::lround(std::accumulate(first.begin(), first.end(), 0.0));
}

}  // namespace

ScalingRecord::ScalingRecord(const Settings& settings, const RunContext& context,
                             const ScalingWorkload& workload)
    : settings_(settings), context_(context), workload_(workload) {}

void ScalingRecord::add(const Repetition& mine) {
  static_assert(std::is_trivially_copyable_v<Repetition>);
  auto& all = repetitions_.emplace_back(static_cast<std::size_t>(RankOf(context_.comm).ranks));
  check_mpi(MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE, context_.comm));
}

void ScalingRecord::measure_machine() {
  if (!settings_.flag("scaling.machine")) return;
  peak_ = gathered(product_rate(precision_of(settings_), product_side, context_.comm), context_.comm);
  for (double size = 8; size <= 1 << 22; size *= 8) sizes_.push_back(size);
  message_seconds_ = message_seconds(sizes_, context_.comm);
  sum_seconds_ = sum_seconds(sizes_, context_.comm);
}

template <class Number>
std::vector<std::vector<double>> ScalingRecord::of_all(Number&& number) const {
  std::vector<std::vector<double>> result;
  for (const auto& ranks : repetitions_) {
    auto& row = result.emplace_back();
    for (const auto& rank : ranks) row.push_back(number(rank));
  }
  return result;
}

std::string ScalingRecord::finish() {
  const auto steps = static_cast<double>(settings_.integer("scaling.steps"));
  const auto ranks = static_cast<double>(RankOf(context_.comm).ranks);
  const std::size_t repetitions = repetitions_.size();
  const auto sums = [&](auto&& number) {  // over the ranks, of each repetition
    std::vector<double> result;
    for (const auto& row : of_all(number))
      result.push_back(std::accumulate(row.begin(), row.end(), 0.0) / steps);
    return result;
  };

  const auto flops = sums([](const Repetition& r) { return r.work.flops; });  // padded texts: not all alike
  std::vector<double> step, rate;
  for (const auto& row : of_all([](const Repetition& r) { return r.work.seconds(); })) {
    step.push_back(std::ranges::max(row) / steps);
    rate.push_back(flops[rate.size()] / step.back() / ranks);
  }

  ArchiveWriter archive(context_.comm, settings_.word("output.file"), settings_.flag("output.overwrite"));
  for (const auto& [name, value] : run_attributes("scaling", "docs/performance.md", settings_, context_))
    archive.attribute(name, value);
  const auto path = [](const std::string& name) { return names::in(names::scaling, name); };
  const auto attribute = [&](const std::string& name, const AttributeValue& value) {
    schema_entry(std::string(names::scaling) + "@" + name);  // throws for an unknown name
    archive.attribute(name, value, names::scaling);
  };
  const auto array = [&](const std::string& name, const std::vector<std::size_t>& shape,
                         const std::vector<double>& values, const std::vector<std::string>& axes) {
    archive.array(path(name), shape, values.data(), meaning_of(path(name)), axes);
  };

  const auto size = workload_.size();
  const auto& model = workload_.model();
  const auto& workload = settings_.word("scaling.workload");
  const auto& study = settings_.word("scaling.study");
  attribute("study", study.empty() ? workload : study);
  attribute("workload", workload);
  attribute("mode", settings_.word("scaling.mode"));
  attribute("over", settings_.word("scaling.over"));
  attribute("precision", settings_.word("run.precision"));
  attribute("nodes", nodes_of(context_.comm));
  const std::pair<const char*, long> numbers[] = {{"ranks_depth", size.ranks_depth},
                                                  {"ranks_token", size.ranks_token},
                                                  {"groups", size.groups},
                                                  {"layers", model.layers},
                                                  {"cells", size.cells},
                                                  {"tokens", size.tokens},
                                                  {"samples", size.samples},
                                                  {"width", model.width},
                                                  {"ffn", model.ffn},
                                                  {"heads", model.attention.heads},
                                                  {"parameters", size.parameters},
                                                  {"steps", settings_.integer("scaling.steps")}};
  for (const auto& [name, value] : numbers) attribute(name, value);
  attribute("flops", median(flops));
  attribute("statistics", std::string("least median greatest"));

  std::vector<double> count(repetitions);
  std::iota(count.begin(), count.end(), 1);
  const auto axis = [&](const char* name, const std::vector<double>& values) {
    const auto meaning = meaning_of(names::root(name));
    archive.axis({name, values, meaning.unit, meaning.long_name, false, true});
  };
  axis(names::repetition, count);
  array("step_seconds", {repetitions}, step, {names::repetition});
  array("flop_rate", {repetitions}, rate, {names::repetition});
  array("memory", {3}, least_median_greatest(gathered(memory_high_water(), context_.comm)), {});
  for (std::size_t p = 0; p < phase_names.size(); ++p) {
    const bool output = p == static_cast<std::size_t>(Phase::output);
    const std::string phase = phase_names[p];
    std::vector<double> seconds;
    for (auto row : of_all(
             [&](const Repetition& r) { return output ? r.checkpoint_seconds : r.work.phases[p].seconds; })) {
      for (double& one : row) one /= output ? 1 : steps;
      for (const double one : least_median_greatest(row)) seconds.push_back(one);
    }
    const auto meaning = meaning_of(path("<phase>/seconds"));
    archive.array(path(phase + "/seconds"), {repetitions, 3}, seconds.data(), meaning, {names::repetition});
    const double messages =
        median(sums([&](const Repetition& r) { return static_cast<double>(r.work.phases[p].messages); }));
    const double bytes =
        median(sums([&](const Repetition& r) { return static_cast<double>(r.work.phases[p].bytes); }));
    archive.attribute(names::messages, output ? 0.0 : messages, path(phase));
    archive.attribute(names::bytes, output ? checkpoint_bytes_ : bytes, path(phase));
  }
  std::ostringstream text;
  text << std::setprecision(3) << "a step: " << 1e3 * median(step) << " ms (median of " << repetitions
       << "), " << median(flops) / 1e9 << " Gflop, " << median(rate) / 1e9 << " Gflop/s per rank";
  if (!peak_.empty()) {
    array("peak_flop_rate", {3}, least_median_greatest(peak_), {});
    axis(names::message_bytes, sizes_);
    array("machine/message_seconds", {sizes_.size()}, message_seconds_, {names::message_bytes});
    array("machine/sum_seconds", {sizes_.size()}, sum_seconds_, {names::message_bytes});
    text << ", " << 100 * median(rate) / median(peak_) << " % of what a product reaches";
  }
  archive.finish(names::done);
  text << "\nof it";
  for (std::size_t p = 0; p < static_cast<std::size_t>(Phase::output); ++p) {
    std::vector<double> seconds;
    for (const auto& row : of_all([&](const Repetition& r) { return r.work.phases[p].seconds / steps; }))
      seconds.push_back(median(row));
    text << (p > 0 ? ", " : " ") << phase_names[p] << ' ' << 100 * median(seconds) / median(step) << " %";
  }
  return text.str();
}

}  // namespace fluxformer
