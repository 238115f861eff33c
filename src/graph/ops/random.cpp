// Counter-based random numbers.
#include "graph/ops/common.h"

namespace tenon {

OpFamily random_ops() { return {}; }

}  // namespace tenon
