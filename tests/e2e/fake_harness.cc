// An agent that speaks the Agent Client Protocol, asks the model that it is told of, and uses the
// tools of an MCP server and, in a sandbox, a shell of its own. FAKE_MODE says what is wrong with
// it; without a mode, nothing is.

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <functional>
#include <iostream>
#include <string>

#include <nlohmann/json.hpp>

namespace {

using Json = nlohmann::json;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

const std::string kMode = variable("FAKE_MODE");
const std::string kNotes = variable("HOME") + "/fake-notes.json";
bool is_mode(const char* mode) {
  return kMode == mode;
}
bool has_shell() {
  return access("/bin/bash", X_OK) == 0;
}

// ---- whoever drives it

bool cancelled = false;
std::string unread;
std::deque<Json> heard;

void write_line(const Json& message) {
  std::string line = message.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  for (std::string_view rest = line; !rest.empty();) {
    const ssize_t count = write(1, rest.data(), rest.size());
    if (count <= 0) _exit(0);
    rest.remove_prefix(static_cast<std::size_t>(count));
  }
}

void listen() {
  char bytes[65536];
  const ssize_t count = read(0, bytes, sizeof bytes);
  if (count <= 0) _exit(0);
  unread.append(bytes, static_cast<std::size_t>(count));
  for (std::size_t end; (end = unread.find('\n')) != std::string::npos; unread.erase(0, end + 1)) {
    Json message = Json::parse(unread.substr(0, end), nullptr, false);
    if (!message.is_object()) continue;
    if (message.value("method", "") == "session/cancel")
      cancelled = !is_mode("deaf") && !is_mode("never-idle");
    else
      heard.push_back(std::move(message));
  }
}

// True when the descriptor can be read; false when the turn was cancelled.
bool wait_for(int fd) {
  while (!cancelled) {
    pollfd both[] = {{0, POLLIN, 0}, {fd, POLLIN, 0}};
    if (poll(both, fd < 0 ? 1 : 2, -1) < 0) continue;
    if ((both[0].revents & (POLLIN | POLLHUP)) != 0) listen();
    if (fd >= 0 && (both[1].revents & (POLLIN | POLLHUP | POLLERR)) != 0) return !cancelled;
  }
  return false;
}

void tell_update(const Json& update) {
  write_line({{"jsonrpc", "2.0"},
              {"method", "session/update"},
              {"params", {{"sessionId", "fake"}, {"update", update}}}});
}
void say(const std::string& text) {
  tell_update(
      {{"sessionUpdate", "agent_message_chunk"}, {"content", {{"type", "text"}, {"text", text}}}});
}

// ---- HTTP, as little of it as is needed

struct Answer {
  int status = 0;  // 0: none, or cancelled
  std::string session;
  std::string body;
};

Answer post(const std::string& url, const std::string& bearer, const std::string& session,
            const Json& body, const std::function<void(const std::string&)>& on_line = {}) {
  Answer answer;
  const std::string rest = url.substr(url.find("//") + 2);
  std::string host = rest.substr(0, rest.find('/'));
  const std::string path = rest.substr(rest.find('/'));
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), "80", &hints, &found) != 0) return answer;
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool is_there = connect(fd, found->ai_addr, found->ai_addrlen) == 0;
  freeaddrinfo(found);
  const std::string text = body.dump();
  std::string request = "POST " + path + " HTTP/1.1\r\nHost: " + host +
                        "\r\nConnection: close\r\nContent-Type: application/json\r\n" +
                        "Accept: application/json\r\nAuthorization: Bearer " + bearer + "\r\n" +
                        (session.empty() ? "" : "Mcp-Session-Id: " + session + "\r\n") +
                        "Content-Length: " + std::to_string(text.size()) + "\r\n\r\n" + text;
  if (!is_there || send(fd, request.data(), request.size(), MSG_NOSIGNAL) < 0) {
    close(fd);
    return answer;
  }
  std::string raw;
  std::string line;
  std::size_t at = std::string::npos;  // of what is not looked at yet, behind the head
  bool is_chunked = false;
  const auto take = [&](const std::string& piece) {
    answer.body += piece;
    if (!on_line) return;
    line += piece;
    for (std::size_t end; (end = line.find('\n')) != std::string::npos; line.erase(0, end + 1))
      on_line(line.substr(0, end));
  };
  while (wait_for(fd)) {
    char bytes[65536];
    const ssize_t count = recv(fd, bytes, sizeof bytes, 0);
    if (count <= 0) {
      close(fd);
      return answer;
    }
    raw.append(bytes, static_cast<std::size_t>(count));
    if (at == std::string::npos) {
      const std::size_t end = raw.find("\r\n\r\n");
      if (end == std::string::npos) continue;
      std::string head = raw.substr(0, end + 2);
      for (char& c : head) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      answer.status = std::atoi(head.c_str() + std::strlen("http/1.1 "));
      is_chunked = head.find("transfer-encoding: chunked") != std::string::npos;
      if (const std::size_t id = head.find("mcp-session-id: "); id != std::string::npos)
        answer.session = raw.substr(id + 16, raw.find("\r\n", id) - id - 16);
      at = end + 4;
    }
    if (!is_chunked) {
      take(raw.substr(at));
      at = raw.size();
      continue;
    }
    for (std::size_t end; (end = raw.find("\r\n", at)) != std::string::npos;) {
      const std::size_t size = std::strtoul(raw.c_str() + at, nullptr, 16);
      if (raw.size() < end + 2 + size + 2) break;
      take(raw.substr(end + 2, size));
      at = end + 2 + size + 2;
    }
  }
  close(fd);
  answer.status = 0;
  return answer;
}

