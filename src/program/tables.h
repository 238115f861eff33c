// A program as the tables of the artifact (format/program.fbs), which the runtime runs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "program/program.h"

namespace tenon {

struct ByteRange {  // of the weights section
  uint64_t offset = 0;
  uint64_t size = 0;
};

// What tables for a file say more than those for this process.
struct FileTables {
  std::vector<ByteRange> constants;
  std::vector<ByteRange> leaves;        // become the states of contexts; in this process they are further inputs
  std::vector<std::string> kernels;     // portable, by task
  std::optional<uint32_t> key = {};     // the input that random numbers come from
  std::vector<std::string> calls = {};  // the arguments of external calls as text, by task
};

// Bytes of FlatBuffers. The same program gives the same bytes.
std::string program_tables(const Program& program, const FileTables* file = nullptr);

// How the sizes of inputs tell their symbols. Throws an Error for one that they do not tell.
std::vector<SymbolBinding> bind_symbols(const Graph& graph);

}  // namespace tenon
