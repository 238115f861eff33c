// What shares memory with its first argument in PyTorch.
#include "capture/aten.h"
#include "capture/aten/families.h"

namespace tenon {
namespace {

// The new value of self, for views that show all its elements in their order.
Value write_reshaped(AtenCall& c, Value value) { return c.reshape(value, c.tensor().shape()); }

}  // namespace

void add_view_entries(AtenTable& table) {
  table.view(
      "aten.view.default(self, size)",
      [](AtenCall& c) -> AtenArg { return c.op("reshape", {c.tensor()}, {{"shape", c.sizes("size")}}); },
      write_reshaped);
  table.view(
      "aten.select.int(self, dim, index)",
      [](AtenCall& c) -> AtenArg {
        return c.op("select", {c.tensor()}, {{"dim", c.integer("dim")}, {"index", c.size("index")}});
      },
      [](AtenCall& c, Value value) {
        return c.op("select_scatter", {c.tensor(), value}, {{"dim", c.integer("dim")}, {"index", c.size("index")}});
      });
  table.view("aten.permute.default(self, dims)",
             [](AtenCall& c) -> AtenArg { return c.permute(c.tensor(), c.ints("dims")); });
}

}  // namespace tenon
