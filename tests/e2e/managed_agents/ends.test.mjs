// What whoever follows a session hears of its changes and of its end, and that streams end with it.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { all, beta, made, of, refused, results, said, say, stop, TOOLSET, turn } from './support.mjs'

const helper = () => beta.agents.create({ name: 'helper', description: 'looks things up', model: 'stage', tools: [TOOLSET] })
const types = (events) => events.map((event) => event.type)

// Everything that a stream says until it ends by itself.
async function rest(stream) {
  const heard = []
  for await (const event of stream) heard.push(event)
  return heard
}

test('a stream shows that its session is archived, and ends', async () => {
  const session = await made()
  const before = await turn(session, [say('hello')])
  const streams = await Promise.all([1, 2].map(() => beta.sessions.events.stream(session.id)))
  assert.equal((await beta.sessions.archive(session.id)).status, 'terminated')
  for (const stream of streams) {
    const heard = await rest(stream)
    assert.deepEqual(types(heard), ['session.status_terminated'])
    assert.ok(heard[0].id && heard[0].processed_at)
    assert.deepEqual(await all(beta.sessions.events.list(session.id)), [...before, ...heard], 'the log ends with it')
  }
  assert.deepEqual(await rest(await beta.sessions.events.stream(session.id)), [], 'nothing comes any more')
  assert.deepEqual(types(await all(beta.sessions.events.list(session.id, { types: ['session.status_terminated'] }))), ['session.status_terminated'])
  await beta.sessions.archive(session.id)
  assert.equal(of(await all(beta.sessions.events.list(session.id)), 'session.status_terminated').length, 1)
})

test('a stream says that its session is deleted, and ends', async () => {
  const session = await made()
  await turn(session, [say('hello')])
  const stream = await beta.sessions.events.stream(session.id)
  await beta.sessions.delete(session.id)
  const heard = await rest(stream)
  assert.deepEqual(types(heard), ['session.deleted'])
  assert.ok(heard[0].id && heard[0].processed_at)
  await refused(beta.sessions.events.stream(session.id), 404, 'NotFoundError')
})

test('the end of a thread is heard on its own stream and on its session’s', async () => {
  const session = await made({ agent: { multiagent: { type: 'coordinator', agents: [(await helper()).id] } } })
  const events = await turn(session, [say('delegate the listing')])
  const [{ session_thread_id: thread }] = of(events, 'session.thread_created')
  const own = await beta.sessions.threads.events.stream(thread, { session_id: session.id })
  const whole = await beta.sessions.events.stream(session.id)
  await beta.sessions.threads.archive(thread, { session_id: session.id })
  const [end, ...more] = await rest(own)
  assert.deepEqual(more, [])
  assert.deepEqual([end.type, end.session_thread_id, end.agent_name], ['session.thread_status_terminated', thread, 'helper'])
  await beta.sessions.threads.archive(thread, { session_id: session.id })
  await beta.sessions.archive(session.id)
  const heard = await rest(whole)
  assert.deepEqual(types(heard), ['session.thread_status_terminated', 'session.status_terminated'], 'it is said once')
  assert.deepEqual([heard[0].session_thread_id, heard[0].agent_name], [thread, 'helper'])
})

test('threads end with their session', async () => {
  const session = await made({ agent: { multiagent: { type: 'coordinator', agents: [(await helper()).id] } } })
  const events = await turn(session, [say('delegate the listing')])
  const [{ session_thread_id: thread }] = of(events, 'session.thread_created')
  const own = await beta.sessions.threads.events.stream(thread, { session_id: session.id })
  const whole = await beta.sessions.events.stream(session.id)
  await beta.sessions.archive(session.id)
  assert.deepEqual(types(await rest(own)), ['session.thread_status_terminated'])
  const heard = await rest(whole)
  assert.deepEqual(types(heard), ['session.thread_status_terminated', 'session.status_terminated'])
  assert.equal(heard[0].session_thread_id, thread)
})

test('a change is an event that says what has changed', async () => {
  const session = await made({ session: { metadata: { a: '1' } } })
  const stream = await beta.sessions.events.stream(session.id)
  await beta.sessions.update(session.id, { title: 'new', metadata: { b: '2' } })
  await beta.sessions.update(session.id, { title: 'new' })
  const tools = [{ ...TOOLSET, configs: [{ name: 'bash', enabled: false }] }]
  const changed = await beta.sessions.update(session.id, { agent: { tools } })
  await beta.sessions.archive(session.id)
  const [first, second, ...more] = of(await rest(stream), 'session.updated')
  assert.deepEqual(more, [], 'what is as it was is no change')
  assert.equal(first.title, 'new')
  assert.deepEqual(first.metadata, { a: '1', b: '2' })
  assert.ok(!('agent' in first) && !('budget' in first))
  assert.deepEqual(second.agent, changed.agent)
  assert.ok(!('title' in second) && !('metadata' in second))
})

test('of two changes at once one is made, and the other is refused and not in force', async () => {
  const session = await made()
  const tools = (name) => ({ agent: { tools: [{ ...TOOLSET, configs: [{ name, enabled: false }] }] } })
  const changes = await Promise.allSettled(['bash', 'read', 'write', 'edit'].map((name) => beta.sessions.update(session.id, tools(name))))
  const made_ = changes.filter((each) => each.status === 'fulfilled')
  for (const each of changes) if (each.status === 'rejected') assert.equal(each.reason.status, 409)
  const updates = of(await all(beta.sessions.events.list(session.id)), 'session.updated')
  assert.equal(updates.length, made_.length)
  assert.deepEqual((await beta.sessions.retrieve(session.id)).agent, updates.at(-1).agent, 'what is shown is in force')
})

test('what is said while the agent works is queued until it is read', async () => {
  const session = await made()
  const stream = await beta.sessions.events.stream(session.id)
  const first = await beta.sessions.events.send(session.id, { events: [say('for ever')] })
  assert.ok(first.data[0].processed_at)
  for await (const event of stream) if (event.type === 'agent.tool_use') break
  const queued = await beta.sessions.events.send(session.id, { events: [say('hello')] })
  assert.equal(queued.data[0].processed_at, null)
  const find = async () => (await all(beta.sessions.events.list(session.id))).find((event) => event.id === queued.data[0].id)
  assert.equal((await find()).processed_at, null)
  await turn(session, [{ type: 'user.interrupt' }])
  await turn(session, [say('hello')])
  assert.ok((await find()).processed_at)
})

test('a policy that decides by itself says what it has decided', async () => {
  const auto = { enabled: true, permission_policy: { type: 'auto' } }
  const session = await made({ agent: { tools: [{ ...TOOLSET, default_config: auto }] } })
  const asked = await turn(session, [say('use the machine')])
  const [bash] = of(asked, 'agent.tool_use')
  assert.equal(bash.evaluated_permission, 'ask')
  assert.deepEqual(bash.evaluation, { type: 'auto', evaluated_permission: { type: 'ask', reason_code: 'indeterminate' } })
  assert.ok(types(asked).indexOf('agent.tool_use') < types(asked).indexOf('span.model_request_end'))

  const none = await made({ agent: { tools: [{ ...TOOLSET, configs: [{ name: 'bash', enabled: false }] }] } })
  const refusal = await turn(none, [say('look around')])
  const [denied] = of(refusal, 'agent.tool_use')
  assert.equal(denied.evaluated_permission, 'deny')
  assert.ok(!('evaluation' in denied), 'no policy was asked')
  assert.match(results(refusal)[0], /no tool of this name/)
  assert.deepEqual(said(refusal), ['Seen.'])
})
