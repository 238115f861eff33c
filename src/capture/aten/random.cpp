#include "capture/aten.h"
#include "capture/aten/families.h"

namespace tenon {

void add_random_entries(AtenTable&) {}

}  // namespace tenon
