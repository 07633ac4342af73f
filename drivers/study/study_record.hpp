#pragma once

// The output of a study: coordinates, notes, and measures over seeds, kept in memory until the end.
//
// A measure of the group g is one array over its axes, the seeds first. A place of the study has an index
// along some of them, and gives the values along the others:
//
//   /analysis/<experiment>/<group>/<measure> [seed][axes of the measure] = values at the place with these
//   indices
//
// Values that no place gives are NaN.

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/settings.hpp"
#include "drivers/common/experiment.hpp"
#include "io/hdf5/hdf5_objects.hpp"
#include "io/part_file.hpp"
#include "io/variable.hpp"

namespace fluxformer {

namespace study {

inline const io::Attribute samples{"samples", "test samples used"};
inline const io::Variable seconds{"seconds", {}, "s", "wall time spent on this model"};

/// Contents of a study's file for each group, usually a model. The measures are those that places give and
/// that are derived from them; the record adds the seed axis in front of them.
struct Contents {
  std::vector<io::Variable> coordinates = {};  ///< coordinates beside seeds, and arrays beside these
  std::vector<io::Attribute> notes = {};       ///< attributes of the experiment
  std::vector<io::Attribute> model_notes = {};
  std::vector<io::Variable> measures = {};
  std::string group = {};  ///< the group that holds all others; "" for /analysis/<experiment>
  bool mesh = false;       ///< the file may hold depth cells that were found (StudyRecord::mesh)
};

/// Describes all files of an experiment that is a study.
void describe(io::Description& description, const std::string& experiment, const Contents& contents);

}  // namespace study

/// A place of a study: a group of the file, and an index along each axis on which the study moves.
struct Place {
  std::string group;  ///< a model, a kind of layers, a sampler: results go to /analysis/<experiment>/<group>
  std::string name = {};                          ///< for messages: "softmax, seed 3, sigma 0.1"
  std::map<std::string, std::size_t> index = {};  ///< from 0, by coordinate; that of seeds is among them

  /// Index along a coordinate; throws std::out_of_range if the study does not move along it.
  std::size_t along(const io::Variable& coordinate) const { return index.at(coordinate.name); }
};

/// One output file: a group for each model (or kind, or sampler), in which each measure has the seeds as its
/// first axis. Members are not collective except `finish`; all ranks add the same.
class StudyRecord {
 public:
  /// Starts an empty record; the first two arguments are borrowed. `root`: the group of the experiment, ""
  /// for /analysis/<experiment>.
  StudyRecord(const Settings& settings, const RunContext& context, std::string root = {})
      : settings_(settings), context_(context), root_(std::move(root)) {}

  /// Adds a coordinate.
  void axis(const io::Variable& coordinate, std::vector<double> values);
  /// Adds a coordinate with the values first, first + 1, ..., last.
  void axis(const io::Variable& coordinate, long first, long last);
  /// Adds the coordinate of the seeds.
  void seeds(const std::vector<long>& seeds);
  /// Adds the coordinate of the test samples: their indices in the test split.
  void samples(const std::vector<std::size_t>& members);
  /// Adds an attribute to a group, or to the experiment ("").
  void note(const std::string& group, const io::Attribute& attribute, const io::AttributeValue& value);
  /// Adds a matrix of a group, not over seeds, in numbers of 4 bytes: this rank's rows (ArchiveWriter::rows).
  void rows(const std::string& group, const io::Variable& measure, std::vector<float> mine);

  /// Adds an array beside the coordinates, whose axes were added; and a list of words.
  void array(const io::Variable& variable, std::vector<double> values);
  void words(const io::Variable& variable, std::vector<std::string> words);

  /// Adds the edges of depth cells that were found, in layers, as mesh.edges = FILE reads them.
  void mesh(std::vector<double> edges);

  /// How many numbers a place gives of a measure: the product of the sizes of its axes along which the place
  /// has no index. <model> in the name of an axis stands for the group; "extent_N" is an axis of N numbers
  /// without coordinate. Throws std::logic_error for an axis that was not added.
  std::size_t numbers(const Place& place, const io::Variable& measure) const;
  /// Adds what a place gives of a measure, row-major. Throws std::logic_error for a missing axis, a wrong
  /// number of values, and values that another place has given.
  void add(const Place& place, const io::Variable& measure, const std::vector<double>& values);

  /// Writes the file that `claim` has claimed, with the time of each part of the run. Collective.
  void finish(std::unique_ptr<io::PartFile> claim,
              const std::vector<std::pair<std::string, double>>& seconds) const;

 private:
  struct Measure {
    io::Variable variable;  // axes: seeds, then those of the measure
    std::vector<double> values;
    std::vector<bool> given;
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
  std::string group(const std::string& name) const;
  /// Variable over seeds, if the study has them, whose axes are those of a group: its name in the place of
  /// <model>.
  io::Variable over_seeds(io::Variable measure, const std::string& group) const;
  std::size_t size(const std::string& axis, const std::string& measure) const;

  const Settings& settings_;
  const RunContext& context_;
  std::string root_;
  std::vector<std::pair<io::Variable, std::vector<double>>> axes_;
  std::map<std::string, std::size_t> sizes_;                         // sizes of axes, by name
  std::map<std::pair<std::string, std::string>, Measure> measures_;  // by group and name
  std::vector<Rows> rows_;
  std::vector<Note> notes_;
  std::vector<double> mesh_edges_;
  std::vector<std::pair<io::Variable, std::vector<double>>> arrays_;
  std::vector<std::pair<io::Variable, std::vector<std::string>>> words_;
};

/// Text with one word in each line: names behind the numbers of an axis, as attributes hold them.
std::string as_lines(const std::vector<std::string>& words);

}  // namespace fluxformer
