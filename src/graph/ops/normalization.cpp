// Normalizations.
#include "graph/ops/common.h"

namespace tenon {

OpFamily normalization_ops() { return {}; }

}  // namespace tenon
