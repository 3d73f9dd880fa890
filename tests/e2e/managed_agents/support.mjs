// The SDK as users have it, pointed at Pons by a base URL.
import Anthropic from '@anthropic-ai/sdk'
import assert from 'node:assert/strict'

const make = (apiKey) => new Anthropic({ baseURL: process.env.PONS_URL, apiKey, maxRetries: 0 })
export const client = make(process.env.PONS_KEY)
export const stranger = make(process.env.PONS_OTHER_KEY)
export const beta = client.beta
export const others = stranger.beta
export { Anthropic }

export const TOOLSET = { type: 'agent_toolset_20260401' }

export async function all(page) {
  const list = []
  for await (const each of page) list.push(each)
  return list
}

// The same refusal by status, class and type of error.
export async function refused(promise, status, kind, says) {
  const error = await promise.then(
    (value) => assert.fail(`it was not refused: ${JSON.stringify(value)}`),
    (error) => error,
  )
  assert.ok(error instanceof Anthropic.APIError, String(error))
  assert.equal(error.status, status, String(error))
  if (kind) assert.equal(error.constructor.name, kind)
  if (says) assert.match(error.message, says)
  assert.ok(error.requestID, 'an error names its request')
  return error
}

export const say = (text) => ({ type: 'user.message', content: [{ type: 'text', text }] })

export async function made({ agent = {}, environment = {}, session = {} } = {}) {
  const a = await beta.agents.create({ name: 'worker', model: 'stage', tools: [TOOLSET], ...agent })
  const e = await beta.environments.create({ name: 'plain', config: { type: 'cloud', networking: { type: 'limited' } }, ...environment })
  return beta.sessions.create({ agent: a.id, environment_id: e.id, ...session })
}

// Sends events, and gives everything up to the next rest of the session.
export async function turn(session, events, options = {}) {
  const stream = await beta.sessions.events.stream(session.id, options)
  await beta.sessions.events.send(session.id, { events })
  const heard = []
  for await (const event of stream) {
    heard.push(event)
    if (event.type === 'session.status_idle') return heard
  }
  assert.fail('the stream ended before the session came to rest')
}

export const of = (events, type) => events.filter((event) => event.type === type)
export const said = (events) => of(events, 'agent.message').map((event) => event.content[0].text)
export const results = (events) => of(events, 'agent.tool_result').map((event) => event.content[0].text)
export const stop = (events) => events.at(-1).stop_reason
