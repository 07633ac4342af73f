#include "drivers/paths/one_shot_source.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <span>
#include <utility>

#include "analysis/paths/one_shot_task.hpp"
#include "analysis/paths/path_variables.hpp"
#include "base/error.hpp"
#include "io/archive_reader.hpp"
#include "io/digest.hpp"

namespace fluxformer {

namespace stored = paths::variables;
using namespace paths;

namespace {

const std::string network = stored::network_path;

/// Appends the rows of one seed of a measure.
void append_row(std::vector<double>& to, const io::Array& all, std::size_t row) {
  const std::size_t size = all.values.size() / all.shape.front();
  const auto from = all.values.begin() + static_cast<std::ptrdiff_t>(row * size);
  to.insert(to.end(), from, from + static_cast<std::ptrdiff_t>(size));
}

/// Sizes of a network from the file's arrays (path_variables.hpp).
LearnerShape shape_of(const io::ArchiveReader& file) {
  const auto projections = file.shape(network + stored::projections.name),
             input = file.shape(network + stored::input_weights.name);
  if (projections.size() != 6 || input.size() != 3)
    throw BadInput(file.called() + ": its network of attention paths has not the right number of axes");
  const auto size = [](Index n) { return static_cast<int>(std::min(n, Index{1} << 20U)); };
  return {.dimension = size(projections[5]),
          .tokens = one_shot_tokens,
          .width = size(input[1]),
          .layers = size(projections[1]),
          .heads = size(projections[3]),
          .key = size(projections[4])};
}

/// The digest of numbers that come one after the other.
struct Digest {
  void add(std::span<const double> numbers) {
    sum += io::digest_of(numbers.data(), std::ssize(numbers), place);
    place += std::ssize(numbers);
  }
  void add(const OneShotPool& pool) {
    std::array<double, data::image_pixels> ink;
    for (std::size_t one = 0; one < pool.classes(); ++one)
      for (std::size_t drawing = 0; drawing < pool.drawings(one); ++drawing) {
        pool.ink(one, drawing, ink.data());
        add(ink);
      }
  }

