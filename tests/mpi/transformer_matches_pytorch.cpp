// The Transformer agrees with PyTorch: hidden states and attention, marched through depth and as the CFL-1
// scheme (T1), on every split over depth and tokens, against nn.TransformerEncoderLayer in float64
// (tests/support/make_torch_reference.py).

#include <gtest/gtest.h>

#include <string>

#include "io/archive_reader.hpp"
#include "tests/support/every_rank.hpp"
#include "tests/support/lattices.hpp"
#include "tests/support/small_problem.hpp"
#include "tests/support/test_vectors.hpp"

namespace fluxformer::transformer_matches_pytorch {
namespace {

using namespace test;

// Both sides round sums of at most 40 products in a different order, three layers deep.
constexpr double round_off = 1e-12;
// The increments in float (2^-24 relative), the residual stream in double.
constexpr double float_round_off = 1e-5;

const std::vector<std::string> cases{"pre_plain",  "pre_padding",  "pre_causal",
                                     "post_plain", "post_padding", "post_causal"};

class Reference {
 public:
  explicit Reference(std::string name)
      : file_(MPI_COMM_WORLD, FLUXFORMER_SOURCE_DIR "/tests/support/torch_reference.h5"),
        name_(std::move(name)) {
    const auto text = [&](const char* key) { return file_.text(key, path("model")); };
    const auto number = [&](const char* key) { return static_cast<int>(file_.integer(key, path("model"))); };
    auto& model = spec.model;
    model.layers = model.knots = number("layers");
    model.width = number("width");
    model.ffn = number("ffn");
    model.attention.heads = number("heads");
    model.activation = from_word<Activation>(text("activation"));
    model.norm = from_word<Norm>(text("norm"));
    model.attention.layer_norm = model.norm == Norm::pre;
    const auto shape = file_.shape(path("hidden"));  // layer, sample, token, channel
    samples_ = shape[1], tokens_ = shape[2], width_ = shape[3];
    spec.mesh = {.cells = model.layers,
                 .tokens_x = static_cast<int>(tokens_),
                 .samples = static_cast<int>(samples_),
                 .width = model.width};
    spec.mask.causal = file_.integer("causal", "/" + name_) != 0;
    for (const double length : file_.array(path("lengths")).values)
      spec.mask.length.push_back(static_cast<int>(length));
    hidden_ = file_.array(path("hidden")).values;
  }

  Parameters parameters() const {
    Parameters p(spec.model);
    for (const auto& view : p.layout.views()) {
      if (view.group == "equation") {
        p.values[view.offset] = 1;  // alpha and rho of a plain Transformer
        continue;
      }
      const auto from = file_.array(path("model/" + view.path())).values;
      std::copy(from.begin(), from.end(), p.view(view.path()).begin());
    }
    return p;
  }

  /// Layers first..last as [layer][token][sample][channel].
  Whole hidden(int first, int last) const {
    Whole all;
    for (auto layer = static_cast<std::size_t>(first); layer <= static_cast<std::size_t>(last); ++layer)
      for (std::size_t x = 0; x < tokens_; ++x)
        for (std::size_t b = 0; b < samples_; ++b)
          for (std::size_t c = 0; c < width_; ++c)
            all.push_back(hidden_[((layer * samples_ + b) * tokens_ + x) * width_ + c]);
    return all;
  }

  /// max |u - reference| / max |reference| over the real tokens of each layer, the largest of them.
  double difference(const Whole& rows) const {
    const auto expected = hidden(1, spec.model.layers);
    if (rows.size() != expected.size()) return INFINITY;
    double largest = 0;
    const std::size_t slab = tokens_ * samples_ * width_;
    for (std::size_t first = 0; first < rows.size(); first += slab) {
      Whole ours, theirs;
      for (std::size_t j = 0; j < slab; ++j) {
        const std::size_t row = j / width_;
        if (!spec.mask.real(static_cast<int>(row % samples_), static_cast<int>(row / samples_))) continue;
        ours.push_back(rows[first + j]);
        theirs.push_back(expected[first + j]);
      }
      largest = std::max(largest, relative_difference(ours, theirs));
    }
    return largest;
  }

  std::vector<double> attention() const { return file_.array(path("attention_layer_1")).values; }

  ProblemSpec spec;

