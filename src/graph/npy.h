// NumPy's files: .npy holds one array, .npz a zip archive of them.
//
// The dtypes are NumPy's of the same name. NumPy has no bf16: it is stored as two-byte void ("<V2"), as ml_dtypes
// stores it. np.load(path).view(ml_dtypes.bfloat16) reads such a file.
//
// Files are not trusted. A malformed one is an error that names the file, and reading takes no more memory than the
// file is large. An aligned array of this machine's byte order is used in place, in a private mapping of the file.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "graph/tensor.h"
#include "support/diagnostic.h"
#include "support/file.h"

namespace tenon {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

// Row-major, whatever the order and the byte order in the file.
Result<Tensor> read_npy(const std::string& path);
Result<Tensor> parse_npy(const FileContent& file);

// Both write all or nothing (see write_file).
Status write_npy(const std::string& path, const Tensor& tensor);
Status write_npz(const std::string& path, const NamedTensors& tensors);

// The arrays by name, without ".npy". np.savez writes such an archive. An archive of np.savez_compressed is an error.
Result<NamedTensors> read_npz(const std::string& path);

}  // namespace tenon
