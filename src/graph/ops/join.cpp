// Concatenation and splitting.
#include "graph/ops/common.h"

namespace tenon {

OpFamily join_ops() { return {}; }

}  // namespace tenon
