// Checks what a program that was read must satisfy, without knowing any op.
#pragma once

#include <string_view>

#include "capture/pt2/pt2.h"

namespace tenon::pt2 {

// Every name is defined once, before it is used, and has a type; the signature fits the graph; what the signature needs
// is among the weights and constants, with the type that the graph says. Throws an Error that names the place in
// `entry`, the program's JSON.
void verify(const ExportedProgram& program, std::string_view entry);

}  // namespace tenon::pt2
