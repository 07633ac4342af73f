#include "solvers/adjoint/adjoint_march.hpp"

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/index.hpp"
#include "base/vector_arrays.hpp"
#include "solvers/adjoint/adjoint_stepper.hpp"

namespace fluxformer {

/// Numbered states, in memory or in a private temporary file. Every rank stores its own part of each state.
class StateStore {
 public:
  /// A store in memory.
  StateStore(MPI_Comm comm, Index size) : comm_(comm), size_(size) {}
  /// A store in a file in `folder` ("": the system's folder for temporary files), one file per rank. The file
  /// is unlinked once it is open, so that nothing remains however the process ends. Collective; throws
  /// BadInput if no file can be made.
  StateStore(MPI_Comm comm, Index size, const std::string& folder);
  ~StateStore();
  StateStore(const StateStore&) = delete;
  StateStore& operator=(const StateStore&) = delete;

  /// Stores `size` doubles as state `index`. Collective; throws Error (agreed) if the disk is full.
  void put(int index, const double* state);
  /// Reads state `index`. Collective.
  void get(int index, double* state);
  /// Memory that the store holds, in bytes.
  std::size_t bytes() const;

 private:
  MPI_Comm comm_;
  Index size_;
  std::vector<std::vector<double>> states_;
  int file_ = -1;
};

namespace {

/// Transfers all `bytes` by as many calls of pread or pwrite as needed.
template <class Call, class Byte>
void transfer(const char* what, Call call, int file, Byte* from, std::size_t bytes, std::size_t offset) {
  while (bytes > 0) {
    const auto done = call(file, from, bytes, offset);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0)
      throw Error(ExitCode::failure, std::string("cannot ") + what + " a state put aside on disk: " +
                                         (done == 0 ? "the file ends" : std::strerror(errno)));
    const Index part = done;
    from += part;
    bytes -= part;
    offset += part;
  }
}

int nameless_file(const std::string& wanted) {
  std::error_code none;
  const auto folder =
      wanted.empty() ? std::filesystem::temp_directory_path(none) : std::filesystem::path(wanted);
  if (none) throw BadInput("adjoint.folder: there is no folder for temporary files: " + none.message());
  std::string name = (folder / "fluxformer-states-XXXXXX").string();
  const int file = mkstemp(name.data());
  if (file < 0)
    throw BadInput("adjoint.folder: cannot make a file in " + folder.string() + ": " + std::strerror(errno));
  unlink(name.c_str());
  return file;
}

}  // namespace

StateStore::StateStore(MPI_Comm comm, Index size, const std::string& folder) : comm_(comm), size_(size) {
  try {
    collectively(comm, [&] { file_ = nameless_file(folder); });
  } catch (const Error&) {
    if (file_ >= 0) close(file_);  // another rank failed: the destructor will not run
    throw;
  }
}

StateStore::~StateStore() {
  if (file_ >= 0) close(file_);
}

void StateStore::put(int index, const double* state) {
  if (file_ < 0) {
    states_.resize(std::max(std::ssize(states_), index + 1L));
    states_[index].assign(state, state + size_);
    return;
  }
  const Index bytes = size_ * sizeof(double);
  collectively(comm_, [&] {
    transfer("write", ::pwrite, file_, reinterpret_cast<const char*>(state), bytes, index * bytes);
  });
}

void StateStore::get(int index, double* state) {
  if (file_ < 0) {
    std::copy(states_[index].begin(), states_[index].end(), state);
    return;
  }
  const Index bytes = size_ * sizeof(double);
  collectively(
      comm_, [&] { transfer("read", ::pread, file_, reinterpret_cast<char*>(state), bytes, index * bytes); });
}

std::size_t StateStore::bytes() const {
  Index total = 0;
  for (const auto& state : states_) total += state.size() * sizeof(double);
  return total;
}

namespace {

void require_valid(const AdjointSettings& settings) {
  if (settings.every < 0)
    throw BadInput("adjoint.segment = " + std::to_string(settings.every) +
                   ": must be 0 (every step stays in memory) or a number of steps");
  if (settings.on_disk && settings.every == 0)
    throw BadInput("adjoint.segment = 0: states on disk need a number of steps between them");
  if (settings.tapes && settings.every > 0)
    throw BadInput("adjoint.keep = tapes: keeps every step, so that there is nothing to recompute");
  if (!(settings.newton_tolerance > 0) || !(settings.linear_tolerance > 0))
    throw BadInput("the tolerances of the march must be > 0");
}

}  // namespace

int order_of(const AdjointSettings& settings) {
  if (AdjointMethod(settings).explicit_stages()) return settings.method.front() - '0';  // as PETSc names them
  const bool midpoint = settings.method == "theta" && settings.theta == 0.5;
  return settings.method == "cn" || midpoint ? 2 : 1;
}

bool is_implicit(const AdjointSettings& settings) {
  const AdjointMethod method(settings);
  return !method.layer_map() && !method.explicit_stages();
}

