#include "solvers/adjoint/adjoint_march.hpp"

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "base/error.hpp"
#include "base/vector_arrays.hpp"
#include "solvers/adjoint/adjoint_stepper.hpp"
#include "solvers/adjoint/state_store.hpp"

namespace fluxformer {
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

struct AdjointMarch::Impl {
  using Trajectory = AdjointStepper::Trajectory;
  Impl(DepthModel& model, DepthCells depth, double speed, const AdjointSettings& s, DepthRange cells_of_march)
      : field(model, depth, speed), settings(s), range(cells_of_march) {
    require_valid(settings);
    if (!AdjointMethod(settings).layer_map())
      require_field(model.spec(), "adjoint.method = " + settings.method);
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

  /// Prepares the weights at the entries of cells: all that 1fe and constant weights need. Other stages are
  /// interpolated when needed, which costs little compared with the stage itself.
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
  /// The row that a segment starts from, and its cells.
  int first(int segment) const { return range.first - 1 + segment * stride; }
  int count(int segment) const { return std::min(stride, range.last - first(segment)); }
  void note_bytes() {
    most_bytes = std::max(most_bytes, store->bytes() + tapes.bytes() + (with ? with->bytes() : 0));
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
  std::size_t most_bytes = 0;
};

AdjointMarch::AdjointMarch(DepthModel& model, DepthCells depth, double speed, const AdjointSettings& settings,
                           DepthRange range)
    : impl_(std::make_unique<Impl>(model, depth, speed, settings, range)) {}
AdjointMarch::~AdjointMarch() = default;

DepthModel& AdjointMarch::model() const {
  return impl_->field.model();
}

DepthCells AdjointMarch::depth() const {
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
  const bool keeps = keep == Keep::activations;
  if (keeps) me.kept = false;
  // The same segments whether kept or not: methods that reuse the last stage of a step restart there.
  for (int segment = 0; segment < me.segments; ++segment) {
    const bool last = segment + 1 == me.segments;
    if (keeps && !last) me.store->put(segment, u);
    auto& stepper = keeps && last ? me.keeping() : me.plain();
    stepper.march(me.first(segment), me.count(segment), u, keeps, row);
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
  std::copy_n(u_bar, me.field.size(), WriteArray(stepper.lambda()).values);
  for (int segment = me.segments; segment-- > 0;) {
    const int first = me.first(segment), count = me.count(segment);
    if (segment + 1 < me.segments) {
      me.start.resize(me.field.size());
      me.store->get(segment, me.start.data());
      stepper.march(first, count, me.start.data(), true, {});
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
