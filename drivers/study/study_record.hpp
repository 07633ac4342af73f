#pragma once

// The output of a comparison: measures of every seed and model, kept in memory until the end.

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/settings.hpp"
#include "drivers/common/experiment.hpp"
#include "drivers/compare/compare_problem.hpp"
#include "io/hdf5/hdf5_objects.hpp"
#include "io/part_file.hpp"
#include "io/variable.hpp"

namespace fluxformer {

/// One output file: a group per model, in which each measure has the seeds as its first axis.
class StudyRecord {
 public:
  /// Records a comparison in the file that `claim` has claimed; the other arguments are borrowed. Collective.
  StudyRecord(const Settings& settings, const RunContext& context, std::unique_ptr<io::PartFile> claim,
              const CompareProblem& problem);
  /// Records an experiment that trains its own models: no depth axes and no description of the models.
  StudyRecord(const Settings& settings, const RunContext& context, std::unique_ptr<io::PartFile> claim,
              const std::vector<long>& seeds);

  /// Adds a coordinate. The coordinates of seeds and of each model's depths already exist.
  void axis(const io::Variable& coordinate, std::vector<double> values);
  /// Adds a coordinate with the values first, first + 1, ..., last.
  void axis(const io::Variable& coordinate, long first, long last);
  /// Adds the coordinate of the test samples: their indices in the test split.
  void samples(const std::vector<std::size_t>& members);
  /// Adds a measure of `model` for the next seed (in order), row-major over its axes; <model> in an axis name
  /// is replaced. The values are the same on all ranks. Throws std::logic_error for a missing axis or a wrong
  /// number of values.
  void add(const std::string& model, io::Variable measure, const std::vector<double>& values);
  /// Adds a matrix of `model`, not over seeds, in numbers of 4 bytes: this rank's rows (ArchiveWriter::rows).
  void rows(const std::string& model, const io::Variable& measure, std::vector<float> mine);
  /// Adds an attribute to the group of a model, or to that of the experiment ("").
  void note(const std::string& model, const io::Attribute& attribute, const io::AttributeValue& value);
  /// Writes the file. Collective.
  void finish(const std::vector<std::pair<std::string, double>>& seconds);

 private:
  struct Measure {
    io::Variable variable;  // axes: seeds, then those of the measure
    std::vector<double> values;
  };
  struct Rows {
    std::string group;
    io::Variable variable;
    std::vector<float> mine;
  };
  struct Note {
    std::string object, name;
    io::AttributeValue value;
  };
  std::string group(const std::string& model) const;
  void describe_models(const CompareProblem& problem);

  const Settings& settings_;
  const RunContext& context_;
  std::unique_ptr<io::PartFile> claim_;
  std::vector<std::pair<io::Variable, std::vector<double>>> axes_;
  std::map<std::string, std::size_t> sizes_;                         // sizes of axes, by name
  std::map<std::pair<std::string, std::string>, Measure> measures_;  // measures by model and name
  std::vector<Rows> rows_;
  std::vector<Note> notes_;
};

/// Text with one word in each line: names behind the numbers of an axis, as attributes hold them.
std::string as_lines(const std::vector<std::string>& words);

}  // namespace fluxformer
