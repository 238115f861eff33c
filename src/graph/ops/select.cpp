// Choosing between values: where, clamp and their kin.
#include "graph/ops/common.h"

namespace tenon {

OpFamily select_ops() { return {}; }

}  // namespace tenon
