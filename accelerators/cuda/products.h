// Matrix products by cuBLASLt, which is opened when the first program needs it.
//
// Matrices are row-major here. cuBLASLt is asked for the transposed product of the transposed matrices, which it reads
// by columns: the same bytes.
#pragma once

#include <map>
#include <memory>

#include "format/cuda_generated.h"
#include "memory.h"

namespace tenon::cuda {

// All numbers of a product but the addresses. Strides are in elements.
struct ProductForm {
  struct Matrix {
    int64_t row, batch;
    auto operator<=>(const Matrix&) const = default;
  };
  int64_t m, n, k, batch;
  format::DType operand, result;
  bool transpose_a, transpose_b, has_bias;
  format::cuda::Epilogue epilogue;
  Matrix a, b, d;
  uint32_t alignment;  // of all addresses, in bytes
  auto operator<=>(const ProductForm&) const = default;
};

struct ProductAddresses {
  Address a, b, d, bias;
};

// How cuBLASLt computes products of a form: descriptors, and the algorithm that it advises.
class Product;

class Products {
 public:
  static constexpr uint64_t kWorkspace = 32 << 20;  // bytes: what NVIDIA advises for Hopper

  // Opens cuBLASLt. Throws a StatusError that says where it was looked for.
  Products();
  ~Products();
  Products(const Products&) = delete;

  // Products of the same form share one. Throws a StatusError if cuBLASLt has no algorithm for the form.
  std::shared_ptr<Product> find(const ProductForm& form);
  void run(Product& product, const ProductAddresses& at, double alpha, Address workspace, Stream stream) const;

 private:
  struct Library;
  friend class Product;
  std::unique_ptr<Library> library_;
  std::map<ProductForm, std::weak_ptr<Product>> known_;
};

}  // namespace tenon::cuda
