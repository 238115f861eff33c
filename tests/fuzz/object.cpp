// Objects of native code: they are loaded, which relocates them, and never called.
#include "runtime/error.h"
#include "runtime/loader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    tenon::runtime::LoadedCode::load({reinterpret_cast<const char*>(data), size});
  } catch (const tenon::runtime::StatusError&) {
  }
  return 0;
}
