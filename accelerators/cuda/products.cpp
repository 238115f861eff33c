#include "products.h"

#include <dlfcn.h>
#include <glob.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace tenon::cuda {
namespace {

// ---- cuBLASLt's interface: types and numbers of versions 12 and 13 --------------------------------------------------

using Status = int;  // 0: success
enum Compute : int { kCompute32 = 68, kCompute64 = 70 };
enum DataType : int { kReal32 = 0, kReal64 = 1, kReal16 = 2, kBrain16 = 14 };
enum OfProduct : int { kTransposeA = 3, kTransposeB = 4, kEpilogue = 7, kBiasAddress = 8 };
enum OfMatrix : int { kBatchCount = 5, kBatchStride = 6 };
enum OfPreference : int { kMostWorkspace = 1, kLeastAlignment = 5 };  // A; B, C and D follow
enum EpilogueBits : unsigned { kPlain = 1, kRelu = 2, kBias = 4, kGelu = 32 };

struct Algorithm {
  uint64_t opaque[8];
};
struct Advice {
  Algorithm algorithm;
  size_t workspace;
  Status status;
  float waves;
  int reserved[4];
};

// ---- where it is ----------------------------------------------------------------------------------------------------

void add_matches(std::vector<std::string>& paths, const std::string& pattern) {
  glob_t found = {};
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0)
    paths.insert(paths.end(), found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
}

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The folder that holds this library: in a wheel it is site-packages/tenon/lib.
std::string own_folder() {
  Dl_info info = {};
  if (dladdr(reinterpret_cast<void*>(&own_folder), &info) == 0 || info.dli_fname == nullptr) return ".";
  const std::string path = info.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

// By name first: a process with PyTorch has it loaded. Then folders of CUDA and of NVIDIA's packages for Python.
std::vector<std::string> candidates() {
  if (const std::string named = variable("TENON_CUBLASLT"); !named.empty()) return {named};
  std::vector<std::string> paths = {"libcublasLt.so.13", "libcublasLt.so.12"};
  std::vector<std::string> packages = {own_folder() + "/../.."};
  if (const std::string venv = variable("VIRTUAL_ENV"); !venv.empty())
    packages.push_back(venv + "/lib/python3*/site-packages");
  for (const std::string& folder : packages) {
    for (const char* place : {"/nvidia/cu13/lib", "/nvidia/cublas/lib"})
      add_matches(paths, folder + place + "/libcublasLt.so.1[23]");
  }
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const std::string home = variable(name); !home.empty())
      add_matches(paths, home + "/lib64/libcublasLt.so.1[23]");
  }
  add_matches(paths, "/usr/local/cuda*/lib64/libcublasLt.so.1[23]");
  return paths;
}

void* open_library() {
  std::string tried;
  for (const std::string& path : candidates()) {
    if (void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    tried += (tried.empty() ? "" : ", ") + path;
  }
  fail(TENON_UNSUPPORTED,
       "matrix products on the GPU need cuBLASLt of CUDA 12 or 13, which cannot be opened: looked for ", tried,
       "; install it (pip install nvidia-cublas), or name it in TENON_CUBLASLT");
}

}  // namespace

struct Products::Library {
  Status (*create)(void** handle);
  Status (*destroy)(void* handle);
  Status (*create_product)(void** product, int compute, int scale);
  Status (*destroy_product)(void* product);
  Status (*set_product)(void* product, int attribute, const void* value, size_t bytes);
  Status (*create_matrix)(void** matrix, int type, uint64_t rows, uint64_t columns, int64_t leading);
  Status (*destroy_matrix)(void* matrix);
  Status (*set_matrix)(void* matrix, int attribute, const void* value, size_t bytes);
  Status (*create_preference)(void** preference);
  Status (*destroy_preference)(void* preference);
  Status (*set_preference)(void* preference, int attribute, const void* value, size_t bytes);
  Status (*advise)(void* handle, void* product, void* a, void* b, void* c, void* d, void* preference, int wanted,
                   Advice* advice, int* count);
  Status (*multiply)(void* handle, void* product, const void* alpha, const void* a, void* a_form, const void* b,
                     void* b_form, const void* beta, const void* c, void* c_form, void* d, void* d_form,
                     const Algorithm* algorithm, void* workspace, size_t workspace_bytes, Stream stream);
  const char* (*status_text)(Status status);
  void* handle = nullptr;

