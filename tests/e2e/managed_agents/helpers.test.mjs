// What the SDK makes of a session's events by itself, and events that only a troubled model brings about.
import { betaTool } from '@anthropic-ai/sdk/helpers/beta/json-schema'
import { accumulateManagedAgentsEvent } from '@anthropic-ai/sdk/lib/sessions/accumulate'
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { all, beta, made, of, said, say, stop, turn } from './support.mjs'

const WEATHER = { type: 'custom', name: 'get_weather', description: 'd', input_schema: { type: 'object', properties: { city: { type: 'string' } } } }
const weather = (asked = []) =>
  betaTool({
    name: 'get_weather', description: 'd', inputSchema: WEATHER.input_schema,
    run: async ({ city }) => { asked.push(city); return 'sunny' },
  })
const idle = async (session) => {
  for (;;) {
    const events = await all(beta.sessions.events.list(session.id))
    if (events.at(-1)?.type === 'session.status_idle' && stop(events).type === 'end_turn') return events
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

test('a tool runner does what the agent asks for, until the session ends', { timeout: 120_000 }, async () => {
  const session = await made({ agent: { tools: [WEATHER] } })
  const asked = []
  const runner = beta.sessions.events.toolRunner(session.id, { tools: [weather(asked)], maxIdleMs: 0 })
  const done = []
  const running = (async () => { for await (const call of runner) done.push(call) })()
  await beta.sessions.events.send(session.id, { events: [say('weather')] })
  const events = await idle(session)
  assert.deepEqual(said(events), ['It is sunny.'])
  assert.equal(of(events, 'user.custom_tool_result')[0].custom_tool_use_id, of(events, 'agent.custom_tool_use')[0].id)
  assert.deepEqual(asked, ['Paris'])
  await beta.sessions.archive(session.id)
  await running
  assert.equal(done.length, 1)
  assert.equal(done[0].posted, true)
})

test('a tool runner takes up what was asked before it came, and ends when the session is deleted', { timeout: 120_000 }, async () => {
  const session = await made({ agent: { tools: [WEATHER] } })
  const asked = await turn(session, [say('weather')])
  assert.equal(stop(asked).type, 'requires_action')
  const runner = beta.sessions.events.toolRunner(session.id, { tools: [weather()], maxIdleMs: 0 })
  const running = (async () => { for await (const call of runner) assert.equal(call.name, 'get_weather') })()
  assert.deepEqual(said(await idle(session)), ['It is sunny.'])
  await beta.sessions.delete(session.id)
  await running
})

test('previews add up to what is said in the end', async () => {
  const session = await made()
  const events = await turn(session, [say('slowly')], { event_deltas: ['agent.message'] })
  let shown
  let last = ''
  for (const event of events) {
    shown = accumulateManagedAgentsEvent(shown, event)
    const text = shown?.content.map((block) => block.text).join('') ?? ''
    assert.ok(text.startsWith(last), 'it only grows')
    last = text
  }
  assert.deepEqual(shown, of(events, 'agent.message')[0])
  assert.equal(last, 'one two three four five six seven eight nine ten')
})

test('that the model thinks is shown as it begins', async () => {
  const session = await made()
  const events = await turn(session, [say('think hard')], { event_deltas: ['agent.thinking'] })
  const [start, ...more] = of(events, 'event_start')
  assert.deepEqual(more, [])
  assert.equal(start.event.type, 'agent.thinking')
  const [thinking] = of(events, 'agent.thinking')
  assert.equal(thinking.id, start.event.id)
  assert.ok(!('content' in thinking))
  assert.ok(events.indexOf(start) > events.findIndex((event) => event.type === 'span.model_request_start'))
  assert.ok(events.indexOf(start) < events.indexOf(thinking))
  assert.deepEqual(of(events, 'event_delta'), [])
})

test('a refusal says that it is one', async () => {
  const events = await turn(await made(), [say('something bad')])
  assert.deepEqual(stop(events), { type: 'refusal' })
  assert.deepEqual(events.at(-1).stop_details, { type: 'refusal', category: null, explanation: null })
})

test('a model that fails for now is asked again, and whoever follows is told why', async () => {
  for (const [words, type] of [['too many', 'model_rate_limited_error'], ['too busy', 'model_overloaded_error'], ['broken', 'model_request_failed_error']]) {
    const session = await made({ agent: { model: words.replace(' ', '-') } })
    const stream = await beta.sessions.events.stream(session.id)
    await beta.sessions.events.send(session.id, { events: [say('hello')] })
    const heard = []
    for await (const event of stream) {
      heard.push(event)
      if (event.type === 'session.status_rescheduled') break
    }
    const [error] = of(heard, 'session.error')
    assert.equal(error.error.type, type)
    assert.deepEqual(error.error.retry_status, { type: 'retrying' })
    assert.ok(error.error.message)
    assert.deepEqual(of(heard, 'span.model_request_end').map((end) => end.is_error), [true])
    assert.ok(['rescheduling', 'running'].includes((await beta.sessions.retrieve(session.id)).status))
    assert.deepEqual(stop(await turn(session, [{ type: 'user.interrupt' }])), { type: 'end_turn' })
  }
})

test('a model that will never answer ends the turn', async () => {
  const events = await turn(await made({ agent: { model: 'hopeless' } }), [say('hello')])
  const [error] = of(events, 'session.error')
  assert.equal(error.error.type, 'model_request_failed_error')
  assert.deepEqual(error.error.retry_status, { type: 'exhausted' })
  assert.deepEqual(stop(events), { type: 'retries_exhausted' })
  assert.equal(events.at(-1).stop_details, null)
})
