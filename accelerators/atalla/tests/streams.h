// Command streams of whole layers, written by hand: the tests' compiler. A matrix product of M rows is a convolution 1
// x 1 of an image of M x 1.
//
// A layer is cut into groups, each with its loads, computes and stores. Memory between them is double-buffered, and
// loads of the next group come before the computes of this one, so that the units overlap.
#pragma once

#include "body.h"

namespace atalla {

struct Layer {
  uint32_t height = 1, width = 1, channels = 16, outputs = 16;  // of the input image, NHWC; outputs: channels
  uint32_t kernel = 1, stride = 1, padding = 0;
  bool is_float = false;  // bf16, else int8
  uint8_t pad = 0;        // byte of the border
  Output output = Output::kI8;
  uint8_t store_flags = 0;                                                 // Store::kBias, kScale, kResidual, kClamp
  Epilogue epilogue;                                                       // its numbers
  uint64_t input = 0, weights = 0, vectors = 0, residual = 0, result = 0;  // addresses

  uint32_t out_height() const { return (height + 2 * padding - kernel) / stride + 1; }
  uint32_t out_width() const { return (width + 2 * padding - kernel) / stride + 1; }
  uint32_t element_bytes() const { return is_float ? 2 : 1; }
  uint64_t multiplications() const {
    return uint64_t{out_height()} * out_width() * outputs * channels * kernel * kernel;
  }
};

// Channels and outputs rounded up to the array. Weights are tiles [outputs / N][kernel][kernel][channels / N][N][N],
// vectors [outputs / N][bias, scale][N].
uint32_t rounded(uint32_t count, uint32_t size);
uint64_t weight_bytes(const Machine& machine, const Layer& layer);

std::vector<Command> emit(const Machine& machine, const Layer& layer);

}  // namespace atalla
