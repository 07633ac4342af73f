// Patched faces of samples whose tokens ranks share: effects, first order, second order and integrated gradients
// are those of one rank.
// Ranks: 1 2 3 4.

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "analysis/interventions/face_accounts.hpp"
#include "analysis/interventions/patches.hpp"
#include "base/mpi.hpp"
#include "tests/support/small_problem.hpp"
#include "tests/support/test_vectors.hpp"

namespace fluxformer::interventions {
namespace {

constexpr int tokens = 12;
using Accounts = std::map<std::string, std::vector<double>>;

/// All accounts of the faces of a pair of samples, on the ranks of a communicator.
Accounts accounts_on(MPI_Comm comm, const Parameters& parameters, const Question& question) {
  const TokenLine line = TokenLine::even(comm, tokens, 1, mpi::size(comm), 1);
  Patches patches(parameters, line, 5, Precision::float64, SiteScope::faces);
  const auto sample = [&](unsigned key) {
    Batch batch;
    batch.input = test::random_vector(tokens * 3, key);
    if (const int words = parameters.spec.vocabulary; words > 0) {
      batch.input.resize(tokens);
      for (double& word : batch.input) word = std::fmod(std::floor(std::abs(word) * 1000), words);
    }
    batch.length = {11};
    batch.label = {0};
    batch.weight = {1};
    return batch;
  };
  const auto own = patches.run(sample(1)), put = patches.run(sample(2));
  const auto cotangents = patches.cotangents(own, question);
  const auto mine = first_order(patches.extents(), Site::face, cotangents, own.at, put.at);
  const int faces = patches.extents().cells + 1, local = patches.extents().tokens;
  Accounts all;
  auto& first = all["first"];
  first.assign(static_cast<std::size_t>(faces * tokens), 0.0);
  std::vector<Index> places;
  for (int face = 0; face < faces; ++face) {
    for (int t = 0; t < local; ++t)
      first[static_cast<std::size_t>(face * tokens + line.global_index(line.rank(), t))] =
          mine[static_cast<std::size_t>(face * local + t)];
    for (int t = 0; t < tokens; ++t) places.push_back(face * tokens + t);
  }
  sum_over_ranks(first, comm);
  all["exact"] = patches.exact(Site::face, own, put.at, question, places);
  FaceAccounts accounts(patches.many());
  for (int face = 0; face < faces; ++face) {
    patches.many().show(own.length);
    const auto curved = accounts.curvature(face, question, own.at.faces[face], put.at.faces[face]);
    for (int i = 0; i < own.length; ++i)
      for (int j = 0; j < own.length; ++j) all["second"].push_back(curved(i, j));
    const auto line_integral =
        accounts.integrated(face, question, own.at.faces[face], put.at.faces[face], 1e-6);
    all["integrated"].insert(all["integrated"].end(), line_integral.effects.begin(),
                             line_integral.effects.end());
    all["whole"].push_back(patches.exact_face(face, own, put.at.faces[face], question));
  }
  return all;
}

// Sums over tokens in another order: 1e-12 of the largest number of an account.
void expect_the_same(const Parameters& parameters, const Question& question) {
  const auto together = accounts_on(MPI_COMM_WORLD, parameters, question),
             alone = accounts_on(MPI_COMM_SELF, parameters, question);
  for (const auto& [name, numbers] : alone)
    EXPECT_LT(test::relative_difference(together.at(name), numbers), 1e-12) << name;
}

TEST(Patches, of_faces_do_not_mind_how_many_ranks_share_the_tokens) {
  for (const auto norm : {Norm::pre, Norm::none, Norm::post}) {
    ModelSpec spec = test::small_model(2);
    spec.norm = norm;
    spec.attention.layer_norm = norm == Norm::pre;
    spec.features = 3;
    spec.classes = 4;
    spec.cells = 2;
    expect_the_same(test::random_parameters({.model = spec, .kappa = norm == Norm::none ? 0.2 : 0.0}),
                    {.kind = GoalKind::logits, .a = 1, .b = 2});
  }
}

TEST(Patches, of_words_do_not_mind_how_many_ranks_share_the_tokens) {
  ModelSpec spec = test::small_model(2);
  spec.vocabulary = 11;
  spec.tokens = tokens;
  spec.word_head.present = true;
  spec.cells = 2;
  for (const auto kind : {GoalKind::logits, GoalKind::loss})
    expect_the_same(test::random_parameters({.model = spec}), {.kind = kind, .a = 3, .b = 5, .token = 7});
}

}  // namespace
}  // namespace fluxformer::interventions