struct AdjointMarch::Impl {
  using Trajectory = AdjointStepper::Trajectory;
  Impl(DepthModel& model, const DepthCells& depth, double speed, const AdjointSettings& s,
       DepthRange cells_of_march)
      : field(model, depth, speed), settings(s), range(cells_of_march) {
    require_valid(settings);
    if (!AdjointMethod(settings).layer_map())
      require_field(model.spec(), "adjoint.method = " + settings.method);
    // Only the last segment keeps its trajectory from the forward march; of the others the first state is put
    // aside.
    const int cells = range.count();
    stride = settings.every == 0 ? cells : std::min(settings.every, cells);
    segments = (cells + stride - 1) / stride;
    if (settings.on_disk)
      store.emplace(field.comm(), field.size(), settings.folder);
    else
      store.emplace(field.comm(), field.size());
    prepare();
    if (settings.tapes) require_tapes();
    if (AdjointMethod(settings).explicit_stages()) return;
    plain();  // made here, so that they read their PETSc options before unused ones are reported
    keeping();
  }

  /// Prepares the weights at the entries of the cells, which is all that 1fe and constant weights need. Other
  /// stages are interpolated when needed, which costs little compared with the stage itself.
  void prepare() {
    std::vector<DepthPoint> points;
    for (int cell = range.first; cell <= range.last; ++cell) points.push_back(field.entry(cell));
    field.model().prepare(points);
  }
  void require_tapes() {
    AdjointMethod method(settings);
    TSHandle ts;
    check(TSCreate(field.comm(), ts.out()));
    method.set(ts);
    if (!method.explicit_stages() || method.reuses_last_stage())
      throw BadInput(
          "adjoint.keep = tapes: needs an explicit method whose steps share no stage (such as 1fe, 2a, 3, 4, "
          "5f), not " +
          settings.method);
  }
  AdjointStepper& plain() {
    if (!without) without.emplace(field, settings, Trajectory::none, tapes);
    return *without;
  }
  AdjointStepper& keeping() {
    if (!with) with.emplace(field, settings, Trajectory::kept, tapes);
    return *with;
  }
  /// The row that a segment starts from, and the number of its cells.
  int first(int segment) const { return range.first - 1 + segment * stride; }
  int count(int segment) const { return std::min(stride, range.last - first(segment)); }
  void note_bytes() {
    most_bytes = std::max<Index>(most_bytes, store->bytes() + tapes.bytes() + (with ? with->bytes() : 0));
  }

  MarchField field;
  AdjointSettings settings;
  DepthRange range;
  int stride = 1, segments = 1;
  AdjointStepper::Tapes tapes;
  // Two integrators, so that a march without a trajectory leaves the kept trajectory intact.
  std::optional<AdjointStepper> without, with;
  std::optional<StateStore> store;
  std::vector<double> start;
  bool kept = false;
  Index most_bytes = 0;
};

AdjointMarch::AdjointMarch(DepthModel& model, const DepthCells& depth, double speed,
                           const AdjointSettings& settings, DepthRange range)
    : impl_(std::make_unique<Impl>(model, depth, speed, settings, range)) {}
AdjointMarch::~AdjointMarch() = default;

DepthModel& AdjointMarch::model() const {
  return impl_->field.model();
}

const DepthCells& AdjointMarch::depth() const {
  return impl_->field.depth();
}

DepthRange AdjointMarch::range() const {
  return impl_->range;
}

std::size_t AdjointMarch::kept_bytes() const {
  return impl_->most_bytes;
}

void AdjointMarch::forward(double* u, Keep keep, const RowVisitor& row) {
  auto& me = *impl_;
  if (keep == Keep::second_derivatives) throw std::logic_error("AdjointMarch has first derivatives only");
  const bool keeps = keep == Keep::activations;
  if (keeps) me.kept = false;
  // The same segments whether kept or not: methods that reuse the last stage of a step restart there.
  for (int segment = 0; segment < me.segments; ++segment) {
    const bool last = segment + 1 == me.segments;
    if (keeps && !last) me.store->put(segment, u);
    auto& stepper = keeps && last ? me.keeping() : me.plain();
    stepper.march(me.first(segment), me.count(segment), u, keeps, edit_, row);
  }
  if (!keeps) return;
  me.note_bytes();
  me.kept = true;
}

void AdjointMarch::backward(double* u_bar, std::span<double> gradient, const RowAdjoint& row) {
  auto& me = *impl_;
  if (!me.kept) throw std::logic_error("AdjointMarch::backward: one call for each forward that keeps");
  me.kept = false;
  auto& stepper = me.keeping();
  // Segments from the last to the first: all but the last march again from their kept state, then every cell
  // of the segment is transposed.
  std::copy_n(u_bar, me.field.size(), WriteArray(stepper.lambda()).values);
  for (int segment = me.segments; segment-- > 0;) {
    const int first = me.first(segment), count = me.count(segment);
    if (segment + 1 < me.segments) {
      me.start.resize(me.field.size());
      me.store->get(segment, me.start.data());
      stepper.march(first, count, me.start.data(), true, edit_, {});
      me.note_bytes();
    }
    for (int cell = first + count; cell > first; --cell) {
      stepper.step_back(gradient);
      if (row) stepper.show_start(row);
    }
  }
  std::copy_n(ReadArray(stepper.lambda()).values, me.field.size(), u_bar);
}

}  // namespace fluxformer
