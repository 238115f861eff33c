#include "backends/wasm/arithmetic.h"

#include <algorithm>
#include <array>

#include "backends/wasm/vector_functions.h"

namespace tenon::wasm {
namespace {

constexpr Op kNo = {};  // The type has no such instruction.

// A primitive in each type that has arithmetic.
struct Forms {
  Primitive primitive;
  Op f32, f64, i32, i64, f32x4, f64x2, i32x4;
};

// clang-format off
constexpr Forms kForms[] = {
    {Primitive::kAdd, Op::kF32Add, Op::kF64Add, Op::kI32Add, Op::kI64Add, Op::kF32x4Add, Op::kF64x2Add, Op::kI32x4Add},
    {Primitive::kSub, Op::kF32Sub, Op::kF64Sub, Op::kI32Sub, Op::kI64Sub, Op::kF32x4Sub, Op::kF64x2Sub, Op::kI32x4Sub},
    {Primitive::kMul, Op::kF32Mul, Op::kF64Mul, Op::kI32Mul, Op::kI64Mul, Op::kF32x4Mul, Op::kF64x2Mul, Op::kI32x4Mul},
    {Primitive::kNeg, Op::kF32Neg, Op::kF64Neg, kNo, kNo, Op::kF32x4Neg, Op::kF64x2Neg, Op::kI32x4Neg},
    {Primitive::kAbs, Op::kF32Abs, Op::kF64Abs, kNo, kNo, Op::kF32x4Abs, Op::kF64x2Abs, Op::kI32x4Abs},
    {Primitive::kMaximum, Op::kF32Max, Op::kF64Max, kNo, kNo, Op::kF32x4Max, Op::kF64x2Max, Op::kI32x4MaxS},
    {Primitive::kMinimum, Op::kF32Min, Op::kF64Min, kNo, kNo, Op::kF32x4Min, Op::kF64x2Min, Op::kI32x4MinS},
    {Primitive::kEq, Op::kF32Eq, Op::kF64Eq, Op::kI32Eq, Op::kI64Eq, Op::kF32x4Eq, Op::kF64x2Eq, Op::kI32x4Eq},
    {Primitive::kNe, Op::kF32Ne, Op::kF64Ne, Op::kI32Ne, Op::kI64Ne, Op::kF32x4Ne, Op::kF64x2Ne, Op::kI32x4Ne},
    {Primitive::kLt, Op::kF32Lt, Op::kF64Lt, Op::kI32LtS, Op::kI64LtS, Op::kF32x4Lt, Op::kF64x2Lt, Op::kI32x4LtS},
    {Primitive::kLe, Op::kF32Le, Op::kF64Le, Op::kI32LeS, Op::kI64LeS, Op::kF32x4Le, Op::kF64x2Le, Op::kI32x4LeS},
    {Primitive::kGt, Op::kF32Gt, Op::kF64Gt, Op::kI32GtS, Op::kI64GtS, Op::kF32x4Gt, Op::kF64x2Gt, Op::kI32x4GtS},
    {Primitive::kGe, Op::kF32Ge, Op::kF64Ge, Op::kI32GeS, Op::kI64GeS, Op::kF32x4Ge, Op::kF64x2Ge, Op::kI32x4GeS},
    {Primitive::kBitwiseAnd, kNo, kNo, Op::kI32And, Op::kI64And, kNo, kNo, Op::kV128And},
    {Primitive::kBitwiseOr, kNo, kNo, Op::kI32Or, Op::kI64Or, kNo, kNo, Op::kV128Or},
    {Primitive::kBitwiseXor, kNo, kNo, Op::kI32Xor, Op::kI64Xor, kNo, kNo, Op::kV128Xor},
    {Primitive::kFmod, kNo, kNo, Op::kI32RemS, Op::kI64RemS, kNo, kNo, kNo},
    {Primitive::kDiv, Op::kF32Div, Op::kF64Div, kNo, kNo, Op::kF32x4Div, Op::kF64x2Div, kNo},
    {Primitive::kCopysign, Op::kF32Copysign, Op::kF64Copysign, kNo, kNo, kNo, kNo, kNo},
    {Primitive::kFloor, Op::kF32Floor, Op::kF64Floor, kNo, kNo, Op::kF32x4Floor, Op::kF64x2Floor, kNo},
    {Primitive::kCeil, Op::kF32Ceil, Op::kF64Ceil, kNo, kNo, Op::kF32x4Ceil, Op::kF64x2Ceil, kNo},
    {Primitive::kTrunc, Op::kF32Trunc, Op::kF64Trunc, kNo, kNo, Op::kF32x4Trunc, Op::kF64x2Trunc, kNo},
    {Primitive::kRint, Op::kF32Nearest, Op::kF64Nearest, kNo, kNo, Op::kF32x4Nearest, Op::kF64x2Nearest, kNo},
    {Primitive::kSqrt, Op::kF32Sqrt, Op::kF64Sqrt, kNo, kNo, Op::kF32x4Sqrt, Op::kF64x2Sqrt, kNo},
};
// clang-format on

const Forms* forms_of(Primitive primitive) {
  const auto* const found = std::ranges::find(kForms, primitive, &Forms::primitive);
  return found == std::end(kForms) ? nullptr : found;
}

Op scalar_op(Primitive primitive, DType dtype) {
  const Forms* const forms = forms_of(primitive);
  if (!forms) return kNo;
  switch (type_of(dtype)) {
    case ValueType::kF32:
      return forms->f32;
    case ValueType::kF64:
      return forms->f64;
    case ValueType::kI64:
      return forms->i64;
    default:
      return forms->i32;
  }
}

// Masks have the operations on bits alone.
Op vector_op(Primitive primitive, DType dtype) {
  const Forms* const forms = forms_of(primitive);
  if (!forms || lanes_for(dtype) == 1) return kNo;
  if (dtype == DType::kF32) return forms->f32x4;
  if (dtype == DType::kF64) return forms->f64x2;
  if (dtype == DType::kBool) return forms->f32x4 == kNo ? forms->i32x4 : kNo;
  return forms->i32x4;
}

bool compares(Primitive primitive) { return definition_of(primitive).lanes == PrimitiveLanes::kMask; }

bool is_small_integer(DType dtype) { return is_integral(dtype) && size_of(dtype) < 4; }

int64_t lanes_of(const std::vector<WasmValue>& x) {
  int64_t lanes = 1;
  for (const WasmValue& value : x) lanes = std::max(lanes, value.lanes);
  return lanes;
}

loops::Scalar number_of(DType dtype, double number) {
  if (is_float(dtype)) return number;
  return static_cast<int64_t>(number);
}

}  // namespace

ValueType type_of(DType dtype, int64_t lanes) {
  if (lanes > 1) return ValueType::kV128;
  if (dtype == DType::kF64) return ValueType::kF64;
  if (dtype == DType::kF32) return ValueType::kF32;
  return dtype == DType::kI64 ? ValueType::kI64 : ValueType::kI32;
}

int64_t lanes_for(DType dtype) {
  if (is_narrow_float(dtype) || dtype == DType::kI64) return 1;
  return dtype == DType::kF64 ? 2 : 4;
}

// ---- values ---------------------------------------------------------------------------------------------------------

namespace {

void push_number(Code& code, DType dtype, const loops::Scalar& number) {
  if (dtype == DType::kF64) return code.f64(std::get<double>(number));
  if (dtype == DType::kF32) return code.f32(static_cast<float>(std::get<double>(number)));
  if (dtype == DType::kI64) return code.i64(std::get<int64_t>(number));
  if (is_integral(dtype)) return code.i32(static_cast<int32_t>(std::get<int64_t>(number)));
  std::byte bits[2];
  store_real(dtype, bits, std::get<double>(number));
  code.i32(static_cast<int32_t>(load_integer(DType::kI16, bits) & 0xffff));
}

// From the number on the stack.
void add_splat(Code& code, DType dtype) {
  code.op(dtype == DType::kF32 ? Op::kF32x4Splat : dtype == DType::kF64 ? Op::kF64x2Splat : Op::kI32x4Splat);
}

}  // namespace

void Arithmetic::push(const WasmValue& value) {
  if (const auto* local = std::get_if<uint32_t>(&value.is)) return code().op(Op::kGet, *local);
  const auto& number = std::get<loops::Scalar>(value.is);
  if (value.lanes == 1) return push_number(code(), value.dtype, number);
  Code vector;
  const bool is_mask = value.dtype == DType::kBool;
  push_number(vector, value.dtype, is_mask ? loops::Scalar(-std::get<int64_t>(number)) : number);
  add_splat(vector, value.dtype);
  code().op(Op::kGet, function_.constant(ValueType::kV128, vector));
}

WasmValue Arithmetic::keep(DType dtype, int64_t lanes) {
  return {dtype, lanes, function_.set_temporary(type_of(dtype, lanes))};
}

void Arithmetic::set(uint32_t local, const WasmValue& value) {
  push(value);
  code().op(Op::kSet, local);
}

WasmValue Arithmetic::splat(const WasmValue& number, int64_t lanes) {
  if (number.lanes == lanes) return number;
  if (std::holds_alternative<loops::Scalar>(number.is)) return {number.dtype, lanes, number.is};
  const bool is_mask = number.dtype == DType::kBool;
  if (is_mask) code().i32(0);
  push(number);
  if (is_mask) code().op(Op::kI32Sub);
  add_splat(code(), number.dtype);
  return keep(number.dtype, lanes);
}

std::vector<WasmValue> Arithmetic::as_vectors(const std::vector<WasmValue>& x, int64_t lanes) {
  std::vector<WasmValue> vectors;
  for (const WasmValue& value : x) vectors.push_back(splat(value, lanes));
  return vectors;
}

// A mask of two lanes is read as four of 32 bits.
WasmValue Arithmetic::lane(const WasmValue& vector, int64_t lane) {
  if (vector.lanes == 1) return vector;
  if (std::holds_alternative<loops::Scalar>(vector.is)) return {vector.dtype, 1, vector.is};
  push(vector);
  const int64_t place = vector.dtype == DType::kBool ? lane * (4 / vector.lanes) : lane;
  const Op op = vector.dtype == DType::kF32   ? Op::kF32x4ExtractLane
                : vector.dtype == DType::kF64 ? Op::kF64x2ExtractLane
                                              : Op::kI32x4ExtractLane;
  code().op(op, static_cast<uint32_t>(place));
  if (vector.dtype == DType::kBool) code().i32(1), code().op(Op::kI32And);
  return keep(vector.dtype, 1);
}

WasmValue Arithmetic::each_lane(DType dtype, int64_t lanes, const std::function<WasmValue(int64_t lane)>& one) {
  WasmValue all = splat(one(0), lanes);
  for (int64_t lane = 1; lane < lanes; ++lane) {
    const WasmValue next = one(lane);
    if (dtype == DType::kBool) {
      all = with_lane_mask(all, next, lane);
      continue;
    }
    push(all);
    push(next);
    const Op op = dtype == DType::kF32   ? Op::kF32x4ReplaceLane
                  : dtype == DType::kF64 ? Op::kF64x2ReplaceLane
                                         : Op::kI32x4ReplaceLane;
    code().op(op, static_cast<uint32_t>(lane));
    all = keep(dtype, lanes);
  }
  return all;
}

WasmValue Arithmetic::with_lane_mask(const WasmValue& masks, const WasmValue& truth, int64_t lane) {
  const int64_t words = 4 / masks.lanes;
  push(masks);
  for (int64_t word = 0; word < words; ++word) {
    code().i32(0);
    push(truth);
    code().op(Op::kI32Sub);
    code().op(Op::kI32x4ReplaceLane, static_cast<uint32_t>(lane * words + word));
  }
  return keep(DType::kBool, masks.lanes);
}

// ---- ops ------------------------------------------------------------------------------------------------------------

WasmValue Arithmetic::apply(const OpDef& op, DType operands, DType result, const std::vector<WasmValue>& x) {
  const ScalarFn& fn = scalar_fn(op, operands);
  const int64_t lanes = lanes_of(x);
  if (lanes == 1) return evaluate(fn, operands, result, x);
  if (has_vector_form(fn, operands, result, lanes)) return evaluate(fn, operands, result, as_vectors(x, lanes));
  return each_lane(result, lanes, [&](int64_t at) {
    std::vector<WasmValue> numbers;
    for (const WasmValue& value : x) numbers.push_back(lane(value, at));
    return evaluate(fn, operands, result, numbers);
  });
}

WasmValue Arithmetic::evaluate(const ScalarFn& fn, DType operands, DType result, const std::vector<WasmValue>& x) {
  const int64_t lanes = lanes_of(x);
  std::vector<WasmValue> values;
  for (const ScalarStep& step : fn.steps()) {
    const DType dtype = dtype_of(step.type, operands);
    if (step.primitive == Primitive::kOperand) {
      values.push_back(x[step.operands[0]]);
    } else if (step.primitive == Primitive::kConstant) {
      values.push_back({dtype, lanes, number_of(dtype, step.number)});
    } else if (step.primitive == Primitive::kWiden) {
      values.push_back(cast(values[step.operands[0]], dtype));
    } else {
      std::vector<WasmValue> of;
      for (size_t i = 0; i < definition_of(step.primitive).operands; ++i) of.push_back(values[step.operands[i]]);
      values.push_back(this->step(step.primitive, fn.operand_dtype(step, operands), dtype, of));
    }
  }
  return cast(values[fn.result()], result);
}

WasmValue Arithmetic::step(Primitive primitive, DType operands, DType result, const std::vector<WasmValue>& x) {
  primitive = in_dtype(primitive, operands);
  if (primitive == Primitive::kWhere) return chosen(x);
  if (lanes_of(x) > 1) return vector_step(primitive, operands, result, x);
  const Op op = scalar_op(primitive, operands);
  if (op == kNo) return is_float(operands) ? call(primitive, operands, x) : integer_step(primitive, operands, x);
  for (const WasmValue& value : x) push(value);
  code().op(op);
  if (!compares(primitive)) wrap(operands);
  return keep(result, 1);
}

WasmValue Arithmetic::chosen(const std::vector<WasmValue>& x) {
  push(x[1]);
  push(x[2]);
  push(x[0]);
  code().op(x[1].lanes > 1 ? Op::kV128Bitselect : Op::kSelect);
  return keep(x[1].dtype, x[1].lanes);
}

WasmValue Arithmetic::step(Primitive primitive, const std::vector<WasmValue>& x) {
  return step(primitive, x[0].dtype, x[0].dtype, x);
}

WasmValue Arithmetic::multiply_add(const WasmValue& a, const WasmValue& b, const WasmValue& c) {
  const int64_t lanes = std::max({a.lanes, b.lanes, c.lanes});
  const std::vector<WasmValue> x = as_vectors({a, b, c}, lanes);
  if (relaxed_ && a.dtype == DType::kF32 && lanes == 4) {
    for (const WasmValue& value : x) push(value);
    code().op(Op::kF32x4RelaxedMadd);
    return keep(a.dtype, lanes);
  }
  return step(Primitive::kAdd, {step(Primitive::kMul, {x[0], x[1]}), x[2]});
}

// ---- numbers --------------------------------------------------------------------------------------------------------

// Calls an imported function, in f64: for primitives that no instruction computes.
WasmValue Arithmetic::call(Primitive primitive, DType dtype, const std::vector<WasmValue>& x) {
  const Signature signature{std::vector(x.size(), ValueType::kF64), {ValueType::kF64}};
  const uint32_t function = function_.module().import(definition_of(primitive).name, signature);
  for (const WasmValue& value : x) {
    push(value);
    if (dtype == DType::kF32) code().op(Op::kF64PromoteF32);
  }
  code().op(Op::kCall, function);
  if (dtype == DType::kF32) code().op(Op::kF32DemoteF64);
  return keep(dtype, 1);
}

// To the dtype, from an i32 that the result of an operation on it is.
void Arithmetic::wrap(DType dtype) {
  if (dtype == DType::kI8) return code().op(Op::kI32Extend8);
  if (dtype == DType::kI16) return code().op(Op::kI32Extend16);
  if (dtype == DType::kU8) return code().i32(0xff), code().op(Op::kI32And);
  if (dtype == DType::kBool) return code().i32(0), code().op(Op::kI32Ne);
}

WasmValue Arithmetic::integer_step(Primitive primitive, DType dtype, const std::vector<WasmValue>& x) {
  const bool is_long = dtype == DType::kI64;
  const auto zero = [&] { push({dtype, 1, int64_t{0}}); };
  switch (primitive) {
    case Primitive::kNeg:
      zero(), push(x[0]);
      code().op(is_long ? Op::kI64Sub : Op::kI32Sub);
      break;
    case Primitive::kAbs:
      push(x[0]), push(integer_step(Primitive::kNeg, dtype, x)), push(x[0]), zero();
      code().op(is_long ? Op::kI64GeS : Op::kI32GeS);
      code().op(Op::kSelect);
      break;
    case Primitive::kMaximum:
    case Primitive::kMinimum:
      for (int times = 0; times < 2; ++times) push(x[0]), push(x[1]);
      code().op(scalar_op(primitive == Primitive::kMaximum ? Primitive::kGe : Primitive::kLe, dtype));
      code().op(Op::kSelect);
      break;
    case Primitive::kShiftLeft:
    case Primitive::kShiftRight:
      shift(primitive == Primitive::kShiftLeft, dtype, x);
      break;
    default:
      divide_or_raise(primitive, dtype, x);
  }
  wrap(dtype);
  return keep(dtype, 1);
}

// By as many bits as the number has or more: all of them leave. A negative shift is a large one.
void Arithmetic::shift(bool left, DType dtype, const std::vector<WasmValue>& x) {
  const bool is_long = dtype == DType::kI64;
  const int64_t bits = is_long ? 64 : 32;
  const auto fits = [&] {
    push(x[1]), push({is_long ? dtype : DType::kI32, 1, bits});
    code().op(is_long ? Op::kI64LtU : Op::kI32LtU);
  };
  if (left) {
    push(x[0]), push(x[1]);
    code().op(is_long ? Op::kI64Shl : Op::kI32Shl);
    push({dtype, 1, int64_t{0}});
    fits();
    return code().op(Op::kSelect);
  }
  push(x[0]), push(x[1]), push({dtype, 1, bits - 1});
  fits();
  code().op(Op::kSelect);
  code().op(is_long ? Op::kI64ShrS : Op::kI32ShrS);
}

// The smallest integer divided by -1 would be a trap: 64 bits hold it for all dtypes but i64.
void Arithmetic::divide_or_raise(Primitive primitive, DType dtype, const std::vector<WasmValue>& x) {
  check(primitive == Primitive::kTruncDiv || primitive == Primitive::kPow, "integers have no {}",
        definition_of(primitive).name);
  const bool is_long = dtype == DType::kI64, divides = primitive == Primitive::kTruncDiv;
  for (const WasmValue& value : x) {
    push(value);
    if (!is_long) code().op(Op::kI64ExtendI32);
  }
  if (divides && !is_long) {
    code().op(Op::kI64DivS);
  } else {
    const Signature signature{{ValueType::kI64, ValueType::kI64}, {ValueType::kI64}};
    code().op(Op::kCall, function_.module().import(divides ? "integer_quotient" : "integer_pow", signature));
  }
  if (!is_long) code().op(Op::kI32WrapI64);
}

// ---- vectors --------------------------------------------------------------------------------------------------------

bool Arithmetic::has_vector_form(const ScalarFn& fn, DType operands, DType result, int64_t lanes) const {
  const auto fits = [&](DType dtype) { return dtype == DType::kBool || lanes_for(dtype) == lanes; };
  const auto is_vector_step = [&](const ScalarStep& step) {
    if (!fits(dtype_of(step.type, operands))) return false;
    if (step.primitive == Primitive::kOperand || step.primitive == Primitive::kConstant) return true;
    const DType from = fn.operand_dtype(step, operands);
    if (step.primitive == Primitive::kWhere || step.primitive == Primitive::kWiden) return fits(from);
    if (from == DType::kF32 && has_vector_function(step.primitive)) return true;
    return fits(from) && vector_op(in_dtype(step.primitive, from), from) != kNo;
  };
  return fits(operands) && fits(result) && std::ranges::all_of(fn.steps(), is_vector_step);
}

WasmValue Arithmetic::vector_step(Primitive primitive, DType operands, DType result, const std::vector<WasmValue>& x) {
  for (const WasmValue& value : x) push(value);
  if (const Op op = vector_op(primitive, operands); op != kNo) {
    code().op(op);
    if (!compares(primitive)) wrap_vector(operands);
  } else {
    const auto [found, is_new] = vector_functions_.emplace(primitive, 0);
    if (is_new) found->second = add_vector_function(function_.module(), primitive);
    code().op(Op::kCall, found->second);
  }
  return keep(result, x[0].lanes);
}

void Arithmetic::wrap_vector(DType dtype) {
  if (!is_small_integer(dtype) || dtype == DType::kBool) return;
  if (dtype == DType::kU8) {
    push({DType::kI32, 4, int64_t{0xff}});
    return code().op(Op::kV128And);
  }
  const auto unused_bits = static_cast<int32_t>(32 - 8 * size_of(dtype));
  code().i32(unused_bits), code().op(Op::kI32x4Shl);
  code().i32(unused_bits), code().op(Op::kI32x4ShrS);
}

// ---- casts ----------------------------------------------------------------------------------------------------------

WasmValue Arithmetic::cast(const WasmValue& x, DType to) {
  if (x.dtype == to) return x;
  if (x.lanes > 1) return cast_vector(x, to);
  if (x.dtype == DType::kF16) {
    push(x);
    code().op(Op::kCall, function_.module().import("from_half", {{ValueType::kI32}, {ValueType::kF32}}));
    return cast(keep(DType::kF32, 1), to);
  }
  if (x.dtype == DType::kBF16) {
    push(x), code().i32(16), code().op(Op::kI32Shl), code().op(Op::kF32ReinterpretI32);
    return cast(keep(DType::kF32, 1), to);
  }
  if (to == DType::kBool) return step(Primitive::kNe, x.dtype, to, {x, {x.dtype, 1, number_of(x.dtype, 0)}});
  if (is_narrow_float(to)) {
    push(cast(x, DType::kF64));
    const std::string_view name = to == DType::kF16 ? "to_half" : "to_brain";
    code().op(Op::kCall, function_.module().import(name, {{ValueType::kF64}, {ValueType::kI32}}));
    return keep(to, 1);
  }
  return is_float(to) ? cast_to_real(x, to) : cast_to_integer(x, to);
}

WasmValue Arithmetic::cast_to_real(const WasmValue& x, DType to) {
  push(x);
  const bool is_double = to == DType::kF64;
  if (is_float(x.dtype)) {
    code().op(is_double ? Op::kF64PromoteF32 : Op::kF32DemoteF64);
  } else if (x.dtype == DType::kI64) {
    code().op(is_double ? Op::kF64ConvertI64 : Op::kF32ConvertI64);
  } else {
    code().op(is_double ? Op::kF64ConvertI32 : Op::kF32ConvertI32);
  }
  return keep(to, 1);
}

// NaN and what does not fit 64 bits give the smallest i64, which then wraps.
WasmValue Arithmetic::cast_to_integer(const WasmValue& x, DType to) {
  if (is_float(x.dtype)) {
    const WasmValue wide = cast(x, DType::kF64);
    push(wide), code().op(Op::kI64TruncSatF64), code().i64(kInt64Min);
    push(wide), code().op(Op::kF64Abs), code().f64(0x1p63), code().op(Op::kF64Lt), code().op(Op::kSelect);
    return cast(keep(DType::kI64, 1), to);
  }
  push(x);
  if (to == DType::kI64) {
    code().op(Op::kI64ExtendI32);
  } else {
    if (x.dtype == DType::kI64) code().op(Op::kI32WrapI64);
    wrap(to);
  }
  return keep(to, 1);
}

WasmValue Arithmetic::cast_vector(const WasmValue& x, DType to) {
  const bool from_mask = x.dtype == DType::kBool, from_integer = is_integral(x.dtype);
  const auto fits = [&](DType dtype) { return dtype == DType::kBool || lanes_for(dtype) == x.lanes; };
  if (!fits(x.dtype) || !fits(to) || (!from_integer && is_integral(to) && to != DType::kBool)) {
    return each_lane(to, x.lanes, [&](int64_t at) { return cast(lane(x, at), to); });
  }
  push(x);
  if (from_mask) {
    push({to, x.lanes, number_of(to, 1)});
    code().op(Op::kV128And);
  } else if (to == DType::kBool) {
    push({x.dtype, x.lanes, number_of(x.dtype, 0)});
    code().op(vector_op(Primitive::kNe, x.dtype));
  } else if (to == DType::kF32) {
    code().op(Op::kF32x4ConvertI32x4);
  } else {
    wrap_vector(to);
  }
  return keep(to, x.lanes);
}

WasmValue Arithmetic::bitcast(const WasmValue& x, DType to) {
  push(x);
  if (x.lanes == 1 && is_float(x.dtype) != is_float(to)) {
    if (to == DType::kF32) code().op(Op::kF32ReinterpretI32);
    if (to == DType::kF64) code().op(Op::kF64ReinterpretI64);
    if (x.dtype == DType::kF32) code().op(Op::kI32ReinterpretF32);
    if (x.dtype == DType::kF64) code().op(Op::kI64ReinterpretF64);
  }
  if (is_narrow_float(to)) code().i32(0xffff), code().op(Op::kI32And);
  wrap(to);
  return keep(to, x.lanes);
}

// ---- memory ---------------------------------------------------------------------------------------------------------

void Arithmetic::load(DType dtype, uint32_t offset) {
  constexpr std::array kLoads = {Op::kF64Load, Op::kF32Load,    Op::kI32Load16U, Op::kI32Load16U, Op::kI64Load,
                                 Op::kI32Load, Op::kI32Load16S, Op::kI32Load8S,  Op::kI32Load8U,  Op::kI32Load8U};
  code().memory(kLoads[static_cast<size_t>(dtype)], offset);
}

void Arithmetic::store(DType dtype, uint32_t offset) {
  constexpr std::array kStores = {Op::kF64Store, Op::kF32Store,   Op::kI32Store16, Op::kI32Store16, Op::kI64Store,
                                  Op::kI32Store, Op::kI32Store16, Op::kI32Store8,  Op::kI32Store8,  Op::kI32Store8};
  code().memory(kStores[static_cast<size_t>(dtype)], offset);
}

void Arithmetic::load_vector(DType dtype, uint32_t offset) {
  if (!is_small_integer(dtype)) return code().memory(Op::kV128Load, offset);
  const bool is_signed = dtype == DType::kI8 || dtype == DType::kI16;
  code().memory(size_of(dtype) == 1 ? Op::kV128Load32Zero : Op::kV128Load64Zero, offset);
  if (size_of(dtype) == 1) code().op(is_signed ? Op::kI16x8ExtendLowS : Op::kI16x8ExtendLowU);
  code().op(is_signed ? Op::kI32x4ExtendLowS : Op::kI32x4ExtendLowU);
  if (dtype != DType::kBool) return;
  push({DType::kI32, 4, int64_t{0}});
  code().op(Op::kI32x4Ne);
}

void Arithmetic::store_vector(const WasmValue& vector, uint32_t offset) {
  const DType dtype = vector.dtype;
  if (!is_small_integer(dtype)) {
    push(vector);
    return code().memory(Op::kV128Store, offset);
  }
  const WasmValue numbers = dtype == DType::kBool ? cast(vector, DType::kU8) : vector;
  push(numbers), push(numbers), code().op(Op::kI16x8NarrowS);
  if (size_of(dtype) == 2) return code().memory(Op::kV128Store64Lane, offset, 0);
  push(numbers), code().op(dtype == DType::kI8 ? Op::kI8x16NarrowS : Op::kI8x16NarrowU);
  code().memory(Op::kV128Store32Lane, offset, 0);
}

}  // namespace tenon::wasm
