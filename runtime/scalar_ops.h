// The elementwise ops of portable kernels, by name. Their functions are generated from the compiler's op table, which
// defines the ops.
#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/short_name.h"

namespace tenon::runtime {

// Computes out[i * out_step] = op(a[i * step[0]], b[i * step[1]], c[i * step[2]]) for each i, in order. Operands that
// the op does not take are not read.
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
  kDivides,  // fails if the second operand is the integer 0
};

struct ScalarOp {
  ShortName<16> name;
  int arity;  // 1 to 3
  ScalarKind kind;
  Lanes<double> real;      // null if the op is not defined on reals
  Lanes<int64_t> integer;  // on 64-bit integers; storing a narrower result wraps
};

const ScalarOp* find_scalar_op(std::string_view name);  // null if unknown

}  // namespace tenon::runtime
