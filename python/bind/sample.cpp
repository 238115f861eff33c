#include "graph/sample.h"

#include <nanobind/stl/string.h>

#include "bind.h"

namespace tenon::python {

void bind_sample(nb::module_& module) {
  nb::class_<Sample>(module, "Sample")
      .def_prop_ro("name", &Sample::name)
      .def_prop_ro(
          "op", [](const Sample& self) { return self.op; }, nb::rv_policy::reference)
      .def_prop_ro("graph", [](const Sample& self) { return Graph(self.graph); })
      .def_prop_ro("dtype",
                   [](const Sample& self) -> nb::object {
                     if (!self.dtype) return nb::none();
                     return to_str(name_of(*self.dtype));
                   })
      .def_prop_ro("ranges", [](const Sample& self) {
        nb::list ranges;
        for (const auto& range : self.ranges) {
          ranges.append(range ? nb::object(nb::make_tuple(range->low, range->high)) : nb::object(nb::none()));
        }
        return ranges;
      });
}

}  // namespace tenon::python