 private:
  std::string path(const std::string& object) const { return "/" + name_ + "/" + object; }
  io::ArchiveReader file_;
  std::string name_;
  std::size_t samples_ = 0, tokens_ = 0, width_ = 0;
  std::vector<double> hidden_;
};

/// Calls body(reference, problem, description) for every case on every split.
template <class Body>
void for_every_case(Precision precision, Body&& body) {
  for (const auto& name : cases) {
    Reference reference(name);
    reference.spec.precision = precision;
    for (const auto& split : every_split(MPI_COMM_WORLD, reference.spec.mesh)) {
      auto spec = reference.spec;
      spec.mesh = split;
      const Problem problem(MPI_COMM_WORLD, spec, reference.parameters());
      body(reference, problem, name + ", ranks over depth " + std::to_string(split.ranks_depth));
    }
  }
}

void report(const char* what, double reached) {
  testing::Test::RecordProperty(what, std::to_string(reached));
  if (rank_in(MPI_COMM_WORLD) == 0) std::printf("reached %s: %.3g\n", what, reached);
}

TEST(TransformerMatchesPytorch, the_march_through_depth_gives_its_hidden_states) {
  double reached = 0;
  for_every_case(Precision::float64,
                 [&](const Reference& r, const Problem& problem, const std::string& what) {
                   const double here = r.difference(march_rows(problem, r.hidden(0, 0)));
                   EXPECT_LT(here, round_off) << what;
                   reached = std::max(reached, here);
                 });
  report("march", reached);
}

TEST(TransformerMatchesPytorch, the_cfl_one_scheme_gives_its_hidden_states) {
  double reached = 0;
  for_every_case(Precision::float64,
                 [&](const Reference& r, const Problem& problem, const std::string& what) {
                   EvolveSettings settings;
                   settings.method = "euler";
                   settings.dt = 1;
                   settings.time = problem.depth.layers;
                   const auto start = random_vector(problem.whole_size(), 8, 3);
                   const double here = r.difference(evolve(problem, settings, start, r.hidden(0, 0)));
                   EXPECT_LT(here, round_off) << what;
                   reached = std::max(reached, here);
                 });
  report("evolve", reached);
}

TEST(TransformerMatchesPytorch, in_single_precision_to_the_round_off_of_float) {
  double reached = 0;
  for_every_case(Precision::float32,
                 [&](const Reference& r, const Problem& problem, const std::string& what) {
                   const double here = r.difference(march_rows(problem, r.hidden(0, 0)));
                   EXPECT_LT(here, float_round_off) << what;
                   EXPECT_GT(here, round_off) << what << ": this was not single precision";
                   reached = std::max(reached, here);
                 });
  report("march in float", reached);
}

TEST(TransformerMatchesPytorch, the_attention_of_the_first_layer_is_the_same_head_by_head) {
  const Reference reference("pre_plain");
  double reached = 0;
  for (const auto& split : every_split(MPI_COMM_WORLD, reference.spec.mesh)) {
    auto spec = reference.spec;
    spec.mesh = split;
    const Problem problem(MPI_COMM_WORLD, spec, reference.parameters());
    const auto& line = problem.mesh.token_line();
    const auto local = static_cast<std::size_t>(line.block().count());
    const auto tokens = static_cast<std::size_t>(line.tokens());
    const auto expected = reference.attention();  // sample, head, query, key
    std::vector<double> mine(expected.size() / tokens * local), all(expected.size(), 0.0);
    problem.model->attention(problem.depth.entry(1), 1, problem.local(reference.hidden(0, 0)).data(), nullptr,
                             mine.data());
    for (std::size_t row = 0; row < mine.size() / tokens; ++row) {
      const auto query =
          static_cast<std::size_t>(line.global_index(line.rank(), static_cast<int>(row % local)));
      std::copy_n(mine.begin() + static_cast<std::ptrdiff_t>(row * tokens), tokens,
                  all.begin() + static_cast<std::ptrdiff_t>((row / local * tokens + query) * tokens));
    }
    const double here = relative_difference(sum_over(line.comm(), all), expected);
    EXPECT_LT(here, round_off) << "ranks over tokens " << split.ranks_token;
    reached = std::max(reached, here);
  }
  report("attention", reached);
}

}  // namespace
}  // namespace fluxformer::transformer_matches_pytorch