// ---- tools

std::string tools_url;
std::string tools_bearer;
std::string tools_session;
int tools_asked = 0;

Json ask_tools(const std::string& method, const Json& params) {
  const Answer answer =
      post(tools_url, tools_bearer, tools_session,
           {{"jsonrpc", "2.0"}, {"id", ++tools_asked}, {"method", method}, {"params", params}});
  if (!answer.session.empty()) tools_session = answer.session;
  const Json reply = Json::parse(answer.body, nullptr, false);
  return reply.is_object() ? reply.value("result", Json::object()) : Json::object();
}

Json offered_tools() {
  Json tools = Json::array();
  if (!tools_url.empty()) {
    ask_tools("initialize", {{"protocolVersion", "2025-06-18"},
                             {"capabilities", Json::object()},
                             {"clientInfo", {{"name", "fake"}, {"version", "1"}}}});
    post(tools_url, tools_bearer, tools_session,
         {{"jsonrpc", "2.0"}, {"method", "notifications/initialized"}});
    for (const Json& tool : ask_tools("tools/list", Json::object()).value("tools", Json::array()))
      tools.push_back({{"type", "function"},
                       {"function",
                        {{"name", tool.at("name")},
                         {"description", tool.value("description", "")},
                         {"parameters", tool.at("inputSchema")}}}});
  }
  const auto add = [&](const char* name) {
    tools.push_back(
        {{"type", "function"},
         {"function",
          {{"name", name},
           {"description", "runs it"},
           {"parameters",
            {{"type", "object"}, {"properties", {{"command", {{"type", "string"}}}}}}}}}});
  };
  if (has_shell()) add("bash");
  if (is_mode("offers-more")) add("evil");
  return tools;
}

// Others, too, tell of a command when it is at work already.
constexpr useconds_t kUntilTold = 100'000;

