// The elementwise ops of portable kernels, by name. Their functions are generated from the op table of the compiler,
// which says what they mean.
#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/short_name.h"

namespace tenon::runtime {

// A function of many elements: out[i * out_step] = op(a[i * step[0]], b[i * step[1]], c[i * step[2]]), one after the
// other. Those that the op does not take are not read.
template <class T>
struct Operands {
  const T* data[3];
  int64_t step[3];
};
template <class T>
using Lanes = void (*)(const Operands<T>& x, T* out, int64_t out_step, int64_t count);

enum class ScalarKind : uint8_t {
  kPlain,
  kFolds,    // associative, of two operands: may fold an array
  kDivides,  // its second operand must not be 0 in integers
};

struct ScalarOp {
  ShortName<16> name;
  int arity;  // 1 to 3
  ScalarKind kind;
  Lanes<double> real;      // null for an op that has no meaning there
  Lanes<int64_t> integer;  // 64 bits wide: a narrower result wraps when it is stored
};

const ScalarOp* find_scalar_op(std::string_view name);  // null when there is none

}  // namespace tenon::runtime
