// Elements in locals, and what can be computed of them: the primitives of graph/scalar.h as instructions.
//
// A number of a narrow integer dtype is an i32 that holds its value; a bool is 0 or 1; f16 and bf16 are their bits. A
// vector has 4 lanes of 32 bits, or 2 of f64. Narrow integers take 32 bits of it, and a bool is a mask as wide as the
// lanes beside it.
//
// A module imports what no instruction computes: the primitives of floats by their names, as functions of f64, and
// integer_quotient, integer_pow, from_half, to_half and to_brain (runtime/scalar_functions.h).
#pragma once

#include <functional>

#include "backends/wasm/function.h"
#include "graph/op.h"
#include "loops/ir.h"

namespace tenon::wasm {

struct WasmValue {
  DType dtype;
  int64_t lanes = 1;
  std::variant<uint32_t, loops::Scalar> is = uint32_t{0};  // a local, or a number, the same in all lanes
};

ValueType type_of(DType dtype, int64_t lanes = 1);
int64_t lanes_for(DType dtype);  // of a vector; 1: there are none of the dtype

class Arithmetic {
 public:
  // With `relaxed`, products of f32x4 are added by an instruction of relaxed SIMD.
  Arithmetic(Function& function, bool relaxed) : function_(function), relaxed_(relaxed) {}

  // ---- values ----
  void push(const WasmValue& value);
  WasmValue keep(DType dtype, int64_t lanes);  // takes the value from the stack
  void set(uint32_t local, const WasmValue& value);
  WasmValue splat(const WasmValue& number, int64_t lanes);
  WasmValue lane(const WasmValue& vector, int64_t lane);

  // ---- ops ----
  WasmValue apply(const OpDef& op, DType operands, DType result, const std::vector<WasmValue>& x);
  WasmValue multiply_add(const WasmValue& a, const WasmValue& b, const WasmValue& c);
  WasmValue cast(const WasmValue& x, DType to);
  WasmValue bitcast(const WasmValue& x, DType to);  // of a vector: between dtypes of 32 bits

  // ---- memory: the address is on the stack, and below a number to be stored ----
  void load(DType dtype, uint32_t offset);
  void store(DType dtype, uint32_t offset);
  void load_vector(DType dtype, uint32_t offset);
  void store_vector(const WasmValue& vector, uint32_t offset);

 private:
  Code& code() { return function_.code(); }
  std::vector<WasmValue> as_vectors(const std::vector<WasmValue>& x, int64_t lanes);
  WasmValue each_lane(DType dtype, int64_t lanes, const std::function<WasmValue(int64_t lane)>& one);
  WasmValue with_lane_mask(const WasmValue& masks, const WasmValue& truth, int64_t lane);

  WasmValue evaluate(const ScalarFn& fn, DType operands, DType result, const std::vector<WasmValue>& x);
  WasmValue step(Primitive primitive, DType operands, DType result, const std::vector<WasmValue>& x);
  WasmValue step(Primitive primitive, const std::vector<WasmValue>& x);  // of operands and result of one dtype
  WasmValue chosen(const std::vector<WasmValue>& x);
  WasmValue call(Primitive primitive, DType dtype, const std::vector<WasmValue>& x);

  WasmValue integer_step(Primitive primitive, DType dtype, const std::vector<WasmValue>& x);
  void shift(bool left, DType dtype, const std::vector<WasmValue>& x);
  void divide_or_raise(Primitive primitive, DType dtype, const std::vector<WasmValue>& x);
  void wrap(DType dtype);

  bool has_vector_form(const ScalarFn& fn, DType operands, DType result, int64_t lanes) const;
  WasmValue vector_step(Primitive primitive, DType operands, DType result, const std::vector<WasmValue>& x);
  void wrap_vector(DType dtype);

  WasmValue cast_to_real(const WasmValue& x, DType to);
  WasmValue cast_to_integer(const WasmValue& x, DType to);
  WasmValue cast_vector(const WasmValue& x, DType to);

  Function& function_;
  bool relaxed_;
  std::map<Primitive, uint32_t> vector_functions_;
};

}  // namespace tenon::wasm
