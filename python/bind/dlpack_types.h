// Tenon's dtypes as DLPack's, and how memory of Python's is kept alive.
#pragma once

#include <nanobind/ndarray.h>

#include <memory>
#include <optional>

#include "bind.h"

namespace tenon::python {

nb::dlpack::dtype to_dlpack(DType dtype);
std::optional<DType> from_dlpack(nb::dlpack::dtype dtype);  // nothing for a type that Tenon lacks

// The last copy of a Tensor may go away on a thread that does not hold the GIL.
template <class Array>
std::shared_ptr<void> keep_alive(Array array) {
  return {new Array(std::move(array)), [](void* held) {
            if (!nb::is_alive()) return;
            const nb::gil_scoped_acquire gil;
            delete static_cast<Array*>(held);
          }};
}

}  // namespace tenon::python
