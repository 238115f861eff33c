// Comparisons, and logic on truth values and bits.
#include "graph/ops/common.h"

namespace tenon {

OpFamily comparison_ops() { return {}; }

}  // namespace tenon
