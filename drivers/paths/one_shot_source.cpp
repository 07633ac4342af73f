#include "drivers/paths/one_shot_source.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
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

/// Throws BadInput if sizes given in the deck differ from those of the file.
void require_same_sizes(const Settings& settings, const LearnerShape& shape) {
  for (const auto& [key, size] :
       {std::pair{"paths.layers", shape.layers}, {"paths.heads", shape.heads}, {"paths.key", shape.key}})
    if (settings.given(key) && settings.count(key) != size)
      throw BadInput(std::string(key) + " = " + std::to_string(settings.count(key)) +
                     ": the network of paths.attention = " + settings.word("paths.attention") + " has " +
                     std::to_string(size));
}

}  // namespace

std::map<long, TrainedPaths> read_trained_paths(const std::string& path, const std::string& purpose,
                                                const std::string& images, const std::vector<long>& seeds) {
  const io::ArchiveReader file(MPI_COMM_SELF, path, purpose);
  if (!file.has(network + stored::projections.name))
    throw BadInput(file.called() +
                   " holds no network of attention paths: it must come from paths.study = train");
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

LearnerShape learner_shape(const Settings& settings, int width) {
  return {.dimension = one_shot_dimension,
          .tokens = one_shot_tokens,
          .width = width,
          .layers = settings.count("paths.layers"),
          .heads = settings.count("paths.heads"),
          .key = settings.count("paths.key")};
}

OneShotSource::OneShotSource(const Settings& settings, const std::vector<long>& seeds)
    : pools_(one_shot_pools(settings.word("paths.images"), settings.word("paths.foreign"),
                            settings.word("data.directory"),
                            static_cast<std::uint64_t>(settings.integer("run.seed")))),
      random_(learner_shape(settings, 1)) {
  const auto& file = settings.word("paths.attention");
  std::error_code not_there;
  if (file != "random" && std::filesystem::equivalent(file, settings.word("output.file"), not_there))
    throw BadInput("paths.attention = " + file + ": is output.file, too, which would replace the network");
  if (file != "random")
    trained_ = read_trained_paths(file, "paths.attention = ", settings.word("paths.images"), seeds);
  if (!trained_.empty()) require_same_sizes(settings, trained_.begin()->second.shape);
  const auto& shape = trained_.empty() ? random_ : trained_.begin()->second.shape;
  heads_.assign(static_cast<std::size_t>(shape.layers), shape.heads);
  name_ = "one-shot " + settings.word("paths.images") + ", " + (trained_.empty() ? "random" : "trained") +
          " attention";
}

std::uint64_t OneShotSource::digest() const {
  std::uint64_t sum = 0, place = 0;
  for (const auto& [seed, one] : trained_) {
    sum += io::digest_of(one.weights.data(), one.weights.size(), place);
    place += one.weights.size();
  }
  return sum;
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
