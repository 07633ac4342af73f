#include "analysis/states/model_states.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "analysis/accumulator.hpp"
#include "analysis/state_examples.hpp"
#include "base/error.hpp"
#include "model/tasks/task.hpp"

namespace fluxformer::states {

namespace {

/// Sums of one depth after those of SlabSums.
namespace state_sum {
enum : Index { samples = SlabSums::count, correlation, drift, step, per_depth };
}

/// A sum of squares below this fraction of the whole is round-off, and a quotient by it is not defined.
constexpr double vanishing = 1e-28;

/// Drift 1 - cos(u, first), with uu = |u|^2 and ff = |first|^2.
double drift_of(const SampleView& u, double uu, const SampleView& first, double ff) {
  // 1 - cos = |u/|u| - f/|f||^2 / 2, which has no cancellation for small drifts
  const bool has_angle = uu != 0 && ff != 0;
  return has_angle ? 0.5 * (u / std::sqrt(uu) - first / std::sqrt(ff)).squaredNorm() : 1;
}

void add_sample(const SampleView& u, const SampleView& v, const SampleView& first, double* s) {
  using namespace state_sum;
  const double uu = u.squaredNorm(), vv = v.squaredNorm(), ff = first.squaredNorm();
  // x = u - <u> and y = v - <v> are formed before their squares, because a mean may be much larger than the
  // variation; the correlation is x.y / (|x| |y|).
  const RowMatrix x = u.array() - u.mean(), y = v.array() - v.mean();
  const double xx = x.squaredNorm(), yy = y.squaredNorm();
  s[samples] += 1;
  if (!(xx <= vanishing * uu || yy <= vanishing * vv))
    s[correlation] += x.cwiseProduct(y).sum() / std::sqrt(xx * yy);
  s[drift] += drift_of(u, uu, first, ff);
  // |u - v| / |v| with the state v before u
  if (vv != 0) s[step] += std::sqrt((u - v).squaredNorm() / vv);
}

}  // namespace

double drift_of(const SampleView& u, const SampleView& first) {
  return drift_of(u, u.squaredNorm(), first, first.squaredNorm());
}

StateAccumulator::StateAccumulator(int depths, const SlabContext& context)
    : Accumulator(depths * state_sum::per_depth), context_(context), slab_sums_(context) {
  need_whole_line(*context.line, "measures of hidden states over samples");
}

void StateAccumulator::add(int depth, const double* u, const double* previous, const double* first) {
  double* const s = local() + depth * state_sum::per_depth;
  if (previous == nullptr) previous = u;
  if (first == nullptr) first = u;
  // Sums over all tokens come first in s, then those over samples.
  slab_sums_.add(u, previous, nullptr, s);
  for (int b = 0; b < context_.samples; ++b) {
    const auto sample = sample_of(context_, u, b);
    if (sample.rows() > 0)
      add_sample(sample, sample_of(context_, previous, b), sample_of(context_, first, b), s);
  }
}

StateResult StateAccumulator::result() const {
  using namespace state_sum;
  StateResult m;
  for (Index at = 0; at < size(); at += per_depth) {
    const double* const s = total().data() + at;
    m.norm.push_back(SlabSums::norm(s));
    m.token_variance.push_back(SlabSums::token_variance(s));
    m.dirichlet_energy.push_back(SlabSums::dirichlet_energy(s));
    m.correlation.push_back(s[correlation] / s[samples]);
    m.drift.push_back(s[drift] / s[samples]);
    m.step_change.push_back(s[step] / s[samples]);
    if (at == 0) m.samples = std::lround(s[samples]);
  }
  return m;
}

namespace {

using Matrix = Eigen::Map<RowMatrix>;
using ConstMatrix = Eigen::Map<const RowMatrix>;
using ConstVector = Eigen::Map<const Eigen::VectorXd>;

/// Fraction of the mean square below which a variance is round-off.
constexpr double round_off = 1e-13;

Index place_of(Index first, Index index, Index size) {
  return first + index * size;
}

/// |X^T X|_F and tr(X^T X) of centred X.
struct Own {
  double norm, trace;
};

/// X^T X of centred X is the sum of x x^T less s s^T / n, with s the sum of x over the n examples.
Own own(const double* moments, const double* sum, int width, double examples) {
  const ConstMatrix raw(moments, width, width);
  const ConstVector s(sum, width);
  const RowMatrix centred = raw - s * s.transpose() / examples;
  const bool varies = centred.trace() > round_off * raw.trace();
  return {varies ? centred.norm() : std::numeric_limits<double>::quiet_NaN(), centred.trace()};
}

/// Adds the examples at all depths of one side to the sums of x and of x x^T.
void add_side(int examples, const std::vector<const double*>& x, int width, double* sums, double* moments) {
  for (const double* const values : x) {
    const ConstMatrix rows(values, examples, width);
    // These have memory of their own at first: the order of such sums depends on where they lie.
    Eigen::Map<Eigen::RowVectorXd>(sums, width) += rows.colwise().sum().eval();
    Matrix(moments, width, width).noalias() += rows.transpose() * rows;
    sums += width;
    moments += Index{width} * width;
  }
}

std::vector<Own> all_own(const double* moments, const double* sum, int depths, int width, double examples) {
  std::vector<Own> out;
  out.reserve(depths);
  for (int i = 0; i < depths; ++i)
    out.push_back(own(moments + place_of(0, i, width * width), sum + place_of(0, i, width), width, examples));
  return out;
}

}  // namespace

CkaAccumulator::CkaAccumulator(Side a, Side b) : a_(a), b_(b) {
  for (const int count : {a.depths, a.width, b.depths, b.width})
    if (count < 1)
      throw BadInput("linear CKA: a model of " + std::to_string(count) + " depths or channels; at least 1");
  // Where each group of sums begins: the number of examples is at 0.
  mean_a_ = 1;
  mean_b_ = place_of(mean_a_, a.depths, a.width);
  own_a_ = place_of(mean_b_, b.depths, b.width);
  own_b_ = place_of(own_a_, a.depths, a.width * a.width);
  cross_ = place_of(own_b_, b.depths, b.width * b.width);
  set_size(place_of(cross_, a.depths * b.depths, a.width * b.width));
}

void CkaAccumulator::add(int examples, const std::vector<const double*>& a,
                         const std::vector<const double*>& b) {
  if (examples == 0) return;
  double* const sums = local();
  sums[0] += examples;
  add_side(examples, a, a_.width, sums + mean_a_, sums + own_a_);
  add_side(examples, b, b_.width, sums + mean_b_, sums + own_b_);
  // sum y x^T over the examples, for each depth of A and each of B; means are taken out at the end.
  double* cross = sums + cross_;
  for (const double* const x : a)
    for (const double* const y : b) {
      Matrix(cross, b_.width, a_.width).noalias() +=
          ConstMatrix(y, examples, b_.width).transpose() * ConstMatrix(x, examples, a_.width);
      cross += Index{a_.width} * b_.width;
    }
}

std::vector<double> CkaAccumulator::table(bool unrelated) const {
  const double* const s = total().data();
  const double n = s[0];
  const auto own_a = all_own(s + own_a_, s + mean_a_, a_.depths, a_.width, n);
  const auto own_b = all_own(s + own_b_, s + mean_b_, b_.depths, b_.width, n);
  std::vector<double> out;
  const double* cross = s + cross_;
  for (int i = 0; i < a_.depths; ++i)
    for (int j = 0; j < b_.depths; ++j, cross += Index{a_.width} * b_.width) {
      const Own &x = own_a[i], &y = own_b[j];
      const ConstVector sum_x(s + place_of(mean_a_, i, a_.width), a_.width),
          sum_y(s + place_of(mean_b_, j, b_.width), b_.width);
      // CKA = |Y^T X|_F^2 / (|X^T X|_F |Y^T Y|_F), Y^T X = sum y x^T - s_y s_x^T / n with the sums s_x, s_y.
      // In the null control |Y^T X|_F^2 is its mean over all pairings, tr(X^T X) tr(Y^T Y) / (n - 1).
      const double shared =
          unrelated ? x.trace * y.trace / (n - 1)
                    : (ConstMatrix(cross, b_.width, a_.width) - sum_y * sum_x.transpose() / n).squaredNorm();
      out.push_back(shared / (x.norm * y.norm));
    }
  return out;
}

namespace {

/// Examples of a batch at every depth of a model.
std::vector<RowMatrix> examples_by_depth(ModelProbe& probe, const Batch& batch, Examples what) {
  std::vector<RowMatrix> all;
  std::vector<double> u;
  probe.embed(batch, u);
  probe.forward(u, Keep::nothing,
                [&](int, const double* state) { all.push_back(examples_of(probe.counted(), state, what)); });
  return all;
}

std::vector<const double*> pointers_to(const std::vector<RowMatrix>& all) {
  std::vector<const double*> list;
  list.reserve(all.size());
  for (const auto& rows : all) list.push_back(rows.data());
  return list;
}

}  // namespace

std::vector<double> token_norms(const SlabContext& context, const double* u, int sample) {
  std::vector<double> norms(context.line->tokens(), std::nan(""));
  const auto rows = sample_of(context, u, sample);
  // |u(x)| / sqrt(d) of token x
  for (Index token = 0; token < rows.rows(); ++token)
    norms[token] = rows.row(token).norm() / std::sqrt(context.width);
  return norms;
}

ModelStates measure_states(const SampleSet& samples, ModelProbe& probe, Index examples) {
  const auto layer_rows = probe.layer_rows();
  const int layer_ends = probe.spec().layers + 1;
  const Index tokens = samples.line().tokens();
  StateAccumulator all(probe.depths(), probe.counted()), ends(layer_ends, probe.counted());
  Sums correct(1);
  SampleTable shown(examples, probe.depths() * tokens);
  const bool words = probe.spec().guesses_words();
  const auto task =
      make_task(probe.parameters(), probe.context(), cross_entropy_of(probe.spec()), probe.precision());
  const auto tape = task->make_tape();
  SampleTable norms(samples.size(), layer_ends), drifts(samples.size(), layer_ends),
      right(words ? 0 : samples.size(), 1);
  std::vector<double> u, first, before;
  const auto look = [&](const Batch& batch) {
    probe.embed(batch, u);
    probe.forward(u, Keep::nothing, [&](int row, const double* state) {
      all.add(row, state, nullptr, nullptr);
      for_each_sample(batch, [&](Index b, Index place) {
        if (place >= examples) return;
        std::ranges::copy(token_norms(probe.counted(), state, b), shown.row(place) + row * tokens);
      });
      const int layer = layer_ending_at(row, layer_rows);
      if (layer < 0) return;
      // `first` is u_0, and `before` the state at the end of the layer before this one.
      if (row == 0) first.assign(state, state + u.size());
      ends.add(layer, state, row == 0 ? nullptr : before.data(), row == 0 ? nullptr : first.data());
      before.assign(state, state + u.size());
      for_each_sample(batch, [&](Index b, Index place) {
        const auto one = sample_of(probe.counted(), state, b);
        const auto embedded = sample_of(probe.counted(), first.data(), b);
        // |u| / sqrt(N) of the N numbers of a sample, and 1 - cos(u, u_0)
        norms.row(place)[layer] = one.norm() / std::sqrt(one.size());
        drifts.row(place)[layer] = drift_of(one, embedded);
      });
    });
    correct.local()[0] += task->value(batch, u.data(), *tape).correct;
    if (words) return;
    const int classes = probe.spec().classes;
    for_each_sample(batch, [&](Index b, Index place) {
      const double* const z = tape->logits.data() + b * classes;
      right.row(place)[0] = most_likely(z, classes) == batch.label[b] ? 1 : 0;
    });
  };
  accumulate(samples, look, all, ends, shown, correct, norms, drifts, right);
  return {.by_row = all.result(),
          .by_layer = ends.result(),
          .token_norms = shown.numbers(),
          .accuracy = correct.total()[0],
          .norm_by_sample = norms.numbers(),
          .drift_by_sample = drifts.numbers(),
          .correct_by_sample = right.numbers()};
}

CkaAccumulator align(const SampleSet& samples, ModelProbe& a, ModelProbe& b, Examples what) {
  CkaAccumulator meter({a.depths(), a.spec().width}, {b.depths(), b.spec().width});
  const auto look = [&](const Batch& batch) {
    const auto of_a = examples_by_depth(a, batch, what), of_b = examples_by_depth(b, batch, what);
    meter.add(of_a.front().rows(), pointers_to(of_a), pointers_to(of_b));
  };
  accumulate(samples, look, meter);
  return meter;
}

}  // namespace fluxformer::states
