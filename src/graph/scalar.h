// The computation of an elementwise op: an expression over one element of each operand, made of primitives.
//
//     .semantics = real_elementwise([](ScalarTerm x) { return 1 / sqrt(x); })
//
// Primitives are a closed list (primitives.inc). Each code generator implements a primitive once, and what it makes of
// an op follows from the op's expression:
//   - the reference evaluates it in double, or in int64 that wraps to the dtype after each primitive;
//   - cpp_text.cpp prints it as C++, also for the table of the runtime's interpreter;
//   - codegen/values.cpp makes machine code of it, for all targets.
// An expression computes in f32, f64, an integer dtype or bool; f16 and bf16 are cast to f32 before it. A comparison
// gives bool. Generated code rounds a float after each primitive: an expression that needs more digits widens its
// operands.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "graph/dtype.h"

namespace tenon {

// What an element costs.
enum class Cost : uint8_t {
  kFree,       // nothing is computed: a fill, a view, a reshape
  kOperation,  // one or a few instructions: plus, times, compare, select
  kFunction,   // exp, tanh, ...
  kExpensive,  // a call for each lane, or a loop: not worth computing twice
  kRandom,
  kProduct,  // a sum of products: the record's `flops` counts them
};

// ---- primitives -----------------------------------------------------------------------------------------------------

enum class Primitive : uint8_t {
  kOperand,
  kConstant,
  kWiden,  // a float as f64, an integer as it is
#define BOTH(id, name, count, cost, lanes, real, integer) id,
#define REAL(id, name, count, cost, lanes, real) id,
#define INTEGER(id, name, count, cost, lanes, integer) id,
#include "graph/primitives.inc"
};

enum class PrimitiveLanes : uint8_t { kSame, kMask, kEach };

struct PrimitiveDef {
  std::string_view name;  // also that of the op which is nothing else, and of a row in the interpreter's table
  size_t operands;
  Cost cost;
  PrimitiveLanes lanes;
  std::string_view real;     // C++ text; empty where it has no meaning
  std::string_view integer;  // likewise
};

const PrimitiveDef& definition_of(Primitive primitive);

// The primitive that it is in a dtype: of bools, plus is or, and times is and.
Primitive in_dtype(Primitive primitive, DType dtype);

// ---- expressions ----------------------------------------------------------------------------------------------------

enum class ScalarType : uint8_t { kNumber, kWide, kTruth };

// The dtype of a term where the op computes in `compute`.
DType dtype_of(ScalarType type, DType compute);

// One primitive of terms before it.
struct ScalarStep {
  Primitive primitive;
  ScalarType type;
  std::array<uint8_t, 3> operands = {};  // which steps; of kOperand, which operand
  double number = 0;                     // of kConstant
};

class ScalarFn;

// A value inside of an expression under construction.
struct ScalarTerm {
  ScalarFn* fn;
  uint8_t step;
};

class ScalarFn {
 public:
  ScalarFn() = default;  // has no meaning: the op does not compute in this domain

  // Of a Primitive, or of a function over one to three terms. With `selects`, operand 0 is a truth value.
  template <class Body>
  static ScalarFn make(Body body, bool selects = false);

  explicit operator bool() const { return !steps_.empty(); }
  size_t arity() const { return arity_; }
  std::span<const ScalarStep> steps() const { return steps_; }  // the operands come first
  size_t result() const { return result_; }                     // which step it is
  Cost cost() const;                                            // of its dearest primitive
  std::optional<Primitive> primitive() const;  // where it is one primitive of the operands in their order
  bool divides_by_operand() const;             // In integers, operand 1 must not be 0.
  DType operand_dtype(const ScalarStep& step, DType compute) const;  // in which a step computes

  double operator()(const double* x) const;
  int64_t operator()(const int64_t* x, DType dtype = DType::kI64) const;  // an Error for a division by zero

  uint8_t add(Primitive primitive, std::initializer_list<uint8_t> operands);
  uint8_t add_constant(double number, ScalarTerm beside);  // of the type of another term

 private:
  template <class T>
  T evaluate(const T* x, DType dtype) const;

