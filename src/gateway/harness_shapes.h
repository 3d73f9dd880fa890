#pragma once

// For tests of this folder: requests in the shapes that coding harnesses send, with other words and
// fewer tools.

namespace pons::gateway::shapes {

// Claude Code 2.1 with a model that thinks as it likes: a system message in the middle, blocks that
// only its own provider knows, and a turn with thinking, a call and its result.
inline constexpr const char* kClaudeCode = R"({"model":"test","messages":[
 {"role":"user","content":[{"type":"text","text":"<reminder>sign commits</reminder>"},
   {"type":"text","text":"list the files"}]},
 {"role":"system","content":[{"type":"text","text":"# Environment: /work","cache_control":{"type":"ephemeral"}}]},
 {"role":"assistant","content":[
   {"type":"thinking","thinking":"I will look.","signature":"c2lnbmVk"},
   {"type":"tool_use","id":"toolu_1","name":"Bash","input":{"command":"ls"}}]},
 {"role":"user","content":[{"tool_use_id":"toolu_1","type":"tool_result","content":"a.txt","is_error":false,
   "cache_control":{"type":"ephemeral"}}]}],
 "system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1.325"},
   {"type":"text","text":"You are an agent.","cache_control":{"type":"ephemeral"}}],
 "tools":[{"name":"Bash","description":"Runs a command","input_schema":{"$schema":"https://json-schema.org/draft/2020-12/schema",
     "type":"object","properties":{"command":{"type":"string"}},"required":["command"],"additionalProperties":false}},
   {"name":"DeferredToolPlaceholder","description":"Reserved","input_schema":{"type":"object","properties":{}},"defer_loading":true}],
 "metadata":{"user_id":"{\"device_id\":\"a096b938e7d01f5d4f52716a726b5c44d5f8a096b938e7d01f5d4f52716a726b\",\"session_id\":\"3b9b71f6\"}"},
 "max_tokens":64000,"thinking":{"type":"adaptive","display":"omitted"},
 "context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]},
 "output_config":{"effort":"high"},"stream":true})";

// The same with a model that wants a budget, all of the answer but one token.
inline constexpr const char* kClaudeCodeBudget =
    R"({"model":"test","messages":[{"role":"user","content":[
   {"type":"text","text":"say done","cache_control":{"type":"ephemeral"}}]}],
 "system":[{"type":"text","text":"You are an agent.","cache_control":{"type":"ephemeral"}}],
 "tools":[{"name":"Read","description":"Reads a file","input_schema":{"type":"object","properties":{"file_path":{"type":"string"}}}}],
 "metadata":{"user_id":"u"},"max_tokens":32000,
 "thinking":{"budget_tokens":31999,"type":"enabled","display":"updates"},
 "context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]},"stream":true})";

// Codex 0.166 with a model that it does not know: namespaces of tools, a plan for later turns.
inline constexpr const char* kCodex = R"({"model":"test","stream":true,"input":[
 {"type":"message","id":"msg_1","role":"developer","content":[{"type":"input_text","text":"You are an agent."}]},
 {"type":"message","id":"msg_2","role":"user","content":[{"type":"input_text","text":"<environment_context/>"}]},
 {"type":"message","id":"msg_3","role":"user","content":[{"type":"input_text","text":"list the files"}]},
 {"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"c2VhbGVk"},
 {"type":"function_call","id":"fc_1","call_id":"call_1","name":"exec_command","arguments":"{\"cmd\":\"ls\"}"},
 {"type":"function_call","id":"fc_2","call_id":"call_2","namespace":"mcp__sandbox","name":"run","arguments":"{}"},
 {"type":"function_call_output","call_id":"call_1","output":"a.txt"},
 {"type":"function_call_output","call_id":"call_2","output":[{"type":"input_text","text":"done"}]}],
 "tools":[
  {"type":"function","name":"exec_command","description":"Runs a command","strict":false,
   "parameters":{"type":"object","properties":{"cmd":{"type":"string"}},"required":["cmd"],"additionalProperties":false}},
  {"type":"namespace","name":"mcp__sandbox","description":"Tools of a sandbox","tools":[
    {"type":"function","name":"run","description":"Runs","strict":false,"parameters":{"type":"object","properties":{}}}]},
  {"type":"web_search","external_web_access":false}],
 "tool_choice":"auto","parallel_tool_calls":true,"reasoning":{"summary":"auto"},"store":false,
 "include":["reasoning.encrypted_content"],"prompt_cache_key":"01a1e72e",
 "client_metadata":{"session_id":"01a1e72e","x-codex-turn-metadata":"{\"turn\":1}"}})";

// The same with a model that it knows to write patches: a tool whose input is text of a grammar.
inline constexpr const char* kCodexPatch = R"({"model":"test","stream":true,"input":[
 {"type":"message","id":"msg_1","role":"developer","content":[{"type":"input_text","text":"You are an agent."}]},
 {"type":"message","id":"msg_2","role":"user","content":[{"type":"input_text","text":"mend it"}]},
 {"type":"custom_tool_call","id":"ctc_1","call_id":"call_1","name":"apply_patch","input":"*** Begin Patch\n"},
 {"type":"custom_tool_call_output","call_id":"call_1","output":"Done"}],
 "tools":[{"type":"custom","name":"apply_patch","description":"Edits files",
   "format":{"type":"grammar","syntax":"lark","definition":"start: \"x\""}}],
 "tool_choice":"auto","parallel_tool_calls":true,"reasoning":{"effort":"medium"},"store":false,
 "include":["reasoning.encrypted_content"],"prompt_cache_key":"01a1e72e","text":{"verbosity":"low"},
 "client_metadata":{"session_id":"01a1e72e"}})";

