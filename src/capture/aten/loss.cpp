#include "capture/aten.h"
#include "capture/aten/families.h"

namespace tenon {

void add_loss_entries(AtenTable&) {}

}  // namespace tenon
