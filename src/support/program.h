// Other programs of this machine.
#pragma once

#include <string>

namespace tenon {

// Whether the first word of the command is a program: a path, or a name on the PATH.
bool can_run(const std::string& command);

}  // namespace tenon
