#include "drivers/compare/model_study.hpp"

#include "io/axes.hpp"
#include "io/digest.hpp"

namespace fluxformer {

std::vector<Place> ModelStudy::places() const {
  const auto& models = problem_.models();
  std::vector<Place> all;
  for (std::size_t seed = 0; seed < models.seeds().size(); ++seed)
    for (const auto& name : models.names())
      all.push_back({.group = name,
                     .name = name + ", seed " + std::to_string(models.seeds()[seed]),
                     .index = {{axes::seed.name, seed}}});
  return all;
}

std::vector<Study::Source> ModelStudy::sources() const {
  const auto& models = problem_.models();
  const auto digest = [](const Parameters& parameters) {
    return io::digest_of(parameters.values.data(), std::ssize(parameters.values));
  };
  std::vector<Source> all;
  for (std::size_t seed = 0; seed < models.seeds().size(); ++seed)
    for (const auto& name : models.names()) {
      const auto& model = models.at(seed, name);
      const auto called = "models." + name + " = " + model.file;
      all.push_back({.called = called, .digest = digest(model.parameters)});
      for (const long epoch : epochs())
        all.push_back({.called = called + ", its weights after epoch " + std::to_string(epoch),
                       .digest = digest(models.after_epoch(seed, name, epoch))});
    }
  for (const auto& name : models.names())
    all.push_back(
        {.called = "data.set = " + problem_.data().name(), .digest = problem_.input_of(name).digest()});
  return all;
}

void ModelStudy::begin(StudyRecord& record) {
  problem_.describe(record);
  add_axes(record);
}

void ModelStudy::measure(const Place& place, Results& to) {
  measure_model(place.along(axes::seed), place.group, to);
}

}  // namespace fluxformer
