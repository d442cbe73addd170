#include "staging/spans.hpp"

namespace tranship::staging {
namespace {

constexpr const char* category = "staging";
/// Puts that wait for memory and are followed.
constexpr std::size_t waiting_max = 4096;

/// Whether a question begins with a variable's name.
bool names_variable(Ask ask) {
  switch (ask) {
    case Ask::hello:
    case Ask::join:
    case Ask::commit:
    case Ask::abort:
    case Ask::settle:
    case Ask::more:
    case Ask::recall:
    case Ask::release:
    case Ask::undo:
    case Ask::forget:
    case Ask::list:
    case Ask::status: return false;
    default: return true;
  }
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

Span question_span(std::span<const std::byte> question, int server) {
  Span span = part_span(std::string("ask ") + to_string(ask_of(question)));
  span.notes = {{"server", std::to_string(server)}};
  return span;
}

ServerTrace::ServerTrace(Trace& trace, int server) : trace_(trace) {
  trace_.call_process("server " + std::to_string(server));
}

void ServerTrace::answered(Owner from, std::span<const std::byte> question,
                           const Result<std::size_t>& length, std::span<const std::byte> reply,
                           std::int64_t begin_ns) {
  MessageReader in(question);
  const auto ask = in.get<Ask>();
  Span span = part_span(std::string("answer ") + to_string(ask),
                        static_cast<std::int64_t>(question.size() + (length ? *length : 0)));
  span.begin_ns = begin_ns;
  span.end_ns = now_ns();
  span.thread = own_row();
  if (ask == Ask::hello) {
    (void)in.get<std::uint32_t>();
    names_[from] = in.text();
  }
  span.notes.emplace_back("client", names_[from]);
  if (names_variable(ask)) span.notes.emplace_back("variable", in.text());
  if (!length) span.notes.emplace_back("failed", length.error().message);
  const bool waits = length && MessageReader(reply).get<Said>() == Said::waiting;
  if (waits) span.notes.emplace_back("said", "waiting");
  if (ask == Ask::put || ask == Ask::begin) {
    MessageReader again(question);
    PutRequest request;
    (void)again.get<Ask>();
    if (read(again, request)) {
      follow_wait(
          from, span,
          request.variable + " " + std::to_string(request.version) + " " + request.box.text(),
          waits);
    }
  }
  trace_.add(std::move(span));
}

/// The same question is asked until it is answered: from the first to the last one it waited.
void ServerTrace::follow_wait(Owner from, const Span& answer, const std::string& object,
                              bool waits) {
  if (waits) {
    // Another server may take it, and this one never hears of that.
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

void ServerTrace::gone(Owner from) {
  names_.erase(from);
  std::erase_if(waiting_, [&](const auto& one) { return one.first.first == from; });
}

}  // namespace tranship::staging
