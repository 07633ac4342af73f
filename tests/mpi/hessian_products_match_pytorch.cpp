// Products with the Hessian and the Gauss-Newton matrix of a whole classifier agree with PyTorch's double
// backward in float64, on every split of the ranks over samples and tokens. The reference numbers are made by
// tests/support/make_torch_hessian_reference.py.

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "io/archive_reader.hpp"
#include "model/loss_hessian.hpp"
#include "tests/support/small_training.hpp"
#include "tests/support/test_vectors.hpp"

namespace fluxformer::hessian_products_match_pytorch {
namespace {

using namespace test;

// Sums of a few tens of products in another order, through two layers forward and back twice: some 1e-15 of
// the largest entry. The promise is 1e-10.
constexpr double promised = 1e-10;

/// Columns that a case stores of each array.
enum What : std::size_t { values, gradient, direction, hessian, gauss_newton };

class Reference {
 public:
  explicit Reference(const char* which)
      : name(which),
        file_(MPI_COMM_WORLD, FLUXFORMER_SOURCE_DIR "/tests/support/torch_hessian_reference.h5") {}

  int number(const char* key) const { return static_cast<int>(file_.integer(key, "/" + name)); }
  std::vector<double> list(const std::string& object) const {
    return file_.array("/" + name + "/" + object).values;
  }
  Loss loss() const {
    return {loss_kind(file_.text("loss", "/" + name)), file_.real("smoothing", "/" + name)};
  }

  ModelSpec model() const {
    ModelSpec spec;
    spec.layers = spec.knots = number("layers");
    spec.width = number("width");
    spec.ffn = number("ffn");
    spec.attention.heads = number("heads");
    spec.norm = from_word<Norm>(file_.text("norm", "/" + name));
    spec.attention.layer_norm = spec.norm == Norm::pre;
    spec.features = number("features");
    spec.vocabulary = number("vocabulary");
    spec.tokens = static_cast<int>(file_.shape("/" + name + "/parameters/embedding/position")[1]);
    spec.classes = static_cast<int>(file_.shape("/" + name + "/parameters/head/b")[1]);
    return spec;
  }

  ListedSamples samples() const {
    const auto spec = model();
    ListedSamples::Content content{.tokens_x = spec.tokens,
                                   .features = spec.input_size(),
                                   .classes = spec.classes,
                                   .vocabulary = spec.vocabulary,
                                   .input = list("input"),
                                   .lengths = {},
                                   .labels = {}};
    for (const double length : list("lengths")) content.lengths.push_back(static_cast<int>(length));
    for (const double label : list("labels")) content.labels.push_back(static_cast<int>(label));
    return ListedSamples(std::move(content));
  }

  /// Parameters of an array of the file; alpha = rho = 1 and kappa = 0 are no parameters in PyTorch.
  Parameters of(What which) const {
    Parameters p(model());
    for (const auto& view : p.layout.views()) {
      if (view.group == "equation" && which == values) p.values[view.offset] = 1;
      if (!file_.has("/" + name + "/parameters/" + view.path())) continue;
      const auto all = list("parameters/" + view.path());
      std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(which * view.size()), view.size(),
                  p.view(view.path()).begin());
    }
    return p;
  }
  bool has(const std::string& path) const { return file_.has("/" + name + "/parameters/" + path); }

  const std::string name;

 private:
  io::ArchiveReader file_;
};

/// Array by array, relative to its largest entry and, for those that cancel, 1e-4 of that of all arrays.
double compare(const std::vector<double>& ours, const Reference& reference, What which,
               const std::string& what) {
  const auto theirs = reference.of(which);
  double worst = 0, most = 0;
  for (const double value : theirs.values) most = std::max(most, std::abs(value));
  for (const auto& view : theirs.layout.views()) {
    if (!reference.has(view.path())) continue;
    double difference = 0, size = 1e-4 * most;
    for (Index j = view.offset; j < view.offset + view.size(); ++j) {
      difference = std::max(difference, std::abs(ours[j] - theirs.values[j]));
      size = std::max(size, std::abs(theirs.values[j]));
    }
    EXPECT_LT(difference / size, promised) << what << ": " << view.path();
    worst = std::max(worst, difference / size);
  }
  return worst;
}

TEST(HessianProducts, match_pytorch_for_pre_and_post_norm_and_both_losses) {
  double reached = 0;
  for (const char* name : {"adamw", "adam", "words", "post"}) {
    const Reference reference(name);
    const auto data = reference.samples();
    for (const int ranks_token : every_token_split(MPI_COMM_WORLD, data.tokens_x())) {
      const auto here = reference.name + ", ranks over tokens " + std::to_string(ranks_token);
      TrainingRun run(MPI_COMM_WORLD, ranks_token,
                      {.cells = reference.number("layers"),
                       .global = static_cast<int>(data.size()),
                       .loss = reference.loss()},
                      data, reference.of(values));
      LossHessian products(run.parameters, run.context, run.march.depth(), 1, reference.loss());
      std::vector<double> slope(products.size(), 0.0), product(products.size());
      products.linearise(run.batches.at(0), slope);
      slope = sum_over(MPI_COMM_WORLD, std::move(slope));
      reached = std::max(reached, compare(slope, reference, gradient, here + ", gradient"));
      const auto v = reference.of(direction).values;
      for (const auto part : {Curvature::hessian, Curvature::gauss_newton}) {
        products.multiply(part, v, product);
        const bool whole = part == Curvature::hessian;
        reached =
            std::max(reached, compare(sum_over(MPI_COMM_WORLD, product), reference,
                                      whole ? hessian : gauss_newton, here + (whole ? ", H" : ", H_o")));
      }
    }
  }
  RecordProperty("largest relative difference", std::to_string(reached));
  if (rank_in(MPI_COMM_WORLD) == 0) std::printf("largest relative difference %.2e\n", reached);
}

}  // namespace
}  // namespace fluxformer::hessian_products_match_pytorch
