// Files that are there whole or not at all.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace tenon::runtime {

using Pieces = std::span<const std::span<const std::byte>>;

// Writes the pieces, one after the other, to a new file beside `path`, and renames it: whoever reads sees the old
// content or the new one. A link stays a link. With `durable` this holds when the machine goes down, too: what has
// returned is on the disk. Who is killed meanwhile leaves PATH.tmp.PID.NUMBER behind.
//
// Throws a StatusError; then the old file is there, and nothing beside it. (But where only the folder could not be
// brought to the disk, the new one is there.)
void replace_file(const std::string& path, Pieces pieces, bool durable);

}  // namespace tenon::runtime
