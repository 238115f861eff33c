#include "backends/moved.h"

#include <gtest/gtest.h>

#include "backends/backend.h"

namespace tenon {
namespace {

Tensor counted(const Sizes& shape) {
  Tensor tensor = Tensor::zeros(DType::kF32, shape);
  for (int64_t i = 0; i < tensor.numel(); ++i) tensor.set_real(i, static_cast<double>(i + 1));
  return tensor;
}

loops::IR kernel(const std::string& lines) {
  return loops::parse("tenon loops 1\nkernel k {\n" + lines + "}\n").value();
}

void expect_moved(const loops::IR& ir, const Tensor& input) {
  const std::optional<Tensor> result = moved(ir, input);
  ASSERT_TRUE(result.has_value());
  const std::shared_ptr<const Backend> interpreter = find_backend("interpreter").value();
  const Tensor inputs[] = {input};
  const auto compiled = interpreter->compile(loops::LoopTree(ir)).value();
  EXPECT_TRUE(identical(*result, run(*compiled, ir, inputs).value()[0]));
}

// What the kernel reads comes back, and the rest is zero.
void expect_back(const loops::IR& ir, const Tensor& input, bool whole) {
  const Tensor result = moved(ir, input).value();
  const Tensor back = moved_back(ir, result).value();
  if (whole) EXPECT_TRUE(identical(back, input.copy()));
  EXPECT_TRUE(identical(moved(ir, back).value(), result));
}

TEST(Moved, PutsBlocksOneAfterTheOtherAndZerosIntoTheRest) {
  expect_moved(kernel(R"(
  var m = 10
  var k = 3
  var p = 3
  var q = 4
  %w: f32[m, k] = read 0
  %v: f32[p, k, q] = view %w[4*p + q, k] where 4*p + q in 10
  %o: f32[p, k, q] = write 0 (%v)
)"),
               counted({10, 3}));
}

TEST(Moved, FollowsViewsOfViews) {
  expect_moved(kernel(R"(
  var m = 6
  var k = 5
  var i = 4
  var j = 9
  %w: f32[m, k] = read 0
  %a: f32[k, i] = view %w[i + 1, 4 - k]
  %b: f32[i, j] = view %a[j - 2, 3 - i] where j - 2 in 5
  %o: f32[i, j] = write 0 (%b)
)"),
               counted({6, 5}));
}

TEST(Moved, ReadsInputsThatAreNotContiguous) {
  Tensor all = counted({4, 6});
  const Tensor part = Tensor::borrow(DType::kF32, {4, 3}, {6, 2}, all.data(), all.owner());
  expect_moved(kernel(R"(
  var m = 4
  var k = 3
  %w: f32[m, k] = read 0
  %v: f32[k, m] = view %w[m, k]
  %o: f32[k, m] = write 0 (%v)
)"),
               part);
}

TEST(Moved, LeavesWhatItCannotDo) {
  const Tensor input = counted({4, 4});
  const std::string head = "  var m = 4\n  var k = 4\n  %w: f32[m, k] = read 0\n";
  const std::string tail = "  %o: f32[m, k] = write 0 (%v)\n";
  for (const char* line : {
           "  %v: f32[m, k] = neg(%w)\n",                                        // computes
           "  %v: f32[m, k] = view %w[(m*k) // 4, k]\n",                         // is no sum
           "  %v: f32[m, k] = view %w[m, k + 1] where k + 1 in 4 else 1.0\n",    // is not zero elsewhere
           "  %v: f32[m, k] = view %w[m, k + 1] where k + 1 in 4 | %w[m, k]\n",  // has two pieces
       }) {
    EXPECT_FALSE(moved(kernel(head + line + tail), input).has_value()) << line;
  }
}

TEST(MovedBack, GivesTheInputAgain) {
  const loops::IR packed = kernel(R"(
  var m = 10
  var k = 3
  var p = 3
  var q = 4
  %w: f32[m, k] = read 0
  %v: f32[p, k, q] = view %w[4*p + q, k] where 4*p + q in 10
  %o: f32[p, k, q] = write 0 (%v)
)");
  expect_back(packed, counted({10, 3}), true);
  EXPECT_FALSE(moved_back(packed, counted({3, 3, 3})).has_value());
  expect_back(kernel(R"(
  var m = 6
  var k = 5
  var i = 4
  var j = 9
  %w: f32[m, k] = read 0
  %a: f32[k, i] = view %w[i + 1, 4 - k]
  %b: f32[i, j] = view %a[j - 2, 3 - i] where j - 2 in 5
  %o: f32[i, j] = write 0 (%b)
)"),
              counted({6, 5}), false);
}

}  // namespace
}  // namespace tenon
