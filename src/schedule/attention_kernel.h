// Inside of schedule: what attention is made of, and attention by instructions that multiply tiles.
#pragma once

#include <utility>
#include <vector>

#include "schedule/contraction.h"

namespace tenon {

// The part of the schedule in which a node runs, in order.
enum class AttentionStage : uint8_t {
  kBefore,   // everything before attention
  kKeys,     // pack keys, once for all queries
  kValues,   // pack values, once for all queries
  kQueries,  // compute the queries of a block
  kScores,   // queries times keys, in register tiles
  kRaw,      // elementwise nodes on scores, right after their tile
  kRows,     // softmax, row by row
  kMix,      // weights times values, in register tiles
  kMixed,    // copies of those tiles to memory
  kEnd,      // everything after all blocks of keys
};

struct SumOfProducts {
  loops::NodeRef sum;
  loops::NodeRef product;
  loops::NodeRef a;
  loops::NodeRef b;
};

struct AttentionKernel {
  SumOfProducts scores;  // a: queries, b: keys
  SumOfProducts mix;     // a: weights, b: values
  Vars batch;
  loops::VarRef query = {};  // empty if its size is 1
  loops::VarRef block = {};  // empty if its size is 1
  loops::VarRef group = {};  // empty if its size is 1
  loops::VarRef lane = {};
  loops::VarRef features = {};
  loops::VarRef columns = {};  // features of values
  std::vector<std::pair<loops::NodeRef, AttentionStage>> stages = {};
  // By tiles:
  const TileIntrinsic* tile = nullptr;
  loops::VarRef key = {};              // groups and lanes as one variable, filled up to whole tiles: the mix folds it
  loops::NodeRef packed_weights = {};  // over this variable
};

// Makes the operands of both products narrow, if the machine multiplies tiles of them: scores are scaled after their
// sum, as the product of narrow queries and keys is exact; weights are rounded, as PyTorch does. Else changes nothing.
void take_tiles(loops::IR& ir, AttentionKernel& attention, const Machine& machine);

}  // namespace tenon
