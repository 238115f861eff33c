#include "capture/aten.h"
#include "capture/aten/families.h"

namespace tenon {

void add_index_entries(AtenTable&) {}

}  // namespace tenon
