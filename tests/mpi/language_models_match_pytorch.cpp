// Language models of today agree with PyTorch in float64, at one and at two depth cells a layer: logits and
// loss, gradient and products with the Hessian and the Gauss-Newton matrix (PyTorch's double backward) on every
// split of the ranks over samples and tokens, the gradient also on stages of depth, and the slopes of states by sample and depth. The reference numbers are
// made by tests/support/make_language_gradients_reference.py.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "analysis/derivatives/loss_gradients.hpp"
#include "io/archive_reader.hpp"
#include "model/loss_hessian.hpp"
#include "model/model_file.hpp"
#include "model/tasks/word_targets.hpp"
#include "model/tasks/word_task.hpp"
#include "tests/support/small_problem.hpp"
#include "tests/support/small_training.hpp"
#include "tests/support/test_vectors.hpp"
#include "training/stage_cells.hpp"

namespace fluxformer::language_models_match_pytorch {
namespace {

using namespace test;

// Sums of a few tens of products in another order, through at most four depth cells: some 1e-15 of the
// largest logit, and some 1e-14 of the largest entry of what was marched forward and back twice.
constexpr double promised_logits = 1e-12, promised_derivatives = 1e-10;

/// A case of the reference, at so many depth cells a layer. Collective.
class Reference {
 public:
  Reference(const std::string& which, int cells_a_layer)
      : file_(MPI_COMM_WORLD, FLUXFORMER_SOURCE_DIR "/tests/support/language_gradients_" + which + ".h5"),
        parameters(read_model(file_)),
        cells(parameters.spec.layers * cells_a_layer),
        name(which + ", " + std::to_string(cells) + " cells") {}

  std::vector<double> list(const std::string& object) const {
    return file_.array("/reference/" + object).values;
  }
  /// "logits", "loss", "gradient", "hessian" or "gauss_newton"
  std::vector<double> result(const std::string& what) const {
    return list("cells_" + std::to_string(cells) + "/" + what);
  }

  /// The lines; words 0 and 1 are placeholder and unknown word.
  ListedSamples lines() const {
    const auto shape = file_.shape("/reference/ids");
    const auto lengths = list("lengths");
    return ListedSamples({.tokens_x = static_cast<int>(shape[1]),
                          .vocabulary = parameters.spec.vocabulary,
                          .input = list("ids"),
                          .lengths = std::vector<int>(lengths.begin(), lengths.end()),
                          .labels = std::vector<int>(lengths.size(), 0),
                          .placeholders = {0}});
  }

  /// The lines with the words to guess: next words of a causal model, else those of the file.
  SampleSet with_targets(const SampleSet& lines) const {
    if (parameters.spec.causal) return next_words_for_evaluation(lines, name);
    return lines.prepared([targets = list("targets")](Batch& batch) {
      const double share = 3.0 / static_cast<double>(targets.size());
      for (std::size_t slot = 0; slot < batch.key.size(); ++slot)
        for (std::size_t j = 0; j < targets.size(); j += 3)
          if (batch.weight[slot] != 0 && targets[j] == static_cast<double>(batch.key[slot]))
            batch.targets.push_back({static_cast<int>(slot), static_cast<int>(targets[j + 1]),
                                     static_cast<int>(targets[j + 2]), share});
    });
  }

  /// The arrays of a flat list of the file where our flat vector has them; kappa, alpha and rho are no
  /// parameters in PyTorch: 0.
  std::vector<double> laid_out(const std::vector<double>& numbers) const {
    std::vector<double> found(parameters.values.size(), 0.0);
    auto from = numbers.begin();
    for (const auto& path : paths()) {
      const auto& view = parameters.layout.at(path);
      std::copy_n(from, view.size(), found.begin() + view.offset);
      from += view.size();
    }
    EXPECT_EQ(from, numbers.end()) << name;
    return found;
  }
  std::vector<std::string> paths() const { return file_.words("/reference/paths"); }

 private:
  io::ArchiveReader file_;

