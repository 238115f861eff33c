#include "backends/library_task.h"

#include "graph/library_call.h"
#include "runtime/library.h"

namespace tenon {

LibraryTaskFn find_library_task(const OpDef& op) {
  return runtime::find_library_function(op.name.get()) ? run_library_function : nullptr;
}

}  // namespace tenon
