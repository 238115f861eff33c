// Element types, numbers and elementwise ops as C++ text, for backends that emit it.
//
// The types are typedefs of the emitter's: f64, f32, ... as dtypes are named, b8 for bool (0 or 1), u8 to u64, and f16
// and bf16 as bits. A vector of GNU C++ is such a name with its lanes: f32x16. What the text calls beyond <cmath> is in
// runtime/scalar_functions.h, and for vectors the emitter's:
//     splat<V>(x)        x in all lanes
//     map<V>(f, x...)    f of the numbers in each lane
//     to_bools<V>(mask)  1 for each lane of the mask that is not 0
#pragma once

#include <map>
#include <variant>

#include "graph/op.h"

namespace tenon::cpp {

// A number, or a vector of them.
struct Type {
  DType dtype;
  int64_t lanes = 1;
};
std::string to_string(const Type& type);
std::map<std::string, std::string> vector_types();  // by name: what defines it

// A number of a floating or an integral dtype.
std::string literal(Type type, const std::variant<double, int64_t>& value);

// An elementwise op, of operands that are names, literals or calls. Throws an Error for an op that does not compute
// in the dtype.
std::string apply(const OpDef& op, DType operands, Type result, const std::vector<std::string>& x);
// The same as a lambda of one number of each operand.
std::string function_text(const OpDef& op, DType operands, DType result);
std::string cast(DType from, Type to, const std::string& x);

}  // namespace tenon::cpp
