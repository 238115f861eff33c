// Machine code of other CPUs does not run here.
#include "runtime/loader.h"

#include "runtime/error.h"

namespace tenon::runtime {

std::shared_ptr<const LoadedCode> LoadedCode::load(std::string_view, std::string_view) {
  fail(TENON_UNSUPPORTED, "machine code of x86-64 does not run on this machine");
}

LoadedCode::LoadedCode(size_t size) : memory_(nullptr), size_(size) {}
LoadedCode::~LoadedCode() = default;

void* LoadedCode::address(std::string_view name) const {
  fail(TENON_BAD_FILE, "the object has no symbol '", name, "'");
}

}  // namespace tenon::runtime
