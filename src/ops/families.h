// The records of the op table, file by file, in the order of docs/ops.md. A new file adds its function here and in
// table.cpp.
#pragma once

#include <vector>

namespace tenon {

struct OpDef;

namespace ops {

using OpRefs = std::vector<const OpDef*>;

OpRefs fill_ops();
OpRefs unary_ops();
OpRefs binary_ops();
OpRefs comparison_ops();
OpRefs select_ops();
OpRefs activation_ops();
OpRefs reduction_ops();
OpRefs statistics_ops();
OpRefs scan_ops();
OpRefs softmax_ops();
OpRefs normalization_ops();
OpRefs matmul_ops();
OpRefs grouped_ops();
OpRefs linalg_ops();
OpRefs convolution_ops();
OpRefs window_ops();
OpRefs pooling_ops();
OpRefs attention_ops();
OpRefs resample_ops();
OpRefs view_ops();
OpRefs rearranging_ops();
OpRefs pad_ops();
OpRefs join_ops();
OpRefs index_ops();
OpRefs lookup_ops();
OpRefs scatter_ops();
OpRefs sort_ops();
OpRefs random_ops();
OpRefs quantization_ops();
OpRefs external_ops();
OpRefs tile_ops();

}  // namespace ops
}  // namespace tenon
