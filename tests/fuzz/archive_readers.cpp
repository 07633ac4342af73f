// HDF5 files: models, lists of words, checkpoints and outputs, through the reading functions alone.

#include "base/settings.hpp"
#include "drivers/registry.hpp"
#include "io/archive_reader.hpp"
#include "io/checkpoint.hpp"
#include "io/layout.hpp"
#include "model/model_file.hpp"
#include "tests/fuzz/reader.hpp"
#include "tests/fuzz/repair.hpp"

namespace fluxformer::fuzz {
namespace {

void read_model_file(std::span<const std::uint8_t> bytes) {
  const auto parameters = read_model(io::ArchiveReader(MPI_COMM_SELF, in_file(bytes, "model.h5")));
  parameters.spec.validate();
}

void read_words(std::span<const std::uint8_t> bytes) {
  const io::ArchiveReader archive(MPI_COMM_SELF, in_file(bytes, "model.h5"));
  archive.words(model_file::embedding_vocabulary);
}

/// Everything that a group holds, down to `depth` levels.
void read_group(const io::ArchiveReader& archive, const std::string& group, int depth) {
  for (const auto& name : archive.children(group)) {
    const auto path = (group == "/" ? "" : group) + "/" + name;
    try {
      archive.shape(path);
      archive.array(path);
    } catch (const BadInput&) {
      if (depth > 0) {
        try {
          read_group(archive, path, depth - 1);
        } catch (const BadInput&) {
          continue;
        }
      }
    }
  }
}

void read_everything(std::span<const std::uint8_t> bytes) {
  const io::ArchiveReader archive(MPI_COMM_SELF, in_file(bytes, "any.h5"));
  read_group(archive, "/", 3);
}

void read_checkpoint(std::span<const std::uint8_t> bytes) {
  const io::CheckpointReader checkpoint(MPI_COMM_SELF, in_file(bytes, "a.checkpoint.h5"));
  const auto attempt = [](auto&& part) {
    try {
      part();
    } catch (const BadInput&) {  // the next may be sound
    }
  };
  for (const char* name : {"step", "outputs", "checkpoints", "fields", "steps", "best_epoch"})
    attempt([&] { checkpoint.integer({name}); });
  for (const char* name : {"time", "step_size", "best"}) attempt([&] { checkpoint.real({name}); });
  for (const char* name : {"history", "arrival", "raw", "first_moment", "second_moment"})
    attempt([&] { checkpoint.rows({name, true}, 1); });
  attempt([&] { checkpoint.text("settings"); });
  // The field of the seeds: two depth cells of 3 tokens, one sample of width 2.
  attempt([&] {
    std::vector<double> memory(12);
    const io::FieldPart part{
        .cells = 2, .cell_count = 2, .tokens_x = 3, .block = {.nx = 3, .ny = 1}, .channels = 2};
    checkpoint.field({"u"}, part, memory.data());
  });
}

void read_output_as_deck(std::span<const std::uint8_t> bytes) {
  const io::ArchiveReader archive(MPI_COMM_SELF, in_file(bytes, "output.h5"));
  static const auto options = std::make_shared<const Options>(experiments().front().declare);
  const Settings settings(options, archive.text(names::settings), {}, "output");
  settings.refuse_idle_keys();
}

}  // namespace

std::vector<Reader> archive_readers() {
  return {{"model", "model", read_model_file, repair_hdf5},
          {"words", "words", read_words, repair_hdf5},
          {"checkpoint", "checkpoint", read_checkpoint, repair_hdf5},
          {"output", "output", read_output_as_deck, repair_hdf5},
          {"hdf5", "hdf5", read_everything, repair_hdf5}};
}

}  // namespace fluxformer::fuzz
