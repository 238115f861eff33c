#include <unistd.h>

#include "bind.h"
#include "call_form.h"
#include "support/interrupt.h"

namespace {

// Ctrl-C ends what the compiler does. Python handles signals on its main thread, whether or not it has the
// interpreter's lock now.
void check_signals() {
  if (::gettid() != ::getpid()) return;
  const nanobind::gil_scoped_acquire lock;
  if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
}

void raise_interrupt(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const tenon::InterruptedWork& interrupted) {
    try {
      std::rethrow_exception(interrupted.cause);
    } catch (nanobind::python_error& error) {
      error.restore();
    }
  }
}

}  // namespace

NB_MODULE(_tenon, module) {
  using namespace tenon::python;
  tenon::set_interrupt_check(check_signals);
  nb::register_exception_translator(raise_interrupt);
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
  bind_named(module);
  bind_pt2(module);
  bind_importer(module);
  bind_program(module);
  bind_device_tensor(module);
  bind_artifact(module);
  bind_call_form(module);
  bind_host(module);
}
