// Malformed texts of kernels: tests/loops/malformed/*.txt.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "loops/ir.h"
#include "tests/support/support_malformed.h"

namespace tenon::loops {
namespace {

TEST(MalformedLoops, EveryCaseIsRejectedWhereItIsWrong) {
  const std::vector<test::MalformedCase> cases = test::malformed_cases("tests/loops/malformed");
  for (const test::MalformedCase& c : cases) test::expect_rejected(c, parse(c.text, c.file));
  EXPECT_GT(cases.size(), 300u);
}

constexpr std::string_view kWhole = R"(tenon loops 1
kernel whole {
  symbol N in [1, 64]
  var m = 16
  var k = N  # a comment
  var o = 8
  var j = 4
  %x: f32[m, k] = read 0
  %i: i64[o] = read 1
  %c: f32[] = constant 0.5
  %d: f32[] = constant nan(0x7ff8000000000001)
  %e: i64[k] = index 2*k + 1
  %p: f32[m, k] = mul(%x, %c) for m by 8 parallel, m, new k unroll
  %q: i32[m, k] = cast(%p) for m, k tile "amx"
  %s: f32[m] = reduce add(%p) for m, k by 10, k vectorize
  %t: f32[m, k] = scan add(%p) along k for m, k
  %v: f32[o, k] = view %x[2*o + 1, k] | %x[r + o - 1, k] where r + o - 1 in 16 and o in 9 else 1.5 with r = %i in 16 for o, k
  %w: f32[m, k] = scatter add(%t, %v) at [r, k] with r = %i in 16 for o, k
  %u: f32[m] = scatter set(%s, %s) at [m] where m in 3
  %out: f32[m, k] = write 0 (%w) for m, k
  order %p, %s, %u, %q, %t, %v, %w, %out
})";

// A changed text may happen to be a kernel, which then round trips; if it is not, the diagnostic has a place in it.
void expect_sound(const std::string& text) {
  const Result<IR> ir = parse(text);
  if (!ir.ok()) return test::expect_place_inside(ir.diagnostic(), text);
  const Result<IR> again = parse(to_string(*ir));
  ASSERT_TRUE(again.ok()) << again.diagnostic().text() << "\n" << text;
  EXPECT_EQ(*again, *ir) << text;
}

TEST(MalformedLoops, EveryPrefixIsRejected) {
  ASSERT_TRUE(parse(kWhole).ok()) << parse(kWhole).diagnostic().text();
  for (size_t size = 0; size < kWhole.size(); ++size) {
    const std::string prefix(kWhole.substr(0, size));
    EXPECT_FALSE(parse(prefix).ok()) << prefix;
    expect_sound(prefix);
  }
}

TEST(MalformedLoops, EveryChangedByteIsSound) {
  for (const std::string& text : test::with_changed_bytes(kWhole)) expect_sound(text);
}

TEST(MalformedLoops, EveryDeletedOrRepeatedStretchIsSound) {
  for (const std::string& text : test::with_changed_stretches(kWhole)) expect_sound(text);
}

TEST(MalformedLoops, DepthAndLengthAreBounded) {
  const auto with_line = [](const std::string& line) { return "tenon loops 1\nkernel k {\n  " + line + "\n}"; };
  for (std::string_view opening : {"(", "min(", "-(", "2*(", "1 + max(3, "}) {
    for (std::string_view start : {"var m = ", "%i: i64[] = index "}) {
      const Result<IR> ir = parse(with_line(std::string(start) + test::repeat(opening, 100000)));
      ASSERT_FALSE(ir.ok());
      EXPECT_THAT(ir.diagnostic().message, testing::HasSubstr("nests deeper")) << opening;
    }
  }
  expect_sound(with_line("var m = " + test::repeat("-", 100000) + "N"));
  expect_sound(with_line("var m = " + test::repeat("N + ", 100000) + "N"));
  expect_sound(with_line("var m = " + test::repeat("N // ", 300) + "N"));
  expect_sound(with_line("var m = 3\n%x: f32[m] = read 0\n%y: f32[m] = exp(%x) for " + test::repeat("m, ", 100000)));
  expect_sound(with_line("var m = 3\n%x: f32[m] = read 0\norder " + test::repeat("%x, ", 100000)));
  expect_sound(test::repeat("tenon loops 1\n", 10000));
  expect_sound("tenon loops 1\nkernel " + std::string(1000000, 'k') + " {\n}");
}

TEST(MalformedLoops, AChainOfManyNodesParsesAndPrints) {
  std::string text = "tenon loops 1\nkernel k {\n  var m = 3\n  %n0: f32[m] = read 0\n";
  for (int i = 1; i < 3000; ++i) text += fmt::format("  %n{}: f32[m] = neg(%n{}) for m\n", i, i - 1);
  text += "}\n";
  EXPECT_EQ(to_string(parse(text).value()), text);
}

}  // namespace
}  // namespace tenon::loops
