// Schedule edits as text, for people, for the search, and for files.
//
// edit_help() lists the edits. Lines of LoopTree::dump are numbered from 0. The number of a line is the id of its
// TreeRef.
#pragma once

#include "loops/schedule.h"

namespace tenon::loops {

Result<LoopTree> apply_edit(const LoopTree& tree, std::string_view edit);
std::string_view edit_help();  // one line for each edit: an example, and its effect

}  // namespace tenon::loops
