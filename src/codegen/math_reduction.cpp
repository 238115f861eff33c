#include "codegen/math_reduction.h"

#include <fmt/format.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>

#include <array>
#include <bit>
#include <numbers>

#include "codegen/math_tables.h"

namespace tenon::codegen::math {
namespace {

constexpr double kTwoOverPiRounded = 2 * std::numbers::inv_pi;

// ---- numbers of usual size ------------------------------------------------------------------------------------------

double largest_usual(Real x) { return x.pick(1e5, 1.5e6); }

struct Whole {
  Real number;
  Bits bits;  // the lowest ones are the number's
};

Whole quadrants(Real x) {
  const double rounder = x.pick(0x1.8p23, 0x1.8p52);
  const Real sum = mul_add(x, kTwoOverPiRounded, rounder);
  return {sum - rounder, bits_of(sum)};
}

// x - n pi/2 is exact in the first part of pi/2, for its digits end where those of x do.
Angle reduce_with_fma(Real x, const double* half_pi) {
  const Whole n = quadrants(x);
  const Real close = mul_add(n.number, -half_pi[0], x);
  const TwoReals product = two_product(n.number, x.constant(half_pi[1]));
  const TwoReals rest = two_sum(close, -product.high);
  return {rest.high, mul_add(n.number, -half_pi[2], rest.low - product.low), n.bits};
}

// The first three parts have so few digits that products with n are exact.
Angle reduce_without_fma(Real x) {
  const Whole n = quadrants(x);
  const Real close = x - n.number * kHalfPiShort[0];
  const TwoReals second = two_sum(close, n.number * -kHalfPiShort[1]);
  const TwoReals third = two_sum(second.high, n.number * -kHalfPiShort[2]);
  return {third.high, (second.low + third.low) - n.number * kHalfPiShort[3], n.bits};
}

Bits to_32_bits(Bits x, llvm::Type* like) { return {{x.context, x.builder().CreateTrunc(x.value, like)}}; }

Angle to_f32(const Angle& angle, llvm::Type* bits_type) {
  const Real rest = codegen::to_f32(angle.rest);
  const Real low = (angle.rest - to_f64(rest)) + angle.low;
  return {rest, codegen::to_f32(low), to_32_bits(angle.quadrant, bits_type)};
}

Angle reduce_usual(Real x) {
  if (x.context->target.has_fma) return reduce_with_fma(x, x.is_f64() ? kHalfPiF64 : kHalfPiF32);
  if (x.is_f64()) return reduce_without_fma(x);
  return to_f32(reduce_without_fma(to_f64(x)), bits_of(x).value->getType());
}

// ---- large numbers (Payne and Hanek): of 2/pi, as a long binary fraction, only some digits count
// ---------------------

constexpr int kWindow = 8;    // of 32 bits each
constexpr int kProducts = 6;  // of the product's, from those of weight 1 down
constexpr uint64_t kLow32 = 0xffffffff;

llvm::GlobalVariable* digits_of_two_over_pi(llvm::Module& module) {
  constexpr const char* kName = "tenon.two_over_pi";
  if (auto* found = module.getGlobalVariable(kName, true)) return found;
  llvm::Constant* digits = llvm::ConstantDataArray::get(module.getContext(), llvm::ArrayRef<uint32_t>(kTwoOverPi));
  auto* global =
      new llvm::GlobalVariable(module, digits->getType(), true, llvm::GlobalValue::InternalLinkage, digits, kName);
  global->setAlignment(llvm::Align(64));
  return global;
}

Bits shift_left(Bits x, Bits count) { return {{x.context, x.builder().CreateShl(x.value, count.value)}}; }

llvm::Value* load_digits(llvm::IRBuilderBase& b, llvm::Value* pointer) {
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(pointer->getType());
  if (vector == nullptr) return b.CreateAlignedLoad(b.getInt32Ty(), pointer, llvm::Align(4));
  auto* type = llvm::FixedVectorType::get(b.getInt32Ty(), vector->getNumElements());
  return b.CreateMaskedGather(type, pointer, llvm::Align(4));
}

// Those from `index` on. Each lane has an index of its own.
std::array<Bits, kWindow> load_window(Bits index) {
  llvm::IRBuilderBase& b = index.builder();
  llvm::Value* table = digits_of_two_over_pi(*b.GetInsertBlock()->getModule());
  std::array<Bits, kWindow> window;
  for (int i = 0; i < kWindow; ++i) {
    llvm::Value* pointer = b.CreateGEP(b.getInt32Ty(), table, (index + i).value);
    llvm::Value* digits = load_digits(b, pointer);
    window[i] = {{index.context, b.CreateZExt(digits, index.value->getType())}};
  }
  return window;
}

// The digits of weight 1, 2^-32, ... of the mantissa, shifted, times the window. What is above is whole multiples of 4.
std::array<Bits, kProducts> multiply(const std::array<Bits, 3>& mantissa, const std::array<Bits, kWindow>& window) {
  const Bits zero = mantissa[0].constant(0);
  std::array<Bits, kProducts + 1> sums;
  sums.fill(zero);
  for (int k = 0; k < kProducts; ++k) {
    for (int p = 0; p < 3; ++p) {
      const Bits product = mantissa[p] * window[k + p];
      sums[k] = sums[k] + (product & kLow32);
      if (k > 0) sums[k - 1] = sums[k - 1] + (product >> 32);
    }
  }
  std::array<Bits, kProducts> digits;
  Bits carry = zero;
  for (int k = kProducts; k-- > 0;) {
    const Bits sum = sums[k] + carry;
    digits[k] = sum & kLow32;
    carry = sum >> 32;
  }
  return digits;
}

// 32 bits as a number of that weight.
Real to_real(Bits digits, double weight) {
  return (real_of(digits | std::bit_cast<uint64_t>(0x1p52)) - 0x1p52) * weight;
}

// 0.d1 d2 d3 d4, as two numbers.
TwoReals to_two_reals(const std::array<Bits, kProducts>& d) {
  const TwoReals upper = fast_two_sum(to_real(d[1], 0x1p-32), to_real(d[2], 0x1p-64));
  const TwoReals lower = fast_two_sum(to_real(d[3], 0x1p-96), to_real(d[4], 0x1p-128));
  const TwoReals middle = two_sum(upper.low, lower.high);
  const TwoReals sum = fast_two_sum(upper.high, middle.high);
  return {sum.high, sum.low + (middle.low + lower.low)};
}

TwoReals times_half_pi(const TwoReals& x) {
  const TwoReals product = two_product(x.high, x.high.constant(kHalfPiF64[0]));
  const Real low = mul_add(x.low, kHalfPiF64[0], mul_add(x.high, kHalfPiF64[1], product.low));
  return fast_two_sum(product.high, low);
}

// Of x >= 1 in f64.
Angle reduce_large(Real x) {
  constexpr int kDigitsBefore = 64;  // of the table, before the point, less 32
  const Bits bits = bits_of(x);
  const Bits position = (bits >> 52) - (1075 - kDigitsBefore);
  const Bits shift = position & 31;
  const Bits mantissa = (bits & 0xfffffffffffff) | uint64_t{1} << 52;
  const Bits low = shift_left(mantissa & kLow32, shift), high = shift_left(mantissa >> 32, shift) + (low >> 32);
  std::array<Bits, kProducts> digits = multiply({low & kLow32, high & kLow32, high >> 32}, load_window(position >> 5));
  // From 1/2 on, the distance to the next quadrant is less: 1 - 0.d1 d2..., but for one in the last place.
  const Bits above_half = digits[1] >> 31;
  const Bits quadrant = digits[0] + above_half;
  const Bits inverter = (above_half.constant(0) - above_half) & kLow32;
  for (Bits& d : digits) d = d ^ inverter;
  const TwoReals rest = times_half_pi(to_two_reals(digits));
  const Bits sign = above_half << 63;
  return {flip(rest.high, sign), flip(rest.low, sign), quadrant};
}

// ---- both -----------------------------------------------------------------------------------------------------------

// A function of the module that takes x in f64, so that each use is a call, and most are none at run time.
llvm::Function* large_function(Real x) {
  llvm::IRBuilderBase& b = x.builder();
  llvm::Function* caller = b.GetInsertBlock()->getParent();
  llvm::Module& module = *caller->getParent();
  llvm::Type* real = x.value->getType();
  llvm::Type* integer = bits_of(x).value->getType();
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(real);
  const std::string name = fmt::format("tenon.reduce_angle.{}", vector == nullptr ? 1 : vector->getNumElements());
  if (llvm::Function* found = module.getFunction(name)) return found;
  auto* type = llvm::FunctionType::get(llvm::StructType::get(real, real, integer), {real}, false);
  auto* function = llvm::Function::Create(type, llvm::GlobalValue::InternalLinkage, name, module);
  function->addFnAttrs(llvm::AttrBuilder(b.getContext(), caller->getAttributes().getFnAttrs()));
  function->addFnAttr(llvm::Attribute::NoInline);
  llvm::IRBuilder<> body(llvm::BasicBlock::Create(b.getContext(), "entry", function));
  MathContext context{body, x.context->target};
  const Angle angle = reduce_large({{&context, function->getArg(0)}});
  llvm::Value* results[] = {angle.rest.value, angle.low.value, angle.quadrant.value};
  body.CreateAggregateRet(results, 3);
  return function;
}

Angle call_for_large(Real x) {
  const Mask is_large = x > largest_usual(x);
  const Real argument = select(is_large, x, 0x1p30);
  const Real wide = x.is_f64() ? argument : to_f64(argument);
  llvm::IRBuilderBase& b = x.builder();
  llvm::Value* results = b.CreateCall(large_function(wide), {wide.value});
  const Angle angle = {{{x.context, b.CreateExtractValue(results, 0)}},
                       {{x.context, b.CreateExtractValue(results, 1)}},
                       {{x.context, b.CreateExtractValue(results, 2)}}};
  return x.is_f64() ? angle : to_f32(angle, bits_of(x).value->getType());
}

llvm::Value* any(Mask mask) {
  return mask.value->getType()->isVectorTy() ? mask.builder().CreateOrReduce(mask.value) : mask.value;
}

}  // namespace

Angle reduce_angle(Real x) {
  llvm::IRBuilderBase& b = x.builder();
  const Angle usual = reduce_usual(x);
  const Mask is_large = x > largest_usual(x);
  llvm::BasicBlock* before = b.GetInsertBlock();
  auto* large_block = llvm::BasicBlock::Create(b.getContext(), "large_angle", before->getParent());
  auto* after = llvm::BasicBlock::Create(b.getContext(), "angle", before->getParent());
  b.CreateCondBr(any(is_large), large_block, after, llvm::MDBuilder(b.getContext()).createBranchWeights(1, 1000));

  b.SetInsertPoint(large_block);
  const Angle large = call_for_large(x);
  const Real rest = select(x < kInfinity, select(is_large, large.rest, usual.rest), kNan);
  const Real low = select(is_large, large.low, usual.low);
  const Bits quadrant = select(is_large, large.quadrant, usual.quadrant);
  b.CreateBr(after);

  b.SetInsertPoint(after);
  const auto join = [&](llvm::Value* first, llvm::Value* second) {
    llvm::PHINode* phi = b.CreatePHI(first->getType(), 2);
    phi->addIncoming(first, before);
    phi->addIncoming(second, large_block);
    return phi;
  };
  return {{{x.context, join(usual.rest.value, rest.value)}},
          {{x.context, join(usual.low.value, low.value)}},
          {{x.context, join(usual.quadrant.value, quadrant.value)}}};
}

}  // namespace tenon::codegen::math
