// Artifacts without code for this CPU.
#pragma once

#include <memory>
#include <vector>

#include "runtime/container.h"
#include "support/diagnostic.h"

namespace tenon {

// The same file with code for this CPU, compiled anew from its graphs.
Result<std::vector<std::byte>> recompiled_artifact(const std::shared_ptr<const runtime::Container>& container);

}  // namespace tenon
