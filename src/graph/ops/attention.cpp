// Scaled dot-product attention.
#include "graph/ops/common.h"

namespace tenon {

OpFamily attention_ops() { return {}; }

}  // namespace tenon
