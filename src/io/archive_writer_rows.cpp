// Matrices whose rows are shared over the ranks.

#include <algorithm>
#include <stdexcept>

#include "io/archive_writer.hpp"
#include "io/hdf5/hdf5_check.hpp"
#include "io/layout.hpp"

namespace fluxformer::io {

namespace {

constexpr hsize_t chunk_numbers = hsize_t{1} << 18;  // a megabyte
constexpr int deflate = 4;

}  // namespace

void ArchiveWriter::rows(const std::string& group, const Variable& variable, std::span<const float> mine) {
  const std::string path = names::in(group, variable.name);
  if (variable.axes.size() != 2) throw std::logic_error("archive: " + path + " needs two axes");
  const hsize_t rows = known(variable.axes[0]).size, columns = known(variable.axes[1]).size;
  // Rows of all ranks, and of those up to this one; a rank with a part of a row makes the sum wrong.
  const auto whole = columns > 0 && mine.size() % columns == 0;
  const std::uint64_t here = whole ? mine.size() / columns : rows + 1;
  std::uint64_t all = here, end = here;
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_UINT64_T, MPI_SUM, file_.comm()));
  check_mpi(MPI_Scan(MPI_IN_PLACE, &end, 1, MPI_UINT64_T, MPI_SUM, file_.comm()));
  if (all != rows) throw std::logic_error("archive: " + path + " is not as long as its axes");

  const std::vector<hsize_t> dims{rows, columns},
      chunk{std::clamp<hsize_t>(chunk_numbers / columns, 1, rows), columns};
  const hsize_t numbers = stored_numbers(dims, chunk);
  // Each chunk adds an index entry of a few dozen bytes.
  file_.change(path, 4 * numbers + 64 * (numbers / (chunk[0] * chunk[1])), [&] {
    const DatasetHandle dataset =
        create_dataset(file_.id(), path, H5T_IEEE_F32LE, {.dims = dims, .chunk = chunk, .deflate = deflate});
    attach(dataset, variable.axes, meaning_of(variable));
    write_rows(dataset, here > 0, H5T_NATIVE_FLOAT, mine.data(), {end - here, here});
  });
}

}  // namespace fluxformer::io