  std::uint64_t sum = 0;
  Index place = 0;
};

/// Throws BadInput if sizes given in the deck differ from those of the file.
void require_same_sizes(const OneShotPlan& plan, const LearnerShape& shape) {
  for (const auto& [key, size] : plan.given)
    if (const int found = key == "paths.layers"  ? shape.layers
                          : key == "paths.heads" ? shape.heads
                                                 : shape.key;
        found != size)
      throw BadInput(key + " = " + std::to_string(size) + ": the network of paths.attention = " +
                     plan.attention + " has " + std::to_string(found));
}

}  // namespace

std::map<long, TrainedPaths> read_trained_paths(const std::string& path, const std::string& purpose,
                                                const std::string& images, const std::vector<long>& seeds) {
  const io::ArchiveReader file(MPI_COMM_SELF, path, purpose);
  if (!file.has(network + stored::projections.name))
    throw BadInput(file.called() + " holds no network of attention paths: it must come from paths_train");
  const std::string group(network, 0, network.rfind('/', network.size() - 2));
  if (file.text(stored::images, group) != images)
    throw BadInput(file.called() + " was trained on " + file.text(stored::images, group) +
                   ", not on paths.images = " + images);
  const auto shape = shape_of(file);
  const auto known = file.array("/" + axes::seed.name).values;
  const Index n = std::ssize(known);
  const auto input = file.array(network + stored::input_weights.name, {n, shape.width, shape.dimension});
  const auto projections = file.array(network + stored::projections.name,
                                      {n, shape.layers, 2, shape.heads, shape.key, shape.dimension});
  const auto values =
      file.array(network + stored::values.name, {n, shape.layers, shape.heads, shape.width, shape.width});
  const auto readout = file.array(network + stored::readout_weights.name, {n, shape.width});
  std::map<long, TrainedPaths> all;
  for (const long seed : seeds) {
    const auto place = std::ranges::find(known, static_cast<double>(seed));
    if (place == known.end())
      throw BadInput(file.called() + " holds no network of seed " + std::to_string(seed));
    const auto row = static_cast<std::size_t>(place - known.begin());
    TrainedPaths one{.shape = shape, .weights = {}};
    for (const auto* part : {&input, &projections, &values, &readout}) append_row(one.weights, *part, row);
    if (!std::ranges::all_of(one.weights, [](double w) { return std::isfinite(w); }))
      throw BadInput(file.called() + ": the weights of seed " + std::to_string(seed) + " are not all finite");
    all.emplace(seed, std::move(one));
  }
  return all;
}

void declare_one_shot(Options& options) {
  options.declare("paths.images", "omniglot",
                  "omniglot: handwritten characters, with test characters from other alphabets; digits: the "
                  "built-in digits, 2 to 5 for training, 6 and 7 for validation, 8 and 9 for the test",
                  {.choices = {"omniglot", "digits"}});
  options.declare("paths.foreign", "digits",
                  "images of another kind, whose classes 0 and 1 are also tested: built-in digits, or mnist",
                  {.choices = {"digits", "mnist"}});
  options.declare("data.directory", "",
                  "folder of the zip files of Omniglot and the IDX files of MNIST, or the parent folder of "
                  "omniglot and mnist",
                  {.role = Role::free});
  options.declare("paths.layers", 2L,
                  "number of layers of a network that is trained, or whose attention is random",
                  {.minimum = 1, .maximum = 8});
  options.declare("paths.key", 32L, "number of components G of a query and of a key",
                  {.minimum = 1, .maximum = 4096});
}

OneShotPlan one_shot_plan_of(const Settings& settings) {
  return {.images = settings.word("paths.images"),
          .foreign = settings.word("paths.foreign"),
          .directory = settings.word("data.directory"),
          .images_seed = static_cast<std::uint64_t>(settings.integer("run.seed")),
          .random = {.dimension = one_shot_dimension,
                     .tokens = one_shot_tokens,
                     .width = 1,
                     .layers = settings.count("paths.layers"),
                     .heads = settings.count("paths.heads"),
                     .key = settings.count("paths.key")}};
}

OneShotPlan one_shot_plan_with_attention(const Settings& settings) {
  auto plan = one_shot_plan_of(settings);
  const auto& file = settings.word("paths.attention");
  if (file.empty() || file == "random") return plan;
  std::error_code not_there;
  if (std::filesystem::equivalent(file, settings.word("output.file"), not_there))
    throw BadInput("paths.attention = " + file + ": is output.file, too, which would replace the network");
  plan.attention = file;
  for (const char* key : {"paths.layers", "paths.heads", "paths.key"})
    if (settings.given(key)) plan.given.emplace_back(key, settings.count(key));
  return plan;
}

OneShotSource::OneShotSource(const OneShotPlan& plan, const std::vector<long>& seeds)
    : pools_(one_shot_pools(plan.images, plan.foreign, plan.directory, plan.images_seed)),
      random_(plan.random),
      images_(plan.images),
      foreign_(plan.foreign),
      attention_(plan.attention) {
  if (!plan.attention.empty())
    trained_ = read_trained_paths(plan.attention, "paths.attention = ", plan.images, seeds);
  if (!trained_.empty()) require_same_sizes(plan, trained_.begin()->second.shape);
  const auto& shape = trained_.empty() ? random_ : trained_.begin()->second.shape;
  heads_.assign(static_cast<std::size_t>(shape.layers), shape.heads);
  name_ = "one-shot " + plan.images + ", " + (trained_.empty() ? "random" : "trained") + " attention";
}

std::vector<Study::Source> OneShotSource::sources() const {
  Digest images, foreign, weights;
  for (const auto* pool : {&pools_.training, &pools_.validation, &pools_.test}) images.add(*pool);
  foreign.add(pools_.foreign);
  for (const auto& [seed, one] : trained_) weights.add(one.weights);
  std::vector<Study::Source> all{{.called = "paths.images = " + images_, .digest = images.sum},
                                 {.called = "paths.foreign = " + foreign_, .digest = foreign.sum}};
  if (!trained_.empty()) all.push_back({.called = "paths.attention = " + attention_, .digest = weights.sum});
  return all;
}

const TrainedPaths* OneShotSource::trained(long seed) const {
  const auto found = trained_.find(seed);
  return found == trained_.end() ? nullptr : &found->second;
}

FrozenAttention OneShotSource::attention(long seed) const {
  if (const auto* const one = trained(seed)) return LearnerWeights(one->shape).attention(one->weights);
  const LearnerWeights weights(random_);
  return weights.attention(weights.initial(static_cast<std::uint64_t>(seed)));
}

}  // namespace fluxformer
