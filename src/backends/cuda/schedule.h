// The schedule of a kernel for a GPU.
//
//   - A large sum of products becomes a product of cuBLASLt, if its operands are in memory as matrices. Where they are
//     not, they are computed to scratch memory first.
//   - Loops whose iterations are independent, without loops inside, run on the threads of all blocks.
//   - Rows that are folded, normalized or scanned: a block for each row, or a thread where rows are short.
#pragma once

#include "loops/loop_tree.h"

namespace tenon {

struct CudaScheduleOptions {
  int64_t least_product = 1 << 14;  // multiplications of a product that is worth a call of cuBLASLt
  int64_t least_spread = 16;        // iterations of a loop that is worth the threads of a block
  int64_t column_part = 1 << 7;     // elements of a column that a thread folds
  int64_t many_columns = 1 << 16;   // from which a thread for each column keeps the GPU busy
  int64_t many_rows = 1 << 12;      // from which a thread for each row keeps the GPU busy
};

loops::LoopTree schedule_cuda(const loops::IR& kernel, const CudaScheduleOptions& options = {});

}  // namespace tenon
