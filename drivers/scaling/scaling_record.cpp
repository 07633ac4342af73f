#include "drivers/scaling/scaling_record.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <numeric>
#include <sstream>

#include "base/index.hpp"
#include "base/mpi.hpp"
#include "base/statistics.hpp"
#include "drivers/common/model_settings.hpp"
#include "drivers/common/run_attributes.hpp"
#include "drivers/scaling/scaling_variables.hpp"
#include "io/archive_writer.hpp"
#include "io/layout.hpp"
#include "operators/kernels/blas.hpp"

namespace fluxformer {
namespace {

constexpr int product_side = 768;  // rows of three matrices of 2 to 5 MB: beyond the caches near a core

std::vector<double> least_median_greatest(const std::vector<double>& numbers) {
  const auto [least, median, greatest] = spread_of(numbers);
  return {least, median, greatest};
}

/// Gathers one number of each rank. Collective.
std::vector<double> gathered(double mine, MPI_Comm comm) {
  std::vector<double> all(mpi::size(comm));
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
  const auto first = gathered(mpi::is_root(node) ? 1 : 0, comm);
  return std::lround(std::accumulate(first.begin(), first.end(), 0.0));
}

constexpr int trials = 15,
              in_a_row = 10;  // several in a row: for a single message the other rank may be waiting already

/// Medians over trials of the time that `once` takes on rank 0, one for each size; a first trial does not
/// count.
template <class Once>
std::vector<double> medians(const std::vector<double>& bytes, MPI_Comm comm, Once&& once) {
  std::vector<double> result;
  for (const double size : bytes) {
    std::vector<double> buffer(std::max<std::size_t>(1, static_cast<std::size_t>(size) / sizeof(double)));
    std::vector<double> times;
    for (int trial = 0; trial <= trials; ++trial) {
      check_mpi(MPI_Barrier(comm));
      const double start = MPI_Wtime();
      for (int k = 0; k < in_a_row; ++k) once(buffer);
      if (trial > 0) times.push_back((MPI_Wtime() - start) / in_a_row);
    }
    result.push_back(median(times));
  }
  check_mpi(MPI_Bcast(result.data(), static_cast<int>(result.size()), MPI_DOUBLE, 0, comm));
  return result;
}

/// Seconds that messages of these sizes take from the first rank to the last: medians of half round trips;
/// NaN with one rank. Collective; the same on all ranks.
std::vector<double> message_times(const std::vector<double>& bytes, MPI_Comm comm) {
  const int rank = mpi::rank(comm), ranks = mpi::size(comm);
  if (ranks == 1) return std::vector<double>(bytes.size(), missing_value);
  const int last = ranks - 1;
  auto seconds = medians(bytes, comm, [&](std::vector<double>& buffer) {
    const int count = static_cast<int>(buffer.size());
    const auto send = [&](int to) { check_mpi(MPI_Send(buffer.data(), count, MPI_DOUBLE, to, 0, comm)); };
    const auto receive = [&](int from) {
      check_mpi(MPI_Recv(buffer.data(), count, MPI_DOUBLE, from, 0, comm, MPI_STATUS_IGNORE));
    };
    if (rank == 0) send(last), receive(last);
    if (rank == last) receive(0), send(0);
  });
  for (double& round_trip : seconds) round_trip /= 2;
  return seconds;
}

/// Seconds of an MPI_Allreduce (sum of doubles) of these sizes: medians; NaN with one rank. Collective; the
/// same on all ranks.
std::vector<double> sum_times(const std::vector<double>& bytes, MPI_Comm comm) {
  if (mpi::size(comm) == 1) return std::vector<double>(bytes.size(), missing_value);
  return medians(bytes, comm, [&](std::vector<double>& buffer) {
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, buffer.data(), static_cast<int>(buffer.size()), MPI_DOUBLE, MPI_SUM,
                            comm));
  });
}

}  // namespace

/// The output file, with paths relative to /scaling.
class ScalingFile {
 public:
  ScalingFile(const Settings& settings, const RunContext& context, std::unique_ptr<io::PartFile> claim)
      : archive_(std::move(claim)) {
    for (const auto& [name, value] : run_attributes(settings, context)) archive_.attribute(name, value);
  }
  void attribute(const io::Attribute& attribute, const io::AttributeValue& value) {
    archive_.attribute(attribute, value, scaling::group);
  }
  void attribute_of(const std::string& phase, const io::Attribute& attribute, double value) {
    archive_.attribute(attribute, value, in(phase));
  }
  void axis(const io::Variable& axis, const std::vector<double>& values) { archive_.axis(axis, values); }
  void write(const io::Variable& variable, const std::vector<double>& values) {
    archive_.write(scaling::group, variable, values);
  }
  void write_in(const std::string& group, const io::Variable& variable, const std::vector<double>& values) {
    archive_.write(in(group), variable, values);
  }
  void finish() { archive_.finish(names::done); }

 private:
  static std::string in(const std::string& name) { return names::in(scaling::group, name); }
  io::ArchiveWriter archive_;
};

ScalingRecord::ScalingRecord(const Settings& settings, const RunContext& context,
                             const ScalingWorkload& workload)
    : settings_(settings),
      context_(context),
      workload_(workload),
      steps_(static_cast<double>(settings.integer("scaling.steps"))) {}

void ScalingRecord::add(const Repetition& mine) {
  static_assert(std::is_trivially_copyable_v<Repetition>);
  auto& all = repetitions_.emplace_back(static_cast<std::size_t>(mpi::size(context_.comm)));
  check_mpi(MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE, context_.comm));
}

