// Values that several messages of the staging service hold, with the checks on them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>

#include "fabric/messages/error_message.hpp"
#include "staging/model/limits.hpp"
#include "staging/model/reduction.hpp"
#include "staging/model/requests.hpp"
#include "staging/model/steps.hpp"
#include "staging/model/variable.hpp"
#include "staging/protocol/coder.hpp"

namespace tranship::staging {

/// Most orphans in one message.
constexpr std::uint32_t orphans_max = 64;
/// Most servers of a group.
constexpr int servers_max = 1 << 16;
/// Most steps in one message that a client is to settle.
constexpr std::uint32_t unsettled_max = 64;
/// Highest order of a commit. No group reaches it.
constexpr std::uint64_t order_max = std::uint64_t{1} << 62;
/// Highest number of a deletion. No metadata server reaches it.
constexpr std::uint64_t deletion_max = std::uint64_t{1} << 62;
/// Highest number of an attempt to write a step. No first server reaches it.
constexpr std::uint64_t step_max = std::uint64_t{1} << 62;
/// Most bytes of a client's name, and of a server's contact.
constexpr std::size_t label_bytes_max = 256;

/// Most offers in one message.
constexpr std::uint32_t offers_max = 256;

/// Visits the bounds of a box that may have more points than 63 bits count.
void visit_bounds(auto& coder, auto& box) {
  if constexpr (std::remove_reference_t<decltype(coder)>::reads) box.upper.fill(1);
  coder(box.rank).check(box.rank >= 0 && box.rank <= dimensions_max);
  for (int k = 0; coder.ok() && k < box.rank; ++k) {
    auto& lower = box.lower[static_cast<std::size_t>(k)];
    auto& upper = box.upper[static_cast<std::size_t>(k)];
    coder(lower)(upper).check(lower < upper && lower >= -index_most && upper <= index_most);
  }
}

/// Returns whether a text is a process's contact, as its engine writes it: never a file's path.
bool is_contact(const std::string& text);
/// Returns whether 63 bits count the points of a box.
bool is_countable(const Box& box);
/// Checks the name of a variable.
/// @error invalid_argument unless it is plain text of 1 to name_bytes_most bytes
Status check_name(const std::string& variable);
/// Returns whether the bits name dimensions of the box, at least one, in which it has one index.
bool is_empty_part(const Box& box, std::uint32_t empty_dimensions);
/// Returns whether a box without elements is described so, or none.
bool is_empty_part(const Extent& extent);
/// Returns whether a variable may have elements of that type and size.
bool is_element(const std::string& type, std::int64_t bytes);

template <>
struct Fields<Box> {
  static void visit(auto& coder, auto& box) {
    visit_bounds(coder, box);
    coder.check(!coder.reads || (coder.ok() && is_countable(box)));
  }
};

/// Visits bounds of a variable, if there are any.
void visit_optional_bounds(auto& coder, auto& bounds) {
  bool there = bounds.has_value();
  coder(there);
  if (!there || !coder.ok()) return;
  if constexpr (std::remove_reference_t<decltype(coder)>::reads) bounds.emplace();
  visit_bounds(coder, *bounds);
}

template <>
struct Fields<Range> {
  static void visit(auto& coder, auto& range) {
    coder(range.segment).check(range.segment >= offered_segment);
    coder(range.offset)(range.bytes).check(range.offset >= 0 && range.bytes >= 0);
  }
};

template <>
struct Fields<OfferedMemory> {
  static void visit(auto& coder, auto& memory) {
    coder(memory.contact).check(is_contact(memory.contact));
    coder(memory.name).check(is_plain_text(memory.name));
    coder.check(!memory.name.empty() && memory.name.size() <= label_bytes_max);
    coder(memory.producer).check(is_plain_text(memory.producer));
    coder.check(memory.producer.size() <= label_bytes_max);
  }
};

template <>
struct Fields<Checksum> {
  static void visit(auto& coder, auto& checksum) {
    coder(checksum.known).check(checksum.known <= 1);
    coder(checksum.crc);
  }
};

template <>
struct Fields<Incarnation> {
  static void visit(auto& coder, auto& incarnation) {
    coder(incarnation.number)(incarnation.stamp).check(incarnation.number <= incarnation.stamp);
  }
};

template <>
struct Fields<Error> {
  static void visit(auto& coder, auto& error) {
    std::uint32_t code = fabric::wire_code_of(error.code);
    coder(code);
    if constexpr (std::remove_reference_t<decltype(coder)>::reads) {
      error.code = fabric::error_code_of(code);
    }
    coder.explanation(error.message).explanation(error.hint);
  }
};

template <>
struct Fields<ClientId> {
  static void visit(auto& coder, auto& id) { coder(id.high)(id.low); }
};

template <>
struct Fields<ObjectId> {
  static void visit(auto& coder, auto& object) {
    coder(object.primary).check(object.primary >= 0 && object.primary < servers_max)(object.object);
  }
};

template <>
struct Fields<PutRequest> {
  static void visit(auto& coder, auto& put) {
    coder(put.variable).require([&] { return check_name(put.variable); });
    coder(put.version)(put.box)(put.type)(put.element_bytes);
    coder.require([&] { return check_element(put); });
    coder(put.incarnation)(put.step).check(put.step <= step_max);
  }
};

template <>
struct Fields<GetRequest> {
  static void visit(auto& coder, auto& get) {
    coder(get.variable).require([&] { return check_name(get.variable); });
    coder(get.choice)
        .check(get.choice >= VersionChoice::exact && get.choice <= VersionChoice::latest);
    coder(get.version)(get.box)(get.incarnation);
  }
};

template <>
struct Fields<Reduction> {
  static void visit(auto& coder, auto& reduction) {
    coder(reduction.kind)
        .check(reduction.kind >= ReductionKind::summary &&
               reduction.kind <= ReductionKind::block_sums);
    coder.list(reduction.edges, edges_max)
        .list(reduction.origin, dimensions_max)
        .list(reduction.extents, dimensions_max);
  }
};

template <>
struct Fields<Reduced> {
  static void visit(auto& coder, auto& reduced) {
    coder(reduced.count).check(reduced.count >= 0);
    coder(reduced.sum)(reduced.rest)(reduced.imaginary)(reduced.imaginary_rest);
    coder(reduced.integer_sum)(reduced.least)(reduced.greatest);
    coder.list(reduced.counts, edges_max).list(reduced.sums);
  }
};

template <>
struct Fields<StoredObject> {
  static void visit(auto& coder, auto& seen) {
    coder(seen.primary).check(seen.primary >= 0 && seen.primary < servers_max);
    coder(seen.object)(seen.order).check(seen.order <= order_max);
    coder(seen.checksum)(seen.range)(seen.box);
  }
};

template <>
struct Fields<LeasedObject> {
  static void visit(auto& coder, auto& leased) {
    coder(leased.state);
    coder.check(leased.state >= LeasedObject::State::here &&
                leased.state <= LeasedObject::State::gone);
    coder(leased.order).check(leased.order <= order_max);
    coder(leased.checksum)(leased.range)(leased.step).check(leased.step <= step_max);
  }
};

template <>
struct Fields<Cells> {
  /// The order of the cells is not sent: each receiver computes it.
  static void visit(auto& coder, auto& cells) {
    for (std::size_t k = 0; k < cells.extents.size(); ++k) {
      coder(cells.origin[k])(cells.extents[k])(cells.lower[k])(cells.upper[k]);
      coder.check(cells.origin[k] >= 0 && cells.origin[k] < cells.extents[k]);
    }
  }
};

template <>
struct Fields<VariableMetadata> {
  static void visit(auto& coder, auto& metadata) {
    coder(metadata.type)(metadata.element_bytes)
        .check(is_element(metadata.type, metadata.element_bytes));
    coder(metadata.first)(metadata.incarnation)(metadata.cells);
    if constexpr (std::remove_reference_t<decltype(coder)>::reads) {
      metadata.cells.rank = metadata.first.rank;
    }
    coder(metadata.domain).check(!metadata.domain || metadata.domain->rank == metadata.first.rank);
    coder(metadata.writers)(metadata.came)(metadata.producers).check(metadata.producers >= 0);
    coder(metadata.missing)(metadata.deaths).check(metadata.missing >= 0 && metadata.deaths >= 0);
  }
};

template <>
struct Fields<TransferTotals> {
  static void visit(auto& coder, auto& moved) {
    coder(moved.count)(moved.bytes).check(moved.count >= 0 && moved.bytes >= 0);
    coder.counts(moved.paths, 2 * paths_max);
  }
};

template <>
struct Fields<VersionInfo> {
  static void visit(auto& coder, auto& version) {
    coder(version.version)(version.objects)(version.bytes);
    coder.check(version.objects >= 0 && version.bytes >= 0);
  }
};

template <>
struct Fields<VariableInfo> {
  static void visit(auto& coder, auto& info) {
    coder(info.name).require([&] { return check_name(info.name); });
    coder(info.type)(info.element_bytes).check(is_element(info.type, info.element_bytes));
    visit_bounds(coder, info.bounds);
    coder(info.traffic.puts)(info.traffic.gets);
    coder(info.producers).check(info.producers >= 0).list(info.versions);
  }
};

template <>
struct Fields<Attribute> {
  static void visit(auto& coder, auto& attribute) {
    coder(attribute.variable).require([&] {
      return attribute.variable.empty() ? Status{} : check_name(attribute.variable);
    });
    coder(attribute.key).require([&] { return check_key(attribute.key); })(attribute.value);
  }
};

template <>
struct Fields<StepVariable> {
  static void visit(auto& coder, auto& variable) {
    coder(variable.name).require([&] { return check_name(variable.name); });
    coder(variable.type)(variable.element_bytes);
    coder.check(is_element(variable.type, variable.element_bytes));
    visit_optional_bounds(coder, variable.bounds);
    coder(variable.boxes).check(variable.boxes >= 0);
  }
};

template <>
struct Fields<BrokenStep> {
  static void visit(auto& coder, auto& step) { coder(step.number).explanation(step.why); }
};

template <>
struct Fields<UnsettledStep> {
  static void visit(auto& coder, auto& step) {
    coder(step.id).check(step.id > 0 && step.id <= step_max)(step.state);
    coder.check(step.state >= StepState::whole && step.state <= StepState::freed);
  }
};

template <>
struct Fields<StepQueue> {
  static void visit(auto& coder, auto& queue) {
    coder(queue.steps).check(queue.steps >= 0)(queue.full);
    coder.check(queue.full >= QueueFull::block && queue.full <= QueueFull::spill);
    coder(queue.readers).check(queue.readers >= 0)(queue.keep_first);
  }
};

template <>
struct Fields<ServerInfo> {
  static void visit(auto& coder, auto& info) {
    coder(info.server)(info.contact).check(is_plain_text(info.contact));
    coder(info.memory_bytes)(info.memory_bytes_used)(info.spilled_bytes)(info.clients);
    coder.list(info.names);
  }
};

}  // namespace tranship::staging