// pi 0.73, and whatever is built on the same SDKs.
inline constexpr const char* kPiChat = R"({"model":"test","messages":[
 {"role":"system","content":"You are an agent."},{"role":"user","content":[{"type":"text","text":"list the files"}]},
 {"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"bash","arguments":"{\"command\":\"ls\"}"}}]},
 {"role":"tool","tool_call_id":"call_1","content":"a.txt"}],
 "stream":true,"stream_options":{"include_usage":true},"store":false,"max_completion_tokens":8192,
 "tools":[{"type":"function","function":{"name":"bash","description":"Runs a command",
   "parameters":{"type":"object","required":["command"],"properties":{"command":{"type":"string"},"timeout":{"type":"number"}}},"strict":false}}]})";
inline constexpr const char* kPiMessages = R"({"model":"test","messages":[{"role":"user","content":[
   {"type":"text","text":"say done","cache_control":{"type":"ephemeral"}}]}],"max_tokens":8192,"stream":true,
 "system":[{"type":"text","text":"You are an agent.","cache_control":{"type":"ephemeral"}}],
 "tools":[{"name":"bash","description":"Runs a command","eager_input_streaming":true,
   "input_schema":{"type":"object","required":["command"],"properties":{"command":{"type":"string"}}},"cache_control":{"type":"ephemeral"}}]})";
inline constexpr const char* kPiResponses =
    R"({"model":"test","input":[{"role":"system","content":"You are an agent."},
 {"role":"user","content":[{"type":"input_text","text":"say done"}]}],"stream":true,"prompt_cache_key":"01a1",
 "store":false,"max_output_tokens":8192,"tools":[{"type":"function","name":"bash","description":"Runs a command",
   "parameters":{"type":"object","properties":{"command":{"type":"string"}}},"strict":false}]})";

// OpenCode 1.18 over each of the SDKs that it brings.
inline constexpr const char* kOpenCodeChat = R"({"model":"test","max_tokens":8192,"messages":[
 {"role":"system","content":"You are an agent."},{"role":"user","content":"list the files"},
 {"role":"assistant","content":"","tool_calls":[{"id":"call_1","type":"function","function":{"name":"bash","arguments":"{\"command\":\"ls\",\"description\":\"Lists files\"}"}}]},
 {"role":"tool","tool_call_id":"call_1","content":"a.txt"}],
 "tools":[{"type":"function","function":{"name":"bash","description":"Runs a command",
   "parameters":{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"command":{"type":"string"}},
     "required":["command"],"additionalProperties":false}}}],
 "tool_choice":"auto","stream":true,"stream_options":{"include_usage":true}})";
inline constexpr const char* kOpenCodeMessages = R"({"model":"test","max_tokens":8192,
 "system":[{"type":"text","text":"You are an agent.","cache_control":{"type":"ephemeral"}}],
 "messages":[{"role":"user","content":[{"type":"text","text":"list the files"}]},
  {"role":"assistant","content":[{"type":"text","text":"I look."},{"type":"tool_use","id":"toolu_1","name":"bash","input":{"command":"ls"}}]},
  {"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":[{"type":"text","text":"a.txt"}],"cache_control":{"type":"ephemeral"}}]}],
 "tools":[{"name":"bash","description":"Runs a command","input_schema":{"$schema":"https://json-schema.org/draft/2020-12/schema",
   "type":"object","properties":{"command":{"type":"string"}},"required":["command"],"additionalProperties":false}}],
 "tool_choice":{"type":"auto"},"stream":true})";
inline constexpr const char* kOpenCodeResponses = R"({"model":"test","input":[
 {"role":"developer","content":"You are an agent."},{"role":"user","content":[{"type":"input_text","text":"list the files"}]},
 {"type":"function_call","call_id":"call_1","name":"bash","arguments":"{\"command\":\"ls\"}"},
 {"type":"function_call_output","call_id":"call_1","output":"a.txt"}],
 "max_output_tokens":8192,"store":false,"include":["reasoning.encrypted_content"],"reasoning":{"effort":"medium","summary":"auto"},
 "prompt_cache_key":"ses_1","text":{"verbosity":"medium"},
 "tools":[{"type":"function","name":"bash","description":"Runs a command","strict":false,
   "parameters":{"type":"object","properties":{"command":{"type":"string"}},"required":["command"],"additionalProperties":false}}],
 "tool_choice":"auto","stream":true})";

// qwen-code 0.24: text in parts, hints for caches, and fields of its own service.
inline constexpr const char* kQwenChat = R"({"model":"test","messages":[
 {"role":"system","content":[{"type":"text","text":"You are an agent.","cache_control":{"type":"ephemeral"}}]},
 {"role":"user","content":[{"type":"text","text":"context"},{"type":"text","text":"list the files"}]},
 {"role":"assistant","content":null,"reasoning_content":"I will look.","tool_calls":[{"id":"call_1","type":"function","function":{"name":"run_shell_command","arguments":"{\"command\":\"ls\"}"}}]},
 {"role":"tool","tool_call_id":"call_1","content":[{"type":"text","text":"a.txt"}]}],
 "stream":true,"stream_options":{"include_usage":true},"temperature":0.7,"top_p":0.9,"max_tokens":8192,
 "metadata":{"sessionId":"01a1","promptId":"01a1########0"},
 "tools":[{"type":"function","function":{"name":"run_shell_command","description":"Runs a command",
   "parameters":{"type":"object","properties":{"command":{"type":"string"},"is_background":{"type":"boolean"}},"required":["command"]}},
   "cache_control":{"type":"ephemeral"}}]})";

}  // namespace pons::gateway::shapes
