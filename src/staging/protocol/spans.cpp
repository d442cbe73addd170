#include "staging/protocol/spans.hpp"

namespace tranship::staging {
namespace {

constexpr const char* category = "staging";
/// Most waiting puts that are followed.
constexpr std::size_t waiting_max = 4096;

/// The parts of a request that a trace shows.
struct Asked {
  std::string variable;
  std::string object;  ///< Of a request for memory.
  std::string client;
};

Asked read_asked(std::span<const std::byte> request) {
  const auto look = []<typename Request>(const Request& one) -> Result<Asked> {
    Asked asked;
    if constexpr (std::is_same_v<Request, protocol::Hello>) asked.client = one.name;
    if constexpr (requires { one.variable; }) asked.variable = one.variable;
    if constexpr (requires { one.get; }) asked.variable = one.get.variable;
    if constexpr (requires { one.entry; }) asked.variable = one.entry.variable;
    if constexpr (requires { one.domain; }) asked.variable = one.domain.variable;
    if constexpr (requires { one.object.variable; }) asked.variable = one.object.variable;
    constexpr bool takes = std::is_same_v<Request, protocol::Put> ||  //
                           std::is_same_v<Request, protocol::Begin>;
    if constexpr (takes) {
      asked.object = one.object.variable + " " + std::to_string(one.object.version) + " " +
                     one.object.box.text();
    }
    return asked;
  };
  const auto asked = read_request<Result<Asked>>(request, look);
  return asked ? *asked : Asked{};
}

}  // namespace

Span call_span(const char* call, const std::string& variable, const Box& box, std::int64_t bytes) {
  Span span;
  span.name = std::string(call) + " " + variable;
  span.category = category;
  span.bytes = bytes;
  span.notes = {{"call", call}, {"variable", variable}, {"box", box.text()}};
  return span;
}

Span part_span(const std::string& name, std::int64_t bytes) {
  Span span;
  span.name = name;
  span.category = category;
  span.bytes = bytes;
  return span;
}

Span request_span(std::span<const std::byte> request, int server) {
  Span span = part_span(std::string("ask ") + to_string(kind_of(request)));
  span.notes = {{"server", std::to_string(server)}};
  return span;
}

ServerTrace::ServerTrace(Trace& trace, int server) : trace_(trace) {
  trace_.call_process("server " + std::to_string(server));
}

void ServerTrace::answered(ClientConnection from, std::span<const std::byte> request,
                           const Result<std::size_t>& length, std::span<const std::byte> reply,
                           std::int64_t begin_ns) {
  const RequestKind kind = kind_of(request);
  Span span = part_span(std::string("answer ") + to_string(kind),
                        static_cast<std::int64_t>(request.size() + (length ? *length : 0)));
  span.begin_ns = begin_ns;
  span.end_ns = now_ns();
  span.thread = own_row();
  const Asked asked = read_asked(request);
  if (kind == RequestKind::hello) names_[from] = asked.client;
  span.notes.emplace_back("client", names_[from]);
  if (!asked.variable.empty()) span.notes.emplace_back("variable", asked.variable);
  if (!length) span.notes.emplace_back("failed", length.error().text());
  const bool waits = length && says_waiting(reply);
  if (waits) span.notes.emplace_back("said", "waiting");
  if (!asked.object.empty()) follow_wait(from, span, asked.object, waits);
  trace_.add(std::move(span));
}

/// Adds the span of a put that waited for memory: from the first request, which the client repeats,
/// to the one that was granted.
void ServerTrace::follow_wait(ClientConnection from, const Span& answer, const std::string& object,
                              bool waits) {
  if (waits) {
    // Another server may take the object, which this one does not learn: the list is bounded.
    if (waiting_.size() < waiting_max) waiting_.emplace(std::pair(from, object), answer.begin_ns);
    return;
  }
  const auto found = waiting_.find({from, object});
  if (found == waiting_.end()) return;
  Span span = answer;
  span.name = "wait for memory";
  span.begin_ns = found->second;
  span.notes.emplace_back("object", object);
  span.overlaps = true;
  trace_.add(std::move(span));
  waiting_.erase(found);
}

void ServerTrace::discarded(const std::string& variable, std::int64_t version) {
  Span span = part_span("discard " + variable);
  span.begin_ns = span.end_ns = now_ns();
  span.thread = own_row();
  span.notes = {{"version", std::to_string(version)}};
  trace_.add(std::move(span));
}

void ServerTrace::gone(ClientConnection from) {
  names_.erase(from);
  std::erase_if(waiting_, [&](const auto& one) { return one.first.first == from; });
}

}  // namespace tranship::staging
