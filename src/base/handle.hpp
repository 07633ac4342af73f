#pragma once

// RAII owners of PETSc objects and MPI communicators.

#include <mpi.h>
#include <petscdm.h>
#include <petscsnes.h>
#include <petscts.h>

#include <utility>

namespace fluxformer {

/// Owns one PETSc object; `Destroy` is PETSc's XxxDestroy. Move-only.
template <class T, PetscErrorCode (*Destroy)(T*)>
class Handle {
 public:
  Handle() = default;
  explicit Handle(T object) : object_(object) {}
  Handle(Handle&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    if (object_ != nullptr) Destroy(&object_);
  }

  // NOLINTNEXTLINE(google-explicit-constructor): PETSc takes T by value
  operator T() const noexcept { return object_; }
  T get() const noexcept { return object_; }
  /// Address for PETSc's XxxCreate(..., T*) to write to. Destroys the object that was owned.
  T* out() {
    if (object_ != nullptr) Destroy(&object_);
    object_ = nullptr;
    return &object_;
  }

 private:
  T object_ = nullptr;
};

/// Owners of PETSc's types of objects.
using VecHandle = Handle<Vec, VecDestroy>;
using MatHandle = Handle<Mat, MatDestroy>;
using DMHandle = Handle<DM, DMDestroy>;
using TSHandle = Handle<TS, TSDestroy>;
using SNESHandle = Handle<SNES, SNESDestroy>;
using IndexSetHandle = Handle<IS, ISDestroy>;

/// Owner of a communicator, whose errors return instead of aborting. Move-only.
class Communicator {
 public:
  Communicator() = default;
  /// Takes ownership of `comm` (from MPI_Comm_split or MPI_Comm_dup).
  explicit Communicator(MPI_Comm comm);
  Communicator(Communicator&& other) noexcept : comm_(std::exchange(other.comm_, MPI_COMM_NULL)) {}
  Communicator& operator=(Communicator&& other) noexcept {
    std::swap(comm_, other.comm_);
    return *this;
  }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  ~Communicator();

  operator MPI_Comm() const noexcept { return comm_; }  // NOLINT(google-explicit-constructor)

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

}  // namespace fluxformer
