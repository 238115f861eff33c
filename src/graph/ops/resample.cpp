// Resizing and sampling of images.
#include "graph/ops/common.h"

namespace tenon {

OpFamily resample_ops() { return {}; }

}  // namespace tenon
