#include "schedule/edit.h"

#include "support/cursor.h"
#include "support/text.h"

namespace tenon::loops {
namespace {

class EditParser {
 public:
  EditParser(const LoopTree& tree, std::string_view text) : tree_(tree), cursor_(text) {}

  Result<LoopTree> run() {
    const Location where = cursor_.here();
    const std::string_view verb = cursor_.identifier("an edit");
    for (const auto& [name, apply] : kEdits) {
      if (name == verb) return (this->*apply)();
    }
    std::vector<std::string_view> names;
    for (const auto& [name, apply] : kEdits) names.push_back(name);
    fail_at(where, "there is no edit '{}'{}", verb, did_you_mean(verb, names));
  }

 private:
  using Apply = Result<LoopTree> (EditParser::*)();
  struct Edit {
    std::string_view name;
    Apply apply;
  };

  TreeRef line() {
    const Location where = cursor_.here();
    const int64_t number = cursor_.integer("the number of a line");
    if (number < 0 || number >= static_cast<int64_t>(tree_.size())) {
      fail_at(where, "there is no line {}: the tree has {}, from 0 on", number, tree_.size());
    }
    return {static_cast<uint32_t>(number)};
  }

  NodeRef node() {
    const Location where = cursor_.here();
    cursor_.expect("%");
    const std::string_view name = cursor_.name("a node's name");
    if (const auto found = tree_.ir.node_named(name)) return *found;
    std::vector<std::string_view> names;
    for (const Node& node : tree_.ir.nodes()) names.push_back(node.name);
    fail_at(where, "there is no node %{}{}", name, did_you_mean(name, names));
  }

  void end() {
    if (!cursor_.at_end()) cursor_.expected("the end of the edit");
  }

  Result<LoopTree> split() {
    const TreeRef loop = line();
    const int64_t size = cursor_.integer("the size");
    return end(), loops::split(tree_, loop, size);
  }

  Result<LoopTree> merge() {
    const TreeRef loop = line();
    return end(), loops::merge(tree_, loop);
  }

  Result<LoopTree> swap() {
    if (cursor_.peek() == '%') {
      const NodeRef a = node(), b = node();
      return end(), swap_nodes(tree_, a, b);
    }
    const TreeRef a = line(), b = line();
    return end(), swap_loops(tree_, a, b);
  }

  Result<LoopTree> fuse() {
    const TreeRef loop = line();
    return end(), loops::fuse(tree_, loop);
  }

  Result<LoopTree> unfuse() {
    const TreeRef loop = line(), child = line();
    return end(), loops::unfuse(tree_, loop, child);
  }

  Result<LoopTree> annotate() {
    const TreeRef loop = line();
    const bool is_none = cursor_.accept_word("none");
    const Annotation annotation = is_none ? Annotation() : parse_annotation(cursor_);
    if (!is_none && annotation.mark == Mark::kNone)
      cursor_.expected("parallel, block, thread, vectorize, unroll, tile or none");
    return end(), loops::annotate(tree_, loop, annotation);
  }

  Result<LoopTree> order() {
    const NodeRef of = node();
    const std::vector<LoopSpec> loops = parse_loops(cursor_, tree_.ir);
    return end(), reorder(tree_, of, loops);
  }

  Result<LoopTree> copy() {
    const NodeRef reader = node(), input = node();
    const TreeRef inside = cursor_.at_end() ? TreeRef() : line();
    return end(), copy_input(tree_, reader, input, inside);
  }

  Result<LoopTree> remove() {
    const NodeRef copy = node();
    return end(), delete_copy(tree_, copy);
  }

  Result<LoopTree> split_node() {
    const NodeRef fold = node();
    const TreeRef loop = line();
    return end(), loops::split_node(tree_, fold, loop);
  }

  static constexpr Edit kEdits[] = {
      {"split", &EditParser::split},   {"merge", &EditParser::merge},
      {"swap", &EditParser::swap},     {"fuse", &EditParser::fuse},
      {"unfuse", &EditParser::unfuse}, {"annotate", &EditParser::annotate},
      {"order", &EditParser::order},   {"copy", &EditParser::copy},
      {"delete", &EditParser::remove}, {"split_node", &EditParser::split_node},
  };

  const LoopTree& tree_;
  Cursor cursor_;
};

}  // namespace

Result<LoopTree> apply_edit(const LoopTree& tree, std::string_view edit) {
  return attempt([&] { return EditParser(tree, edit).run().value(); });
}

std::string_view edit_help() {
  return "split 2 16             splits the loop in line 2 by 16\n"
         "merge 2                merges the loop in line 2 with the loop inside of it\n"
         "swap 1 2               exchanges two loops, or two nodes: swap %a %b\n"
         "fuse 4                 joins the loop in line 4 with the loop before it\n"
         "unfuse 2 5             cuts the loop in line 2 before line 5\n"
         "annotate 3 vectorize   or: parallel, block, thread, unroll, tile \"name\", none\n"
         "order %p m by 8, n, m, k  sets the loops of one node, from the outside in\n"
         "copy %p %b 1           %p reads %b through a copy, made in the loop in line 1 (no line: before all loops)\n"
         "delete %b_copy         removes a copy\n"
         "split_node %c 2        folds the loop in line 2 in two stages\n";
}

}  // namespace tenon::loops
