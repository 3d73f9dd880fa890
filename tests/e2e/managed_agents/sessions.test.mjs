// Sessions: a conversation with an agent that has a machine, as the SDK drives it.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { all, beta, made, of, others, refused, results, said, say, stop, TOOLSET, turn } from './support.mjs'

test('a session begins idle, with a snapshot of its agent', async () => {
  const session = await made({ session: { title: 't', metadata: { a: '1' } } })
  assert.match(session.id, /^sesn_/)
  assert.equal(session.status, 'idle')
  assert.equal(session.agent.name, 'worker')
  assert.equal(session.agent.version, 1)
  assert.ok(!('metadata' in session.agent))
  assert.equal(session.title, 't')
  assert.deepEqual([session.resources, session.vault_ids, session.budget, session.archived_at], [[], [], null, null])
  await beta.agents.update(session.agent.id, { name: 'renamed' })
  assert.equal((await beta.sessions.retrieve(session.id)).agent.name, 'worker')
})

test('a turn: words, tools on its machine, an answer, in the order that clients know', async () => {
  const session = await made()
  const events = await turn(session, [say('use the machine')])
  assert.deepEqual(said(events), ['I will look.', 'The machine works.'])
  const [bash, write, read, edit, again, glob, grep] = results(events)
  assert.match(bash, /^\/tmp\/work\n/)
  assert.match(write, /written/)
  assert.match(read, /1\tone two\n.*2\tthree/s)
  assert.match(edit, /edited/)
  assert.match(again, /one 2\nthree/)
  assert.equal(glob.trim(), 'notes.txt')
  assert.match(grep, /notes.txt:1:one 2/)
  const types = events.map((event) => event.type)
  assert.deepEqual(types.slice(0, 3), ['user.message', 'session.status_running', 'span.model_request_start'])
  assert.deepEqual(stop(events), { type: 'end_turn' })
  assert.equal(events.at(-1).stop_details, null)
  for (const used of of(events, 'agent.tool_use')) {
    assert.equal(used.evaluated_permission, 'allow')
    assert.equal(of(events, 'agent.tool_result').filter((each) => each.tool_use_id === used.id).length, 1)
  }
  const ends = of(events, 'span.model_request_end')
  assert.deepEqual(ends.map((end) => end.model_request_start_id), of(events, 'span.model_request_start').map((each) => each.id))
  assert.equal(new Set(events.map((event) => event.id)).size, events.length)

  // What the log says later is what the stream said.
  const listed = await all(beta.sessions.events.list(session.id, { limit: 3 }))
  assert.deepEqual(listed, events)
  const newest = await all(beta.sessions.events.list(session.id, { order: 'desc', limit: 1000 }))
  assert.deepEqual(newest, [...events].reverse())
  const only = await all(beta.sessions.events.list(session.id, { types: ['agent.message'] }))
  assert.deepEqual(only, of(events, 'agent.message'))
  const after = await beta.sessions.retrieve(session.id)
  assert.ok(after.usage.input_tokens > 0 && after.usage.output_tokens > 0)
})

test('files and the shell’s place are still there in the next turn', async () => {
  const session = await made()
  await turn(session, [say('use the machine')])
  const events = await turn(session, [say('look again')])
  assert.match(results(events)[0], /^\/tmp\/work\none 2\n/)
})

