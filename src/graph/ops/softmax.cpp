// Softmax and its kin.
#include "graph/ops/common.h"

namespace tenon {

OpFamily softmax_ops() { return {}; }

}  // namespace tenon
