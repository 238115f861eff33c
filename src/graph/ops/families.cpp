#include "graph/ops/families.h"

namespace tenon {

std::vector<OpFamily> op_families() {
  return {fill_ops(),      unary_ops(),       binary_ops(),  comparison_ops(),    select_ops(),   activation_ops(),
          reduction_ops(), scan_ops(),        softmax_ops(), normalization_ops(), matmul_ops(),   grouped_ops(),
          linalg_ops(),    convolution_ops(), pooling_ops(), attention_ops(),     resample_ops(), view_ops(),
          pad_ops(),       join_ops(),        index_ops(),   sort_ops(),          random_ops(),   external_ops()};
}

}  // namespace tenon
