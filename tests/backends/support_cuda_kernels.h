// Kernels of real sizes for a GPU: each takes another way through its schedules.
#pragma once

namespace tenon::test {

struct LargeKernel {
  const char* name;
  const char* graph;
};

inline constexpr LargeKernel kLargeKernels[] = {
    {"add", "graph g(%x: f32[3000001], %y: f32[3000001]) {\n %z = add(%x, %y)\n return %z\n}"},
    {"broadcast", "graph g(%x: bf16[33, 64, 1, 50], %y: bf16[64, 7, 1]) {\n %z = mul(%x, %y)\n return %z\n}"},
    {"permute", "graph g(%x: f16[65, 300, 129]) {\n %y = permute(%x) {dims=[2, 0, 1]}\n return %y\n}"},
    {"softmax", "graph g(%x: f32[300, 5000]) {\n %y = softmax(%x) {dim=-1}\n return %y\n}"},
    {"softmax_short", "graph g(%x: bf16[20000, 20]) {\n %y = softmax(%x) {dim=-1}\n return %y\n}"},
    {"softmax_middle", "graph g(%x: f32[30, 100, 200]) {\n %y = softmax(%x) {dim=1}\n return %y\n}"},
    {"layer_norm",
     "graph g(%x: bf16[500, 768], %w: bf16[768], %b: bf16[768]) {\n"
     " %y, %m, %r = layer_norm(%x, %w, %b) {normalized_rank=1}\n return %y, %m, %r\n}"},
    {"sum_all", "graph g(%x: f32[1000003]) {\n %y = sum(%x)\n return %y\n}"},
    {"sum_of_squares", "graph g(%x: f32[40, 30000]) {\n %z = mul(%x, %x)\n %y = sum(%z)\n return %y\n}"},
    {"sum_bf16_columns", "graph g(%x: bf16[4100, 768]) {\n %y = sum(%x) {dims=[0]}\n return %y\n}"},
    {"sum_rows", "graph g(%x: f32[4096, 777]) {\n %y = sum(%x) {dims=[0]}\n return %y\n}"},
    {"cumsum", "graph g(%x: f32[100, 3000]) {\n %y = cumsum(%x) {dim=1}\n return %y\n}"},
    {"embedding", "graph g(%t: f32[5000, 256], %i: i64[40, 50]) {\n %y = embedding(%t, %i)\n return %y\n}"},
    {"matmul", "graph g(%x: f32[500, 300], %y: f32[300, 700]) {\n %z = matmul(%x, %y)\n return %z\n}"},
    {"matmul_bf16", "graph g(%x: bf16[512, 256], %y: bf16[256, 384]) {\n %z = matmul(%x, %y)\n return %z\n}"},
    {"matmul_f64", "graph g(%x: f64[100, 300], %y: f64[300, 70]) {\n %z = matmul(%x, %y)\n return %z\n}"},
    {"linear",
     "graph g(%x: f16[8, 100, 256], %w: f16[512, 256], %b: f16[512]) {\n %z = linear(%x, %w, %b)\n"
     " %y = gelu(%z)\n return %y\n}"},
    {"batched", "graph g(%x: f32[6, 12, 100, 64], %y: f32[6, 12, 64, 90]) {\n %z = matmul(%x, %y)\n return %z\n}"},
    {"heads",
     "graph g(%x: f32[6, 100, 12, 64], %y: f32[6, 90, 12, 64]) {\n %a = permute(%x) {dims=[0, 2, 1, 3]}\n"
     " %b = permute(%y) {dims=[0, 2, 3, 1]}\n %z = matmul(%a, %b)\n return %z\n}"},
    {"vector", "graph g(%x: f32[3000], %y: f32[3000, 500]) {\n %z = matmul(%x, %y)\n return %z\n}"},
    {"integers", "graph g(%x: i32[50, 300], %y: i32[300, 70]) {\n %z = matmul(%x, %y)\n return %z\n}"},
    {"conv",
     "graph g(%x: f32[4, 32, 30, 30], %w: f32[48, 32, 3, 3], %b: f32[48]) {\n"
     " %y = conv(%x, %w, %b) {stride=[1, 1], padding=[1, 1], dilation=[1, 1]}\n return %y\n}"},
    {"depthwise",
     "graph g(%x: f32[4, 64, 30, 30], %w: f32[64, 1, 3, 3]) {\n"
     " %y = conv(%x, %w, none) {stride=[2, 2], padding=[1, 1], dilation=[1, 1], groups=64}\n return %y\n}"},
    {"attention_bf16",
     "graph g(%q: bf16[8, 12, 128, 64], %k: bf16[8, 12, 128, 64], %v: bf16[8, 12, 128, 64], %m: bf16[8, 1, 1, 128]) {\n"
     " %y = scaled_dot_product_attention(%q, %k, %v, %m)\n return %y\n}"},
    {"attention",
     "graph g(%q: f32[3, 8, 100, 64], %k: f32[3, 8, 130, 64], %v: f32[3, 8, 130, 64]) {\n"
     " %y = scaled_dot_product_attention(%q, %k, %v, none)\n return %y\n}"},
};

}  // namespace tenon::test
