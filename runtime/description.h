// A program as JSON: what a page needs to draw it (web/explorer.mjs). For people; the format of files is another thing.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/loaded_program.h"

namespace tenon::runtime {

std::string json_string(std::string_view text);  // with quotes; text is UTF-8

std::vector<std::string> ops_of(const TaskGraph& graph, uint32_t task);  // what the task computes
std::string place_of(const TaskGraph& graph, uint32_t task);             // "model.py:12", where in the model; or empty

// The loops of a task as text, empty where it has none.
using LoopsOf = std::function<std::string(uint32_t task)>;

// Of a program from a file: kernel_text.h writes them.
LoopsOf loops_of_file(const TaskGraph& graph);

//     {"name": "main", "inputs": [{"name": "x", "slot": 0}], "outputs": ..., "states": ..., "symbols": ...,
//      "slots": [{"name": "", "type": "f32[2, 4]", "kind": "temporary", "root": 3, "bytes": 32, "offset": 0,
//                 "first": 0, "last": 1}],
//      "tasks": [{"name": "relu", "kind": "kernel", "ops": ["relu"], "place": "", "inputs": [0], "outputs": [3],
//                 "device": "", "loops": 0}],
//      "loops": ["for v0 in 8 ..."], "plan": {"bytes": 64, "least": 64}}
//
// Slots name tasks by number: `first` writes them, and `last` reads them last. Sizes and the plan of memory follow from
// `frame`; without one, as for sizes that no run has set yet, they are -1 and null. Tasks with the same loops share
// their text. The names of slots are those of constants: `names`, in the order of constants, or none.
std::string describe_program(const TaskGraph& graph, const Frame* frame, const LoopsOf& loops_of,
                             const std::vector<std::string>& names = {});

// The names of the constants of a program from a file, in order: that of the parameter or buffer whose bytes they are,
// in the graph that the file holds for the program. Empty for a constant that was computed from others, and for bytes
// that several share. No names at all where the section is no such graph.
std::vector<std::string> constant_names(const TaskGraph& graph, std::span<const std::byte> graph_section);

}  // namespace tenon::runtime
