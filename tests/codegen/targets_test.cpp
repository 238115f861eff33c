// Code for machines that are not this one: their own tools must take it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "codegen/codegen.h"
#include "loops/schedule.h"
#include "support/file.h"
#include "tests/loops/support_kernels.h"

namespace tenon::codegen {
namespace {

namespace fs = std::filesystem;
using loops::LoopTree;
using ::testing::HasSubstr;
using namespace loops::testing;

loops::IR parsed(std::string_view text) { return loops::parse(text).value(); }

LoopTree matmul_tile() {
  return LoopTree(parsed(R"(tenon loops 1
kernel matmul_tile {
  var m = 16
  var k = 8
  var n = 32
  %a: f32[m, k] = read 0
  %b: f32[k, n] = read 1
  %p: f32[m, n, k] = mul(%a, %b) for m by 4, n by 16, k, m unroll, n by 4 unroll, n vectorize
  %c: f32[m, n] = reduce add(%p) for m by 4, n by 16, k, m unroll, n by 4 unroll, n vectorize
  %out: f32[m, n] = write 0 (%c) for m by 4, n by 16, m unroll, n by 4 unroll, n vectorize
})"));
}

LoopTree gather() {
  return LoopTree(parsed(R"(tenon loops 1
kernel gather {
  symbol N in [1, 1000]
  var n = N
  var r = 100
  var c = 16
  %x: f32[r, c] = read 0
  %at: i64[n] = read 1
  %y: f32[n, c] = view %x[i, c] with i = %at in 100
  %out: f32[n, c] = write 0 (%y)
})"));
}

LoopTree scatter() {
  return LoopTree(parsed(R"(tenon loops 1
kernel scatter {
  var n = 64
  var r = 100
  %x: f32[r] = read 0
  %at: i64[n] = read 1
  %v: f32[n] = read 2
  %y: f32[r] = scatter add(%x, %v) at [i] with i = %at in 100
  %out: f32[r] = write 0 (%y)
})"));
}

std::vector<LoopTree> kernels() { return {matmul_tile(), LoopTree(row_softmax(8, 100)), gather(), scatter()}; }

// Removed with all that is in it.
class Folder {
 public:
  Folder() {
    path_ = (fs::temp_directory_path() / "tenon_targets_XXXXXX").string();
    if (!::mkdtemp(path_.data())) fail("there is no folder for the test");
  }
  ~Folder() { fs::remove_all(path_); }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

bool has_program(const std::string& name) {
  return std::system(fmt::format("command -v {} >/dev/null 2>&1", name).c_str()) == 0;
}

std::string first_program(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (has_program(name)) return name;
  }
  return "";
}

// What the program prints; an exit code that is not 0 fails the test.
std::string output_of(const std::string& command, const Folder& folder) {
  const std::string path = folder.file("output.txt");
  EXPECT_EQ(std::system(fmt::format("{} >{} 2>&1", command, path).c_str()), 0) << command;
  return std::string(read_file(path).value().text());
}

void link_wasm(const LoopTree& tree, const std::string& linker, const Folder& folder) {
  const KernelSource source{&tree, tree.ir.name()};
  const std::string object = folder.file(tree.ir.name() + ".o"), linked = folder.file(tree.ir.name() + ".wasm");
  ASSERT_TRUE(write_file(object, emit_object({&source, 1}, find_target("wasm32"))).ok());
  const std::string said =
      output_of(fmt::format("{} --no-entry --export-all --allow-undefined {} -o {}", linker, object, linked), folder);
  EXPECT_EQ(said, "");
  EXPECT_GT(fs::file_size(linked), 100);
}

TEST(Wasm, TheLinkerTakesEveryKernel) {
  const std::string linker = first_program({"wasm-ld-19", "wasm-ld"});
  if (linker.empty()) GTEST_SKIP() << "there is no wasm-ld";
  const Folder folder;
  for (const LoopTree& tree : kernels()) link_wasm(tree, linker, folder);
}

TEST(Wasm, RelaxedCodeMultipliesAndAddsInOneInstruction) {
  const LoopTree tree = matmul_tile();
  const KernelSource source{&tree, tree.ir.name()};
  EXPECT_THAT(emit_asm({&source, 1}, find_target("wasm32-relaxed")), HasSubstr("f32x4.relaxed_madd"));
  EXPECT_THAT(emit_asm({&source, 1}, find_target("wasm32")), testing::Not(HasSubstr("relaxed_madd")));
}

constexpr std::string_view kRunInNode = R"(
const fs = require('fs');
const imports = new Proxy({}, {get: (_, name) => Math[name.replace(/f$/, '')]});
const code = new WebAssembly.Module(fs.readFileSync(process.argv[2]));
const wasm = new WebAssembly.Instance(code, {env: imports}).exports;
const base = wasm.__heap_base.value;
const sizes = [16 * 8, 8 * 32, 16 * 32];
const starts = [base + 1024];
for (const size of sizes) starts.push(starts[starts.length - 1] + 4 * size);
while (wasm.memory.buffer.byteLength < starts[3]) wasm.memory.grow(1);
const pointers = new Int32Array(wasm.memory.buffer, base, 3);
for (let i = 0; i < 3; ++i) pointers[i] = starts[i];
const arrays = sizes.map((size, i) => new Float32Array(wasm.memory.buffer, starts[i], size));
for (let i = 0; i < sizes[0]; ++i) arrays[0][i] = i * 7 % 11 - 4;
for (let i = 0; i < sizes[1]; ++i) arrays[1][i] = i * 7 % 11 - 4;
const failure = wasm.matmul_tile(base, base + 512, base + 256, 0);
if (failure != 0) throw new Error('it returns ' + failure);
console.log(Array.from(arrays[2]).join(' '));
)";

TEST(Wasm, NodeComputesWhatTheInterpreterDoes) {
  const std::string linker = first_program({"wasm-ld-19", "wasm-ld"});
  if (linker.empty() || !has_program("node")) GTEST_SKIP() << "there is no wasm-ld, or no node";
  const Folder folder;
  const LoopTree tree = matmul_tile();
  link_wasm(tree, linker, folder);
  ASSERT_TRUE(write_file(folder.file("run.cjs"), kRunInNode).ok());
  const std::string said =
      output_of(fmt::format("node {} {}", folder.file("run.cjs"), folder.file("matmul_tile.wasm")), folder);
  const auto number = [](int64_t i) { return static_cast<double>(i * 7 % 11) - 4; };
  const std::vector<Tensor> inputs = {filled(DType::kF32, {16, 8}, number), filled(DType::kF32, {8, 32}, number)};
  EXPECT_EQ(said, fmt::format("{}\n", fmt::join(elements(run_on("interpreter", tree, inputs)[0]), " ")));
}

TEST(Ptx, HasAFunctionForEveryKernel) {
  for (const LoopTree& tree : kernels()) {
    const KernelSource source{&tree, tree.ir.name()};
    const std::string text = emit_object({&source, 1}, find_target("nvptx64"));
    EXPECT_THAT(text, HasSubstr(".target sm_80"));
    EXPECT_THAT(text, HasSubstr(tree.ir.name() + "("));
  }
}

TEST(Ptx, TheAssemblerTakesEveryKernel) {
  if (!has_program("ptxas")) GTEST_SKIP() << "there is no ptxas";
  const Folder folder;
  for (const LoopTree& tree : kernels()) {
    const KernelSource source{&tree, tree.ir.name()};
    const std::string text = folder.file("kernel.ptx"), cubin = folder.file("kernel.cubin");
    ASSERT_TRUE(write_file(text, emit_object({&source, 1}, find_target("nvptx64"))).ok());
    EXPECT_EQ(output_of(fmt::format("ptxas -arch=sm_90 -c {} -o {}", text, cubin), folder), "") << tree.ir.name();
    EXPECT_GT(fs::file_size(cubin), 100);
  }
}

}  // namespace
}  // namespace tenon::codegen
