#include "solvers/spectra/probe.hpp"

#include "base/vector_arrays.hpp"

namespace fluxformer::spectra {

void fill_probe(Vec v, Probe kind, const RandomStream& stream) {
  PetscInt first = 0, last = 0;
  check(VecGetOwnershipRange(v, &first, &last));
  const WriteArray own(v);
  for (PetscInt i = first; i < last; ++i) {
    const auto index = static_cast<std::uint64_t>(i);
    const bool normal = kind == Probe::gaussian;
    own.values[i - first] = normal ? stream.normal(index) : (stream.bits(index)[0] & 1U) != 0 ? 1.0 : -1.0;
  }
}

}  // namespace fluxformer::spectra
