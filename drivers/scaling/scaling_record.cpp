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
#include "drivers/common/model_options.hpp"
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

// Item of a checkpoint: the repetitions so far.
constexpr io::NumbersItem repetitions_so_far{"repetitions"};
constexpr Index numbers_of_repetition = 3 * static_cast<Index>(phase_names.size()) + 2;  // of a rank

/// A variable of a phase: its name in the file is <phase>/<name>.
io::Variable in_phase(std::size_t phase, io::Variable variable) {
  variable.name = std::string(phase_names[phase]) + '/' + variable.name;
  return variable;
}

io::Variable in_machine(io::Variable variable) {
  variable.name = "machine/" + variable.name;
  return variable;
}

}  // namespace

ScalingPlan scaling_plan_of(const Settings& settings) {
  const auto& workload = settings.word("scaling.workload");
  const auto& study = settings.word("scaling.study");
  return {.workload = workload,
          .study = study.empty() ? workload : study,
          .mode = settings.word("scaling.mode"),
          .over = settings.word("scaling.over"),
          .precision = settings.word("run.precision"),
          .in_double = precision_of(settings) == Precision::float64,
          .warm_up = settings.integer("scaling.warm_up"),
          .steps = settings.integer("scaling.steps"),
          .repetitions = settings.integer("scaling.repetitions"),
          .machine = settings.flag("scaling.machine"),
          .trial = settings.word("output.file") + ".trial"};
}

ScalingRecord::ScalingRecord(const ScalingPlan& plan, MPI_Comm comm, const ScalingWorkload& workload)
    : plan_(plan), comm_(comm), workload_(workload) {}

void ScalingRecord::add(const Repetition& mine) {
  static_assert(std::is_trivially_copyable_v<Repetition>);
  auto& all = repetitions_.emplace_back(static_cast<std::size_t>(mpi::size(comm_)));
  check_mpi(MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE, comm_));
}

void ScalingRecord::measure_machine() {
  if (!plan_.machine) return;
  const double peak =
      plan_.in_double ? product_rate<double>(product_side, comm_) : product_rate<float>(product_side, comm_);
  peak_ = gathered(peak, comm_);
  for (double size = 8; size <= 1 << 22; size *= 8) sizes_.push_back(size);
  message_seconds_ = message_times(sizes_, comm_);
  sum_seconds_ = sum_times(sizes_, comm_);
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

long ScalingRecord::numbers() const {
  return plan_.repetitions * mpi::size(comm_) * numbers_of_repetition;
}

std::vector<double> ScalingRecord::packed() const {
  std::vector<double> all;
  for (const auto& ranks : repetitions_)
    for (const auto& one : ranks) {
      for (const auto& phase : one.work.phases)
        all.insert(all.end(),
                   {phase.seconds, static_cast<double>(phase.messages), static_cast<double>(phase.bytes)});
      all.insert(all.end(), {one.work.flops, one.checkpoint_seconds});
    }
  return all;
}

void ScalingRecord::unpack(const std::vector<double>& numbers) {
  repetitions_.clear();
  auto at = numbers.begin();
  while (at != numbers.end()) {
    for (auto& one : repetitions_.emplace_back(static_cast<std::size_t>(mpi::size(comm_)))) {
      for (auto& phase : one.work.phases) {
        phase.seconds = *at++;
        phase.messages = static_cast<std::uint64_t>(*at++);
        phase.bytes = static_cast<std::uint64_t>(*at++);
      }
      one.work.flops = *at++;
      one.checkpoint_seconds = *at++;
    }
  }
}

void ScalingRecord::save(io::CheckpointWriter& file) const {
  file.put(repetitions_so_far, packed());
}

void ScalingRecord::load(const io::CheckpointReader& file) {
  unpack(file.rows(repetitions_so_far, numbers_of_repetition * mpi::size(comm_)));
  // The deck may ask for fewer by now.
  const auto wanted = static_cast<std::size_t>(plan_.repetitions);
  repetitions_.resize(std::min(repetitions_.size(), wanted));
}

void ScalingRecord::describe_problem(StudyRecord& record) const {
  const auto note = [&](const io::Attribute& attribute, const io::AttributeValue& value) {
    record.note("", attribute, value);
  };
  const auto size = workload_.size();
  const auto& model = workload_.model();
  note(scaling::study, plan_.study);
  note(scaling::workload, plan_.workload);
  note(scaling::mode, plan_.mode);
  note(scaling::over, plan_.over);
  note(scaling::precision, plan_.precision);
  note(scaling::nodes, nodes_of(comm_));
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
                                                    {scaling::steps, plan_.steps}};
  for (const auto& [name, value] : numbers) note(name, value);
  note(scaling::statistics, std::string("least median greatest"));
}

void ScalingRecord::add_phase(StudyRecord& record, std::size_t p) const {
  const bool output = p == static_cast<std::size_t>(Phase::output);
  std::vector<double> seconds;
  for (const auto& row : of_all([&](const Repetition& r) {
         return output ? r.checkpoint_seconds : r.work.phases[p].seconds / steps_;
       }))
    for (const double one : least_median_greatest(row)) seconds.push_back(one);
  record.add(Place{}, in_phase(p, scaling::phase_seconds), seconds);
  const auto number = [&](auto member) {
    return median(sums([&](const Repetition& r) { return static_cast<double>(r.work.phases[p].*member); }));
  };
  record.note(phase_names[p], scaling::messages, output ? 0.0 : number(&PhaseCount::messages));
  record.note(phase_names[p], scaling::bytes, output ? checkpoint_bytes_ : number(&PhaseCount::bytes));
}

void ScalingRecord::add_machine(StudyRecord& record) const {
  record.add(Place{}, scaling::peak_flop_rate, least_median_greatest(peak_));
  record.axis(scaling::message_bytes, sizes_);
  record.add(Place{}, in_machine(scaling::message_seconds), message_seconds_);
  record.add(Place{}, in_machine(scaling::sum_seconds), sum_seconds_);
}

std::vector<double> ScalingRecord::step_seconds() const {
  std::vector<double> seconds;
  for (const auto& row : of_all([](const Repetition& r) { return r.work.seconds(); }))
    seconds.push_back(std::ranges::max(row) / steps_);
  return seconds;
}

std::vector<double> ScalingRecord::flop_rates() const {
  // For each repetition: steps of padded texts differ.
  auto rates = sums([](const Repetition& r) { return r.work.flops; });
  const auto step = step_seconds();
  for (std::size_t k = 0; k < rates.size(); ++k)
    rates[k] = rates[k] / step[k] / static_cast<double>(repetitions_[k].size());
  return rates;
}

void ScalingRecord::add_to(StudyRecord& record) const {
  describe_problem(record);
  record.note("", scaling::flops, median(sums([](const Repetition& r) { return r.work.flops; })));
  record.axis(scaling::repetition, 1, count());
  record.add(Place{}, scaling::step_seconds, step_seconds());
  record.add(Place{}, scaling::flop_rate, flop_rates());
  record.add(Place{}, scaling::memory, least_median_greatest(gathered(memory_high_water(), comm_)));
  for (std::size_t p = 0; p < phase_names.size(); ++p) add_phase(record, p);
  if (!peak_.empty()) add_machine(record);
}

std::string ScalingRecord::summary() const {
  const auto flops = sums([](const Repetition& r) { return r.work.flops; });
  const auto step = step_seconds(), rate = flop_rates();
  std::ostringstream text;
  text << std::setprecision(3) << "a step: " << 1e3 * median(step) << " ms (median of " << repetitions_.size()
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
