// Pooling in one to three spatial dimensions.
#include "graph/ops/common.h"

namespace tenon {

OpFamily pooling_ops() { return {}; }

}  // namespace tenon