  Library() {
    void* const library = open_library();
    const auto find = [&](auto& member, const char* symbol) {
      member = reinterpret_cast<std::remove_reference_t<decltype(member)>>(dlsym(library, symbol));
      if (member == nullptr)
        fail(TENON_UNSUPPORTED, "the cuBLASLt of this machine has no ", symbol, ": install that of CUDA 12 or 13");
    };
    find(create, "cublasLtCreate");
    find(destroy, "cublasLtDestroy");
    find(create_product, "cublasLtMatmulDescCreate");
    find(destroy_product, "cublasLtMatmulDescDestroy");
    find(set_product, "cublasLtMatmulDescSetAttribute");
    find(create_matrix, "cublasLtMatrixLayoutCreate");
    find(destroy_matrix, "cublasLtMatrixLayoutDestroy");
    find(set_matrix, "cublasLtMatrixLayoutSetAttribute");
    find(create_preference, "cublasLtMatmulPreferenceCreate");
    find(destroy_preference, "cublasLtMatmulPreferenceDestroy");
    find(set_preference, "cublasLtMatmulPreferenceSetAttribute");
    find(advise, "cublasLtMatmulAlgoGetHeuristic");
    find(multiply, "cublasLtMatmul");
    find(status_text, "cublasLtGetStatusString");
    check(create(&handle), "start");
  }
  ~Library() { destroy(handle); }
  Library(const Library&) = delete;

  void check(Status status, const char* what) const {
    if (status != 0) fail(TENON_RUN_FAILED, "cuBLASLt cannot ", what, ": ", status_text(status), " (", status, ")");
  }
};

// ---- one form -------------------------------------------------------------------------------------------------------

namespace {

DataType type_of(format::DType dtype) {
  switch (dtype) {
    case format::DType::F64:
      return kReal64;
    case format::DType::F32:
      return kReal32;
    case format::DType::F16:
      return kReal16;
    case format::DType::BF16:
      return kBrain16;
    default:
      fail(TENON_BAD_FILE, "cuBLASLt multiplies no matrices of dtype ", static_cast<int>(dtype));
  }
}

unsigned epilogue_of(const ProductForm& form) {
  const unsigned bias = form.has_bias ? kBias : 0u;
  if (form.epilogue == format::cuda::Epilogue::Relu) return kRelu | bias;
  if (form.epilogue == format::cuda::Epilogue::Gelu) return kGelu | bias;
  return form.has_bias ? kBias : kPlain;
}

std::string text_of_form(const ProductForm& form) {
  return text_of("[", form.batch, ", ", form.m, ", ", form.k, "] x [", form.batch, ", ", form.k, ", ", form.n, "]");
}

}  // namespace

class Product {
 public:
  Product(const Products::Library& library, const ProductForm& form) : library_(library), form_(form) {
    try {
      describe();
      ask_for_advice();
    } catch (...) {
      destroy();
      throw;
    }
  }
  ~Product() { destroy(); }
  Product(const Product&) = delete;

  void run(const ProductAddresses& at, double alpha, Address workspace, Stream stream) {
    if (form_.has_bias && at.bias != bias_) {
      library_.check(library_.set_product(product_, kBiasAddress, &at.bias, sizeof at.bias), "take a bias");
      bias_ = at.bias;
    }
    const bool is_double = form_.operand == format::DType::F64;
    const double alpha64 = alpha, beta64 = 0;
    const auto alpha32 = static_cast<float>(alpha), beta32 = 0.0f;
    const void* const scale = is_double ? static_cast<const void*>(&alpha64) : &alpha32;
    const void* const nothing = is_double ? static_cast<const void*>(&beta64) : &beta32;
    auto* const d = reinterpret_cast<void*>(at.d);
    library_.check(library_.multiply(library_.handle, product_, scale, reinterpret_cast<void*>(at.b), left_,
                                     reinterpret_cast<void*>(at.a), right_, nothing, d, result_, d, result_,
                                     &advice_.algorithm, reinterpret_cast<void*>(workspace), advice_.workspace, stream),
                   "multiply");
  }

