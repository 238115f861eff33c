// The registry's entries by family. A new family adds its function here and in aten.cpp.
#pragma once

namespace tenon {

class AtenTable;

namespace aten {

void add_factory_entries(AtenTable& table);        // tensors from nothing
void add_pointwise_entries(AtenTable& table);      // element by element
void add_special_entries(AtenTable& table);        // special functions of mathematics
void add_gamma_entries(AtenTable& table);          // called by special
void add_bessel_entries(AtenTable& table);         // called by special
void add_activation_entries(AtenTable& table);     // and their backward overloads
void add_reduction_entries(AtenTable& table);      // folds, scans, softmax, statistics
void add_product_entries(AtenTable& table);        // matmul, linear, einsum, attention, distances
void add_linalg_entries(AtenTable& table);         // factors, systems of equations, spectra
void add_attention_entries(AtenTable& table);      // called by product
void add_recurrent_entries(AtenTable& table);      // called by product
void add_grouped_entries(AtenTable& table);        // called by product: products by groups of rows
void add_resample_entries(AtenTable& table);       // called by window
void add_view_entries(AtenTable& table);           // what shares memory in PyTorch
void add_arrangement_entries(AtenTable& table);    // copies: concat, pad, repeat, roll, tril
void add_index_entries(AtenTable& table);          // gathers, scatters, masks
void add_order_entries(AtenTable& table);          // called by index: sorting and searching
void add_group_entries(AtenTable& table);          // called by index: equal elements, segments, bins
void add_window_entries(AtenTable& table);         // convolution, pooling, resampling
void add_normalization_entries(AtenTable& table);  // batch, layer, group norm
void add_loss_entries(AtenTable& table);
void add_random_entries(AtenTable& table);
void add_quantization_entries(AtenTable& table);  // PT2E: quantize, dequantize, choose_qparams
void add_symbolic_entries(AtenTable& table);      // sizes and numbers: sym_size, _operator.mul, assertions

}  // namespace aten
}  // namespace tenon
