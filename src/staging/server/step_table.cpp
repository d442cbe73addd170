#include "staging/server/step_table.hpp"

#include <algorithm>
#include <iterator>

#include "base/text.hpp"

namespace tranship::staging {
namespace {

std::int64_t bytes_of(const StepVariable& variable) {
  return std::ssize(variable.name) + std::ssize(variable.type) + std::int64_t{sizeof variable};
}

std::int64_t bytes_of(const Attribute& attribute) {
  return std::ssize(attribute.variable) + std::ssize(attribute.key) + std::ssize(attribute.value);
}

Error not_open(const std::string& why) {
  return {ErrorCode::not_found, why.empty() ? "there is no such step to write" : why,
          "begin the next step"};
}

}  // namespace

/// Returns the record of a step that others have begun, and a client may join; null if there is
/// none.
const StepRecord* StepTable::joined(std::int64_t number) const {
  const auto known = by_number_.find(number);
  if (known == by_number_.end()) return nullptr;
  const StepRecord& record = records_.at(known->second);
  const bool lacks = std::ssize(record.parts) < record.writers;
  return record.state == StepState::open || (record.dropped && lacks) ? &record : nullptr;
}

bool StepTable::joins(std::int64_t number) const { return joined(number) != nullptr; }

Status StepTable::check_join(const ClientId& client, const StepRecord& record, int writers) {
  if (record.writers != writers) {
    return Error{ErrorCode::invalid_argument,
                 step_of(record.number) + " has " + std::to_string(record.writers) +
                     " writers, not " + std::to_string(writers),
                 "give all of its writers the same number"};
  }
  if (record.parts.contains(client)) {
    return Error{ErrorCode::invalid_argument,
                 "this client has begun " + step_of(record.number) + " before",
                 "a client writes a step once: open one for each writer"};
  }
  if (std::ssize(record.parts) < writers) return {};
  return Error{
      ErrorCode::invalid_argument,
      step_of(record.number) + " has been begun by its " + std::to_string(writers) + " writers",
      "say with writers= how many there are"};
}

/// Checks whether a client may be the first to begin a step.
Status StepTable::check_begin(std::int64_t number) {
  const auto rise = [&](std::int64_t before) {
    return Error{ErrorCode::invalid_argument,
                 "steps rise: " + step_of(before) + " was begun before " + step_of(number),
                 "begin a higher one"};
  };
  if (whole_.contains(number)) {
    return Error{ErrorCode::invalid_argument, step_of(number) + " is whole, and stays as it is",
                 "begin a higher one"};
  }
  if (highest_whole_ && number <= *highest_whole_) return rise(*highest_whole_);
  if (highest_ && number < *highest_) return rise(*highest_);
  if (open_.size() >= open_max) {
    return Error{ErrorCode::out_of_memory,
                 "the steps that are open are " + std::to_string(open_max) + ", which is the limit",
                 "end some, or give them up"};
  }
  while (std::ssize(records_) >= limits_.steps && forget_oldest_broken()) {
  }
  if (std::ssize(records_) < limits_.steps) return {};
  return limit_reached("the steps that the server keeps are", limits_.steps, "staging_steps");
}

Result<const StepRecord*> StepTable::begin(const ClientId& client, std::int64_t number, int writers,
                                           const std::string& drops) {
  if (writers < 1) return Error{ErrorCode::invalid_argument, "a step has at least one writer"};
  const auto before = clients_.find(client);
  if (before != clients_.end() && number < before->second.highest) {
    return Error{ErrorCode::invalid_argument,
                 "steps rise: this client has begun " + step_of(before->second.highest) +
                     " before " + step_of(number),
                 "begin one from there on"};
  }
  const StepRecord* known = joined(number);
  const Status allowed =
      known != nullptr ? check_join(client, *known, writers) : check_begin(number);
  if (!allowed) return allowed.error();
  const StepId id = known != nullptr ? known->id : ++last_;
  StepRecord& record = records_[id];
  if (known == nullptr) {
    record.id = id;
    record.number = number;
    record.writers = writers;
    by_number_[number] = id;
    highest_ = number;
    open_.insert(id);
  }
  record.parts.emplace(client, record.dropped);
  const auto [writer, is_new] = clients_.try_emplace(client);
  came_ += is_new ? 1 : 0;
  writers_most_ = std::max(writers_most_, writers);
  writer->second.highest = number;
  if (!record.dropped) writer->second.within.insert(id);
  if (known == nullptr && !drops.empty()) {
    record.dropped = true;
    end_broken(record, step_of(number) + " was dropped: " + drops);
  }
  if (std::ssize(record.parts) == writers) break_left(record);
  return &record;
}

/// Breaks lower steps of the same writers that not all of them have begun: none will do so any
/// more.
void StepTable::break_left(const StepRecord& higher) {
  for (const StepId id : std::set(open_)) {
    StepRecord& record = records_.at(id);
    const auto is_of_higher = [&](const auto& part) { return higher.parts.contains(part.first); };
    const bool left = record.number < higher.number && record.writers == higher.writers &&
                      std::ssize(record.parts) < record.writers &&
                      std::all_of(record.parts.begin(), record.parts.end(), is_of_higher);
    if (!left) continue;
    end_broken(record, step_of(record.number) + " was begun by " +
                           std::to_string(record.parts.size()) + " of " +
                           std::to_string(record.writers) + " writers, which have gone on to " +
                           step_of(higher.number));
  }
}

/// Returns null unless the step is open, and the client is within it.
StepRecord* StepTable::part_of(const ClientId& client, StepId id) {
  const auto found = records_.find(id);
  if (found == records_.end() || found->second.state != StepState::open) return nullptr;
  const auto part = found->second.parts.find(client);
  const bool within = part != found->second.parts.end() && !part->second;
  return within ? &found->second : nullptr;
}

Status StepTable::add(const ClientId& client, StepId id, const StepContents& contents) {
  StepRecord* record = part_of(client, id);
  if (record == nullptr) {
    const StepRecord* known = find(id);
    return not_open(known == nullptr ? "" : known->why);
  }
  std::int64_t bytes = record->bytes;
  std::map<std::string, StepVariable> variables;
  for (const StepVariable& variable : contents.variables) {
    const auto found = record->variables.find(variable.name);
    const bool known = found != record->variables.end();
    const auto [merged, is_new] =
        variables.emplace(variable.name, known ? found->second : variable);
    if (is_new && !known) {
      bytes += bytes_of(variable);
      continue;
    }
    if (Status status = merge(merged->second, variable); !status) return status;
  }
  std::map<std::pair<std::string, std::string>, std::string> attributes;
  for (const Attribute& attribute : contents.attributes) {
    const std::pair name(attribute.variable, attribute.key);
    if (attribute.value.empty()) {
      return Error{ErrorCode::invalid_argument,
                   "the attribute " + in_quotes(attribute.key) + " has no value"};
    }
    const auto found = record->attributes.find(name);
    const bool known = found != record->attributes.end();
    const auto [value, is_new] = attributes.emplace(name, known ? found->second : attribute.value);
    if (value->second != attribute.value) {
      return has_another_value(attribute, value->second, step_of(record->number));
    }
    if (is_new && !known) bytes += bytes_of(attribute);
  }
  if (bytes > limits_.attribute_bytes) {
    return limit_reached("the bytes of a step's attributes, with the list of its variables, are " +
                             std::to_string(bytes) + ", above",
                         limits_.attribute_bytes, "staging_attribute_bytes");
  }
  record->bytes = bytes;
  for (auto& [name, variable] : variables) record->variables[name] = std::move(variable);
  record->attributes.merge(attributes);
  return {};
}

Result<const StepRecord*> StepTable::end(const ClientId& client, StepId id,
                                         const StepContents& contents) {
  const auto found = records_.find(id);
  if (found == records_.end()) return not_open("");
  StepRecord& record = found->second;
  const auto part = record.parts.find(client);
  if (part == record.parts.end()) return not_open("");
  if (part->second || record.state != StepState::open) return &record;
  if (Status status = add(client, id, contents); !status) return status.error();
  part->second = true;
  clients_.at(client).within.erase(id);
  const bool all = std::all_of(record.parts.begin(), record.parts.end(),
                               [](const auto& one) { return one.second; });
  if (all && std::ssize(record.parts) == record.writers) end_whole(record);
  return &record;
}

StepId StepTable::begun_by(const ClientId& client, std::int64_t number) const {
  const auto writer = clients_.find(client);
  const auto known = by_number_.find(number);
  if (writer == clients_.end() || known == by_number_.end()) return 0;
  return writer->second.within.contains(known->second) ? known->second : 0;
}

bool StepTable::has_left_open(const ClientId& client) const {
  const auto writer = clients_.find(client);
  if (writer == clients_.end() || !writer->second.within.empty()) return false;
  return std::any_of(open_.begin(), open_.end(),
                     [&](StepId id) { return records_.at(id).parts.contains(client); });
}

bool StepTable::is_within(const ClientId& client, StepId id) const {
  const auto writer = clients_.find(client);
  return writer != clients_.end() && writer->second.within.contains(id);
}

void StepTable::give_up(const ClientId& client, StepId id, const std::string& why) {
  StepRecord* record = part_of(client, id);
  if (record == nullptr) return;
  const std::string shown = why.size() <= why_bytes ? why : in_quotes(why, why_bytes);
  end_broken(*record, step_of(record->number) + " was given up: " + shown);
}

void StepTable::end_whole(StepRecord& record) {
  record.state = StepState::whole;
  for (const std::string& variable : record.removed) record.variables.erase(variable);
  deaths_ = 0;  // those who wrote it go on
  open_.erase(record.id);
  unsettled_.insert(record.id);
  ended_.push_back({record.id, StepState::whole});
  whole_.insert(record.number);
  highest_whole_ = std::max(highest_whole_.value_or(INT64_MIN), record.number);
  if (!first_whole_) first_whole_ = record.number;
  trim();
}

void StepTable::end_broken(StepRecord& record, std::string why) {
  record.state = StepState::broken;
  record.why = std::move(why);
  record.variables.clear();
  record.attributes.clear();
  open_.erase(record.id);
  unsettled_.insert(record.id);
  ended_.push_back({record.id, StepState::broken});
  broken_.push_back(record.id);
  for (const auto& [client, ended] : record.parts) {
    const auto writer = clients_.find(client);
    if (writer != clients_.end()) writer->second.within.erase(record.id);
  }
  trim();
}

void StepTable::end_freed(StepRecord& record) {
  record.state = StepState::freed;
  record.settled = false;
  record.settler.reset();
  record.failed.clear();
  record.variables.clear();
  record.attributes.clear();
  whole_.erase(record.number);
  by_number_.erase(record.number);
  unsettled_.insert(record.id);
  ended_.push_back({record.id, StepState::freed});
  freed_.push_back(record.id);
  // What is not known counts as freed.
  if (freed_.size() > broken_max) erase(StepId(freed_.front()));
}

/// Frees whole steps beyond the limit, and forgets broken ones that all servers know.
void StepTable::trim() {
  while (versions_max_ > 0 && std::ssize(whole_) > versions_max_) {
    end_freed(records_.at(by_number_.at(*whole_.begin())));
  }
  while (broken_.size() > broken_max && forget_oldest_broken()) {
  }
}

/// Forgets the oldest broken step that all servers know to be so; if there are very many that they
/// do not, the oldest of all: it counts as broken as before. Returns whether one was forgotten.
bool StepTable::forget_oldest_broken() {
  const auto settled = std::find_if(broken_.begin(), broken_.end(),
                                    [&](StepId id) { return records_.at(id).settled; });
  if (settled != broken_.end()) {
    erase(StepId(*settled));
    return true;
  }
  if (broken_.size() <= broken_max) return false;
  erase(StepId(broken_.front()));
  return true;
}

/// Forgets a broken or freed step.
void StepTable::erase(StepId id) {
  const auto found = records_.find(id);
  const StepRecord& record = found->second;
  if (record.state == StepState::broken) std::erase(broken_, id);
  if (record.state == StepState::freed) std::erase(freed_, id);
  const auto number = by_number_.find(record.number);
  if (number != by_number_.end() && number->second == id) by_number_.erase(number);
  unsettled_.erase(id);
  records_.erase(found);
}

bool StepTable::lost(const ClientId& client, const std::string& name) {
  const auto writer = clients_.find(client);
  if (writer == clients_.end() || writer->second.lost) return writer != clients_.end();
  writer->second.lost = true;
  for (const StepId id : std::set(writer->second.within)) {
    StepRecord& record = records_.at(id);
    end_broken(record, "the writer " + in_quotes(name) + " of " + step_of(record.number) +
                           " was lost within it");
  }
  return true;
}

void StepTable::came_back(const ClientId& client) {
  const auto writer = clients_.find(client);
  if (writer != clients_.end()) writer->second.lost = false;
}

bool StepTable::gone(const ClientId& client, bool cleanly) {
  if (clients_.erase(client) == 0) return false;
  deaths_ += cleanly ? 0 : 1;
  return true;
}

const StepRecord* StepTable::find(StepId id) const {
  const auto found = records_.find(id);
  return found == records_.end() ? nullptr : &found->second;
}

StepState StepTable::state(StepId id) const {
  if (id > last_) return StepState::open;
  const StepRecord* record = find(id);
  return record == nullptr ? StepState::freed : record->state;
}

Result<StepTable::Found> StepTable::find(const StepQuery& query) const {
  Found found;
  found.number = query.number;
  if (query.choice == VersionChoice::latest) {
    const auto above = whole_.upper_bound(query.number);
    found.why = "no step is whole yet";
    if (above != whole_.begin()) found.record = find(by_number_.at(*std::prev(above)));
    return found;
  }
  const bool exact = query.choice == VersionChoice::exact;
  auto one = exact ? by_number_.find(query.number) : by_number_.upper_bound(query.number);
  for (; one != by_number_.end(); ++one) {
    const StepRecord& record = records_.at(one->second);
    if (record.state == StepState::whole) {
      found.record = &record;
      return found;
    }
    if (record.state == StepState::open) {
      const auto ended = std::count_if(record.parts.begin(), record.parts.end(),
                                       [](const auto& part) { return part.second; });
      found.number = record.number;
      found.why = step_of(record.number) + " has been ended by " + std::to_string(ended) + " of " +
                  std::to_string(record.writers) + " writers";
      return found;
    }
    if (!exact && record.number == highest_ && ending() == Ending::none) {
      found.number = record.number;
      found.why = record.why + "; it may be begun again";
      return found;
    }
    found.broken.push_back({record.number, record.why});
    if (exact) break;
  }
  if (exact && found.broken.empty() && highest_ && query.number <= *highest_) {
    return Error{ErrorCode::not_found, "there is no " + step_of(query.number) +
                                           ": it was never written, or was discarded"};
  }
  found.why = exact ? step_of(query.number) + " has not begun yet"
                    : "no step after " + std::to_string(query.number) + " has begun yet";
  if (query.number == INT64_MIN) found.why = "no step has begun yet";
  return found;
}

bool StepTable::may_begin_again() const {
  const auto last = highest_ ? by_number_.find(*highest_) : by_number_.end();
  return last != by_number_.end() && records_.at(last->second).state == StepState::broken;
}

Ending StepTable::ending() const {
  const auto is_connected = [](const auto& one) { return !one.second.lost; };
  if (came_ == 0 || came_ < writers_most_ ||
      std::any_of(clients_.begin(), clients_.end(), is_connected)) {
    return Ending::none;
  }
  return clients_.empty() && deaths_ == 0 ? Ending::closed : Ending::died;
}

std::vector<UnsettledStep> StepTable::take_unsettled(ClientConnection client) {
  std::vector<UnsettledStep> taken;
  for (const StepId id : unsettled_) {
    StepRecord& record = records_.at(id);
    if (record.settler || record.failed.contains(client)) continue;
    if (taken.size() == settled_at_once) break;
    record.settler = client;
    taken.push_back({id, record.state});
  }
  return taken;
}

bool StepTable::take_unsettled(ClientConnection client, StepId id) {
  if (!unsettled_.contains(id)) return false;
  StepRecord& record = records_.at(id);
  if (record.settler || record.failed.contains(client)) return false;
  record.settler = client;
  return true;
}

void StepTable::settled(ClientConnection client, StepId id, StepState state, bool done) {
  // It may have been freed since it became whole.
  if (!unsettled_.contains(id) || records_.at(id).state != state) return;
  StepRecord& record = records_.at(id);
  record.settler.reset();
  if (!done) {
    record.failed.insert(client);
    return;
  }
  record.settled = true;
  record.failed.clear();
  unsettled_.erase(id);
  if (state == StepState::freed) erase(id);
  trim();
}

void StepTable::drop_settler(ClientConnection client) {
  for (const StepId id : unsettled_) {
    StepRecord& record = records_.at(id);
    if (record.settler == client) record.settler.reset();
    record.failed.erase(client);
  }
}

void StepTable::settle_again() {
  for (const StepId id : unsettled_) records_.at(id).failed.clear();
}

bool StepTable::free(StepId id) {
  const auto found = records_.find(id);
  if (found == records_.end() || found->second.state != StepState::whole) return false;
  end_freed(found->second);
  return true;
}

void StepTable::discarded(const std::string& variable, std::int64_t version) {
  const auto number = by_number_.find(version);
  if (number == by_number_.end()) return;
  StepRecord& record = records_.at(number->second);
  if (record.state == StepState::whole && record.variables.contains(variable)) end_freed(record);
}

void StepTable::remove(const std::string& variable, std::optional<std::int64_t> version) {
  for (const StepId id : open_) {
    StepRecord& record = records_.at(id);
    if (!version || *version == record.number) record.removed.insert(variable);
  }
  for (const std::int64_t number : whole_) {
    if (!version || *version == number)
      records_.at(by_number_.at(number)).variables.erase(variable);
  }
}

}  // namespace tranship::staging
