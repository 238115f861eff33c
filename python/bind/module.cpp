#include "bind.h"

NB_MODULE(_tenon, module) {
  using namespace tenon::python;
  nb::set_leak_warnings(false);  // a module-level list of ops at exit is no leak
  module.attr("__version__") = TENON_VERSION;
  bind_diagnostic(module);
  bind_expr(module);
  bind_tensor(module);
  bind_op(module);
  bind_value(module);
  bind_node(module);
  bind_graph(module);
  bind_sample(module);
  bind_autodiff(module);
  bind_training(module);
  bind_passes(module);
  bind_loops(module);
  bind_loop_tree(module);
  bind_compiler(module);
  bind_backend(module);
  bind_schedule(module);
  bind_lazy(module);
  bind_pt2(module);
  bind_importer(module);
  bind_program(module);
  bind_artifact(module);
}
