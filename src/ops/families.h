// The op table's families, in the order of docs/ops.md. A new family adds its function here and in table.cpp.
#pragma once

#include <span>

namespace tenon {

struct OpDef;
using OpFamily = std::span<const OpDef* const>;

OpFamily fill_ops();
OpFamily unary_ops();
OpFamily binary_ops();
OpFamily comparison_ops();
OpFamily select_ops();
OpFamily activation_ops();
OpFamily reduction_ops();
OpFamily scan_ops();
OpFamily softmax_ops();
OpFamily normalization_ops();
OpFamily matmul_ops();
OpFamily grouped_ops();
OpFamily linalg_ops();
OpFamily convolution_ops();
OpFamily pooling_ops();
OpFamily attention_ops();
OpFamily resample_ops();
OpFamily view_ops();
OpFamily pad_ops();
OpFamily join_ops();
OpFamily index_ops();
OpFamily sort_ops();
OpFamily random_ops();
OpFamily external_ops();

}  // namespace tenon
