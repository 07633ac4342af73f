#pragma once

// Owners of HDF5 identifiers. Handles own, views borrow; nothing else closes an identifier.

#include <hdf5.h>

#include <utility>

namespace fluxformer::io {

/// Owns one HDF5 identifier; `Close` is HDF5's H5Xclose. Move-only.
template <herr_t (*Close)(hid_t)>
class Hdf5Handle {
 public:
  Hdf5Handle() = default;
  explicit Hdf5Handle(hid_t id) : id_(id) {}
  Hdf5Handle(Hdf5Handle&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)) {}
  Hdf5Handle& operator=(Hdf5Handle&& other) noexcept {
    std::swap(id_, other.id_);
    return *this;
  }
  Hdf5Handle(const Hdf5Handle&) = delete;
  Hdf5Handle& operator=(const Hdf5Handle&) = delete;
  ~Hdf5Handle() { close(); }

  operator hid_t() const noexcept { return id_; }  // NOLINT(google-explicit-constructor): HDF5 takes hid_t
  bool open() const noexcept { return id_ >= 0; }
  /// Closes now and returns HDF5's result (closing a file writes): negative on failure, 0 if nothing is open.
  herr_t close() { return id_ >= 0 ? Close(std::exchange(id_, H5I_INVALID_HID)) : 0; }

 private:
  hid_t id_ = H5I_INVALID_HID;
};

/// Owners for each kind of object; an ObjectHandle owns a group or dataset that H5Oopen opened.
using FileHandle = Hdf5Handle<H5Fclose>;
using GroupHandle = Hdf5Handle<H5Gclose>;
using DatasetHandle = Hdf5Handle<H5Dclose>;
using SpaceHandle = Hdf5Handle<H5Sclose>;
using TypeHandle = Hdf5Handle<H5Tclose>;
using PropertyHandle = Hdf5Handle<H5Pclose>;
using AttributeHandle = Hdf5Handle<H5Aclose>;
using ObjectHandle = Hdf5Handle<H5Oclose>;

}  // namespace fluxformer::io
