// Schedule edits as text, for people, for the search, and for files.
//
//     split 2 16                 splits the loop in line 2 by 16
//     merge 2                    merges the loop in line 2 with the loop inside of it
//     swap 1 2                   exchanges two loops, or two nodes: swap %a %b
//     fuse 4                     joins the loop in line 4 with the loop before it
//     unfuse 2 5                 cuts the loop in line 2 before line 5
//     annotate 3 vectorize       or: parallel, unroll, tile "name", none
//     order %p m by 8, n, m, k   sets the loops of one node, from the outside in
//     copy %p %b 1               %p reads %b through a copy, made in the loop in line 1 (no line: before all loops)
//     delete %b_copy             removes a copy
//     split_node %c 2            folds the loop in line 2 in two stages
//
// Lines of LoopTree::dump are numbered from 0. The number of a line is the id of its TreeRef.
#pragma once

#include "loops/schedule.h"

namespace tenon::loops {

Result<LoopTree> apply_edit(const LoopTree& tree, std::string_view edit);
std::string_view edit_help();  // the table above

}  // namespace tenon::loops
