// Loads programs from artifacts (.tenon). Loading always verifies the container and its checksums, the tables, and that
// every kernel, slot, size and range of the weights fits the rest.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/calls.h"
#include "runtime/container.h"
#include "runtime/loaded_program.h"

namespace tenon::runtime {

class LoadedCode;

struct LoadOptions {
  bool native = true;           // false: make no code executable; run kernels on the portable interpreter
  std::string_view entry = {};  // a program of the file by name; empty: the first
  // "npu": a program with this device, or an error; "cpu": none with devices; empty: the first whose devices are there
  std::string_view device = {};
  CallFinder calls = {};
};

// The names of the file's programs, in order. A file with one program has "main".
std::vector<std::string> entry_names(const Container& container);

// Loads the first program with devices that are all in this process (runtime/device_variant.h), else the variant for
// the best CPU level that this machine supports; with `native` off, the first variant, without devices. If the file has
// code, but none for this CPU, throws TENON_UNSUPPORTED with the features that the CPU lacks.
std::shared_ptr<const LoadedProgram> load_program(std::shared_ptr<const Container> container,
                                                  const LoadOptions& options);

// Makes code of an object: LoadedCode::load, or for code that is only checked a function that links it for another
// architecture.
using LinkFunction = std::shared_ptr<const LoadedCode>(std::string_view object);

// A program of a file.
struct ProgramSections {
  const Container::Section* program = nullptr;
  const Container::Section* native = nullptr;         // null: portable kernels run
  std::vector<std::shared_ptr<Device>> devices = {};  // of its spaces; null: to verify it, not to run
  LinkFunction* link = nullptr;                       // of the objects of `native`; null: for this machine
};
// Throws a StatusError if there is no program, or if it breaks a rule of the format.
std::shared_ptr<const LoadedProgram> load_sections(std::shared_ptr<const Container> container,
                                                   const ProgramSections& sections, const CallFinder& calls);

// A position in the weights section. Throws a StatusError if it lies outside.
const std::byte* place_of(const format::Blob& blob, std::span<const std::byte> weights);

// Loads all programs, and checks that they agree about the states that they share.
struct Entry {
  std::string name;
  std::shared_ptr<const LoadedProgram> program;
};
std::vector<Entry> load_entries(const std::shared_ptr<const Container>& container, const LoadOptions& options);

}  // namespace tenon::runtime
