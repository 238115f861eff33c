// Loads programs from artifacts (.tenon). Everything is verified, always: the container and its checksums, the tables,
// and that every kernel, slot, size and stretch of the weights fits the others.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/container.h"
#include "runtime/loaded_program.h"

namespace tenon::runtime {

struct LoadOptions {
  bool native = true;           // false: no code is made executable; kernels run on the portable interpreter
  std::string_view level = {};  // of that CPU level, whether or not this machine is it: to verify, not to run
  std::string_view entry = {};  // which of the file's programs; the first where it is empty
};

// The programs of a file, in its order: "main" where it has just one.
std::vector<std::string> entry_names(const Container& container);

// The variant of the best CPU level that this machine is, or with `native` off the first one. Throws a StatusError:
// TENON_UNSUPPORTED, naming what this CPU lacks, where there is code but none for it.
std::shared_ptr<const LoadedProgram> load_program(std::shared_ptr<const Container> container,
                                                  const LoadOptions& options);

// Where in the weights. Throws a StatusError for what is not in them.
const std::byte* place_of(const format::Blob& blob, std::span<const std::byte> weights);

// All of them, which agree about the states that they share.
struct Entry {
  std::string name;
  std::shared_ptr<const LoadedProgram> program;
};
std::vector<Entry> load_entries(const std::shared_ptr<const Container>& container, const LoadOptions& options);

}  // namespace tenon::runtime
