// Sizes, and numbers that are computed from them.
#include "capture/aten.h"
#include "capture/aten/families.h"

namespace tenon {

void add_symbolic_entries(AtenTable& table) {
  table.add("aten.sym_size.int(self, dim)", [](AtenCall& c) -> AtenArg {
    const Value x = c.tensor();
    return x.size(normalize_dim(c.integer("dim"), x.rank()));
  });
}

}  // namespace tenon
