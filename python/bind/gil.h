// Python's lock, for code that runs for long.
#pragma once

#include <Python.h>
#include <unistd.h>

namespace tenon::python {

// Gives Python's lock to other threads until the end of the scope.
//
// A daemon thread may come back while the interpreter ends. Python before 3.14 then ends the thread by unwinding its
// stack, which has frames of C++ that nothing may unwind: the process would abort. So the thread stops here instead,
// and ends with the process.
class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  WithoutGil(const WithoutGil&) = delete;
  ~WithoutGil() {
    try {
      PyEval_RestoreThread(state_);
    } catch (...) {
      for (;;) pause();
    }
  }

 private:
  PyThreadState* state_;
};

}  // namespace tenon::python
