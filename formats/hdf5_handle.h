// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hdf5.h>

#include <string>
#include <utility>

#include "lib/error.h"

namespace so4cal {

// Owns one HDF5 identifier and closes it with the function for its kind: Hid(H5Dopen2(...), H5Dclose).
// A negative identifier is a failed call and owns nothing: pass it through H5Check first.
class Hid {
 public:
  using Closer = herr_t (*)(hid_t);

  Hid() = default;
  Hid(hid_t id, Closer closer) : id_(id), closer_(closer) {}
  Hid(Hid&& other) noexcept : id_(std::exchange(other.id_, -1)), closer_(other.closer_) {}
  Hid& operator=(Hid&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(closer_, other.closer_);
    return *this;
  }
  Hid(const Hid&) = delete;
  Hid& operator=(const Hid&) = delete;
  ~Hid() {
    if (id_ >= 0) closer_(id_);
  }

  hid_t get() const { return id_; }
  explicit operator bool() const { return id_ >= 0; }

 private:
  hid_t id_ = -1;
  Closer closer_ = nullptr;
};

// HDF5's own reason for the last failed call: the innermost entry of its error stack, which says more than
// the outer ones ("truncated file: eof = ..." under "unable to open file"). Empty when there is none.
// Any later HDF5 call clears it.
inline std::string Hdf5Reason() {
  std::string reason;
  const auto take_first = [](unsigned n, const H5E_error2_t* error, void* out) -> herr_t {
    if (n == 0 && error->desc != nullptr) *static_cast<std::string*>(out) = error->desc;
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_first, &reason);
  return reason;
}

// Returns `result` of an HDF5 call (identifier, status, size), or throws Error "what (HDF5: reason)" when
// it is negative.
template <typename T>
T H5Check(T result, const std::string& what) {
  if (result >= 0) return result;
  const std::string reason = Hdf5Reason();
  throw Error(reason.empty() ? what : what + " (HDF5: " + reason + ")");
}

// While it lives, HDF5 prints no error stack to stderr: the reason goes into our message instead.
// The first one also keeps HDF5 from cleaning up when the program ends: after it has refused a damaged file
// it can't, and prints "infinite loop closing library". Files are closed by their Hid, so nothing is lost.
class QuietHdf5Errors {
 public:
  QuietHdf5Errors() {
    H5dont_atexit();  // does nothing once the library is in use
    H5Eget_auto2(H5E_DEFAULT, &function_, &data_);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  }
  ~QuietHdf5Errors() { H5Eset_auto2(H5E_DEFAULT, function_, data_); }
  QuietHdf5Errors(const QuietHdf5Errors&) = delete;
  QuietHdf5Errors& operator=(const QuietHdf5Errors&) = delete;

 private:
  H5E_auto2_t function_ = nullptr;
  void* data_ = nullptr;
};

}  // namespace so4cal