  size_t arity_ = 0;
  size_t result_ = 0;
  std::vector<ScalarStep> steps_;
};

// A second operand: a term, or a plain number that takes the type of the first operand.
struct ScalarOperand {
  ScalarOperand(ScalarTerm x) : term(x) {}        // NOLINT(google-explicit-constructor)
  ScalarOperand(double x) : term{}, number(x) {}  // NOLINT(google-explicit-constructor)
  ScalarTerm beside(ScalarTerm x) const {
    return term.fn != nullptr ? term : ScalarTerm{x.fn, x.fn->add_constant(number, x)};
  }

  ScalarTerm term;
  double number = 0;
};

ScalarTerm apply(Primitive primitive, ScalarTerm x);
ScalarTerm apply(Primitive primitive, ScalarTerm x, ScalarOperand y);
ScalarTerm where(ScalarTerm condition, ScalarOperand x, ScalarOperand y);

inline ScalarTerm operator+(ScalarTerm x, ScalarOperand y) { return apply(Primitive::kAdd, x, y); }
inline ScalarTerm operator-(ScalarTerm x, ScalarOperand y) { return apply(Primitive::kSub, x, y); }
inline ScalarTerm operator*(ScalarTerm x, ScalarOperand y) { return apply(Primitive::kMul, x, y); }
inline ScalarTerm operator/(ScalarTerm x, ScalarOperand y) { return apply(Primitive::kDiv, x, y); }
inline ScalarTerm operator/(double x, ScalarTerm y) { return ScalarOperand(x).beside(y) / y; }
inline ScalarTerm operator==(ScalarTerm x, ScalarOperand y) { return apply(Primitive::kEq, x, y); }
inline ScalarTerm operator!=(ScalarTerm x, ScalarOperand y) { return apply(Primitive::kNe, x, y); }
inline ScalarTerm operator<(ScalarTerm x, ScalarOperand y) { return apply(Primitive::kLt, x, y); }
inline ScalarTerm operator>(ScalarTerm x, ScalarOperand y) { return apply(Primitive::kGt, x, y); }
inline ScalarTerm operator&(ScalarTerm x, ScalarTerm y) { return apply(Primitive::kBitwiseAnd, x, y); }
inline ScalarTerm operator^(ScalarTerm x, ScalarTerm y) { return apply(Primitive::kBitwiseXor, x, y); }
inline ScalarTerm widen(ScalarTerm x) { return apply(Primitive::kWiden, x); }
inline ScalarTerm sqrt(ScalarTerm x) { return apply(Primitive::kSqrt, x); }
inline ScalarTerm floor(ScalarTerm x) { return apply(Primitive::kFloor, x); }
inline ScalarTerm trunc(ScalarTerm x) { return apply(Primitive::kTrunc, x); }
inline ScalarTerm fmod(ScalarTerm x, ScalarTerm y) { return apply(Primitive::kFmod, x, y); }
inline ScalarTerm trunc_div(ScalarTerm x, ScalarTerm y) { return apply(Primitive::kTruncDiv, x, y); }

template <class Body>
ScalarFn ScalarFn::make(Body body, bool selects) {
  ScalarFn fn;
  const auto operand = [&] {
    const auto number = static_cast<uint8_t>(fn.arity_++);
    const ScalarType type = selects && number == 0 ? ScalarType::kTruth : ScalarType::kNumber;
    fn.steps_.push_back({Primitive::kOperand, type, {number}});
    return ScalarTerm{&fn, number};
  };
  if constexpr (std::is_same_v<Body, std::nullptr_t>) {
    return fn;
  } else if constexpr (std::is_same_v<Body, Primitive>) {
    const size_t count = definition_of(body).operands;
    for (size_t i = 0; i < count; ++i) operand();
    fn.result_ = count == 1 ? fn.add(body, {0}) : count == 2 ? fn.add(body, {0, 1}) : fn.add(body, {0, 1, 2});
  } else if constexpr (std::is_invocable_v<Body, ScalarTerm>) {
    fn.result_ = body(operand()).step;
  } else if constexpr (std::is_invocable_v<Body, ScalarTerm, ScalarTerm>) {
    const ScalarTerm x = operand(), y = operand();
    fn.result_ = body(x, y).step;
  } else {
    const ScalarTerm x = operand(), y = operand(), z = operand();
    fn.result_ = body(x, y, z).step;
  }
  return fn;
}

}  // namespace tenon