void ScalingRecord::measure_machine() {
  if (!settings_.flag("scaling.machine")) return;
  const double peak = precision_of(settings_) == Precision::float64
                          ? product_rate<double>(product_side, context_.comm)
                          : product_rate<float>(product_side, context_.comm);
  peak_ = gathered(peak, context_.comm);
  for (double size = 8; size <= 1 << 22; size *= 8) sizes_.push_back(size);
  message_seconds_ = message_times(sizes_, context_.comm);
  sum_seconds_ = sum_times(sizes_, context_.comm);
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

template <class Number>
std::vector<double> ScalingRecord::sums(Number&& number) const {
  std::vector<double> result;
  for (const auto& row : of_all(number))
    result.push_back(std::accumulate(row.begin(), row.end(), 0.0) / steps_);
  return result;
}

void ScalingRecord::describe_problem(ScalingFile& file) const {
  const auto size = workload_.size();
  const auto& model = workload_.model();
  const auto& workload = settings_.word("scaling.workload");
  const auto& study = settings_.word("scaling.study");
  file.attribute(scaling::study, study.empty() ? workload : study);
  file.attribute(scaling::workload, workload);
  file.attribute(scaling::mode, settings_.word("scaling.mode"));
  file.attribute(scaling::over, settings_.word("scaling.over"));
  file.attribute(scaling::precision, settings_.word("run.precision"));
  file.attribute(scaling::nodes, nodes_of(context_.comm));
  const std::pair<io::Attribute, long> numbers[] = {{scaling::ranks_depth, size.ranks_depth},
                                                    {scaling::ranks_token, size.ranks_token},
                                                    {scaling::groups, size.groups},
                                                    {scaling::micro_batches, size.micro_batches},
                                                    {scaling::layers, model.layers},
                                                    {scaling::cells, size.cells},
                                                    {scaling::tokens, size.tokens},
                                                    {scaling::samples, size.samples},
                                                    {scaling::width, model.width},
                                                    {scaling::ffn, model.ffn},
                                                    {scaling::heads, model.attention.heads},
                                                    {scaling::parameters, size.parameters},
                                                    {scaling::steps, settings_.integer("scaling.steps")}};
  for (const auto& [name, value] : numbers) file.attribute(name, value);
  file.attribute(scaling::statistics, std::string("least median greatest"));
}

void ScalingRecord::write_phase(ScalingFile& file, std::size_t p) const {
  const bool output = p == static_cast<std::size_t>(Phase::output);
  std::vector<double> seconds;
  for (const auto& row : of_all([&](const Repetition& r) {
         return output ? r.checkpoint_seconds : r.work.phases[p].seconds / steps_;
       }))
    for (const double one : least_median_greatest(row)) seconds.push_back(one);
  file.write_in(phase_names[p], scaling::phase_seconds, seconds);
  const auto number = [&](auto member) {
    return median(sums([&](const Repetition& r) { return static_cast<double>(r.work.phases[p].*member); }));
  };
  file.attribute_of(phase_names[p], scaling::messages, output ? 0.0 : number(&PhaseCount::messages));
  file.attribute_of(phase_names[p], scaling::bytes, output ? checkpoint_bytes_ : number(&PhaseCount::bytes));
}

void ScalingRecord::write_machine(ScalingFile& file) const {
  file.write(scaling::peak_flop_rate, least_median_greatest(peak_));
  file.axis(scaling::message_bytes, sizes_);
  file.write_in("machine", scaling::message_seconds, message_seconds_);
  file.write_in("machine", scaling::sum_seconds, sum_seconds_);
}

std::string ScalingRecord::finish(std::unique_ptr<io::PartFile> claim) {
  const std::size_t repetitions = repetitions_.size();
  const auto flops = sums(
      [](const Repetition& r) { return r.work.flops; });  // for each repetition: steps of padded texts differ
  std::vector<double> step, rate, count(repetitions);
  for (const auto& row : of_all([](const Repetition& r) { return r.work.seconds(); })) {
    step.push_back(std::ranges::max(row) / steps_);
    rate.push_back(flops[rate.size()] / step.back() / static_cast<double>(row.size()));
  }
  std::iota(count.begin(), count.end(), 1);

  ScalingFile file(settings_, context_, std::move(claim));
  describe_problem(file);
  file.attribute(scaling::flops, median(flops));
  file.axis(scaling::repetition, count);
  file.write(scaling::step_seconds, step);
  file.write(scaling::flop_rate, rate);
  file.write(scaling::memory, least_median_greatest(gathered(memory_high_water(), context_.comm)));
  for (std::size_t p = 0; p < phase_names.size(); ++p) write_phase(file, p);
  if (!peak_.empty()) write_machine(file);
  file.finish();

  std::ostringstream text;
  text << std::setprecision(3) << "a step: " << 1e3 * median(step) << " ms (median of " << repetitions
       << "), " << median(flops) / 1e9 << " Gflop, " << median(rate) / 1e9 << " Gflop/s per rank";
  if (!peak_.empty())
    text << ", " << 100 * median(rate) / median(peak_) << " % of the rate of a large matrix product";
  text << "\nof it";
  for (Index p = 0; p < static_cast<Index>(Phase::output); ++p) {
    std::vector<double> seconds;
    for (const auto& row : of_all([&](const Repetition& r) { return r.work.phases[p].seconds / steps_; }))
      seconds.push_back(median(row));
    text << (p > 0 ? ", " : " ") << phase_names[p] << ' ' << 100 * median(seconds) / median(step) << " %";
  }
  return text.str();
}

}  // namespace fluxformer
