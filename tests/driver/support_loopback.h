// The plug-in accelerators/loopback, as the build made it.
#pragma once

#include <string>

namespace tenon::test {

std::string loopback_path();
void load_loopback();  // once or more

}  // namespace tenon::test
