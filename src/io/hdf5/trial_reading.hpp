#pragma once

// HDF5 1.10 crashes, or never returns, on some damaged files: sizes within its heaps of texts are not
// checked, and have no checksum. So a file is first read by a process that may die.

#include <string>

namespace fluxformer::io {

/// Lets a child process open the file and read all attributes, texts and chunked numbers, except datasets
/// beyond 256 MB, with limits on time and memory. Throws BadInput (without the name of the file) if the child
/// does not end well. It forks: rank-local, for one rank of a run, while the run is set up; the child makes
/// no call of MPI.
void read_on_trial(const std::string& path);

}  // namespace fluxformer::io