test('a tool that a person allows waits for the word', async () => {
  const agent = { tools: [{ ...TOOLSET, configs: [{ name: 'bash', permission_policy: { type: 'always_ask' } }] }] }
  const session = await made({ agent })
  const asked = await turn(session, [say('dangerous')])
  const uses = of(asked, 'agent.tool_use')
  assert.deepEqual(uses.map((use) => use.evaluated_permission), ['ask', 'ask'])
  assert.deepEqual(stop(asked), { type: 'requires_action', event_ids: uses.map((use) => use.id) })
  assert.deepEqual(results(asked), [], 'nothing is done before')
  assert.equal((await beta.sessions.retrieve(session.id)).status, 'idle')

  const half = await turn(session, [{ type: 'user.tool_confirmation', tool_use_id: uses[0].id, result: 'deny', deny_message: 'not now' }])
  assert.deepEqual(stop(half), { type: 'requires_action', event_ids: [uses[1].id] })
  const done = await turn(session, [{ type: 'user.tool_confirmation', tool_use_id: uses[1].id, result: 'allow' }])
  assert.match(results(done)[0], /^allowed\n/)
  assert.deepEqual(said(done), ['One was denied.'])
  // Said again because the answer was lost: it is the same event.
  const again = await beta.sessions.events.send(session.id, {
    events: [{ type: 'user.tool_confirmation', tool_use_id: uses[1].id, result: 'allow' }],
  })
  assert.equal(again.data[0].id, of(done, 'user.tool_confirmation')[0].id)
  await refused(
    beta.sessions.events.send(session.id, { events: [{ type: 'user.tool_confirmation', tool_use_id: uses[1].id, result: 'deny' }] }),
    400,
  )
})

test('a custom tool is done by the client', async () => {
  const agent = { tools: [{ type: 'custom', name: 'get_weather', description: 'd', input_schema: { type: 'object', properties: { city: { type: 'string' } } } }] }
  const session = await made({ agent })
  const asked = await turn(session, [say('weather')])
  const [use] = of(asked, 'agent.custom_tool_use')
  assert.deepEqual(use.input, { city: 'Paris' })
  assert.deepEqual(stop(asked), { type: 'requires_action', event_ids: [use.id] })
  const done = await turn(session, [
    { type: 'user.custom_tool_result', custom_tool_use_id: use.id, content: [{ type: 'text', text: 'sunny' }] },
  ])
  assert.deepEqual(said(done), ['It is sunny.'])
})

test('what the agent says is shown while it says it', async () => {
  const session = await made()
  const events = await turn(session, [say('slowly')], { event_deltas: ['agent.message'] })
  const [start] = of(events, 'event_start')
  const text = of(events, 'event_delta').map((each) => each.delta.content.text).join('')
  const [message] = of(events, 'agent.message')
  assert.equal(start.event.id, message.id)
  assert.ok(text.length > 0 && message.content[0].text.startsWith(text), text)
  assert.ok(!(await all(beta.sessions.events.list(session.id))).some((each) => each.type.startsWith('event_')))
})

test('an interrupt ends a turn', async () => {
  const session = await made()
  const stream = await beta.sessions.events.stream(session.id)
  await beta.sessions.events.send(session.id, { events: [say('for ever')] })
  const heard = []
  for await (const event of stream) {
    heard.push(event)
    if (event.type === 'agent.tool_use') await beta.sessions.events.send(session.id, { events: [{ type: 'user.interrupt' }] })
    if (event.type === 'session.status_idle') break
  }
  assert.equal(of(heard, 'user.interrupt').length, 1)
  assert.deepEqual(stop(heard), { type: 'end_turn' })
})

test('a stream goes on where it was left', async () => {
  const session = await made()
  const events = await turn(session, [say('look around')])
  const seen = events[2]
  const response = await fetch(`${process.env.PONS_URL}/v1/sessions/${session.id}/events/stream`, {
    headers: { authorization: `Bearer ${process.env.PONS_KEY}`, 'last-event-id': seen.id },
  })
  let text = ''
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
  while (!text.includes('session.status_idle')) text += (await reader.read()).value
  await reader.cancel()
  const ids = [...text.matchAll(/^id: (.*)$/gm)].map((match) => match[1])
  assert.deepEqual(ids, events.slice(3).map((event) => event.id))
})

