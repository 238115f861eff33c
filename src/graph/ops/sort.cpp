// Ops whose result order or size depends on the data.
#include "graph/ops/common.h"

namespace tenon {

OpFamily sort_ops() { return {}; }

}  // namespace tenon
