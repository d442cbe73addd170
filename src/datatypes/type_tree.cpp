#include "datatypes/type_tree.hpp"

#include <algorithm>
#include <utility>

namespace tranship {
namespace {

std::int64_t runs_times(std::int64_t runs, std::int64_t count) {
  return runs > TypeNode::runs_most / count ? TypeNode::runs_most : runs * count;
}

bool is_run(const TypeTree& tree) { return tree.node->kind == TypeNode::Kind::run; }

/// Returns a tree whose single part lies at offset 0, and the offset of the tree.
TypeTree with_part(TypeNode node, const TypeTree& part) {
  node.depth = part.node->depth + 1;
  node.parts = {{0, part.node}};
  return {part.offset, std::make_shared<const TypeNode>(std::move(node))};
}

void append(const TypeNode& node, std::int64_t offset, std::vector<TypeRun>& runs) {
  switch (node.kind) {
    case TypeNode::Kind::run:
      if (!runs.empty() && runs.back().offset + runs.back().bytes == offset) {
        runs.back().bytes += node.bytes;
      } else {
        runs.push_back({offset, node.bytes});
      }
      return;
    case TypeNode::Kind::loop:
      for (std::int64_t k = 0; k < node.count; ++k) {
        append(*node.parts[0].node, offset + k * node.stride, runs);
      }
      return;
    case TypeNode::Kind::list:
      for (const std::int64_t displacement : node.displacements) {
        append(*node.parts[0].node, offset + displacement, runs);
      }
      return;
    case TypeNode::Kind::sequence:
      for (const TypeTree& part : node.parts) append(*part.node, offset + part.offset, runs);
      return;
  }
}

/// Returns a node of different parts.
TypeTree of_parts(std::vector<TypeTree> parts) {
  TypeNode node;
  node.kind = TypeNode::Kind::sequence;
  node.runs = 0;
  node.stated = 0;
  node.places = 0;
  node.lower = parts[0].offset + parts[0].node->lower;
  node.upper = parts[0].offset + parts[0].node->upper;
  for (const TypeTree& part : parts) {
    node.lower = std::min(node.lower, part.offset + part.node->lower);
    node.upper = std::max(node.upper, part.offset + part.node->upper);
    node.bytes += part.node->bytes;
    node.runs = std::min(node.runs + part.node->runs, TypeNode::runs_most);
    node.stated += part.node->stated;
    node.places = std::min(node.places + part.node->places, TypeNode::runs_most);
    node.depth = std::max(node.depth, part.node->depth + 1);
  }
  node.parts = std::move(parts);
  return {0, std::make_shared<const TypeNode>(std::move(node))};
}

/// Returns the distance of the displacements if all are equally far apart.
std::pair<bool, std::int64_t> even_step(const std::vector<std::int64_t>& displacements) {
  const std::int64_t step = displacements[1] - displacements[0];
  for (std::size_t k = 2; k < displacements.size(); ++k) {
    if (displacements[k] - displacements[k - 1] != step) return {false, 0};
  }
  return {true, step};
}

}  // namespace

std::int64_t TypeTree::bytes() const { return node ? node->bytes : 0; }

TypeTree TypeTree::run(std::int64_t bytes) {
  if (bytes == 0) return {};
  TypeNode node;
  node.bytes = bytes;
  node.upper = bytes;
  return {0, std::make_shared<const TypeNode>(std::move(node))};
}

TypeTree TypeTree::loop(std::int64_t count, std::int64_t stride, const TypeTree& part) {
  if (count == 0 || !part.node) return {};
  if (count == 1) return part;
  const TypeNode& inner = *part.node;
  if (is_run(part) && stride == inner.bytes) return run(count * stride).shifted(part.offset);
  if (inner.kind == TypeNode::Kind::loop && stride == inner.count * inner.stride) {
    return loop(count * inner.count, inner.stride, inner.parts[0]).shifted(part.offset);
  }
  TypeNode node;
  node.kind = TypeNode::Kind::loop;
  node.bytes = count * inner.bytes;
  node.runs = runs_times(inner.runs, count);
  const std::int64_t reach = (count - 1) * stride;
  node.lower = inner.lower + std::min<std::int64_t>(reach, 0);
  node.upper = inner.upper + std::max<std::int64_t>(reach, 0);
  node.stated = inner.stated + 1;
  node.places = inner.places;
  node.count = count;
  node.stride = stride;
  return with_part(std::move(node), part);
}

TypeTree TypeTree::list(const std::vector<std::int64_t>& displacements, const TypeTree& part) {
  if (displacements.empty() || !part.node) return {};
  if (displacements.size() == 1) return part.shifted(displacements[0]);
  if (const auto [even, step] = even_step(displacements); even) {
    return loop(static_cast<std::int64_t>(displacements.size()), step, part)
        .shifted(displacements[0]);
  }
  const auto count = static_cast<std::int64_t>(displacements.size());
  const TypeNode& inner = *part.node;
  TypeNode node;
  node.kind = TypeNode::Kind::list;
  node.bytes = count * inner.bytes;
  node.runs = runs_times(inner.runs, count);
  const auto [low, high] = std::minmax_element(displacements.begin(), displacements.end());
  node.lower = inner.lower + *low;
  node.upper = inner.upper + *high;
  node.stated = inner.stated + count;
  node.places = runs_times(inner.places, count);
  node.displacements = displacements;
  return with_part(std::move(node), part);
}

TypeTree TypeTree::sequence(const std::vector<TypeTree>& given) {
  std::vector<TypeTree> parts;
  parts.reserve(given.size());
  for (const TypeTree& part : given) {
    if (!part.node) continue;
    const bool touches = !parts.empty() && is_run(part) && is_run(parts.back()) &&
                         parts.back().offset + parts.back().node->bytes == part.offset;
    if (touches) {
      parts.back() = run(parts.back().node->bytes + part.node->bytes).shifted(parts.back().offset);
    } else {
      parts.push_back(part);
    }
  }
  if (parts.empty()) return {};
  if (parts.size() == 1) return parts[0];
  const auto first = parts[0].node;
  const bool same = std::all_of(parts.begin(), parts.end(),
                                [&](const TypeTree& part) { return part.node == first; });
  if (same) {
    std::vector<std::int64_t> displacements;
    displacements.reserve(parts.size());
    for (const TypeTree& part : parts) displacements.push_back(part.offset);
    return list(displacements, {0, first});
  }
  return of_parts(std::move(parts));
}

void append_runs(const TypeTree& tree, std::vector<TypeRun>& runs) {
  if (tree.node) append(*tree.node, tree.offset, runs);
}

}  // namespace tranship
