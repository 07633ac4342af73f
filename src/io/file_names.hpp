#pragma once

// The files that accompany the output of a run.

#include <string>

namespace fluxformer::io {

/// "out/evolve.h5" -> "out/evolve.checkpoint.h5", and the generation before it.
std::string checkpoint_path(const std::string& output);
std::string previous_checkpoint_path(const std::string& output);
/// "out/evolve.h5" -> "out/evolve.h5.part": its name until it is complete.
std::string part_path(const std::string& path);
/// "out/evolve.h5" -> "out/evolve.xdmf".
std::string side_car_path(const std::string& output);
/// "out/train.h5" -> "out/train.history.h5".
std::string history_path(const std::string& output);
/// "out/train.h5", "best" -> "out/train.best.h5".
std::string weights_path(const std::string& output, const std::string& what);

/// "out/evolve.h5", "failed" -> "out/evolve.failed.h5": the result of a run that did not complete, where a
/// complete one keeps its name.
std::string incomplete_path(const std::string& output, const std::string& status);

}  // namespace fluxformer::io
