#pragma once

// What a comparison writes: measures of every seed and model, kept until the end.

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/settings.hpp"
#include "drivers/common/experiment.hpp"
#include "drivers/compare/compare_problem.hpp"
#include "io/axis.hpp"
#include "io/hdf5/hdf5_objects.hpp"
#include "io/part_file.hpp"

namespace fluxformer {

class CompareRecord {
 public:
  /// `experiment`: its name; `cites`: sources of its methods. All arguments are borrowed. Collective; throws
  /// BadInput if the output exists and may not be overwritten, another run writes it, or its folder cannot be
  /// written.
  CompareRecord(const std::string& experiment, const std::string& cites, const Settings& settings,
                const RunContext& context, const CompareProblem& problem);
  /// Of an experiment that makes its models itself: without axes of depth, and nothing is said of the models.
  CompareRecord(const std::string& experiment, const std::string& cites, const Settings& settings,
                const RunContext& context, const std::vector<long>& seeds);

  /// An axis of the schema. Those of seeds and depths (names::model_depth) are there.
  void axis(const std::string& name, std::vector<double> values, bool whole_numbers = false);
  /// The same with first, first + 1, ..., last.
  void axis(const std::string& name, long first, long last);
  /// Measure `measure` of `model` for the next seed (they come in order), row-major over `axes`; the same on
  /// all ranks. Throws std::logic_error for a name the schema lacks or numbers that do not fill the axes.
  void add(const std::string& model, const std::string& measure, const std::vector<std::string>& axes,
           const std::vector<double>& values);
  /// An attribute of a model's group, or of the experiment's ("").
  void note(const std::string& model, const std::string& name, const io::AttributeValue& value);
  /// Writes the file. Collective.
  void finish(const std::vector<std::pair<std::string, double>>& seconds);

 private:
  struct Measure {
    std::vector<std::string> axes;
    std::vector<double> values;
  };
  struct Note {
    std::string object, name;
    io::AttributeValue value;
  };
  std::string group(const std::string& model) const;
  void describe_models(const CompareProblem& problem);

  std::string experiment_, cites_;
  const Settings& settings_;
  const RunContext& context_;
  std::unique_ptr<io::PartFile> claim_;  // what cannot be written is found before the work; ours until then
  std::vector<io::Axis> axes_;
  std::map<std::string, std::size_t> sizes_;                         // of axes
  std::map<std::pair<std::string, std::string>, Measure> measures_;  // by model and name
  std::vector<Note> notes_;
};

}  // namespace fluxformer
