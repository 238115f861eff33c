// Checksums put right again: whoever changes a file can do that too, so that what is behind them must hold.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "format/container.h"

namespace tenon::golden {

// Of the sections that lie in the file, and of the header. Bytes that are no artifact stay as they are.
void seal(std::span<std::byte> file);

struct Piece {
  format::Section section;  // its kind, flags and name
  std::vector<std::byte> bytes;
};
std::vector<Piece> pieces_of(std::span<const std::byte> file);  // of a whole artifact
std::vector<std::byte> joined(const std::vector<Piece>& pieces);

// Runs a loaded file on the portable interpreter, with inputs made from its own description. Anything may fail, but
// only with a status; a run takes at most so much memory and so many steps. Returns whether it was accepted.
struct Outcome {
  bool is_accepted = false;  // by the verifier
  bool has_run = false;      // to its end
};
Outcome try_file(std::span<const std::byte> file);
// The same with its programs for devices. The file must have no machine code: it would run.
Outcome try_devices(std::span<const std::byte> file);

// A device "null", version 1, that runs nothing: launches leave memory as it is. Devices trust their code, as CPUs do;
// all around it must hold.
void load_null_device();

// The call golden.scale: three times its input. Inputs and results of other sizes, as mutants ask for, are zeros.
void load_scale_call();

}  // namespace tenon::golden
