#include "codegen/math.h"

#include <llvm/IR/Module.h>

#include <algorithm>

#include "codegen/values.h"

namespace tenon::codegen {

using llvm::Value;

namespace {

constexpr std::string_view kLibm[] = {"exp",   "exp2",  "expm1", "log",  "log2", "log10", "log1p", "sin",
                                      "cos",   "tan",   "asin",  "acos", "atan", "sinh",  "cosh",  "tanh",
                                      "asinh", "acosh", "atanh", "erf",  "erfc", "pow",   "atan2", "hypot"};

}  // namespace

bool is_math(std::string_view op) {
  return std::ranges::find(kLibm, op) != std::end(kLibm) || op == "sigmoid" || op == "rsqrt" || op == "reciprocal";
}

// Lane by lane, through libm.
Value* emit_math(llvm::IRBuilderBase& b, std::string_view op, std::span<Value* const> x, const Target& target) {
  llvm::Type* const type = x[0]->getType();
  Value* const one = llvm::ConstantFP::get(type, 1.0);
  if (op == "reciprocal") return b.CreateFDiv(one, x[0]);
  if (op == "rsqrt") return b.CreateFDiv(one, b.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, x[0]));
  if (op == "sigmoid") {
    Value* const minus = b.CreateFNeg(x[0]);
    return b.CreateFDiv(one, b.CreateFAdd(one, emit_math(b, "exp", {&minus, 1}, target)));
  }
  llvm::Type* const element = type->getScalarType();
  const std::vector<llvm::Type*> types(x.size(), element);
  llvm::Module* const module = b.GetInsertBlock()->getModule();
  const llvm::FunctionCallee callee = module->getOrInsertFunction(std::string(op) + (element->isFloatTy() ? "f" : ""),
                                                                  llvm::FunctionType::get(element, types, false));
  if (lanes_of(x[0]) == 1) return b.CreateCall(callee, std::vector<Value*>(x.begin(), x.end()));
  Value* result = llvm::PoisonValue::get(type);
  for (int64_t lane = 0; lane < lanes_of(x[0]); ++lane) {
    std::vector<Value*> arguments;
    for (Value* operand : x) arguments.push_back(b.CreateExtractElement(operand, static_cast<uint64_t>(lane)));
    result = b.CreateInsertElement(result, b.CreateCall(callee, arguments), static_cast<uint64_t>(lane));
  }
  return result;
}

}  // namespace tenon::codegen
