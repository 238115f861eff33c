// Schedule edits as text: what a person types, what a search tries, and what is written down.
//
//     split 2 16                 the loop in line 2 of the tree, by 16
//     merge 2                    with the loop inside of it
//     swap 1 2                   two loops, or two nodes: swap %a %b
//     fuse 4                     with the loop before it
//     unfuse 2 5                 cuts the loop in line 2 before line 5
//     annotate 3 vectorize       parallel, vectorize, unroll, tile "name", none
//     order %p m by 8, n, m, k   the loops of one node, as in a kernel's text
//     copy %p %b 1               reads %b through a copy, made inside of the loop in line 1 (left out: of none)
//     delete %b_copy             the copy
//     split_node %c 2            folds the loop in line 2 in two stages
//
// Lines count from 0, as in LoopTree::dump: they are the numbers of TreeRefs.
#pragma once

#include "loops/schedule.h"

namespace tenon::loops {

Result<LoopTree> apply_edit(const LoopTree& tree, std::string_view edit);
std::string_view edit_help();  // the table above

}  // namespace tenon::loops
