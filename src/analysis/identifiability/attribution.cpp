#include "analysis/identifiability/attribution.hpp"

#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "analysis/accumulator.hpp"
#include "analysis/identifiability/attribution_baselines.hpp"
#include "analysis/identifiability/effective_attention.hpp"
#include "analysis/identifiability/model_heads.hpp"
#include "analysis/state_examples.hpp"
#include "base/error.hpp"
#include "base/index.hpp"
#include "base/statistics.hpp"

namespace fluxformer::identifiability {

std::vector<double> mid_ranks(std::span<const double> values) {
  if (std::any_of(values.begin(), values.end(), [](double v) { return std::isnan(v); }))
    throw BadInput("what is not a number has no rank");
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (std::size_t first = 0, past; first < order.size(); first = past) {
    for (past = first; past < order.size() && values[order[past]] == values[order[first]];) ++past;
    // Equal numbers stand in the places first + 1 .. past, counted from 1: each gets the mean of these.
    for (std::size_t at = first; at < past; ++at) ranks[order[at]] = 0.5 * (first + 1 + past);
  }
  return ranks;
}

std::vector<double> with_ties(std::vector<double> values) {
  std::vector<std::size_t> order;
  double largest = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) continue;
    order.push_back(i);
    largest = std::max(largest, std::abs(values[i]));
  }
  std::ranges::sort(order, {}, [&](std::size_t i) { return values[i]; });
  double smallest = -std::numeric_limits<double>::infinity();
  for (const std::size_t i : order) {
    // A number beyond the reach of the last group begins a new one.
    if (values[i] > smallest + 1e-12 * largest) smallest = values[i];
    values[i] = smallest;
  }
  return values;
}

double spearman(std::span<const double> x, std::span<const double> y) {
  if (x.size() != y.size()) throw BadInput("a rank correlation needs two lists of one size");
  const auto a = mid_ranks(x), b = mid_ranks(y);
  // Pearson's correlation of the ranks, whose mean is (n + 1)/2:
  //     sum (a_i - mean)(b_i - mean) / sqrt(sum (a_i - mean)^2 sum (b_i - mean)^2).
  // Ranks are multiples of 1/2: their sums are exact, and a constant side has a variance of exactly 0.
  const double mean = 0.5 * (x.size() + 1);
  double aa = 0, bb = 0, ab = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    aa += (a[i] - mean) * (a[i] - mean);
    bb += (b[i] - mean) * (b[i] - mean);
    ab += (a[i] - mean) * (b[i] - mean);
  }
  return aa == 0 || bb == 0 ? std::numeric_limits<double>::quiet_NaN() : ab / std::sqrt(aa * bb);
}

namespace {

double distance(const double* a, const double* b, int count) {
  double sum = 0;
  for (int c = 0; c < count; ++c) sum += (a[c] - b[c]) * (a[c] - b[c]);
  return std::sqrt(sum);
}

}  // namespace

BlankOut::BlankOut(ModelProbe& probe, std::vector<double> mean_token)
    : probe_(probe), mean_token_(std::move(mean_token)) {
  need_whole_line(*probe.counted().line, "blanked tokens");
}

const double* BlankOut::at(const std::vector<double>& slab, int token, int slot) const {
  const auto& context = probe_.counted();
  return slab.data() + token * context.row() + Index{slot} * context.width;
}

void BlankOut::run(std::span<const double> input, int length, int first, int count) {
  const int slots = probe_.counted().samples;
  batch_.input.clear();
  for (int slot = 0; slot < slots; ++slot)
    batch_.input.insert(batch_.input.end(), input.begin(), input.end());
  batch_.length.assign(slots, length);
  batch_.weight.assign(slots, 1.0);
  batch_.label.assign(slots, 0);
  batch_.key.assign(slots, 0);
  // The input is [slot][token][feature]: slot k has the mean token in place of token first + k.
  if (first >= 0 && !words())
    for (int slot = 0; slot < count; ++slot)
      std::ranges::copy(mean_token_, batch_.input.begin() + slot * std::ssize(input) +
                                         (first + slot) * std::ssize(mean_token_));
  probe_.embed(batch_, u_);
  embedded_ = u_;
  if (first >= 0 && words()) take_out(length, first, count);
  logits_ = probe_.forward(u_);
}

