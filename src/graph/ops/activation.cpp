// Activation functions.
#include "graph/ops/common.h"

namespace tenon {

OpFamily activation_ops() { return {}; }

}  // namespace tenon
