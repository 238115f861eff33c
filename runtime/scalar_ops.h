// The elementwise ops of portable kernels, by name. Their functions are generated from the compiler's op table, which
// defines the ops.
#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/short_name.h"

namespace tenon::runtime {

template <class T>
struct Operands {
  const T* data[3];
  int64_t step[3];
};

enum class ScalarKind : uint8_t {
  kPlain,
  kFolds,    // associative, of two operands: may fold an array
  kDivides,  // fails if the second operand is the integer 0
};

// The functions are numbers of a switch: pointers to them would be a table that is relocated when the library is
// loaded.
struct ScalarOp {
  ShortName<16> name;
  uint8_t arity;  // 1 to 3
  ScalarKind kind;
  bool is_real;     // is defined on reals
  bool is_integer;  // on 64-bit integers; storing a narrower result wraps
  uint8_t number;

  // Computes out[i * out_step] = op(a[i * step[0]], b[i * step[1]], c[i * step[2]]) for each i, in order. Operands that
  // the op does not take are not read. Does nothing if the op is not defined on the type.
  void run(const Operands<double>& x, double* out, int64_t out_step, int64_t count) const;
  void run(const Operands<int64_t>& x, int64_t* out, int64_t out_step, int64_t count) const;
};

const ScalarOp* find_scalar_op(std::string_view name);  // null if unknown

}  // namespace tenon::runtime
