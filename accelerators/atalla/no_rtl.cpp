#include "rtl.h"

namespace atalla {

bool has_rtl() { return false; }

std::unique_ptr<Body> make_rtl_body(const Machine& /*machine*/, const BodyOptions& /*options*/, std::string& error) {
  error = "the body rtl is not built: verilator was missing; `make rtl` installs it and builds the body";
  return nullptr;
}

}  // namespace atalla
