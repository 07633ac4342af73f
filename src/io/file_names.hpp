#pragma once

// Names of the files that accompany the output of a run.

#include <string>

namespace fluxformer::io {

/// Name of the checkpoint: "out/evolve.h5" -> "out/evolve.checkpoint.h5".
std::string checkpoint_path(const std::string& output);
/// Name of the checkpoint before: "out/evolve.h5" -> "out/evolve.checkpoint.previous.h5".
std::string previous_checkpoint_path(const std::string& output);
/// Name of a file until it is complete: "out/evolve.h5" -> "out/evolve.h5.part".
std::string part_path(const std::string& path);
/// Name of the file for ParaView: "out/evolve.h5" -> "out/evolve.xdmf".
std::string side_car_path(const std::string& output);
/// Name of the history of a training: "out/train.h5" -> "out/train.history.h5".
std::string history_path(const std::string& output);
/// Name of a copy of the weights: "out/train.h5", "best" -> "out/train.best.h5".
std::string weights_path(const std::string& output, const std::string& what);

/// Name of the result of a run that did not complete, if a complete result of an earlier run keeps its name:
/// "out/evolve.h5", "failed" -> "out/evolve.failed.h5".
std::string incomplete_path(const std::string& output, const std::string& status);

}  // namespace fluxformer::io
