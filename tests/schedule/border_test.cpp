#include "schedule/border.h"

#include <gtest/gtest.h>

namespace tenon {
namespace {

loops::IR kernel(const std::string& view) {
  return loops::parse(
             "tenon loops 1\nkernel k {\n  symbol N in [1, 64]\n  var c = 3\n  var h = N\n  var w = 7\n"
             "  var y = N\n  var x = 4\n  var i = 3\n  var j = 3\n  %a: f32[c, h, w] = read 0\n  " +
             view + "\n  %s: f32[c, y, x] = reduce add(%v)\n  %o: f32[c, y, x] = write 0 (%s)\n}\n")
      .value();
}

std::optional<std::string> bordered(const std::string& view) {
  const loops::IR ir = kernel(view);
  const std::optional<loops::IR> result = with_border(ir, *ir.node_named("v"));
  if (!result) return {};
  std::string lines;
  for (const char* name : {"v_border", "v_window"}) lines += to_string(*result, *result->node_named(name)) + "\n";
  return lines;
}

TEST(Border, MovesTheGuardsOfAWindowIntoACopy) {
  EXPECT_EQ(bordered("%v: f32[c, y, x, i, j] = view %a[c, i + y - 1, j + 2*x - 1] where i + y - 1 in N and "
                     "j + 2*x - 1 in 7 else -inf"),
            "%v_border: f32[c, p, p1] = view %a[c, p - 1, p1 - 1] where p - 1 in N and p1 - 1 in 7 else -inf\n"
            "%v_window: f32[c, y, x, i, j] = view %v_border[c, i + y, j + 2*x] else -inf\n");
}

TEST(Border, KeepsViewsAsTheyAre) {
  EXPECT_FALSE(bordered("%v: f32[c, y, x, i, j] = view %a[c, y, j + x]")) << "no guards";
  EXPECT_FALSE(bordered("%v: f32[c, y, x, i, j] = view %a[c, y, j + x] where i + j in 4")) << "not along a dimension";
  EXPECT_FALSE(bordered("%v: f32[c, y, x, i, j] = view %a[c, y, (x + j) // 2] where (x + j) // 2 in 2"))
      << "no sum of variables";
}

}  // namespace
}  // namespace tenon
