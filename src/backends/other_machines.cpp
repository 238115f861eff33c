#include "backends/other_machines.h"

#include <utility>

namespace tenon {

static thread_local bool is_for_others = false;

ForOtherMachines::ForOtherMachines() : around_(std::exchange(is_for_others, true)) {}
ForOtherMachines::~ForOtherMachines() { is_for_others = around_; }
bool ForOtherMachines::is_on() { return is_for_others; }

}  // namespace tenon
