#include "drivers/common/run_options.hpp"

#include <utility>

namespace fluxformer {

Option output_option(std::string fallback, std::string doc) {
  return {
      .name = "output.file", .fallback = std::move(fallback), .doc = std::move(doc), .role = Role::output};
}

Option overwrite_option() {
  return {.name = "output.overwrite",
          .fallback = false,
          .doc =
              "allow an existing output file and the files beside it to be replaced; not taken from a file "
              "used as a deck",
          .role = Role::permission};
}

Option trust_files_option() {
  return {.name = trust_files_key,
          .fallback = false,
          .doc =
              "read HDF5 files at once, without a process that reads each first and may crash on it; for "
              "sites that allow no second process. Not taken from a file used as a deck",
          .role = Role::permission};
}

Option precision_option() {
  return {.name = "run.precision",
          .fallback = std::string("double"),
          .doc =
              "arithmetic of attention, reaction and the loss of a word head; the state is always double. "
              "mixed: single, with factors of "
              "the linear maps rounded to bfloat16 (needs a processor with avx512_bf16); mixed_emulated: the "
              "same "
              "rounding on any processor, slowly",
          .choices = {"double", "single", "mixed", "mixed_emulated"}};
}

Option seed_option(std::string doc) {
  return {.name = "run.seed", .fallback = 1L, .doc = std::move(doc), .minimum = 0};
}

Option memory_option() {
  return {.name = "run.memory",
          .fallback = 0.0,
          .doc = "memory that a rank may use, by the estimate made before the start; 0: what the machine has",
          .unit = "GB",
          .minimum = 0,
          .role = Role::free};
}

Option time_limit_option(std::string doc) {
  return {.name = "run.time_limit",
          .fallback = 0.0,
          .doc = std::move(doc),
          .unit = "s",
          .minimum = 0,
          .role = Role::free};
}

Option points_option() {
  return {.name = "checkpoint.every",
          .fallback = 5.0,
          .doc = "wall time between checkpoints of the finished points; 0: only when stopped",
          .unit = "s",
          .minimum = 0,
          .role = Role::output};
}

Option restart_option() {
  return {.name = "checkpoint.restart",
          .fallback = std::string("no"),
          .doc =
              "no, auto (continue from the newest checkpoint beside output.file, if there is one), or the "
              "checkpoint file to continue from",
          .role = Role::output};
}

}  // namespace fluxformer
