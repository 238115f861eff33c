// Loads programs from artifacts (.tenon). Loading always verifies the container and its checksums, the tables, and that
// every kernel, slot, size and range of the weights fits the rest.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/container.h"
#include "runtime/loaded_program.h"

namespace tenon::runtime {

struct LoadOptions {
  bool native = true;  // false: make no code executable; run kernels on the portable interpreter
  // load the code of this CPU level even if this machine cannot run it: to verify, not to run
  std::string_view level = {};
  std::string_view entry = {};  // a program of the file by name; empty: the first
};

// The names of the file's programs, in order. A file with one program has "main".
std::vector<std::string> entry_names(const Container& container);

// Loads the variant for the best CPU level that this machine supports; with `native` off, the first variant. If the
// file has code, but none for this CPU, throws TENON_UNSUPPORTED with the features that the CPU lacks.
std::shared_ptr<const LoadedProgram> load_program(std::shared_ptr<const Container> container,
                                                  const LoadOptions& options);

// A position in the weights section. Throws a StatusError if it lies outside.
const std::byte* place_of(const format::Blob& blob, std::span<const std::byte> weights);

// Loads all programs, and checks that they agree about the states that they share.
struct Entry {
  std::string name;
  std::shared_ptr<const LoadedProgram> program;
};
std::vector<Entry> load_entries(const std::shared_ptr<const Container>& container, const LoadOptions& options);

}  // namespace tenon::runtime
