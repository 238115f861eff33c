#include "runtime/kernel_text.h"

#include <algorithm>
#include <bit>

#include "format/kernel_generated.h"
#include "runtime/error.h"
#include "runtime/structs.h"

namespace tenon::runtime {
namespace {

namespace portable = format::portable;

std::string joined(const std::vector<std::string>& texts, const char* between) {
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : between) + text;
  return all;
}

class KernelPrinter {
 public:
  KernelPrinter(const TaskGraph& graph, const TaskNode& task)
      : kernel_(*portable::GetKernel(graph.source->kernels()->Get(task.kernel)->portable()->data())) {
    for (uint32_t i = 0; i < kernel_.symbols(); ++i) names_.push_back(text_of("r", i));
    for (uint32_t i = 0; i < kernel_.sizes(); ++i) names_[i] = graph.symbols[task.sizes[i]].name;
    for (uint32_t i = 0; i < loop_count(); ++i) name_counter(i);
    symbols_.code = span_of(kernel_.code());
    for (const std::string& name : names_) symbols_.symbols.push_back({name, 0, 0});
  }

  std::string run() {
    std::string text;
    uint32_t next = 0;
    for (uint32_t i = 0; kernel_.steps() && i < kernel_.steps()->size(); ++i) {
      std::erase_if(open_, [&](uint32_t loop) { return end_of(loop) <= i; });
      for (; next < loop_count() && loop(next).steps().first() == i; ++next) {
        text += indent() + loop_line(next);
        open_.push_back(next);
      }
      text += indent() + step_line(*kernel_.steps()->Get(i));
    }
    return text;
  }

 private:
  uint32_t loop_count() const { return kernel_.loops() ? kernel_.loops()->size() : 0; }
  const portable::Loop& loop(uint32_t i) const { return *kernel_.loops()->Get(i); }
  uint32_t end_of(uint32_t i) const { return loop(i).steps().first() + loop(i).steps().count(); }
  std::string indent() const { return std::string(2 * open_.size(), ' '); }

  bool is_inside(uint32_t inner, uint32_t outer) const {
    return outer < inner && loop(inner).steps().first() < end_of(outer);
  }

  void name_counter(uint32_t i) {
    size_t around = 0;
    for (uint32_t outer = 0; outer < i; ++outer)
      around += is_inside(i, outer) && loop(outer).variable() == loop(i).variable();
    names_[loop(i).counter()] = text_of("v", loop(i).variable(), std::string(around, '\''));
  }

  std::string expression(const format::Expr& expr) const { return expr_text(symbols_, expr); }

  // How many elements of its variable it runs over.
  std::string covered(uint32_t i) const {
    for (auto outer = open_.rbegin(); outer != open_.rend(); ++outer) {
      if (loop(*outer).variable() == loop(i).variable()) return text_of(loop(*outer).step());
    }
    return expression(*kernel_.variables()->Get(loop(i).variable()));
  }

  std::string loop_line(uint32_t i) const {
    static constexpr char kOrders[][14] = {"", " in any order", " parallel"};
    const portable::Loop& own = loop(i);
    const std::string by = own.step() == 1 ? "" : text_of(" by ", own.step());
    return text_of("for ", names_[own.counter()], " in ", covered(i), by, kOrders[static_cast<int>(own.order())], "\n");
  }

  std::string element(uint32_t buffer, const format::Expr& at) const {
    const std::string place = expression(at);
    const std::string name = kernel_.nodes()->Get(kernel_.buffers()->Get(buffer)->node())->str();
    return place == "0" ? "%" + name : text_of("%", name, "[", place, "]");
  }

  std::string source_text(const portable::Source& source) const {
    switch (source.kind()) {
      case portable::SourceKind::Element:
        return element(source.item(), source.at());
      case portable::SourceKind::Number:
        return expression(source.at());
      case portable::SourceKind::Constant:
        break;
    }
    const int64_t bits = kernel_.constants()->Get(source.item());
    const bool is_real = source.dtype() <= format::DType::BF16;
    return is_real ? text_of(std::bit_cast<double>(bits)) : text_of(bits);
  }

  std::string guards(const portable::Range& range) const {
    std::vector<std::string> texts;
    for (uint32_t i = range.first(); i < range.first() + range.count(); ++i) {
      const portable::Guard& guard = *kernel_.guards()->Get(i);
      texts.push_back(text_of(expression(guard.value()), " in ", expression(guard.bound())));
    }
    return texts.empty() ? "" : " where " + joined(texts, " and ");
  }

  std::string lookups(const portable::Range& range) const {
    std::vector<std::string> texts;
    for (uint32_t i = range.first(); i < range.first() + range.count(); ++i) {
      const portable::Lookup& lookup = *kernel_.lookups()->Get(i);
      const std::string from = source_text(*kernel_.sources()->Get(lookup.source()));
      texts.push_back(text_of(names_[lookup.symbol()], " = ", from, " in ", expression(lookup.bound())));
    }
    return texts.empty() ? "" : " with " + joined(texts, ", ");
  }

  std::string sources(const portable::Step& step) const {
    const bool is_move = step.action() == portable::Action::Move;
    std::vector<std::string> texts;
    for (uint32_t i = step.sources().first(); i < step.sources().first() + step.sources().count(); ++i) {
      const portable::Source& source = *kernel_.sources()->Get(i);
      texts.push_back(source_text(source) + (is_move ? guards(source.where()) : ""));
    }
    return is_move ? joined(texts, " | ") : "(" + joined(texts, ", ") + ")";
  }

  std::string action(const portable::Step& step) const {
    switch (step.action()) {
      case portable::Action::Compute:
        return op(step);
      case portable::Action::Fold:
        return "reduce " + op(step);
      case portable::Action::Scan:
        return "scan " + op(step);
      case portable::Action::Bitcast:
        return "bitcast";
      case portable::Action::Move:
        break;
    }
    return "";
  }

  std::string op(const portable::Step& step) const { return kernel_.ops()->Get(step.op())->str(); }

  std::string step_line(const portable::Step& step) const {
    return text_of(element(step.out(), step.at()), " = ", action(step), sources(step), guards(step.where()),
                   lookups(step.lookups()), "\n");
  }

  const portable::Kernel& kernel_;
  std::vector<std::string> names_;  // of symbols
  TaskGraph symbols_;               // for the text of expressions
  std::vector<uint32_t> open_;      // loops, from the outside in
};

}  // namespace

std::string loops_text(const TaskGraph& graph, const TaskNode& task) { return KernelPrinter(graph, task).run(); }

}  // namespace tenon::runtime
