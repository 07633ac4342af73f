#pragma once

// The XDMF side-car file, with which ParaView and VisIt open /field: one sample, chosen channels as scalars
// on the grid x = token column, y = token row, z = depth. Format: https://www.xdmf.org (version 2; heavy data
// stay in the HDF5 file).

#include <string>
#include <vector>

#include "base/index.hpp"

namespace fluxformer::io {

/// One scalar of the side-car: a channel of a sample of the dataset [time, depth, token, sample, channel].
struct XdmfScalar {
  std::string name;
  std::string dataset;       ///< absolute path in the HDF5 file
  std::vector<Index> shape;  ///< five extents of the dataset
  Index sample = 0, channel = 0;
};

/// The contents of a side-car: one grid for each stored time.
struct XdmfScene {
  std::string file;  ///< path of the HDF5 file, relative to the side-car
  std::vector<double> times, depths;
  Index tokens_x = 1, tokens_y = 1;
  std::vector<XdmfScalar> scalars;
};

/// The text of the side-car. Pure.
std::string xdmf_document(const XdmfScene& scene);

}  // namespace fluxformer::io
