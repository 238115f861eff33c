#include "codegen/math.h"

#include <fmt/format.h>
#include <llvm/IR/Module.h>

#include <algorithm>

#include "codegen/math_functions.h"
#include "support/diagnostic.h"

namespace tenon::codegen {
namespace {

using Unary = Real (*)(Real);
using Binary = Real (*)(Real, Real);

Real reciprocal(Real x) { return 1 / x; }
Real rsqrt(Real x) { return 1 / sqrt(x); }

struct Function {
  std::string_view name;
  Unary unary = nullptr;
  Binary binary = nullptr;  // where both are null, the runtime's function is called
};

constexpr Function kFunctions[] = {
    {"sqrt", sqrt},
    {"rsqrt", rsqrt},
    {"reciprocal", reciprocal},
    {"exp", math::exp},
    {"exp2", math::exp2},
    {"expm1", math::expm1},
    {"log", math::log},
    {"log2", math::log2},
    {"log10", math::log10},
    {"log1p", math::log1p},
    {"sigmoid", math::sigmoid},
    {"sin", math::sin},
    {"cos", math::cos},
    {"tan", math::tan},
    {"asin", math::asin},
    {"acos", math::acos},
    {"atan", math::atan},
    {"sinh", math::sinh},
    {"cosh", math::cosh},
    {"tanh", math::tanh},
    {"asinh", math::asinh},
    {"acosh", math::acosh},
    {"atanh", math::atanh},
    {"erf", math::erf},
    {"erfc", math::erfc},
    {"erfinv", math::erfinv},
    {"pow", nullptr, math::pow},
    {"atan2", nullptr, math::atan2},
    {"hypot", nullptr, math::hypot},
    {"logaddexp", nullptr, math::logaddexp},
    {"lgamma"},
    {"digamma"},
    {"trigamma"},
};

const Function* find(std::string_view op) {
  const auto* found = std::ranges::find(kFunctions, op, &Function::name);
  return found == std::end(kFunctions) ? nullptr : found;
}

// Calls tenon_NAME_f32 or _f64.
llvm::Value* call_runtime(llvm::IRBuilderBase& builder, std::string_view op, llvm::Value* x) {
  llvm::Type* type = x->getType();
  const std::string name = fmt::format("tenon_{}_{}", op, type->isDoubleTy() ? "f64" : "f32");
  const auto callee = builder.GetInsertBlock()->getModule()->getOrInsertFunction(name, type, type);
  return builder.CreateCall(callee, {x});
}

llvm::Value* call_by_lane(llvm::IRBuilderBase& builder, std::string_view op, llvm::Value* x) {
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(x->getType());
  if (vector == nullptr) return call_runtime(builder, op, x);
  llvm::Value* result = llvm::PoisonValue::get(x->getType());
  for (unsigned lane = 0; lane < vector->getNumElements(); ++lane) {
    llvm::Value* one = call_runtime(builder, op, builder.CreateExtractElement(x, lane));
    result = builder.CreateInsertElement(result, one, lane);
  }
  return result;
}

}  // namespace

bool is_math(std::string_view op) { return find(op) != nullptr; }

size_t math_operands(std::string_view op) {
  const Function* function = find(op);
  check(function != nullptr, "{} is no function of math", op);
  return function->binary != nullptr ? 2 : 1;
}

llvm::Value* emit_math(llvm::IRBuilderBase& builder, std::string_view op, std::span<llvm::Value* const> operands,
                       const Target& target) {
  check(operands.size() == math_operands(op), "{} has {} operands", op, operands.size());
  const Function* function = find(op);
  const llvm::IRBuilderBase::FastMathFlagGuard guard(builder);
  builder.clearFastMathFlags();
  MathContext context{builder, target};
  const Real x{{&context, operands[0]}};
  if (function->unary != nullptr) return function->unary(x).value;
  if (function->binary != nullptr) return function->binary(x, {{&context, operands[1]}}).value;
  return call_by_lane(builder, op, operands[0]);
}

}  // namespace tenon::codegen
