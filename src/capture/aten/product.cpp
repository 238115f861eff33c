#include "capture/aten.h"
#include "capture/aten/families.h"

namespace tenon {

void add_product_entries(AtenTable&) {}

}  // namespace tenon
