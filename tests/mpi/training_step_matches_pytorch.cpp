// Training agrees with PyTorch in float64: loss, gradient of every array, clipping, learning rates and the
// parameters after three steps, on every split of the ranks over samples and tokens. The reference numbers
// are made by tests/support/make_torch_training_reference.py.

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "io/archive_reader.hpp"
#include "tests/support/small_training.hpp"

namespace fluxformer::training_step_matches_pytorch {
namespace {

using namespace test;

// Both sides round sums of a few tens of products in a different order, through two layers forward and
// backward: about 1e-15 of the largest number of an array. A gradient is a sum over samples and tokens, which
// may cancel, so the largest entry of all arrays is included in the scale (the gradient of b_K is 0 in exact
// arithmetic, since the softmax is independent of it). Adam divides by |g|, which passes on the relative
// error of the smallest entries; the required accuracy is 1e-10.
constexpr double promised = 1e-10;
constexpr double of_all_arrays = 1e-14;

constexpr int steps = 3;
const char* const cases[] = {"adamw", "sgd", "adam", "words", "post"};

class Reference {
 public:
  explicit Reference(const char* which)
      : name(which),
        file_(MPI_COMM_WORLD, FLUXFORMER_SOURCE_DIR "/tests/support/torch_training_reference.h5") {}

  int number(const char* key) const { return static_cast<int>(file_.integer(key, "/" + name)); }
  double real(const char* key) const { return file_.real(key, "/" + name); }
  std::string word(const char* key) const { return file_.text(key, "/" + name); }
  std::vector<double> list(const std::string& object) const {
    return file_.array("/" + name + "/" + object).values;
  }

  ModelSpec model() const {
    ModelSpec spec;
    spec.layers = spec.knots = number("layers");
    spec.width = number("width");
    spec.ffn = number("ffn");
    spec.attention.heads = number("heads");
    spec.norm = from_word<Norm>(word("norm"));
    spec.attention.layer_norm = spec.norm == Norm::pre;
    spec.features = number("features");
    spec.vocabulary = number("vocabulary");
    const auto shape = file_.shape("/" + name + "/parameters/embedding/position");  // state, token, channel
    spec.tokens = static_cast<int>(shape[1]);
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

  TrainingSpec training() const {
    TrainingSpec spec;
    spec.cells = number("layers");
    spec.global = static_cast<int>(list("labels").size());
    spec.loss = {loss_kind(word("loss")), real("smoothing")};
    spec.settings.optimiser = {method_named(word("optimiser")),
                               real("momentum"),
                               real("beta1"),
                               real("beta2"),
                               real("epsilon"),
                               real("decay")};
    spec.settings.schedule = {.peak = real("peak"),
                              .warm_up = number("warm_up"),
                              .steps = number("steps"),
                              .decay = decay_named(word("schedule")),
                              .last = real("last"),
                              .factor = real("factor"),
                              .at = list("at")};
    spec.settings.clip = real("clip");
    spec.settings.bucket = 100;  // several in a gradient
    return spec;
  }

  /// The flat vector of a state: 0 at first, 1 the gradient, 2.. after each step. kappa = 0, alpha = rho = 1
  /// are not parameters in PyTorch.
  Parameters state(std::size_t which) const {
    Parameters p(model());
    for (const auto& view : p.layout.views()) {
      if (view.group == "equation") p.values[view.offset] = 1;
      if (!file_.has("/" + name + "/parameters/" + view.path())) continue;
      const auto all = list("parameters/" + view.path());
      std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(which * view.size()), view.size(),
                  p.view(view.path()).begin());
    }
    return p;
  }

  const std::string name;