 private:
  // The left matrix is B' as its columns lie in memory, the right one A'.
  void describe() {
    const bool is_double = form_.operand == format::DType::F64;
    library_.check(
        library_.create_product(&product_, is_double ? kCompute64 : kCompute32, is_double ? kReal64 : kReal32),
        "describe a product");
    set_product(kTransposeA, static_cast<int32_t>(form_.transpose_b));
    set_product(kTransposeB, static_cast<int32_t>(form_.transpose_a));
    set_product(kEpilogue, epilogue_of(form_));
    if (form_.has_bias) set_product(kBiasAddress, bias_);
    const auto m = static_cast<uint64_t>(form_.m), n = static_cast<uint64_t>(form_.n),
               k = static_cast<uint64_t>(form_.k);
    left_ = matrix(form_.operand, form_.transpose_b ? k : n, form_.transpose_b ? n : k, form_.b);
    right_ = matrix(form_.operand, form_.transpose_a ? m : k, form_.transpose_a ? k : m, form_.a);
    result_ = matrix(form_.result, n, m, form_.d);
  }

  template <class Value>
  void set_product(int attribute, Value value) {
    library_.check(library_.set_product(product_, attribute, &value, sizeof value), "describe a product");
  }

  void* matrix(format::DType dtype, uint64_t rows, uint64_t columns, const ProductForm::Matrix& strides) {
    void* made = nullptr;
    library_.check(library_.create_matrix(&made, type_of(dtype), rows, columns, strides.row), "describe a matrix");
    matrices_.push_back(made);
    const auto count = static_cast<int32_t>(form_.batch);
    library_.check(library_.set_matrix(made, kBatchCount, &count, sizeof count), "describe a batch");
    library_.check(library_.set_matrix(made, kBatchStride, &strides.batch, sizeof strides.batch), "describe a batch");
    return made;
  }

  void ask_for_advice() {
    library_.check(library_.create_preference(&preference_), "state a preference");
    const uint64_t workspace = Products::kWorkspace;
    library_.check(library_.set_preference(preference_, kMostWorkspace, &workspace, sizeof workspace),
                   "state a preference");
    for (int matrix = 0; matrix < 4; ++matrix)
      library_.check(
          library_.set_preference(preference_, kLeastAlignment + matrix, &form_.alignment, sizeof form_.alignment),
          "state a preference");
    int count = 0;
    const Status status =
        library_.advise(library_.handle, product_, left_, right_, result_, result_, preference_, 1, &advice_, &count);
    if (status != 0 || count == 0 || advice_.status != 0)
      fail(TENON_UNSUPPORTED, "cuBLASLt has no algorithm for a product ", text_of_form(form_), " of ",
           format::EnumNameDType(form_.operand), " (", library_.status_text(status != 0 ? status : advice_.status),
           ")");
  }

  void destroy() {
    for (void* matrix : matrices_) library_.destroy_matrix(matrix);
    if (preference_ != nullptr) library_.destroy_preference(preference_);
    if (product_ != nullptr) library_.destroy_product(product_);
  }

  const Products::Library& library_;
  ProductForm form_;
  void *product_ = nullptr, *left_ = nullptr, *right_ = nullptr, *result_ = nullptr, *preference_ = nullptr;
  std::vector<void*> matrices_;
  Address bias_ = kAlignment;  // at first any that is aligned: the advice does not read it
  Advice advice_ = {};
};

Products::Products() : library_(std::make_unique<Library>()) {}
Products::~Products() = default;

std::shared_ptr<Product> Products::find(const ProductForm& form) {
  std::weak_ptr<Product>& known = known_[form];
  if (std::shared_ptr<Product> product = known.lock()) return product;
  const auto product = std::make_shared<Product>(*library_, form);
  known = product;
  return product;
}

void Products::run(Product& product, const ProductAddresses& at, double alpha, Address workspace, Stream stream) const {
  product.run(at, alpha, workspace, stream);
}

}  // namespace tenon::cuda
