// Views: the same elements under other indices.
#include "graph/ops/common.h"

namespace tenon {

OpFamily view_ops() { return {}; }

}  // namespace tenon
