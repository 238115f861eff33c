// Convolutions in one to three spatial dimensions.
#include "graph/ops/common.h"

namespace tenon {

OpFamily convolution_ops() { return {}; }

}  // namespace tenon