 private:
  io::ArchiveReader file_;
};

/// Names of the arrays that are trained.
std::vector<std::string> arrays(const Parameters& p) {
  std::vector<std::string> paths;
  for (const auto& view : p.layout.views())
    if (view.group != "equation" && view.name != "kappa") paths.push_back(view.path());
  return paths;
}

double largest(std::span<const double> x) {
  double most = 0;
  for (const double value : x) most = std::max(most, std::abs(value));
  return most;
}

/// Array by array: the largest difference in units of the tolerance, times the required accuracy.
double compare(const Parameters& ours, const Parameters& theirs, const std::string& what) {
  double worst = 0;
  const double floor = of_all_arrays / promised * largest(theirs.values);
  for (const auto& path : arrays(theirs)) {
    const auto x = ours.view(path), y = theirs.view(path);
    double difference = 0;
    for (std::size_t j = 0; j < y.size(); ++j) difference = std::max(difference, std::abs(x[j] - y[j]));
    const double relative = difference / (largest(y) + floor);
    EXPECT_LT(relative, promised) << what << ": " << path;
    worst = std::max(worst, relative);
  }
  return worst;
}

template <class Body>
void for_every_case(Body&& body) {
  for (const char* name : cases) {
    const Reference reference(name);
    const auto data = reference.samples();
    for (const int ranks_token : every_token_split(MPI_COMM_WORLD, data.tokens_x())) {
      TrainingRun run(MPI_COMM_WORLD, ranks_token, reference.training(), data, reference.state(0));
      body(reference, run, reference.name + ", ranks over tokens " + std::to_string(ranks_token));
    }
  }
}

void report(const char* what, double reached) {
  testing::Test::RecordProperty(what, std::to_string(reached));
  if (rank_in(MPI_COMM_WORLD) == 0) std::printf("%s: largest relative difference %.2e\n", what, reached);
}

TEST(TrainingMatchesPytorch, in_the_gradient_of_every_array) {
  double reached = 0;
  for_every_case([&](const Reference& reference, TrainingRun& run, const std::string& what) {
    auto ours = run.parameters;
    ours.values = run.gradient(run.batches.at(0));
    reached = std::max(reached, compare(ours, reference.state(1), what));
  });
  report("gradient", reached);
}

TEST(TrainingMatchesPytorch, in_losses_norms_and_rates_of_three_steps_and_the_parameters_after_each) {
  double reached = 0;
  for_every_case([&](const Reference& reference, TrainingRun& run, const std::string& what) {
    const auto losses = reference.list("losses"), norms = reference.list("gradient_norms"),
               rates = reference.list("rates"), correct = reference.list("correct");
    for (std::size_t step = 0; step < steps; ++step) {
      const auto done = run.trainer.step(run.batches.at(static_cast<long>(step)));
      const auto here = what + ", step " + std::to_string(step);
      EXPECT_NEAR(done.loss, losses[step], promised * losses[step]) << here;
      EXPECT_NEAR(done.gradient_norm, norms[step], promised * norms[step]) << here;
      EXPECT_NEAR(done.rate, rates[step], promised * rates[step]) << here;
      EXPECT_NEAR(done.accuracy, correct[step], promised) << here;
      EXPECT_EQ(done.depth_loss, 0) << here;
      EXPECT_EQ(done.penalty, 0) << here;
      reached = std::max(reached, compare(run.parameters, reference.state(2 + step), here));
    }
    // Parameters that PyTorch does not have are unchanged.
    for (const auto& view : run.parameters.layout.views()) {
      if (view.name != "kappa" && view.group != "equation") continue;
      EXPECT_EQ(run.parameters.values[view.offset], view.name == "kappa" ? 0 : 1) << what;
    }
  });
  report("parameters", reached);
}

TEST(TrainingMatchesPytorch, and_the_reference_clips_warms_up_and_has_padding) {
  bool clips = false, warms = false, pads = false;
  for (const char* name : cases) {
    const Reference reference(name);
    const double clip = reference.real("clip");
    clips = clips || (clip > 0 && reference.list("gradient_norms").front() > clip);
    warms = warms || reference.list("rates")[0] < reference.list("rates")[1];
    for (const double length : reference.list("lengths")) pads = pads || length < reference.model().tokens;
  }
  EXPECT_TRUE(clips && warms && pads);
}

}  // namespace
}  // namespace fluxformer::training_step_matches_pytorch
