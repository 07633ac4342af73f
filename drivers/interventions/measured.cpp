#include "drivers/interventions/measured.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "analysis/interventions/face_accounts.hpp"
#include "base/error.hpp"
#include "base/mpi.hpp"
#include "base/statistics.hpp"

namespace fluxformer::interventions {

namespace stored = variables;

MeasuredPairs::MeasuredPairs(const InterventionPlan& plan, SampleRuns& runs, std::vector<SamplePair> pairs,
                             std::string called, MPI_Comm comm)
    : plan_(plan), runs_(runs), pairs_(std::move(pairs)), called_(std::move(called)), comm_(comm) {}

int MeasuredPairs::face() const {
  return plan_.face >= 0 ? plan_.face : runs_.extents().cells / 2;
}

MeasuredPairs::Patched MeasuredPairs::patched(std::size_t number) {
  const auto& pair = pairs_[number];
  Patched of{pair, runs_.run(pair.clean), runs_.run(pair.donor), {}, {}, {}};
  of.put = of.donor.at;
  if (plan_.put == InterventionPlan::Put::mean) of.put = mean_;
  if (plan_.put == InterventionPlan::Put::zero) of.put.add(-1, of.donor.at);
  auto& patches = runs_.patches();
  if (pairs_.size() > 1)
    // The null: the same question at the sample of another pair.
    of.slopes_of_other =
        patches.cotangents(runs_.run(pairs_[(number + 1) % pairs_.size()].clean), pair.question);
  of.slopes = patches.cotangents(of.clean, pair.question);
  clean_.push_back(patches.value(of.clean, pair.question));
  donor_.push_back(patches.value(of.donor, pair.question));
  if (!std::isfinite(clean_.back()) || !std::isfinite(donor_.back()))
    throw NumericalFailure(called_ + ": the goal of samples " + std::to_string(pair.clean) + " and " +
                           std::to_string(pair.donor) + " is not finite");
  return of;
}

void MeasuredPairs::keep(Site site, Account account, std::vector<double> effects, int length) {
  const auto& extents = runs_.extents();
  for (std::size_t k = 0; k < effects.size(); ++k)
    if (static_cast<int>(static_cast<Index>(k) % extents.tokens) >= length) effects[k] = missing_value;
  auto& all = effects_[{site, account}];
  all.insert(all.end(), effects.begin(), effects.end());
}

std::vector<double> MeasuredPairs::first_by(const Patched& of, Site site, const SiteNumbers& slopes) {
  return first_order(runs_.extents(), site, slopes, of.clean.at, of.put);
}

std::vector<double> MeasuredPairs::run_again(Site site, const Run& own, const SiteNumbers& put,
                                             const Question& question, const std::vector<Index>& places) {
  // Blocks of places, which fill the slab of a rank, are dealt out.
  std::vector<Index> mine;
  const Index block = plan_.runs;
  for (Index k = 0; k < std::ssize(places); ++k)
    if (k / block % mpi::size(comm_) == mpi::rank(comm_)) mine.push_back(places[k]);
  std::vector<double> all(runs_.extents().places(site), 0.0);
  const auto effects = runs_.patches().exact(site, own, put, question, mine);
  for (std::size_t k = 0; k < mine.size(); ++k) all[mine[k]] = effects[k];
  sum_over_ranks(all, comm_);
  std::vector<double> found(all.size(), missing_value);
  for (const Index place : places) found[place] = all[place];
  for (const Index place : places)
    if (!std::isfinite(found[place]))
      throw NumericalFailure(called_ + ": the goal of a patched run is not finite");
  return found;
}

std::vector<double> MeasuredPairs::second_order(const Patched& of, const std::vector<double>& first) {
  const auto& extents = runs_.extents();
  std::vector<double> half(first.size(), 0.0);
  for (int depth = mpi::rank(comm_); depth <= extents.cells; depth += mpi::size(comm_)) {
    const auto slab = runs_.slab(plan_.runs);
    slab->show(of.clean.length);
    const RowMatrix curved =
        FaceAccounts(*slab).curvature(depth, of.pair.question, of.clean.at.faces[depth], of.put.faces[depth]);
    for (int token = 0; token < of.clean.length; ++token)
      half[extents.place(Site::face, depth, 0, token)] = curved(token, token) / 2;
  }
  sum_over_ranks(half, comm_);
  for (std::size_t k = 0; k < half.size(); ++k) half[k] += first[k];
  return half;
}

std::vector<double> MeasuredPairs::integrate(const Patched& of) {
  const auto& extents = runs_.extents();
  const Index faces = extents.cells + 1;
  std::vector<double> effects(extents.places(Site::face), 0.0), numbers(3 * faces, 0.0);
  for (int depth = mpi::rank(comm_); depth < faces; depth += mpi::size(comm_)) {
    const auto slab = runs_.slab(plan_.runs);
    slab->show(of.clean.length);
    const auto found = FaceAccounts(*slab).integrated(depth, of.pair.question, of.clean.at.faces[depth],
                                                      of.put.faces[depth], plan_.tolerance);
    std::ranges::copy(found.effects, effects.begin() + extents.place(Site::face, depth, 0, 0));
    numbers[depth] = found.gap;
    numbers[faces + depth] = found.estimate;
    numbers[2 * faces + depth] = found.nodes;
  }
  sum_over_ranks(effects, comm_);
  sum_over_ranks(numbers, comm_);
  gap_.insert(gap_.end(), numbers.begin(), numbers.begin() + faces);
  estimate_.insert(estimate_.end(), numbers.begin() + faces, numbers.begin() + 2 * faces);
  nodes_.insert(nodes_.end(), numbers.begin() + 2 * faces, numbers.end());
  return effects;
}

void MeasuredPairs::measure_site(const Patched& of, Site site) {
  const auto& extents = runs_.extents();
  const int length = of.clean.length;
  const auto first = first_by(of, site, of.slopes);
  auto best = first;
  keep(site, Account::first, first, length);
  keep(site, Account::size, sizes_of_change(extents, site, of.clean.at, of.put), length);
  if (pairs_.size() > 1) keep(site, Account::null, first_by(of, site, of.slopes_of_other), length);
  std::vector<double> marks(first.size(), 0.0);
  if (plan_.softmax && (site == Site::query || site == Site::key)) {
    best = runs_.patches().softmax(site, of.clean, of.put, of.slopes);
    keep(site, Account::softmax, best, length);
  }
  if (site == Site::face && plan_.second) {
    const auto second = second_order(of, first);
    marks = untrusted(first, second, plan_.limit);
    keep(site, Account::second, second, length);
    keep(site, Account::untrusted, marks, length);
  }
  if (site == Site::face && plan_.integrated) keep(site, Account::integrated, integrate(of), length);
  if (!plan_.exact) return;
  for (std::size_t k = 0; k < best.size(); ++k)
    if (static_cast<int>(static_cast<Index>(k) % extents.tokens) >= length) best[k] = missing_value;
  // Ranks must agree on the places, whatever the last bits of their accounts.
  check_mpi(MPI_Bcast(best.data(), static_cast<int>(best.size()), MPI_DOUBLE, 0, comm_));
  check_mpi(MPI_Bcast(marks.data(), static_cast<int>(marks.size()), MPI_DOUBLE, 0, comm_));
  std::vector<bool> wanted(best.size(), false);
  for (const auto place : largest(best, plan_.verify)) wanted[place] = true;
  std::vector<Index> places;
  for (std::size_t k = 0; k < best.size(); ++k)
    if (!std::isnan(best[k]) && (wanted[k] || marks[k] > 0)) places.push_back(static_cast<Index>(k));
  keep(site, Account::exact, run_again(site, of.clean, of.put, of.pair.question, places), length);
  if (!plan_.reverse) return;
  auto reverse = run_again(site, of.donor, of.clean.at, of.pair.question, places);
  for (double& effect : reverse) effect = -effect;
  keep(site, Account::reverse, reverse, length);
}

void MeasuredPairs::pairs_of_tokens(const Patched& of) {
  const Index tokens = runs_.extents().tokens, length = of.clean.length, runs = plan_.runs;
  const auto &own = of.clean.at.faces[face()], &put = of.put.faces[face()];
  const auto slab = runs_.slab(plan_.runs);
  slab->show(of.clean.length);
  // Rows of H are dealt out, and the runs of two tokens.
  const int rank = mpi::rank(comm_), ranks = mpi::size(comm_);
  std::vector<int> rows;
  for (int i = rank; i < length; i += ranks) rows.push_back(i);
  std::vector<double> curved(tokens * tokens, 0.0), together(tokens * tokens, 0.0);
  if (!rows.empty()) {
    const RowMatrix mine = FaceAccounts(*slab).curvature(face(), of.pair.question, own, put, rows);
    for (const int i : rows)
      for (Index j = 0; j < length; ++j) curved[i * tokens + j] = mine(i, j);
  }
  std::vector<std::pair<Index, Index>> asked;
  for (Index i = 0; i < length; ++i)
    for (Index j = 0; j <= i; ++j) asked.emplace_back(i, j);
  std::vector<double> u(slab->size());
  for (Index first = rank * runs; first < std::ssize(asked); first += ranks * runs) {
    const Index count = std::min(runs, std::ssize(asked) - first);
    for (Index run = 0; run < runs; ++run) {
      RowMatrix state = own;
      if (run < count)
        for (const Index token : {asked[first + run].first, asked[first + run].second})
          state.row(token) = put.row(token);
      slab->put(state, static_cast<int>(run), u);
    }
    const auto& values = slab->run_on(face(), of.pair.question, u);
    for (Index run = 0; run < count; ++run) {
      const auto [i, j] = asked[first + run];
      together[i * tokens + j] = together[j * tokens + i] = values[run] - clean_.back();
    }
  }
  sum_over_ranks(curved, comm_);
  sum_over_ranks(together, comm_);
  // E_ij - E_i - E_j, and D_i^T H D_j, of two tokens each
  std::vector<double> exact(tokens * tokens, missing_value), by_curvature(tokens * tokens, missing_value),
      one, other;
  for (Index i = 0; i < length; ++i)
    for (Index j = 0; j < length; ++j) {
      by_curvature[i * tokens + j] = curved[i * tokens + j];
      if (i == j) continue;
      exact[i * tokens + j] = together[i * tokens + j] - together[i * tokens + i] - together[j * tokens + j];
      if (j > i) continue;
      one.push_back(curved[i * tokens + j]);
      other.push_back(exact[i * tokens + j]);
    }
  pairs_spearman_.push_back(agreement(one, other).spearman);
  curvature_.insert(curvature_.end(), by_curvature.begin(), by_curvature.end());
  together_.insert(together_.end(), exact.begin(), exact.end());
}

void MeasuredPairs::zero_values(const Patched& of) {
  const Index tokens = runs_.extents().tokens, length = of.clean.length;
  for (int cell = 0; cell < runs_.extents().cells; ++cell) {
    const RowMatrix norms = runs_.patches().zeroing(cell, of.clean);
    for (Index i = 0; i < tokens; ++i)
      for (Index j = 0; j < tokens; ++j)
        zeroing_.push_back(i < length && j < length ? norms(i, j) : missing_value);
  }
}

bool MeasuredPairs::measure(const std::vector<std::size_t>& members, const Step& step) {
  if (plan_.put == InterventionPlan::Put::mean) {
    for (const auto member : members)
      mean_.add(1.0 / static_cast<double>(members.size()), runs_.run(member).at);
    if (!step(0, "means")) return false;
  }
  for (std::size_t number = 0; number < pairs_.size(); ++number) {
    const auto of = collectively(comm_, [&] { return patched(number); });
    const auto done = [&](const std::string& what) {
      return step(
          static_cast<double>(number + 1) / static_cast<double>(pairs_.size()),
          "pair " + std::to_string(number + 1) + " of " + std::to_string(pairs_.size()) + ", " + what);
    };
    for (const Site site : plan_.sites) {
      measure_site(of, site);
      if (!done(site_word(site))) return false;
    }
    if (plan_.token_pairs) pairs_of_tokens(of);
    if (plan_.zeroing) zero_values(of);
    if ((plan_.token_pairs || plan_.zeroing) && !done("pairs of tokens")) return false;
  }
  if (plan_.exact) compare();
  return true;
}

void MeasuredPairs::compare() {
  const auto& extents = runs_.extents();
  const Index faces = extents.cells + 1;
  for (const Site site : all_sites)
    for (const Account account : stored::compared_accounts) {
      std::vector<Agreement> all;
      std::vector<std::vector<Agreement>> at(static_cast<std::size_t>(faces));
      if (measured(site, account) && measured(site, Account::exact)) {
        const auto &of = effects_.at({site, account}), &exact = effects_.at({site, Account::exact});
        for (Index row = 0; row < std::ssize(of) / extents.tokens; ++row) {
          std::vector<double> one(of.begin() + row * extents.tokens, of.begin() + (row + 1) * extents.tokens),
              other(exact.begin() + row * extents.tokens, exact.begin() + (row + 1) * extents.tokens);
          if (account == Account::size)
            for (double& effect : other) effect = std::abs(effect);
          all.push_back(agreement(one, other));
          const Index depth = row / extents.parts(site) % extents.depths(site);
          at[static_cast<std::size_t>(site == Site::face ? depth : depth + 1)].push_back(all.back());
        }
      }
      const auto mean = mean_agreement(all);
      spearman_.push_back(mean.spearman);
      pearson_.push_back(mean.pearson);
      error_.push_back(account == Account::size ? missing_value : mean.relative_error);
      top_.push_back(mean.top_share);
      for (const auto& one : at) spearman_at_.push_back(mean_agreement(one).spearman);
    }
  if (!measured(Site::face, Account::untrusted)) return;
  const auto& marks = effects_.at({Site::face, Account::untrusted});
  for (Index depth = 0; depth < faces; ++depth) {
    double sum = 0, count = 0;
    for (Index k = 0; k < std::ssize(marks); ++k)
      if (k / extents.tokens % faces == depth && !std::isnan(marks[k])) sum += marks[k], count += 1;
    untrusted_at_.push_back(sum / count);
  }
}

void MeasuredPairs::put(Results& to) const {
  const auto of_pairs = [&](const io::Variable& variable, auto&& number) {
    std::vector<double> numbers;
    numbers.reserve(pairs_.size());
    for (const auto& pair : pairs_) numbers.push_back(static_cast<double>(number(pair)));
    to.put(variable, std::move(numbers));
  };
  const bool words = runs_.spec().guesses_words();
  of_pairs(stored::pair_clean, [](const SamplePair& pair) { return pair.clean; });
  of_pairs(stored::pair_donor, [](const SamplePair& pair) { return pair.donor; });
  of_pairs(stored::pair_a, [](const SamplePair& pair) { return pair.question.a; });
  of_pairs(stored::pair_b, [](const SamplePair& pair) { return pair.question.b; });
  of_pairs(stored::pair_token, [&](const SamplePair& pair) { return words ? pair.question.token : -1; });
  of_pairs(stored::pair_length, [](const SamplePair& pair) { return pair.length; });
  const auto features = [&](const io::Variable& variable, std::size_t SamplePair::*sample) {
    const auto& data = runs_.data();
    const Index each = Index{data.tokens_x()} * data.tokens_y() * data.features();
    std::vector<double> numbers(std::ssize(pairs_) * each);
    for (Index p = 0; p < std::ssize(pairs_); ++p) data.tokens(pairs_[p].*sample, numbers.data() + p * each);
    to.put(variable, std::move(numbers));
  };
  features(stored::clean_features, &SamplePair::clean);
  features(stored::donor_features, &SamplePair::donor);
  to.put(stored::value_clean, clean_);
  to.put(stored::value_donor, donor_);
  for (const auto& [key, numbers] : effects_) to.put(stored::effects(key.first, key.second), numbers);
  const auto put_any = [&](const io::Variable& variable, const std::vector<double>& numbers) {
    if (!numbers.empty()) to.put(variable, numbers);
  };
  put_any(stored::agreement_spearman, spearman_);
  put_any(stored::agreement_pearson, pearson_);
  put_any(stored::agreement_relative_error, error_);
  put_any(stored::agreement_top_share, top_);
  put_any(stored::spearman_by_depth, spearman_at_);
  put_any(stored::untrusted_share, untrusted_at_);
  put_any(stored::integrated_gap, gap_);
  put_any(stored::integrated_estimate, estimate_);
  put_any(stored::integrated_nodes, nodes_);
  put_any(stored::pairs_curvature, curvature_);
  put_any(stored::pairs_exact, together_);
  put_any(stored::pairs_spearman, pairs_spearman_);
  put_any(stored::zeroing, zeroing_);
}

std::string MeasuredPairs::words() const {
  if (spearman_.empty()) return {};
  const auto of = [&](Site site, Account account) {
    const auto place =
        std::ranges::find(stored::compared_accounts, account) - std::begin(stored::compared_accounts);
    return spearman_[static_cast<std::size_t>(site) * std::size(stored::compared_accounts) + place];
  };
  std::ostringstream text;
  text.precision(2);
  text << called_ << ": rank correlation of first order with exact effects";
  const char* comma = " ";
  for (const Site site : {Site::face, Site::head})
    if (measured(site, Account::exact)) {
      text << comma << site_word(site) << ' ' << of(site, Account::first);
      if (pairs_.size() > 1) text << " (another sample's adjoint " << of(site, Account::null) << ')';
      comma = ", ";
    }
  return text.str();
}

}  // namespace fluxformer::interventions
