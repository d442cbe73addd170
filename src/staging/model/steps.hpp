// Steps of a simulation: many variables and attributes of one number, which are seen whole or not
// at all.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "staging/model/box.hpp"
#include "staging/model/requests.hpp"

namespace tranship::staging {

/// Number of one attempt to write a step, counted by the first server from 1 on. 0: none.
using StepId = std::uint64_t;

enum class StepState : std::uint32_t {
  open = 1,  ///< Clients write it.
  whole,     ///< All its writers have ended it.
  broken,    ///< A writer has died, or has given it up: nothing of it will be seen.
  freed      ///< It was whole, and is not kept any more.
};

/// A value that belongs to a step, a variable, or all of a run.
struct Attribute {
  std::string variable;  ///< Empty: of the step, or of the run.
  std::string key;
  std::string value;  ///< A JSON text; empty: the attribute is deleted.
};

/// What a step has of a variable.
struct StepVariable {
  std::string name;
  std::string type;
  std::int64_t element_bytes = 0;
  std::optional<Box> bounds{};  ///< Around its boxes; nothing: none has elements.
  std::int64_t boxes = 0;
};

struct StepContents {
  std::vector<StepVariable> variables;
  std::vector<Attribute> attributes;
};

/// A step that readers pass by.
struct BrokenStep {
  std::int64_t number = 0;
  std::string why;
};

/// A step that has ended, or was freed, and of which not all servers know that.
struct UnsettledStep {
  StepId id = 0;
  StepState state = StepState::broken;
};

/// What happens to a step that is begun while as many are kept as may be.
enum class QueueFull : std::uint32_t {
  block = 1,    ///< Its writers wait.
  drop_oldest,  ///< The oldest whole step that no reader holds is freed.
  drop_newest,  ///< It is dropped: its puts have no effect, and readers pass it by.
  spill         ///< It is written all the same: the servers move objects to disk.
};

/// How long steps are kept.
struct StepQueue {
  int steps = 0;  ///< Whole and open steps that are kept at a time; 0: any number.
  QueueFull full = QueueFull::block;
  int readers = 0;          ///< Registered readers that the first step waits for.
  bool keep_first = false;  ///< Whether the first step is kept whatever else is, and not counted.
};

/// Which steps each member of a group of readers gets.
enum class Sharing : std::uint32_t {
  demand = 1,  ///< The next one, when it asks.
  round_robin  ///< One after the other, in the order in which they have joined.
};

/// Which step a reader asks for.
struct StepQuery {
  VersionChoice choice = VersionChoice::next;
  std::int64_t number = 0;
};

/// Returns the words for a step in messages: step 3.
std::string step_of(std::int64_t number);

/// Adds what another writer has of a variable.
/// @error invalid_argument if it has another type, or another number of dimensions
Status merge(StepVariable& into, const StepVariable& more);

/// Checks an attribute's key.
/// @error invalid_argument unless it is plain text of 1 to name_bytes_most bytes
Status check_key(const std::string& key);

/// Attributes whose keys begin with this say what the data of a variable mean, such as ":dims", the
/// names of its dimensions. They have one value until the variable is deleted.
constexpr char reserved_prefix = ':';

/// Returns the error of an attribute that has another value, `known`, already: in a step, as
/// step_of() calls it, or if that is empty, outside of steps.
Error has_another_value(const Attribute& attribute, const std::string& known,
                        const std::string& step);

}  // namespace tranship::staging
