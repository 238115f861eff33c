// Replaces files atomically.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace tenon::runtime {

using Pieces = std::span<const std::span<const std::byte>>;

// Writes the pieces to a new file beside `path`, and renames it: readers see the old content or the new one. A symbolic
// link stays a link. With `durable`, this also holds after a power failure: when the function returns, the file is on
// the disk. A process that is killed meanwhile leaves PATH.tmp.PID.NUMBER behind.
//
// Throws a StatusError. The old file is then unchanged, and the new one removed, unless only flushing the folder
// failed: then the new file is in place.
void replace_file(const std::string& path, Pieces pieces, bool durable);

}  // namespace tenon::runtime
