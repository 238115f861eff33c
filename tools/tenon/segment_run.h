// A segment of a device by itself, outside of its model.
#pragma once

#include <span>
#include <vector>

#include "backends/device_backend.h"

namespace tenon::cli {

using Bytes = std::vector<std::byte>;

// The segment with all that its nodes compute as outputs.
Graph with_all_values(const Graph& segment);

// The values that are buffers of a launch, in order: leaves, then outputs.
std::vector<ValueRef> buffers_of(const Graph& segment);

// The values of symbols that give the sizes of a launch.
symbolic::Bindings bindings_of(const std::vector<Expr>& launch_sizes, std::span<const int64_t> values);

// Compiles a segment for a device and launches it once. `inputs` are its leaves, in order. Gives the other buffers.
// Throws an Error if the launch fails.
std::vector<Bytes> run_segment(const DeviceBackend& backend, const Graph& segment, std::span<const Bytes> inputs,
                               const symbolic::Bindings& sizes);

}  // namespace tenon::cli