std::string run_shell(const std::string& command, const Json& begun) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    setpgid(0, 0);
    dup2(ends[1], 1);
    dup2(ends[1], 2);
    close(0);
    execl("/bin/bash", "bash", "-c", command.c_str(), nullptr);
    _exit(127);
  }
  close(ends[1]);
  usleep(kUntilTold);
  tell_update(begun);
  std::string output;
  char bytes[4096];
  while (wait_for(ends[0])) {
    const ssize_t count = read(ends[0], bytes, sizeof bytes);
    if (count <= 0) break;
    output.append(bytes, static_cast<std::size_t>(count));
  }
  close(ends[0]);
  if (cancelled && is_mode("careless")) return output;  // whatever runs goes on
  if (cancelled) kill(-child, SIGKILL);
  waitpid(child, nullptr, 0);
  return output;
}

std::string use_tool(const Json& call) {
  const std::string name = call.at("function").value("name", "");
  const Json input = Json::parse(call.at("function").value("arguments", "{}"), nullptr, false);
  if (name != "bash") {
    const Json result = ask_tools("tools/call", {{"name", name}, {"arguments", input}});
    std::string text;
    for (const Json& part : result.value("content", Json::array())) text += part.value("text", "");
    return text;
  }
  const Json begun = {{"sessionUpdate", "tool_call"},
                      {"toolCallId", call.at("id")},
                      {"title", "bash"},
                      {"status", "in_progress"},
                      {"rawInput", input}};
  const std::string output = run_shell(input.value("command", ""), begun);
  tell_update({{"sessionUpdate", "tool_call_update"},
               {"toolCallId", call.at("id")},
               {"status", "completed"},
               {"content", Json::array({{{"type", "content"},
                                         {"content", {{"type", "text"}, {"text", output}}}}})}});
  return output;
}

// ---- a turn

Json history = Json::array();

struct Said {
  int status = 0;
  std::string text;
  Json calls = Json::array();
  bool is_whole = false;
  std::string refusal;  // what came instead
};

Said ask_model(const Json& tools) {
  Said said;
  const Json body = {
      {"model", variable("MODEL")}, {"messages", history}, {"tools", tools}, {"stream", true}};
  const Answer answer =
      post(variable("MODEL_URL") + "/chat/completions", variable("MODEL_KEY"), "", body,
           [&](const std::string& line) {
             if (line.rfind("data: ", 0) != 0) return;
             if (line.rfind("data: [DONE]", 0) == 0) {
               said.is_whole = true;
               return;
             }
             const Json event = Json::parse(line.substr(6), nullptr, false);
             if (!event.is_object() || event.value("choices", Json::array()).empty()) return;
             const Json delta = event.at("choices").at(0).value("delta", Json::object());
             if (delta.contains("content") && delta.at("content").is_string()) {
               said.text += delta.at("content").get<std::string>();
               say(delta.at("content").get<std::string>());
             }
             for (const Json& part : delta.value("tool_calls", Json::array())) {
               const std::size_t index = part.value("index", 0U);
               while (said.calls.size() <= index)
                 said.calls.push_back({{"id", ""},
                                       {"type", "function"},
                                       {"function", {{"name", ""}, {"arguments", ""}}}});
               Json& call = said.calls.at(index);
               if (part.contains("id") && part.at("id").is_string()) call["id"] = part.at("id");
               const Json function = part.value("function", Json::object());
               if (function.contains("name") && function.at("name").is_string())
                 call["function"]["name"] = function.at("name");
               if (function.contains("arguments"))
                 call["function"]["arguments"] = call["function"]["arguments"].get<std::string>() +
                                                 function.at("arguments").get<std::string>();
             }
           });
  said.status = answer.status;
  if (answer.status != 200) said.refusal = answer.body;
  return said;
}

// What the modes do before it works.
void misbehave() {
  if (is_mode("never-idle")) {
    say("I think …");
    for (;;) wait_for(-1);
  }
  if (is_mode("forks"))
    for (int i = 0; i < 10'000; ++i) {
      const pid_t child = fork();
      if (child < 0) break;
      if (child == 0) {
        setsid();
        std::signal(SIGTERM, SIG_IGN);
        for (;;) pause();
      }
    }
  if (is_mode("fills")) {
    std::ofstream file(variable("HOME") + "/big");
    const std::string block(1 << 20, 'x');
    while (file.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) continue;
  }
  if (is_mode("asks-names")) {
    addrinfo* found = nullptr;
    if (getaddrinfo("canary.example", "80", nullptr, &found) == 0) freeaddrinfo(found);
  }
  const std::string orders = variable("HOME") + "/.mcp.json";
  if (is_mode("obeys") && access(orders.c_str(), F_OK) == 0) std::ofstream("/tmp/canary") << "ran";
  if (is_mode("forgets")) history = Json::array();
}

