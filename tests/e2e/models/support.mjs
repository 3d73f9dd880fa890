// The SDKs as users have them, pointed at Pons by a base URL.
import Anthropic from '@anthropic-ai/sdk'
import OpenAI from 'openai'

export const url = process.env.PONS_URL
export const key = process.env.PONS_KEY

export const anthropic = new Anthropic({ baseURL: url, apiKey: key, maxRetries: 0 })
export const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 })

// A dot, red.
export const PNG =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=='

const schema = (field) => ({
  type: 'object',
  properties: { [field]: { type: 'string' } },
  required: [field],
  additionalProperties: false,
})
const described = { get_weather: ['The weather in a city', schema('city')], get_time: ['The time in a zone', schema('zone')] }

// One way to speak to all three: what a test says, and what it hears, whatever the protocol.
// A turn: { user, image } | { calls, thinking, raw } | { results: { id: text } }
export const protocols = {
  messages: {
    async ask(model, turns, { stream, tools, think } = {}) {
      const request = {
        model,
        max_tokens: 4000,
        system: 'You are a test.',
        messages: turns.map(messagesTurn),
        ...(tools && {
          tools: Object.entries(described).map(([name, [description, input_schema]]) => ({ name, description, input_schema })),
        }),
        ...(think && { thinking: { type: 'enabled', budget_tokens: 2000 } }),
      }
      const message = stream
        ? await anthropic.messages.stream(request).finalMessage()
        : await anthropic.messages.create(request)
      const of = (type) => message.content.filter((block) => block.type === type)
      return {
        text: of('text').map((block) => block.text).join(''),
        thinking: of('thinking').map((block) => block.thinking).join(''),
        calls: of('tool_use').map(({ id, name, input }) => ({ id, name, input })),
        stop: { end_turn: 'end', tool_use: 'tools', max_tokens: 'length' }[message.stop_reason],
        usage: {
          prompt: message.usage.input_tokens + message.usage.cache_read_input_tokens + message.usage.cache_creation_input_tokens,
          cached: message.usage.cache_read_input_tokens,
          output: message.usage.output_tokens,
        },
        raw: message.content,
      }
    },
  },
  chat: {
    async ask(model, turns, { stream, tools, think } = {}) {
      const request = {
        model,
        max_completion_tokens: 4000,
        messages: [{ role: 'system', content: 'You are a test.' }, ...turns.flatMap(chatTurn)],
        ...(tools && {
          tools: Object.entries(described).map(([name, [description, parameters]]) => ({
            type: 'function',
            function: { name, description, parameters },
          })),
        }),
        ...(think && { reasoning_effort: 'low' }),
      }
      let completion
      if (stream) {
        const running = openai.chat.completions.stream({ ...request, stream_options: { include_usage: true } })
        // What the SDK has no name for it replaces by each new piece, instead of adding them up.
        const reasoning = { reasoning_content: '', reasoning_details: [] }
        running.on('chunk', ({ choices: [choice] }) => {
          reasoning.reasoning_content += choice?.delta.reasoning_content ?? ''
          reasoning.reasoning_details.push(...(choice?.delta.reasoning_details ?? []))
        })
        completion = await running.finalChatCompletion()
        if (reasoning.reasoning_content) Object.assign(completion.choices[0].message, reasoning)
      } else {
        completion = await openai.chat.completions.create(request)
      }
      const { message, finish_reason } = completion.choices[0]
      return {
        text: message.content ?? '',
        thinking: message.reasoning_content ?? '',
        calls: (message.tool_calls ?? []).map((call) => ({
          id: call.id,
          name: call.function.name,
          input: JSON.parse(call.function.arguments),
        })),
        stop: { stop: 'end', tool_calls: 'tools', length: 'length' }[finish_reason],
        usage: {
          prompt: completion.usage.prompt_tokens,
          cached: completion.usage.prompt_tokens_details?.cached_tokens ?? 0,
          output: completion.usage.completion_tokens,
        },
        raw: message,
      }
    },
  },
  responses: {
    async ask(model, turns, { stream, tools, think } = {}) {
      const request = {
        model,
        store: false,
        max_output_tokens: 4000,
        instructions: 'You are a test.',
        input: turns.flatMap(responsesTurn),
        ...(tools && {
          tools: Object.entries(described).map(([name, [description, parameters]]) => ({
            type: 'function',
            name,
            description,
            parameters,
            strict: false,
          })),
        }),
        ...(think && { reasoning: { effort: 'low', summary: 'auto' }, include: ['reasoning.encrypted_content'] }),
      }
      const response = stream
        ? await openai.responses.stream(request).finalResponse()
        : await openai.responses.create(request)
      const of = (type) => response.output.filter((item) => item.type === type)
      const calls = of('function_call').map((item) => ({ id: item.call_id, name: item.name, input: JSON.parse(item.arguments) }))
      return {
        text: response.output_text ?? of('message').flatMap((item) => item.content.map((part) => part.text)).join(''),
        thinking: of('reasoning').flatMap((item) => item.summary.map((part) => part.text)).join(''),
        calls,
        stop: response.status === 'incomplete' ? 'length' : calls.length ? 'tools' : 'end',
        usage: {
          prompt: response.usage.input_tokens,
          cached: response.usage.input_tokens_details.cached_tokens,
          output: response.usage.output_tokens,
        },
        raw: response.output,
      }
    },
  },
}

function messagesTurn(turn) {
  if (turn.raw) return { role: 'assistant', content: turn.raw }
  if (turn.results)
    return {
      role: 'user',
      content: Object.entries(turn.results).map(([tool_use_id, content]) => ({ type: 'tool_result', tool_use_id, content })),
    }
  const image = turn.image && { type: 'image', source: { type: 'base64', media_type: 'image/png', data: turn.image } }
  return { role: 'user', content: image ? [image, { type: 'text', text: turn.user }] : turn.user }
}

function chatTurn(turn) {
  if (turn.raw) return [turn.raw]
  if (turn.results) return Object.entries(turn.results).map(([tool_call_id, content]) => ({ role: 'tool', tool_call_id, content }))
  const image = turn.image && { type: 'image_url', image_url: { url: `data:image/png;base64,${turn.image}` } }
  return [{ role: 'user', content: image ? [image, { type: 'text', text: turn.user }] : turn.user }]
}

function responsesTurn(turn) {
  if (turn.raw) return turn.raw
  if (turn.results) return Object.entries(turn.results).map(([call_id, output]) => ({ type: 'function_call_output', call_id, output }))
  const image = turn.image && { type: 'input_image', detail: 'auto', image_url: `data:image/png;base64,${turn.image}` }
  return [{ role: 'user', content: image ? [image, { type: 'input_text', text: turn.user }] : turn.user }]
}
