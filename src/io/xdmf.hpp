#pragma once

// The XDMF side-car file, with which ParaView and VisIt open /field: one sample, chosen channels as scalars
// on the grid x = token column, y = token row, z = depth. Format: https://www.xdmf.org (version 2; heavy data
// stay in the HDF5 file).

#include <cstddef>
#include <string>
#include <vector>

namespace fluxformer::io {

/// One scalar: a channel of a sample of the dataset [time, depth, token, sample, channel].
struct XdmfScalar {
  std::string name, dataset;       ///< dataset: absolute path in the HDF5 file
  std::vector<std::size_t> shape;  ///< of the dataset, five numbers
  std::size_t sample = 0, channel = 0;
};

/// One grid per stored time.
struct XdmfScene {
  std::string file;  ///< the HDF5 file, relative to the side-car
  std::vector<double> times, depths;
  std::size_t tokens_x = 1, tokens_y = 1;
  std::vector<XdmfScalar> scalars;
};

/// What the XDMF side-car shows: channels (positions along the file's channel axis) of one sample of a field.
struct XdmfChoice {
  std::string field;
  std::size_t sample = 0;
  std::vector<std::size_t> channels;
};

/// The text of the side-car. Pure.
std::string xdmf_document(const XdmfScene& scene);

}  // namespace fluxformer::io