void BlankOut::take_out(int length, int first, int count) {
  // Embedding sets the lengths that the model sees; the tokens that it writes to u are replaced below.
  for (int slot = 0; slot < count; ++slot) batch_.length[slot] = length - 1;
  probe_.embed(batch_, u_);
  const int width = probe_.counted().width;
  for (int slot = 0; slot < count; ++slot)
    // u_j := x_j in front of the token b = first + slot that is taken out, x_{j+1} behind it.
    for (int token = 0; token + 1 < length; ++token)
      std::copy_n(at(embedded_, token < first + slot ? token : token + 1, slot), width,
                  u_.data() + (at(u_, token, slot) - u_.data()));
}

double BlankOut::moved(std::span<const double> input, int token) const {
  const int width = probe_.counted().width;
  // Where a word is taken out there is no blank: |x_i|
  if (words()) return distance(whole_input_.data() + token * width, std::vector<double>(width).data(), width);
  // |W_E (f_i - blank)|: the same sums for equal tokens, whichever place they have
  const auto weights = probe_.parameters().view("embedding/W");
  const Index features = std::ssize(mean_token_);
  double sum = 0;
  for (Index c = 0; c < width; ++c) {
    double channel = 0;
    for (Index k = 0; k < features; ++k)
      channel += weights[c * features + k] * (input[token * features + k] - mean_token_[k]);
    sum += channel * channel;
  }
  return std::sqrt(sum);
}

double BlankOut::change(int slot, int blank, int length) const {
  if (const int classes = probe_.spec().classes; classes > 0)
    // |z' - z| of the logits
    return distance(logits_.data() + slot * classes, whole_logits_.data(), classes);
  const int width = probe_.counted().width;
  // Without classes: sqrt(sum_j |u'_j - u_j|^2) over all tokens j but the blanked one. In a text those behind
  // it have moved up by one place.
  double sum = 0;
  for (int token = 0; token < length; ++token) {
    if (token == blank) continue;
    const int now = words() && token > blank ? token - 1 : token;
    const double moved = distance(at(u_, now, slot), whole_.data() + token * width, width);
    sum += moved * moved;
  }
  return std::sqrt(sum);
}

TokenEffects BlankOut::effects(std::span<const double> input, int length) {
  const std::vector<double> unknown(length, missing_value);
  TokenEffects found{unknown, unknown, unknown};
  if (length < 2) return found;
  const auto& spec = probe_.spec();
  const int width = probe_.counted().width, slots = probe_.counted().samples;
  run(input, length, -1, 0);
  whole_.clear();
  whole_input_.clear();
  for (int token = 0; token < length; ++token) {
    whole_.insert(whole_.end(), at(u_, token, 0), at(u_, token, 0) + width);
    whole_input_.insert(whole_input_.end(), at(embedded_, token, 0), at(embedded_, token, 0) + width);
  }
  whole_logits_.assign(logits_.begin(), logits_.begin() + spec.classes);
  const auto winner = std::ranges::max_element(whole_logits_) - whole_logits_.begin();

  const bool reads_first = spec.classes > 0 && spec.pooling == Pooling::first;
  for (int first = std::max(spec.class_tokens, reads_first ? 1 : 0); first < length; first += slots) {
    const int count = std::min(slots, length - first);
    run(input, length, first, count);
    for (int slot = 0; slot < count; ++slot) {
      const int token = first + slot;
      found.output_change[token] = change(slot, token, length);
      // z_w - z'_w of the class w with the largest logit z_w of the whole sample
      if (spec.classes > 0)
        found.winning_drop[token] = whole_logits_[winner] - logits_[slot * spec.classes + winner];
      found.moved[token] = moved(input, token);
    }
  }
  return found;
}

