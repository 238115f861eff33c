#include "runtime/shared.h"

namespace tenon::runtime {

std::shared_ptr<void> owned(void* object, void (*destroy)(void* object)) { return {object, destroy}; }

}  // namespace tenon::runtime
