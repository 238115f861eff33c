// Inside of codegen: numbers of every dtype as LLVM values, and the elementwise ops of the table on them.
//
// In a register bool is i1, and f16 and bf16 are i16: their bits. In memory bool is a byte. A value is one number or a
// vector of lanes; the operands of an op have the same number of lanes.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <span>

#include "codegen/target.h"
#include "loops/ir.h"

namespace tenon::codegen {

int64_t lanes_of(const llvm::Value* value);

class Values {
 public:
  Values(llvm::IRBuilderBase& builder, const Target& target) : b_(builder), target_(target) {}

  // Round to bf16 by the machine's instruction, which takes subnormal numbers for 0. For kernels whose products do so.
  bool flushes_subnormals = false;

  llvm::Type* type(DType dtype, int64_t lanes = 1) const;
  llvm::Type* memory_type(DType dtype, int64_t lanes = 1) const;
  llvm::Value* from_memory(llvm::Value* value, DType dtype);
  llvm::Value* to_memory(llvm::Value* value, DType dtype);

  llvm::Value* literal(DType dtype, const loops::Scalar& value, int64_t lanes = 1) const;
  llvm::Value* splat(llvm::Value* value, int64_t lanes);  // itself where it has them already

  llvm::Value* apply(const OpDef& op, DType operands, std::span<llvm::Value* const> x);
  llvm::Value* cast(llvm::Value* x, DType from, DType to);
  llvm::Value* bits_as(llvm::Value* x, DType from, DType to);
  llvm::Value* mul_add(llvm::Value* x, llvm::Value* y, llvm::Value* z);  // of floats; may round once or twice
  llvm::Value* fold_lanes(const OpDef& op, DType dtype, llvm::Value* x);
  // Folds a value into a total of a dtype that may be wider.
  llvm::Value* added(const OpDef& op, llvm::Value* total, DType wide, llvm::Value* value, DType dtype);

 private:
  using Operands = std::span<llvm::Value* const>;

  llvm::Value* apply(Primitive primitive, DType dtype, Operands x);
  llvm::Value* real(Primitive primitive, Operands x);
  llvm::Value* integer(Primitive primitive, DType dtype, Operands x);
  llvm::Value* compare(Primitive primitive, DType dtype, Operands x);
  llvm::Value* quotient(Primitive primitive, DType dtype, llvm::Value* x, llvm::Value* y);
  llvm::Value* shift(Primitive primitive, DType dtype, llvm::Value* x, llvm::Value* y);
  llvm::Value* integer_pow(DType dtype, llvm::Value* x, llvm::Value* y);
  llvm::Value* extreme(llvm::Value* takes_second, llvm::Value* x, llvm::Value* y);
  llvm::Value* unary(llvm::Intrinsic::ID id, llvm::Value* x) { return b_.CreateUnaryIntrinsic(id, x); }

  llvm::Value* to_float(llvm::Value* x, DType from);  // f32, of f16 or bf16
  llvm::Value* to_narrow(llvm::Value* x, DType to);   // f16 or bf16, of f32 or f64
  llvm::Value* rounded_to_odd(llvm::Value* x);        // f64 as f32, so that rounding it again rounds once
  llvm::Value* half_from_float(llvm::Value* x);
  llvm::Value* float_from_half(llvm::Value* x);
  llvm::Value* brain_from_float(llvm::Value* x);
  llvm::Value* to_integer(llvm::Value* x, DType to);
  llvm::Value* to_byte(llvm::Value* x, DType to);
  llvm::Value* clamped_to_byte(llvm::Value* x, DType to);  // null if x is not cut off
  bool has_nearest(const llvm::Value* x) const;
  llvm::Value* saturated_byte(llvm::Value* x);
  llvm::Value* nearest(llvm::Value* x);

  llvm::Value* number(llvm::Type* type, double value) const { return llvm::ConstantFP::get(type, value); }
  llvm::Value* number(llvm::Type* type, int64_t value) const {
    return llvm::ConstantInt::get(type, static_cast<uint64_t>(value), true);
  }
  llvm::Type* like(llvm::Value* value, llvm::Type* element) const;  // as many lanes of another type

  llvm::IRBuilderBase& b_;
  const Target& target_;
};

}  // namespace tenon::codegen
