// Objects of native code, for every architecture: they are linked, which relocates them, and never called.
#include "runtime/error.h"
#include "runtime/link_target.h"
#include "runtime/loader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tenon::runtime;
  for (const LinkTarget* target : {&kX86Link, &kArm64Link}) {
    try {
      LoadedCode::link({reinterpret_cast<const char*>(data), size}, *target);
    } catch (const StatusError&) {
    }
  }
  return 0;
}
