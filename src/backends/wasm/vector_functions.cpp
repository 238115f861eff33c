#include "backends/wasm/vector_functions.h"

#include <span>

#include "support/diagnostic.h"

namespace tenon::wasm {
namespace {

// Writes a function of one vector x. All its locals are vectors.
class Writer {
 public:
  static constexpr uint32_t kX = 0;

  uint32_t local() { return locals_++; }
  void get(uint32_t local) { code_.op(Op::kGet, local); }
  void set(uint32_t local) { code_.op(Op::kSet, local); }
  void op(Op op) { code_.op(op); }
  void call(uint32_t function) { code_.op(Op::kCall, function); }

  void real(double value) {
    code_.f32(static_cast<float>(value));
    code_.op(Op::kF32x4Splat);
  }
  void integer(int32_t value) {
    code_.i32(value);
    code_.op(Op::kI32x4Splat);
  }
  void shift(Op op, int32_t bits) {
    code_.i32(bits);
    code_.op(op);
  }
  // The value on the stack and a number.
  void with(Op op, double value) {
    real(value);
    code_.op(op);
  }

  // coefficients[0] + x * (coefficients[1] + x * ...)
  void polynomial(uint32_t x, std::span<const double> coefficients) {
    real(coefficients.back());
    for (size_t i = coefficients.size() - 1; i-- > 0;) {
      get(x), op(Op::kF32x4Mul);
      with(Op::kF32x4Add, coefficients[i]);
    }
  }

  uint32_t add_to(WasmModule& module) const {
    const Signature signature{{ValueType::kV128}, {ValueType::kV128}};
    return module.add(signature, std::vector(locals_ - 1, ValueType::kV128), code_);
  }

 private:
  Code code_;
  uint32_t locals_ = 1;  // x is the first
};

// 2^n, of integers from -126 to 127: the bits of an exponent.
void power_of_two(Writer& w) {
  w.integer(127), w.op(Op::kI32x4Add);
  w.shift(Op::kI32x4Shl, 23);
}

// exp(x) = 2^n * exp(r), |r| <= log(2) / 2. 2^n is a product of two, since it may be smaller than a normal float.
uint32_t add_exp(WasmModule& module) {
  constexpr double kLog2E = 1.4426950408889634, kHigh = 0.693359375, kLow = -2.1219444005469057e-4;  // of log(2)
  constexpr double kTaylor[] = {1, 1, 1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040};
  Writer w;
  const uint32_t n = w.local(), r = w.local(), half = w.local();
  w.get(Writer::kX), w.with(Op::kF32x4Min, 89), w.with(Op::kF32x4Max, -104), w.set(r);
  w.get(r), w.with(Op::kF32x4Mul, kLog2E), w.op(Op::kF32x4Nearest), w.set(n);
  for (double part : {kHigh, kLow}) {
    w.get(r), w.get(n), w.with(Op::kF32x4Mul, part), w.op(Op::kF32x4Sub), w.set(r);
  }
  w.get(n), w.op(Op::kI32x4TruncSatF32x4), w.set(n);
  w.get(n), w.shift(Op::kI32x4ShrS, 1), w.set(half);
  w.polynomial(r, kTaylor);
  w.get(half), power_of_two(w), w.op(Op::kF32x4Mul);
  w.get(n), w.get(half), w.op(Op::kI32x4Sub), power_of_two(w), w.op(Op::kF32x4Mul);
  return w.add_to(module);
}

uint32_t add_sigmoid(WasmModule& module) {
  const uint32_t exp = add_exp(module);
  Writer w;
  w.real(1);
  w.get(Writer::kX), w.op(Op::kF32x4Neg), w.call(exp), w.with(Op::kF32x4Add, 1);
  w.op(Op::kF32x4Div);
  return w.add_to(module);
}

// Near 0 a polynomial, of x^2, since 1 - exp(-2|x|) loses digits there: a least-squares fit of tanh(x) / x.
uint32_t add_tanh(WasmModule& module) {
  constexpr double kSmall = 0.65;
  constexpr double kFit[] = {1, -0.33333211, 0.13330022, -0.05363675, 0.02033145, -0.00538293};
  const uint32_t exp = add_exp(module);
  Writer w;
  const uint32_t size = w.local(), square = w.local(), power = w.local();
  w.get(Writer::kX), w.op(Op::kF32x4Abs), w.set(size);
  w.get(Writer::kX), w.get(Writer::kX), w.op(Op::kF32x4Mul), w.set(square);
  w.get(size), w.with(Op::kF32x4Mul, -2), w.call(exp), w.set(power);
  w.get(Writer::kX), w.polynomial(square, kFit), w.op(Op::kF32x4Mul);
  w.real(1), w.get(power), w.op(Op::kF32x4Sub);
  w.get(power), w.with(Op::kF32x4Add, 1), w.op(Op::kF32x4Div);
  w.get(Writer::kX), w.integer(INT32_MIN), w.op(Op::kV128And), w.op(Op::kV128Or);  // with the sign of x
  w.get(size), w.with(Op::kF32x4Lt, kSmall);
  w.op(Op::kV128Bitselect);
  return w.add_to(module);
}

}  // namespace

bool has_vector_function(Primitive primitive) {
  return primitive == Primitive::kExp || primitive == Primitive::kSigmoid || primitive == Primitive::kTanh;
}

uint32_t add_vector_function(WasmModule& module, Primitive primitive) {
  check(has_vector_function(primitive), "there is no vector function {}", definition_of(primitive).name);
  if (primitive == Primitive::kExp) return add_exp(module);
  return primitive == Primitive::kSigmoid ? add_sigmoid(module) : add_tanh(module);
}

}  // namespace tenon::wasm