namespace {

/// The tokens that the readout of a model uses, of n.
std::vector<int> output_tokens(const ModelSpec& spec, int n) {
  if (spec.classes > 0 && spec.pooling == Pooling::first) return {0};
  if (spec.classes > 0 && spec.pooling == Pooling::last) return {n - 1};
  const bool front = spec.classes > 0 && spec.pooling == Pooling::front;
  std::vector<int> all(front ? std::min(spec.class_tokens, n) : n);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

/// `count` of the tokens, evenly spread.
std::vector<int> some_of(const std::vector<int>& tokens, int count) {
  const int size = std::ssize(tokens);
  std::vector<int> some;
  some.reserve(std::min(count, size));
  // Places floor(k size/count), k = 0, 1, ..., where there are more tokens than wanted.
  for (int k = 0; k < std::min(count, size); ++k) some.push_back(tokens[k * size / std::min(count, size)]);
  return some;
}

/// Means of rank correlations: [effect][account, moved][layer], with and without the factor.
class AgreementSums : public Accumulator {
 public:
  explicit AgreementSums(std::size_t layers)
      : Accumulator(2 * 2 * effect_count * (account_count + 1) * layers), layers_(layers) {}

  void add(std::size_t effect, std::size_t account, std::size_t layer, bool factor, double correlation) {
    if (std::isnan(correlation)) return;
    double* const at = local() + 2 * place(effect, account, layer, factor);
    at[0] += correlation;
    at[1] += 1;
  }
  double mean(std::size_t effect, std::size_t account, std::size_t layer, bool factor) const {
    const double* const at = total().data() + 2 * place(effect, account, layer, factor);
    return at[1] > 0 ? at[0] / at[1] : missing_value;
  }

 private:
  std::size_t place(std::size_t effect, std::size_t account, std::size_t layer, bool factor) const {
    // [effect][account][layer][factor], each a sum and a count; the last account is the control alone.
    return ((effect * (account_count + 1) + account) * layers_ + layer) * 2 + (factor ? 1 : 0);
  }
  std::size_t layers_;
};

/// The numbers of those tokens that have an effect, all but a class token, with ties.
std::vector<double> with_effect(std::span<const double> numbers, const TokenEffects& effects) {
  std::vector<double> some;
  for (std::size_t i = 0; i < numbers.size(); ++i)
    if (!std::isnan(effects.output_change[i])) some.push_back(numbers[i]);
  return with_ties(std::move(some));
}

/// Measures samples one after another.
class Attributor {
 public:
  Attributor(const SampleSet& samples, ModelProbe& probe, ModelProbe& blanked,
             const std::vector<double>& blank, const AttributionPlan& plan)
      : probe_(probe),
        plan_(plan),
        heads_(probe),
        blank_out_(blanked, blank),
        jacobian_(probe.parameters(), *probe.counted().line, plan.columns),
        lattice_(lattice_of(samples.line(), probe.spec())),
        tokens_(samples.line().tokens()),
        contributions(samples.size(), probe.depths(), samples.line().tokens()),
        agreement(probe.spec().layers),
        first(probe.depths() * tokens_ * tokens_ + tokens_) {}

  void add(const Batch& batch);

 private:
  /// Class tokens stand before the others, which then lie on a line.
  static TokenLattice lattice_of(const TokenLine& line, const ModelSpec& spec) {
    const int leading = spec.class_tokens;
    return {.rows = line.tokens_y(), .columns = line.tokens_x() - leading, .leading = leading};
  }
  /// The lengths h_i of all cells.
  static std::vector<double> steps_of(const ModelProbe& probe) {
    std::vector<double> steps;
    steps.reserve(probe.cells());
    for (int row = 0; row < probe.cells(); ++row) steps.push_back(probe.step(row));
    return steps;
  }
  /// Heads of the cells at which layers begin, and attention of all cells.
  struct OneSample {
    std::vector<LayerHeads> heads = {};
    std::vector<Matrix> attention = {};
  };
  void add_sample(const Batch& batch, std::size_t b, std::size_t place, const OneSample& of,
                  const std::vector<double>& u);
  void compare(const std::vector<Matrix>& accounts, std::size_t layer, const std::vector<int>& outputs,
               const TokenEffects& effects);

  ModelProbe& probe_;
  const AttributionPlan& plan_;
  ModelHeads heads_;
  BlankOut blank_out_;
  derivatives::InputJacobian jacobian_;
  TokenLattice lattice_;
  Index tokens_;
  std::vector<int> layer_rows_ = probe_.layer_rows();
  std::vector<double> steps_ = steps_of(probe_);

 public:
  ContributionAccumulator contributions;
  AgreementSums agreement;
  Sums first;  ///< the first sample: map and output change
  double relative_error = 0;
};

void Attributor::add(const Batch& batch) {
  heads_.show(batch);
  // Rollout and flow need the attention of all cells. Heads, which take more memory, are kept of those cells
  // alone at which layers begin.
  std::vector<OneSample> all(batch.weight.size());
  for (int cell = 0; cell < probe_.cells(); ++cell) {
    heads_.select_cell(cell);
    for_each_sample(batch, [&](std::size_t b, std::size_t) {
      auto heads = heads_.of_sample(b);
      all[b].attention.push_back(raw_attention(heads));
      if (layer_ending_at(cell, layer_rows_) >= 0) all[b].heads.push_back(std::move(heads));
    });
  }
  std::vector<double> u;
  probe_.embed(batch, u);
  for_each_sample(batch, [&](std::size_t b, std::size_t place) { add_sample(batch, b, place, all[b], u); });
}

void Attributor::add_sample(const Batch& batch, std::size_t b, std::size_t place, const OneSample& of,
                            const std::vector<double>& u) {
  const auto& heads = of.heads;
  const int n = heads.front().front().tokens();
  const std::size_t per_sample = batch.input.size() / batch.weight.size();
  const auto effects = blank_out_.effects({batch.input.data() + b * per_sample, per_sample}, n);

  RowMatrix u_0 = RowMatrix::Zero(tokens_, probe_.spec().width);
  u_0.topRows(n) = sample_of(probe_.counted(), u.data(), b);
  // [depth]: |du_j/dx_i| of all pairs of tokens
  const auto norms = jacobian_.norms(u_0.data(), n, plan_.norms, batch.key[b]);
  std::vector<Matrix> c;
  for (std::size_t row = 0; row < norms.size(); ++row) {
    // c_ij = |du_j/dx_i| / sum_k |du_j/dx_k|
    c.push_back(contributions_of_norms(norms[row].norms));
    contributions.add(place, row, c.back(), lattice_);
    // Error of |du_j/dx_i|^2 over its value; the least divisor keeps pairs without dependence from being 0/0.
    if (norms[row].standard_error.size() > 0)
      relative_error =
          std::max(relative_error,
                   norms[row].standard_error.cwiseQuotient(norms[row].squares.cwiseMax(1e-300)).maxCoeff());
    if (place == 0)
      for (Index i = 0; i < n; ++i)
        for (Index j = 0; j < n; ++j) first.local()[(row * tokens_ + i) * tokens_ + j] = c.back()(i, j);
  }
  if (place == 0)
    for (Index i = 0; i < tokens_; ++i)
      first.local()[norms.size() * tokens_ * tokens_ + i] = i < n ? effects.output_change[i] : missing_value;

  const auto outputs = output_tokens(probe_.spec(), n);
  // Accounts at the end of layer l: cells up to `end` count for rollout, flow and contributions.
  const auto rolled = rollout(of.attention, steps_);
  for (Index l = 0; l < std::ssize(heads); ++l) {
    Matrix effective = Matrix::Zero(n, n), flow;
    // Mean over the heads of |A_eff|: its entries have either sign.
    for (const auto& head : heads[l])
      effective += effective_attention(head, EffectivePart::linear).cwiseAbs() / heads[l].size();
    const Index first_cell = layer_rows_[l], end = layer_rows_[l + 1];
    if (plan_.flow_outputs > 0)
      flow = flow_shares(attention_flow({of.attention.begin(), of.attention.begin() + end},
                                        some_of(outputs, plan_.flow_outputs), steps_));
    // All accounts have output tokens in rows and input tokens in columns, so that c is transposed.
    compare({of.attention[first_cell], effective, norm_based_attention(heads[l]), rolled[end - 1], flow,
             c[end].transpose()},
            l, outputs, effects);
  }
}

void Attributor::compare(const std::vector<Matrix>& accounts, std::size_t layer,
                         const std::vector<int>& outputs, const TokenEffects& effects) {
  const auto moved = with_effect(effects.moved, effects);
  const std::array<std::vector<double>, effect_count> effect = {with_effect(effects.output_change, effects),
                                                                with_effect(effects.winning_drop, effects)};
  for (std::size_t e = 0; e < effect_count; ++e) {
    if (effect[e].size() < 2 || std::isnan(effect[e].front())) continue;
    // The control does not depend on the layer.
    if (layer == 0) agreement.add(e, account_count, 0, false, spearman(moved, effect[e]));
    for (std::size_t a = 0; a < accounts.size(); ++a) {
      if (accounts[a].size() == 0) continue;
      std::vector<int> rows = outputs;
      if (a == static_cast<std::size_t>(Account::flow)) {
        rows.resize(accounts[a].rows());  // its rows are those of the chosen tokens
        std::iota(rows.begin(), rows.end(), 0);
      }
      auto scores = with_effect(scores_of_inputs(accounts[a], rows), effects);
      agreement.add(e, a, layer, false, spearman(scores, effect[e]));
      // The control as a factor: |x_i - blank|
      for (std::size_t i = 0; i < scores.size(); ++i) scores[i] *= moved[i];
      agreement.add(e, a, layer, true, spearman(with_ties(std::move(scores)), effect[e]));
    }
  }
}

}  // namespace

std::vector<double> mean_token(const SampleSet& samples, int leading) {
  const Index features = samples.data().features();
  Sums sums(features + 1);
  accumulate(
      samples,
      [&](const Batch& batch) {
        const std::size_t per_sample = batch.input.size() / batch.weight.size();
        for_each_sample(batch, [&](std::size_t b, std::size_t) {
          const int tokens = per_sample == 0 ? 0 : samples.data().length(samples.member(batch.key[b]));
          for (Index t = leading; t < tokens; ++t) {
            for (Index k = 0; k < features; ++k)
              sums.local()[k] += batch.input[b * per_sample + t * features + k];
            sums.local()[features] += 1;
          }
        });
      },
      sums);
  std::vector<double> mean(sums.total().begin(), sums.total().end() - 1);
  // Sums over all real tokens but the leading ones, divided by their number
  for (double& one : mean) one /= sums.total().back();
  return mean;
}

Attributions attributions(const SampleSet& samples, ModelProbe& probe, ModelProbe& blanked,
                          const std::vector<double>& blank, const AttributionPlan& plan) {
  Attributor one(samples, probe, blanked, blank, plan);
  accumulate(
      samples, [&](const Batch& batch) { one.add(batch); }, one.contributions, one.agreement, one.first);
  // The largest error of any rank
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &one.relative_error, 1, MPI_DOUBLE, MPI_MAX, samples.comm()));
  const Index n = samples.line().tokens();
  Attributions found{one.contributions, {}, {}, {}, {}, {}, one.relative_error};
  const auto& first = one.first.total();
  found.map.assign(first.begin(), first.end() - n);
  found.output_change.assign(first.end() - n, first.end());
  for (std::size_t e = 0; e < effect_count; ++e) {
    found.agreement_moved[e] = one.agreement.mean(e, account_count, 0, false);
    for (std::size_t a = 0; a < account_count; ++a)
      for (int l = 0; l < probe.spec().layers; ++l) {
        found.agreement[e][a].push_back(one.agreement.mean(e, a, l, false));
        found.agreement_times_moved[e][a].push_back(one.agreement.mean(e, a, l, true));
      }
  }
  return found;
}

}  // namespace fluxformer::identifiability
