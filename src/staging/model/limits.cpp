#include "staging/model/limits.hpp"

#include <algorithm>

namespace tranship::staging {

Result<Limits> limits_of(const Config& config) {
  Limits limits;
  struct Setting {
    const char* name;
    std::int64_t value;
    std::int64_t Limits::*member;
    std::int64_t most;
  };
  // Upper bounds are those of replies.
  const Setting settings[] = {
      {"staging_clients", config.staging_clients, &Limits::clients, INT64_MAX},
      {"staging_variables", config.staging_variables, &Limits::variables, INT64_MAX},
      {"staging_name_bytes", config.staging_name_bytes, &Limits::name_bytes, name_bytes_most},
      {"staging_discards", config.staging_discards, &Limits::versions_remembered, 1 << 20},
      {"staging_boxes", config.staging_boxes, &Limits::boxes, INT64_MAX},
      {"staging_version_boxes", config.staging_version_boxes, &Limits::version_boxes, 1 << 20},
      {"staging_puts", config.staging_puts, &Limits::client_puts, INT64_MAX},
      {"staging_leases", config.staging_leases, &Limits::client_leases, INT64_MAX},
      {"staging_lease_s", config.staging_lease_s, &Limits::lease_s, std::int64_t{1} << 32},
      {"staging_steps", config.staging_steps, &Limits::steps, INT64_MAX},
      {"staging_attribute_bytes", config.staging_attribute_bytes, &Limits::attribute_bytes,
       std::int64_t{1} << 30},
  };
  for (const Setting& setting : settings) {
    if (setting.value < 1 || setting.value > setting.most) {
      return Error{ErrorCode::invalid_argument,
                   std::string("the setting ") + setting.name + " is between 1 and " +
                       std::to_string(setting.most) + ", not " + std::to_string(setting.value)};
    }
    limits.*setting.member = setting.value;
  }
  return limits;
}

Error limit_reached(const std::string& what, std::int64_t limit, const std::string& setting) {
  return {ErrorCode::out_of_memory, what + " " + std::to_string(limit) + ", which is the limit",
          "end or delete some, or start the "
          "server with a larger setting " +
              setting};
}

}  // namespace tranship::staging