 public:
  const Parameters parameters;
  const int cells;
  const std::string name;
};

const Loss of_words{.target = LossTarget::words};

/// body(reference), for every case.
template <class Body>
void for_every_case(Body&& body) {
  for (const char* name : {"qwen3", "gpt_neox", "mistral", "modernbert"})
    for (const int cells_a_layer : {1, 2}) body(Reference(name, cells_a_layer));
}

/// body(reference, run, samples with words to guess, what is compared), for every case and split of the
/// ranks.
template <class Body>
void for_every_split(Body&& body) {
  for_every_case([&](const Reference& reference) {
    const auto data = reference.lines();
    for (const int ranks_token : every_token_split(MPI_COMM_WORLD, data.tokens_x())) {
      if (size_of(MPI_COMM_WORLD) / ranks_token > static_cast<int>(data.size())) continue;
      TrainingRun run(MPI_COMM_WORLD, ranks_token,
                      {.cells = reference.cells, .global = static_cast<int>(data.size()), .loss = of_words},
                      data, reference.parameters);
      body(reference, run, reference.with_targets(run.samples(data, all_of(data))),
           reference.name + ", ranks over tokens " + std::to_string(ranks_token));
    }
  });
}

/// Array by array, relative to its largest entry and, for those that cancel, 1e-4 of that of all arrays.
double compare(const std::vector<double>& ours, const Reference& reference, const std::string& what,
               const std::string& here) {
  const auto theirs = reference.laid_out(reference.result(what));
  double worst = 0, most = 0;
  for (const double value : theirs) most = std::max(most, std::abs(value));
  for (const auto& path : reference.paths()) {
    const auto& view = reference.parameters.layout.at(path);
    double difference = 0, size = 1e-4 * most;
    for (Index j = view.offset; j < view.offset + view.size(); ++j) {
      difference = std::max(difference, std::abs(ours[j] - theirs[j]));
      size = std::max(size, std::abs(theirs[j]));
    }
    EXPECT_LT(difference / size, promised_derivatives) << here << ", " << what << ": " << path;
    worst = std::max(worst, difference / size);
  }
  return worst;
}

void report(const char* what, double reached) {
  testing::Test::RecordProperty(what, std::to_string(reached));
  if (rank_in(MPI_COMM_WORLD) == 0) std::printf("%s: largest relative difference %.2e\n", what, reached);
}

/// The logits [sample][token][word] of the batches of a run, after each was evaluated; `loss` += theirs.
std::vector<double> logits_of(TrainingRun& run, const SampleSet& samples, double& loss) {
  const Index words = run.parameters.spec.vocabulary, tokens = run.line.tokens(),
              capacity = samples.capacity();
  std::vector<double> all(samples.size() * tokens * words, 0.0);
  samples.for_batches([&](const Batch& batch) {
    loss += run.evaluator.evaluate(batch).loss;
    const Index here = run.line.block().count();
    std::vector<double> z(here * capacity * words);
    WordLogits(run.parameters, Precision::float64)(static_cast<int>(here * capacity),
                                                   run.evaluator.u().data(), z.data());
    for (Index t = 0; t < here; ++t)
      for (Index slot = 0; slot < capacity; ++slot)
        if (batch.weight[slot] != 0)
          std::copy_n(z.begin() + (t * capacity + slot) * words, words,
                      all.begin() + (batch.key[slot] * tokens + run.line.block().x0 + t) * words);
  });
  return sum_over(run.comm, std::move(all));
}

TEST(LanguageModels, have_the_logits_and_the_loss_of_pytorch) {
  double reached = 0;
  for_every_split(
      [&](const Reference& reference, TrainingRun& run, const SampleSet& samples, const std::string& here) {
        double loss = 0;
        const auto ours = logits_of(run, samples, loss), theirs = reference.result("logits");
        ASSERT_EQ(ours.size(), theirs.size());
        const std::size_t tokens = run.line.tokens(), words = run.parameters.spec.vocabulary;
        double difference = 0, size = 0;
        for (std::size_t j = 0; j < theirs.size(); ++j) {
          const std::size_t sample = j / words / tokens, token = j / words % tokens;
          if (static_cast<int>(token) >= samples.data().length(sample)) continue;
          difference = std::max(difference, std::abs(ours[j] - theirs[j]));
          size = std::max(size, std::abs(theirs[j]));
        }
        EXPECT_LT(difference, promised_logits * size) << here;
        const double expected = reference.result("loss").front();
        EXPECT_NEAR(sum_over(run.comm, loss) / run.line.size(), expected, promised_logits * expected) << here;
        reached = std::max(reached, difference / size);
      });
  report("logits", reached);
}

TEST(LanguageModels, have_the_gradients_and_Hessian_products_of_pytorch) {
  double first = 0, second = 0;
  for_every_split(
      [&](const Reference& reference, TrainingRun& run, const SampleSet& samples, const std::string& here) {
        LossHessian products(run.parameters, run.context, run.march.depth(), 1, of_words);
        std::vector<double> slope(products.size(), 0.0), product(products.size());
        samples.for_batches([&](const Batch& batch) { products.linearise(batch, slope); });
        first = std::max(first, compare(sum_over(run.comm, slope), reference, "gradient", here));
        const auto v = reference.laid_out(reference.list("direction"));
        for (const auto part : {Curvature::hessian, Curvature::gauss_newton}) {
          products.multiply(part, v, product);
          second = std::max(second, compare(sum_over(run.comm, product), reference,
                                            part == Curvature::hessian ? "hessian" : "gauss_newton", here));
        }
      });
  report("gradient", first);
  report("Hessian products", second);
}

TEST(LanguageModels, have_the_slopes_of_states_of_pytorch) {
  double reached = 0;
  for_every_case([&](const Reference& reference) {
    const auto data = reference.lines();
    const auto line = TokenLine::even(MPI_COMM_SELF, data.tokens_x(), 1);
    const SampleSet lines(MPI_COMM_WORLD, line, data, all_of(data), 3);
    ModelProbe probe(on_cells(reference.parameters, reference.cells), line, 3, Precision::float64);
    const auto found = derivatives::loss_gradients(reference.with_targets(lines), probe);
    const double expected = reference.result("loss").front();
    EXPECT_NEAR(found.loss, expected, promised_logits * expected) << reference.name;
    compare(found.parameters, reference, "gradient", reference.name);

    const auto theirs = reference.result("slopes");  // [sample][row]
    const Index rows = probe.depths(), cells_a_layer = reference.cells / probe.spec().layers;
    const double largest = *std::ranges::max_element(theirs);
    for (Index row = 0; row < rows; ++row) {
      double squares = 0;
      for (Index sample = 0; sample < static_cast<Index>(data.size()); ++sample) {
        const double slope = theirs[sample * rows + row];
        squares += slope * slope;
        if (row % cells_a_layer > 0) continue;
        const Index at = sample * (probe.spec().layers + 1) + row / cells_a_layer;
        reached = std::max(reached, std::abs(found.norm_by_sample[at] - slope) / largest);
      }
      reached = std::max(
          reached,
          std::abs(found.by_row.norm[row] - std::sqrt(squares / static_cast<Index>(data.size()))) / largest);
    }
  });
  EXPECT_LT(reached, promised_derivatives);
  report("slopes of states", reached);
}

/// The gradient of all lines, in micro-batches of two, by a stage of depth on each rank of `depth`.
std::vector<double> gradient_of_stages(MPI_Comm depth, const Reference& reference) {
  const auto& whole = reference.parameters;
  const auto data = reference.lines();
  const DepthCells cells{whole.spec.layers, reference.cells};
  const auto range =
      balanced_stages(reference.cells, size_of(depth))[static_cast<std::size_t>(rank_in(depth))];
  Parameters mine(whole.spec, share_of(whole.spec, cells, range));
  for (const auto& view : mine.layout.views())
    std::ranges::copy(whole.view(view.path()), mine.view(view.path()).begin());

  const auto line = TokenLine::even(MPI_COMM_SELF, data.tokens_x(), 1);
  SlabContext context{&line, 2, whole.spec.width, {{}, whole.spec.causal, {}}, nullptr};
  const auto model = make_depth_model(mine, context, Precision::float64);
  Pipeline pipeline(
      depth, {PipelineSchedule::one_f_one_b, static_cast<int>(data.size()) / context.samples}, [&] {
        Slot slot{std::make_unique<Backpropagation>(*model, cells, 1, range), nullptr};
        slot.evaluator = std::make_unique<GradientEvaluator>(mine, context, *slot.march, of_words);
        return slot;
      });
  std::vector<double> share(mine.values.size()), all(whole.values.size(), 0.0);
  const SampleSet lines(MPI_COMM_SELF, line, data, all_of(data), static_cast<int>(data.size()));
  reference.with_targets(lines).for_batches([&](const Batch& batch) { pipeline.gradient(batch, share, {}); });
  pipeline.wait_all();
  for (const auto& view : mine.layout.views())
    std::copy_n(share.begin() + view.offset, view.size(), all.begin() + whole.layout.at(view.path()).offset);
  return sum_over(depth, std::move(all));
}

TEST(LanguageModels, have_the_gradients_of_pytorch_on_stages_of_depth) {
  double reached = 0;
  for_every_case([&](const Reference& reference) {
    MPI_Comm part = MPI_COMM_NULL;
    const int rank = rank_in(MPI_COMM_WORLD);
    check_mpi(MPI_Comm_split(MPI_COMM_WORLD, rank / reference.cells, rank, &part));
    const Communicator depth(part);
    reached = std::max(reached, compare(gradient_of_stages(depth, reference), reference, "gradient",
                                        reference.name + ", stages " + std::to_string(size_of(depth))));
  });
  report("gradient on stages of depth", max_over(MPI_COMM_WORLD, reached));
}

}  // namespace
}  // namespace fluxformer::language_models_match_pytorch
