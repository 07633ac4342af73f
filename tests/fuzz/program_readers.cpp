// HDF5 files through the whole program: as a model, as a deck, as a checkpoint to continue from.

#include <petscsys.h>

#include <cstdio>
#include <iostream>
#include <sstream>

#include "base/error.hpp"
#include "drivers/command_line.hpp"
#include "tests/fuzz/reader.hpp"
#include "tests/fuzz/repair.hpp"

namespace fluxformer::fuzz {
namespace {

const std::string decks = FLUXFORMER_SOURCE_DIR "/tests/fuzz/decks/";

/// Captures the output of the program during its lifetime. The words before an abort go to stderr.
class Captured : public std::stringbuf {
 public:
  Captured() : out_(std::cout.rdbuf(this)), err_(std::cerr.rdbuf(this)) {}
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;
  ~Captured() override {
    std::cout.rdbuf(out_);
    std::cerr.rdbuf(err_);
  }

 private:
  int sync() override {
    const auto text = str();
    if (const auto at = text.rfind("fluxformer: rank"); at != std::string::npos && text.ends_with('\n'))
      std::fputs(text.c_str() + at, stderr);
    return 0;
  }
  std::streambuf *out_, *err_;
};

/// Runs the program in this process. Damaged numbers may make a run fail numerically.
void run_program(std::vector<std::string> words) {
  words.insert(words.begin(), "fluxformer");
  words.emplace_back("--quiet");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  int code = 0;
  std::string text;
  {
    const Captured captured;
    code = run_command_line(static_cast<int>(arguments.size()), arguments.data());
    text = captured.str();
  }
  PetscOptionsClear(nullptr);
  if (code == static_cast<int>(ExitCode::bad_input)) throw BadInput(text);
  if (code != static_cast<int>(ExitCode::done) && code != static_cast<int>(ExitCode::numerical))
    throw Error(static_cast<ExitCode>(code), text);
}

void read_as_model(std::span<const std::uint8_t> bytes) {
  run_program({"evolve", decks + "evolve.ini", "--model.file=" + in_file(bytes, "model.h5"), "--validate"});
}

void read_as_compared_model(std::span<const std::uint8_t> bytes) {
  run_program({"spectrum_of_states", decks + "compare.ini",
               "--models.transformer=" + in_file(bytes, "model.h5"), "--validate"});
}

void read_as_deck(std::span<const std::uint8_t> bytes) {
  run_program({"evolve", in_file(bytes, "deck.h5"), "--output.file=" + scratch_folder() + "/again.h5",
               "--output.overwrite=true", "--validate"});
}

void restart(const std::string& experiment, std::span<const std::uint8_t> bytes) {
  const auto output = scratch_folder() + "/" + experiment + ".h5";
  run_program({experiment, decks + experiment + ".ini", "--output.file=" + output, "--output.overwrite=true",
               "--checkpoint.restart=" + in_file(bytes, "from.checkpoint.h5")});
}

}  // namespace

std::vector<Reader> program_readers() {
  return {{"as_model", "model", read_as_model, repair_hdf5},
          {"as_compared_model", "compared", read_as_compared_model, repair_hdf5},
          {"as_deck", "output", read_as_deck, repair_hdf5},
          {"evolve_restart", "evolve_checkpoint",
           [](std::span<const std::uint8_t> b) { restart("evolve", b); }, repair_hdf5},
          {"train_restart", "train_checkpoint", [](std::span<const std::uint8_t> b) { restart("train", b); },
           repair_hdf5}};
}

}  // namespace fluxformer::fuzz
