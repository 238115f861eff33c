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

struct Function {
  Primitive primitive;
  Unary unary = nullptr;
  Binary binary = nullptr;  // where both are null, the runtime's function is called
};

constexpr Function kFunctions[] = {
    {Primitive::kExp, math::exp},
    {Primitive::kExp2, math::exp2},
    {Primitive::kExpm1, math::expm1},
    {Primitive::kLog, math::log},
    {Primitive::kLog2, math::log2},
    {Primitive::kLog10, math::log10},
    {Primitive::kLog1p, math::log1p},
    {Primitive::kSigmoid, math::sigmoid},
    {Primitive::kSin, math::sin},
    {Primitive::kCos, math::cos},
    {Primitive::kTan, math::tan},
    {Primitive::kAsin, math::asin},
    {Primitive::kAcos, math::acos},
    {Primitive::kAtan, math::atan},
    {Primitive::kSinh, math::sinh},
    {Primitive::kCosh, math::cosh},
    {Primitive::kTanh, math::tanh},
    {Primitive::kAsinh, math::asinh},
    {Primitive::kAcosh, math::acosh},
    {Primitive::kAtanh, math::atanh},
    {Primitive::kErf, math::erf},
    {Primitive::kErfc, math::erfc},
    {Primitive::kErfinv, math::erfinv},
    {Primitive::kPow, nullptr, math::pow},
    {Primitive::kAtan2, nullptr, math::atan2},
    {Primitive::kHypot, nullptr, math::hypot},
    {Primitive::kLogaddexp, nullptr, math::logaddexp},
    {Primitive::kLgamma},
    {Primitive::kDigamma},
    {Primitive::kTrigamma},
};

// Calls tenon_NAME_f32 or _f64.
llvm::Value* call_runtime(llvm::IRBuilderBase& builder, std::string_view name, llvm::Value* x) {
  llvm::Type* type = x->getType();
  const std::string symbol = fmt::format("tenon_{}_{}", name, type->isDoubleTy() ? "f64" : "f32");
  const auto callee = builder.GetInsertBlock()->getModule()->getOrInsertFunction(symbol, type, type);
  return builder.CreateCall(callee, {x});
}

llvm::Value* call_by_lane(llvm::IRBuilderBase& builder, std::string_view name, llvm::Value* x) {
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(x->getType());
  if (vector == nullptr) return call_runtime(builder, name, x);
  llvm::Value* result = llvm::PoisonValue::get(x->getType());
  for (unsigned lane = 0; lane < vector->getNumElements(); ++lane) {
    llvm::Value* one = call_runtime(builder, name, builder.CreateExtractElement(x, lane));
    result = builder.CreateInsertElement(result, one, lane);
  }
  return result;
}

}  // namespace

llvm::Value* emit_math(llvm::IRBuilderBase& builder, Primitive primitive, std::span<llvm::Value* const> operands,
                       const Target& target) {
  const auto* const function = std::ranges::find(kFunctions, primitive, &Function::primitive);
  check(function != std::end(kFunctions), "{} is no function of math", definition_of(primitive).name);
  const llvm::IRBuilderBase::FastMathFlagGuard guard(builder);
  builder.clearFastMathFlags();
  MathContext context{builder, target};
  const Real x{{&context, operands[0]}};
  if (function->unary != nullptr) return function->unary(x).value;
  if (function->binary != nullptr) return function->binary(x, {{&context, operands[1]}}).value;
  if (target.arch == Arch::kPtx) fail("{} has no code for a GPU", definition_of(primitive).name);
  return call_by_lane(builder, definition_of(primitive).name, operands[0]);
}

}  // namespace tenon::codegen