// Why it ended, or an error.
Json turn(const std::string& text) {
  cancelled = false;
  misbehave();
  history.push_back({{"role", "user"}, {"content", text}});
  const Json tools = offered_tools();
  constexpr int kTries = 3;
  for (int failed = 0; !cancelled;) {
    const Said said = ask_model(tools);
    if (cancelled) break;
    if (said.status != 200 || !said.is_whole) {
      if (said.status == 401 || ++failed == kTries)
        return {
            {"error",
             {{"code", -32000},
              {"message", "the model failed: " + (said.status == 200 ? "malformed stream"
                                                                     : std::to_string(said.status) +
                                                                           " " + said.refusal)}}}};
      usleep(200'000);
      continue;
    }
    Json message = {{"role", "assistant"}, {"content", said.text}};
    if (!said.calls.empty()) message["tool_calls"] = said.calls;
    history.push_back(message);
    if (said.calls.empty()) return {{"result", {{"stopReason", "end_turn"}}}};
    for (const Json& call : said.calls)
      history.push_back(
          {{"role", "tool"}, {"tool_call_id", call.at("id")}, {"content", use_tool(call)}});
  }
  // A conversation may not end with calls that nobody answered.
  while (!history.empty() && history.back().contains("tool_calls"))
    history.erase(history.size() - 1);
  return {{"result", {{"stopReason", "cancelled"}}}};
}

void open_session(const Json& params) {
  for (const Json& server : params.value("mcpServers", Json::array())) {
    tools_url = server.value("url", "");
    for (const Json& header : server.value("headers", Json::array()))
      tools_bearer = header.value("value", "").substr(std::strlen("Bearer "));
  }
}

Json answer_to(const Json& message) {
  const std::string method = message.value("method", "");
  const Json params = message.value("params", Json::object());
  if (method == "initialize") {
    if (is_mode("hangs"))
      for (;;) pause();
    return {{"result",
             {{"protocolVersion", 1},
              {"agentCapabilities", {{"loadSession", true}}},
              {"authMethods", Json::array()}}}};
  }
  if (method == "session/new") {
    open_session(params);
    return {{"result", {{"sessionId", "fake"}}}};
  }
  if (method == "session/load") {
    open_session(params);
    std::ifstream file(kNotes);
    const Json notes = Json::parse(file, nullptr, false);
    if (!notes.is_array())
      return {{"error", {{"code", -32000}, {"message", "there is no such session"}}}};
    history = notes;
    return {{"result", Json::object()}};
  }
  if (method == "session/prompt") {
    std::string text;
    for (const Json& part : params.value("prompt", Json::array())) text += part.value("text", "");
    Json end = turn(text);
    std::ofstream(kNotes) << history.dump(-1, ' ', false, Json::error_handler_t::replace);
    return end;
  }
  return {{"error", {{"code", -32601}, {"message", "unknown method"}}}};
}

}  // namespace

int main() {
  std::signal(SIGPIPE, SIG_IGN);
  if (is_mode("garbage"))
    for (int i = 0; i < 1'000; ++i) std::cout << "this is no JSON at all " << i << std::endl;
  for (;;) {
    while (heard.empty()) listen();
    const Json message = std::move(heard.front());
    heard.pop_front();
    if (!message.contains("id")) continue;
    Json reply = answer_to(message);
    reply["jsonrpc"] = "2.0";
    reply["id"] = message.at("id");
    write_line(reply);
  }
}
