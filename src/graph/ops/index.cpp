// Reading and writing at computed indices.
#include "graph/ops/common.h"

namespace tenon {

OpFamily index_ops() { return {}; }

}  // namespace tenon
