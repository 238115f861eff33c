// A row-major tensor in somebody's memory.
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
