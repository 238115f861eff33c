#include "tests/loops/support_kernels.h"

#include "backends/backend.h"

namespace tenon::loops::testing {

IR matmul(Expr m_size, Expr k_size, Expr n_size) {
  IR ir("matmul");
  const VarRef m = ir.add_var("m", std::move(m_size)), k = ir.add_var("k", std::move(k_size)),
               n = ir.add_var("n", std::move(n_size));
  const NodeRef a = ir.add_read(DType::kF32, {m, k}, "a"), b = ir.add_read(DType::kF32, {k, n}, "b");
  const NodeRef p = ir.add_compute(op_named("mul"), {a, b}, {m, k, n}, {}, "p");
  const NodeRef c = ir.add_reduce(op_named("add"), p, {m, n}, "c");
  ir.add_write(c, {m, n}, "out");
  return initial_schedule(std::move(ir));
}

IR negate(Expr size) {
  IR ir("negate");
  const VarRef i = ir.add_var("i", std::move(size));
  const NodeRef y = ir.add_compute(op_named("neg"), {ir.add_read(DType::kF32, {i}, "x")}, {i}, {}, "y");
  ir.add_write(y, {i}, "out");
  return ir;
}

IR padded_conv1d(Expr size, int64_t taps) {
  IR ir("conv");
  const VarRef i = ir.add_var("i", size), o = ir.add_var("o", size), t = ir.add_var("t", taps);
  const NodeRef x = ir.add_read(DType::kF32, {i}, "x"), w = ir.add_read(DType::kF32, {t}, "w");
  const Expr at = Expr(Symbol("o")) + Expr(Symbol("t")) - taps / 2;
  const NodeRef p = ir.add_view({{{x, {at}, {{at, size}}}}, 0.0, {}}, {o, t}, "p");
  const NodeRef y = ir.add_compute(op_named("mul"), {p, w}, {o, t}, {}, "y");
  const NodeRef c = ir.add_reduce(op_named("add"), y, {o}, "c");
  ir.add_write(c, {o}, "out");
  return initial_schedule(std::move(ir));
}

IR row_softmax(Expr rows, Expr columns) {
  IR ir("softmax");
  const VarRef r = ir.add_var("r", std::move(rows)), c = ir.add_var("c", std::move(columns));
  const NodeRef x = ir.add_read(DType::kF32, {r, c}, "x");
  const NodeRef top = ir.add_reduce(op_named("maximum"), x, {r}, "top");
  const NodeRef shifted = ir.add_compute(op_named("sub"), {x, top}, {r, c}, {}, "shifted");
  const NodeRef e = ir.add_compute(op_named("exp"), {shifted}, {r, c}, {}, "e");
  const NodeRef total = ir.add_reduce(op_named("add"), e, {r}, "total");
  const NodeRef y = ir.add_compute(op_named("div"), {e, total}, {r, c}, {}, "y");
  ir.add_write(y, {r, c}, "out");
  return initial_schedule(std::move(ir));
}

NodeRef node(const LoopTree& tree, std::string_view name) {
  const auto found = tree.ir.node_named(name);
  if (!found) fail("the test's kernel has no %{}", name);
  return *found;
}

TreeRef leaf(const LoopTree& tree, std::string_view name) { return tree.find(node(tree, name)); }

TreeRef loop(const LoopTree& tree, std::string_view name, size_t depth) {
  return tree.path(leaf(tree, name)).at(depth);
}

std::string variables_around(const LoopTree& tree, std::string_view name) {
  std::string text;
  for (TreeRef ref : tree.path(leaf(tree, name)))
    text += (text.empty() ? "" : " ") + tree.ir.var(tree.loop(ref).var).name;
  return text;
}

std::vector<Tensor> run_on(std::string_view backend, const LoopTree& tree, const std::vector<Tensor>& inputs) {
  const std::unique_ptr<Compiled> kernel = find_backend(backend).value()->compile(tree).value();
  return run(*kernel, tree.ir, inputs).value();
}

std::vector<double> elements(const Tensor& tensor) {
  std::vector<double> values;
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    const int64_t at = tensor.offset(i);
    values.push_back(is_float(tensor.dtype()) ? tensor.real(at) : static_cast<double>(tensor.integer(at)));
  }
  return values;
}

}  // namespace tenon::loops::testing
