#include "graph/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

namespace tenon {
namespace {

double through(DType dtype, double value) {
  std::byte element[8] = {};
  store_real(dtype, element, value);
  return load_real(dtype, element);
}

TEST(DType, NamesRoundTrip) {
  for (DType dtype : kAllDTypes) EXPECT_EQ(dtype_named(name_of(dtype)), dtype);
  EXPECT_EQ(dtype_named("f33"), std::nullopt);
}

TEST(DType, PromotesAsPyTorch) {
  EXPECT_EQ(promote(DType::kU8, DType::kI8), DType::kI16);
  EXPECT_EQ(promote(DType::kI8, DType::kU8), DType::kI16);
  EXPECT_EQ(promote(DType::kU8, DType::kI32), DType::kI32);
  EXPECT_EQ(promote(DType::kF16, DType::kBF16), DType::kF32);
  EXPECT_EQ(promote(DType::kI64, DType::kF16), DType::kF16);
  EXPECT_EQ(promote(DType::kBool, DType::kI8), DType::kI8);
  EXPECT_EQ(promote(DType::kF32, DType::kF64), DType::kF64);
  for (DType a : kAllDTypes) {
    EXPECT_EQ(promote(a, a), a);
    for (DType b : kAllDTypes) EXPECT_EQ(promote(a, b), promote(b, a));
  }
}

// Every f16 and bf16 value survives a store and a load.
TEST(DType, HalfFormatsAreExact) {
  for (DType dtype : {DType::kF16, DType::kBF16}) {
    for (uint32_t pattern = 0; pattern < 65536; ++pattern) {
      const auto bits = static_cast<uint16_t>(pattern);
      std::byte element[2];
      std::memcpy(element, &bits, 2);
      const double value = load_real(dtype, element);
      store_real(dtype, element, value);
      uint16_t stored;
      std::memcpy(&stored, element, 2);
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(load_real(dtype, element)));
      } else {
        ASSERT_EQ(stored, bits) << name_of(dtype);
      }
    }
  }
}

TEST(DType, RoundsToNearestEvenOnce) {
  EXPECT_EQ(through(DType::kBF16, 1.0 + 0x1p-8), 1.0);  // a tie goes to even
  EXPECT_EQ(through(DType::kBF16, 1.0 + 3 * 0x1p-8), 1.0 + 0x1p-6);
  EXPECT_EQ(through(DType::kBF16, 1.0 + 0x1p-8 + 0x1p-40), 1.0 + 0x1p-7) << "rounding through f32 would give the tie";
  EXPECT_EQ(through(DType::kF16, 65519.9), 65504.0);
  EXPECT_EQ(through(DType::kF16, 65520.0), HUGE_VAL);
  EXPECT_EQ(through(DType::kF16, 0x1p-24), 0x1p-24);
  EXPECT_EQ(through(DType::kF16, 0x1p-25), 0.0);
  EXPECT_EQ(through(DType::kF32, 1e39), HUGE_VAL);
  EXPECT_EQ(through(DType::kF32, 3.4028235677973366e38), HUGE_VAL) << "halfway to the next power of two";
  EXPECT_EQ(through(DType::kF32, 3.4028235677973360e38), static_cast<double>(0x1.FFFFFEp127f));
  EXPECT_TRUE(std::signbit(through(DType::kBF16, -0.0)));
}

TEST(DType, IntegersWrapAndFloatsTruncate) {
  EXPECT_EQ(wrap_to(DType::kI8, 130), -126);
  EXPECT_EQ(wrap_to(DType::kU8, -1), 255);
  EXPECT_EQ(wrap_to(DType::kBool, -7), 1);
  EXPECT_EQ(truncate_to_integer(-2.9), -2);
  EXPECT_EQ(truncate_to_integer(std::nan("")), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(truncate_to_integer(0x1p63), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(truncate_to_integer(-0x1p63), std::numeric_limits<int64_t>::min());
}

}  // namespace
}  // namespace tenon
