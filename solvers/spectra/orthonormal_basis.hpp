#pragma once

// Orthonormal vectors, kept in a BV of SLEPc.

#include <petscmat.h>
#include <slepcbv.h>

#include <span>
#include <vector>

#include "base/handle.hpp"

namespace fluxformer::spectra {

/// An orthonormal basis that grows by one vector at a time, by classical Gram-Schmidt done twice.
class OrthonormalBasis {
 public:
  /// An empty basis with room for `capacity` vectors with the layout of `like`. Collective. Reads the options
  /// of BV.
  OrthonormalBasis(Vec like, PetscInt capacity);

  /// Subtracts from `v` its part in the span of the basis. Returns the length of the rest, or 0 if the rest
  /// is only round-off of `v`. Collective. Throws NumericalFailure if `v` is not finite.
  double orthogonalise(Vec v);
  /// The products v_k . v of the last `orthogonalise`, with `v` as it was before, for each vector v_k of the
  /// basis.
  std::span<const double> coefficients() const { return coefficients_; }
  /// Adds the rest of `v` that `orthogonalise` left, whose length was not 0.
  void append(Vec v, double length);
  PetscInt size() const { return size_; }
  /// product := H v_k. Collective.
  void multiply(Mat h, PetscInt k, Vec product);
  /// v_k . x. Collective.
  double dot(PetscInt k, Vec x);

 private:
  Handle<BV, BVDestroy> vectors_;
  std::vector<double> coefficients_;
  PetscInt size_ = 0;
};

}  // namespace fluxformer::spectra
