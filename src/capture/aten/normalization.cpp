#include "capture/aten.h"
#include "capture/aten/families.h"

namespace tenon {

void add_normalization_entries(AtenTable&) {}

}  // namespace tenon
