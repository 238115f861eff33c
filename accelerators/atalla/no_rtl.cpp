#include "rtl.h"

namespace atalla {

std::optional<Machine> rtl_machine() { return std::nullopt; }

std::unique_ptr<Body> make_rtl_body(const Machine& /*machine*/, const BodyOptions& /*options*/, std::string& error) {
  error = "the body rtl is not built: verilator was missing; `make rtl` installs it and builds the body";
  return nullptr;
}

}  // namespace atalla
