// tenon ops: the op table.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "backends/interpreter/scalar_table.h"
#include "capture/aten.h"
#include "command.h"
#include "graph/docs.h"
#include "json.h"
#include "support/text.h"
#include "terminal.h"

namespace tenon::cli {
namespace {

constexpr const char* kFooter = R"(Examples:
  tenon ops                          every op, one line each
  tenon ops pool                     those whose name contains "pool"
  tenon ops softmax                  all about one op
  tenon ops --family reduction --differentiable
  tenon ops --json | jq '.[].name'
  tenon ops --aten softmax           ATen overloads, and what becomes of them
  tenon ops --markdown > docs/ops.md
  tenon ops --scalar-table > runtime/scalar_ops.inc)";

struct Options {
  std::string filter;
  std::string family;
  bool composite = false;
  bool differentiable = false;
  bool markdown = false;
  bool json = false;
  bool scalar_table = false;
  bool aten = false;
};

using Ops = std::vector<const OpDef*>;

bool selected(const OpDef& op, const Options& options) {
  if (op.name.get().find(options.filter) == std::string_view::npos) return false;
  if (!options.family.empty() && op.family.get() != options.family) return false;
  if (options.composite && !op.is_composite()) return false;
  return !options.differentiable || !std::holds_alternative<NotDifferentiable>(op.gradient.get());
}

void check_family(const std::string& family) {
  std::vector<std::string_view> families;
  for (const OpDef* op : op_table()) families.push_back(op->family);
  if (family.empty() || std::ranges::find(families, family) != families.end()) return;
  const auto repeated = std::ranges::unique(families);
  families.erase(repeated.begin(), repeated.end());
  fail("there is no family '{}'{} ({})", family, did_you_mean(family, families), fmt::join(families, ", "));
}

Ops select(const Options& options) {
  check_family(options.family);
  Ops ops;
  for (const OpDef* op : op_table()) {
    if (selected(*op, options)) ops.push_back(op);
  }
  if (!ops.empty()) return ops;
  if (!options.filter.empty()) op_named(options.filter);  // fails, unless another option left the op out
  fail("no op is selected");
}

std::string operands_text(const OpDoc& op) {
  std::vector<std::string> names;
  for (const OperandDoc& operand : op.operands) names.push_back(operand.name);
  return fmt::format("({})", fmt::join(names, ", "));
}

std::string table(const Ops& ops) {
  std::vector<OpDoc> docs;
  for (const OpDef* op : ops) docs.push_back(document(*op));
  const auto width = [&](auto column) {
    size_t widest = 0;
    for (const OpDoc& doc : docs) widest = std::max(widest, column(doc).size());
    return widest;
  };
  const size_t name_width = width([](const OpDoc& doc) { return doc.name; });
  const size_t family_width = width([](const OpDoc& doc) { return doc.family; });
  const size_t operands_width = width(operands_text);
  std::string text;
  for (const OpDoc& doc : docs) {
    text += fmt::format("{:<{}}  {:<{}}  {:<{}}  {}\n", doc.name, name_width, doc.family, family_width,
                        operands_text(doc), operands_width, doc.summary);
  }
  return text;
}

std::string attr_text(const AttrDoc& attr) {
  const std::string fallback = attr.fallback.empty() ? "required" : "default " + attr.fallback;
  return fmt::format("  {:<16}{}, {}: {}\n", attr.name, attr.kind, fallback, attr.doc);
}

// One op, with everything its record says to a user.
std::string record(const OpDoc& op, const std::vector<std::string>& similar) {
  std::string text = op.signature + "\n\n" + op.doc + "\n\n";
  if (!op.operands.empty()) text += "operands\n";
  for (const OperandDoc& operand : op.operands) {
    const std::string arity = operand.arity.empty() ? "" : " (" + operand.arity + ")";
    text += fmt::format("  {:<16}{}{}\n", operand.name, operand.dtypes, arity);
  }
  if (!op.attrs.empty()) text += "attributes\n";
  for (const AttrDoc& attr : op.attrs) text += attr_text(attr);
  text += fmt::format("results\n  {}\n", fmt::join(op.results, ", "));
  text += fmt::format("\nfamily    {}\nkind      {}\ngradient  {}\n", op.family,
                      op.composite ? "composite" : "primitive", op.gradient);
  text += op.torch.empty() ? "PyTorch   none: " + op.no_torch + "\n" : "PyTorch   " + op.torch + "\n";
  if (!similar.empty()) text += fmt::format("see also  {}\n", fmt::join(similar, ", "));
  return text;
}

std::string operand_json(const OperandDoc& operand) {
  return json::object({{"name", json::string(operand.name)},
                       {"dtypes", json::string(operand.dtypes)},
                       {"arity", json::string(operand.arity.empty() ? "one" : operand.arity)}});
}

std::string attr_json(const AttrDoc& attr) {
  return json::object({{"name", json::string(attr.name)},
                       {"kind", json::string(attr.kind)},
                       {"required", json::boolean(attr.fallback.empty())},
                       {"default", attr.fallback.empty() ? "null" : json::string(attr.fallback)},
                       {"doc", json::string(attr.doc)}});
}

std::string op_json(const OpDef* op) {
  const OpDoc doc = document(*op);
  return json::object({{"name", json::string(doc.name)},
                       {"family", json::string(doc.family)},
                       {"signature", json::string(doc.signature)},
                       {"doc", json::string(doc.doc)},
                       {"operands", json::array_of(doc.operands, operand_json)},
                       {"attributes", json::array_of(doc.attrs, attr_json)},
                       {"results", json::array_of(doc.results, json::string)},
                       {"composite", json::boolean(doc.composite)},
                       {"gradient", json::string(doc.gradient)},
                       {"torch", doc.torch.empty() ? "null" : json::string(doc.torch)}});
}

std::string listing(const Ops& ops, const Options& options) {
  const OpDef* exact = options.filter.empty() ? nullptr : find_op(options.filter);
  if (!exact || std::ranges::find(ops, exact) == ops.end()) return table(ops);
  std::vector<std::string> similar;
  for (const OpDef* op : ops) {
    if (op != exact) similar.emplace_back(op->name.get());
  }
  return record(document(*exact), similar);
}

// ---- ATen -----------------------------------------------------------------------------------------------------------

std::string_view kind_of(const AtenEntry& entry) { return entry.kind == AtenKind::kNative ? "native" : "composite"; }

std::string parameters_text(const AtenSignature& signature) {
  std::string text;
  bool keyword_only = false;
  for (const AtenParameter& parameter : signature.parameters) {
    if (!text.empty()) text += ", ";
    if (parameter.keyword_only && !std::exchange(keyword_only, true)) text += "*, ";
    text += parameter.name + (parameter.fallback ? "=" + to_string(*parameter.fallback) : "");
  }
  return "(" + text + ")";
}

std::string aten_json(const AtenEntry& entry) {
  return json::object({{"name", json::string(entry.signature.name)},
                       {"kind", json::string(kind_of(entry))},
                       {"view", json::boolean(entry.is_view)},
                       {"parameters", json::string(parameters_text(entry.signature))}});
}

// An overload that has no entry of its own may still follow from another; one that does not is left to PyTorch.
std::string about_overload(const std::string& name) {
  bool writes_self = false;
  const AtenEntry* entry = aten_table().find(name, writes_self);
  if (entry == nullptr) return fmt::format("{}  fallback: not in the registry, whoever has PyTorch runs it\n", name);
  return fmt::format("{}  {}, {} {}\n", name, kind_of(*entry), writes_self ? "in place, by" : "by",
                     entry->signature.name);
}

void list_aten(const Options& options) {
  std::vector<const AtenEntry*> entries;
  size_t width = 0;
  for (const auto& [name, entry] : aten_table().entries()) {
    if (name.find(options.filter) == std::string::npos) continue;
    entries.push_back(&entry);
    width = std::max(width, name.size());
  }
  if (options.json)
    return print(json::array_of(entries, [](const AtenEntry* entry) { return aten_json(*entry); }) + "\n");
  if (entries.empty()) return print(about_overload(options.filter));
  for (const AtenEntry* entry : entries) {
    print(fmt::format("{:<{}}  {:<9}  {}\n", entry->signature.name, width, kind_of(*entry),
                      parameters_text(entry->signature)));
  }
}

void run(const Options& options) {
  if (options.aten) return list_aten(options);
  if (options.scalar_table) return print(scalar_table());
  const Ops ops = select(options);
  if (options.markdown) return print(ops_markdown(ops));
  if (options.json) return print(json::array_of(ops, op_json) + "\n");
  print(listing(ops, options));
}

}  // namespace

Command ops_command(CLI::App& tenon) {
  auto options = std::make_shared<Options>();
  CLI::App* app = tenon.add_subcommand("ops", "List the ops of the graph IR, or say all about one");
  app->add_option("FILTER", options->filter, "An op's name, or a part of it")->type_name("");
  app->add_option("--family", options->family, "Only this family")->type_name("NAME");
  app->add_flag("--composite", options->composite, "Only ops that expand to others");
  app->add_flag("--differentiable", options->differentiable, "Only ops that have a gradient");
  app->add_flag("--markdown", options->markdown, "Write the reference, docs/ops.md");
  app->add_flag("--scalar-table", options->scalar_table,
                "Write the elementwise ops as C++ functions, runtime/scalar_ops.inc");
  app->add_flag("--json", options->json, "Write the records as JSON");
  app->add_flag("--aten", options->aten,
                "List the ATen overloads that become ops: native (one op) or composite (several)");
  app->footer(kFooter);
  app->callback([options] {
    if (options->markdown && options->json) throw CLI::ExcludesError("--markdown", "--json");
  });
  return {app, [options] { run(*options); }};
}

}  // namespace tenon::cli
