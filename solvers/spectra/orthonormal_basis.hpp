#pragma once

// Orthonormal vectors, kept in a BV of SLEPc.

#include <petscmat.h>
#include <slepcbv.h>

#include <span>
#include <vector>

#include "base/handle.hpp"

namespace fluxformer::spectra {

/// Grows by one vector at a time, by classical Gram-Schmidt done twice.
class OrthonormalBasis {
 public:
  /// Room for `capacity` vectors with the layout of `like`. Collective. Reads the options of BV.
  OrthonormalBasis(Vec like, PetscInt capacity);

  /// Takes the part in the basis out of `v`; returns the length of what is left, 0 if that is round-off of what
  /// was given. Collective. Throws NumericalFailure if `v` is not finite.
  double orthogonalise(Vec v);
  /// v_k . v as it was before `orthogonalise`, for each vector of the basis.
  std::span<const double> coefficients() const { return coefficients_; }
  /// Adds what `orthogonalise` left of `v`, whose length was not 0.
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
