// Scans along a dimension.
#include "graph/ops/common.h"

namespace tenon {

OpFamily scan_ops() { return {}; }

}  // namespace tenon
