// A row-major tensor in memory that the view does not own.
#pragma once

#include <cstdint>
#include <span>

#include "tenon/tenon.h"

namespace tenon::runtime {

struct TensorView {
  tenon_dtype dtype;
  std::span<const int64_t> shape;
  void* data;
};

}  // namespace tenon::runtime
