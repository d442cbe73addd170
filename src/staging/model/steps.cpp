#include "staging/model/steps.hpp"

#include "base/text.hpp"
#include "staging/model/limits.hpp"

namespace tranship::staging {

std::string step_of(std::int64_t number) { return "step " + std::to_string(number); }

Status merge(StepVariable& into, const StepVariable& more) {
  const bool fits = into.type == more.type && into.element_bytes == more.element_bytes &&
                    (!into.bounds || !more.bounds || into.bounds->rank == more.bounds->rank);
  if (!fits) {
    return Error{ErrorCode::invalid_argument,
                 in_quotes(into.name) + " has elements of " + into.type + " in this step, and " +
                     more.type + " by another writer, or other dimensions",
                 "delete the variable, or use another name"};
  }
  if (__builtin_add_overflow(into.boxes, more.boxes, &into.boxes)) into.boxes = INT64_MAX;
  if (into.bounds && more.bounds) {
    into.bounds = around(*into.bounds, *more.bounds);
  } else if (more.bounds) {
    into.bounds = more.bounds;
  }
  return {};
}

Status check_key(const std::string& key) {
  if (!key.empty() && std::ssize(key) <= name_bytes_most && is_plain_text(key)) return {};
  return Error{ErrorCode::invalid_argument,
               "an attribute's name has 1 to " + std::to_string(name_bytes_most) +
                   " bytes without control characters, unlike " + in_quotes(key, 64)};
}

Error has_another_value(const Attribute& attribute, const std::string& known,
                        const std::string& step) {
  const std::string by = step.empty() ? "" : " by another writer";
  if (attribute.key == ":dims" && !attribute.variable.empty()) {
    return {ErrorCode::invalid_argument,
            in_quotes(attribute.variable) + " has the dimensions " + known +
                (step.empty() ? "" : " in " + step) + by + ", not " + attribute.value,
            "give the same names in the same order, or delete the variable"};
  }
  const std::string all = step.empty() ? "the run" : step;
  return {ErrorCode::invalid_argument,
          "the attribute " + in_quotes(attribute.key) + " of " +
              (attribute.variable.empty() ? all : in_quotes(attribute.variable)) +
              " has another value" + by,
          "let one writer set it, or all the same"};
}

}  // namespace tranship::staging
