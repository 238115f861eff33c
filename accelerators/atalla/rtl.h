// The RTL under Verilator (rtl.cpp), or the reason why it is not there (no_rtl.cpp).
#pragma once

#include "body.h"

namespace atalla {

std::unique_ptr<Body> make_rtl_body(const Machine& machine, const BodyOptions& options, std::string& error);

}  // namespace atalla