test('initial events start the loop', async () => {
  const session = await made({ session: { initial_events: [say('hello')] } })
  for (;;) {
    const now = await beta.sessions.retrieve(session.id)
    if (now.status === 'idle') break
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  assert.deepEqual(said(await all(beta.sessions.events.list(session.id))), ['Hello.'])
})

test('sessions are listed, changed, archived and deleted', async () => {
  const session = await made({ session: { metadata: { a: '1' } } })
  const changed = await beta.sessions.update(session.id, { title: 'new', metadata: { a: null, b: '2' } })
  assert.deepEqual([changed.title, changed.metadata], ['new', { b: '2' }])
  const listed = await all(beta.sessions.list({ agent_id: session.agent.id, statuses: ['idle'] }))
  assert.deepEqual(listed.map((each) => each.id), [session.id])
  assert.deepEqual(await all(beta.sessions.list({ agent_id: session.agent.id, statuses: ['running'] })), [])
  const archived = await beta.sessions.archive(session.id)
  assert.equal(archived.status, 'terminated')
  const found = async (more) => (await all(beta.sessions.list({ agent_id: session.agent.id, ...more }))).map((each) => each.id)
  assert.deepEqual(await found({ statuses: ['terminated'] }), [session.id])
  assert.deepEqual(await found({ statuses: ['idle', 'terminated'] }), [session.id])
  assert.deepEqual(await found({ statuses: ['idle'], include_archived: true }), [], 'it is not idle any more')
  assert.deepEqual(await found({ include_archived: true }), [session.id])
  assert.deepEqual(await found({}), [])
  await refused(beta.sessions.events.send(session.id, { events: [say('hello')] }), 409, 'ConflictError')
  await refused(beta.sessions.update(session.id, { title: 'x' }), 400, 'BadRequestError', /archived/)
  assert.deepEqual(await beta.sessions.delete(session.id), { id: session.id, type: 'session_deleted' })
  await refused(beta.sessions.retrieve(session.id), 404, 'NotFoundError')
})

test('tools of a session change between turns', async () => {
  const session = await made()
  const changed = await beta.sessions.update(session.id, { agent: { tools: [{ ...TOOLSET, configs: [{ name: 'bash', enabled: false }] }] } })
  assert.equal(changed.agent.tools[0].configs[0].enabled, false)
  const events = await turn(session, [say('look around')])
  assert.match(results(events)[0], /no tool of this name/)
})

test('what is wrong, unknown or another project’s is refused', async () => {
  const session = await made()
  const send = (event) => beta.sessions.events.send(session.id, { events: [event] })
  await refused(send({ type: 'user.telepathy' }), 400, 'BadRequestError', /events\/0\/type/)
  await refused(send({ type: 'user.message', content: [] }), 400, 'BadRequestError', /content/)
  await refused(send({ type: 'user.tool_confirmation', tool_use_id: 'sevt_other', result: 'allow' }), 400, 'BadRequestError', /no event of this session/)
  await refused(send({ type: 'user.message', content: [{ type: 'text', text: 'x'.repeat(6_000_000) }] }), 400)
  await refused(beta.sessions.create({ agent: 'agent_none', environment_id: session.environment_id }), 404)
  const error = await refused(beta.sessions.create({ agent: session.agent.id, environment_id: 'env_none' }), 404)
  assert.equal(error.errorCode, 'environment_not_found')
  await refused(beta.sessions.retrieve('sesn_none'), 404, 'NotFoundError')
  for (const call of [
    () => others.sessions.retrieve(session.id),
    () => others.sessions.update(session.id, { title: 'x' }),
    () => others.sessions.archive(session.id),
    () => others.sessions.delete(session.id),
    () => others.sessions.events.list(session.id),
    () => others.sessions.events.send(session.id, { events: [say('hello')] }),
    () => others.sessions.events.stream(session.id),
    () => others.sessions.create({ agent: session.agent.id, environment_id: session.environment_id }),
  ])
    await refused(call(), 404, 'NotFoundError')
})
