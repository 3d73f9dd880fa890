// Threads: agents that work for a session, as the SDK shows and answers them.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { all, beta, made, of, others, refused, results, said, say, stop, TOOLSET, turn } from './support.mjs'

const ASKS = { ...TOOLSET, configs: [{ name: 'bash', permission_policy: { type: 'always_ask' } }] }
const WEATHER = { type: 'custom', name: 'get_weather', description: 'd', input_schema: { type: 'object', properties: { city: { type: 'string' } } } }

const helper = (more = {}) => beta.agents.create({ name: 'helper', description: 'looks things up', model: 'stage', tools: [TOOLSET], ...more })
const coordinating = async (member, more = {}) => made({ agent: { multiagent: { type: 'coordinator', agents: [member.id] } }, ...more })

test('an agent’s members are resolved, shown, and whole in its sessions', async () => {
  const member = await helper()
  const multiagent = { type: 'coordinator', agents: [member.id, { type: 'self' }, { type: 'advisor', model: 'stage' }] }
  const agent = await beta.agents.create({ name: 'lead', model: 'stage', tools: [TOOLSET], multiagent })
  assert.deepEqual(agent.multiagent.agents, [
    { type: 'agent', id: member.id, version: 1 },
    { type: 'agent', id: agent.id, version: 1 },
    { type: 'advisor', model: 'stage' },
  ])
  const session = await made({ agent: { name: 'lead', multiagent } })
  const [whole, self, advisor] = session.agent.multiagent.agents
  assert.equal(whole.name, 'helper')
  assert.ok(!('multiagent' in whole) && !('metadata' in whole))
  assert.equal(self.name, 'lead')
  assert.deepEqual(advisor, { type: 'advisor', model: 'stage' })
})

test('what a multiagent may not be is refused by name', async () => {
  const member = await helper()
  const make = (multiagent) => beta.agents.create({ name: 'lead', model: 'stage', multiagent })
  await refused(make({ type: 'coordinator', agents: [] }), 400, 'BadRequestError', /empty/)
  await refused(make({ type: 'coordinator', agents: [member.id, member.id] }), 400, 'BadRequestError', /there already/)
  await refused(make({ type: 'coordinator', agents: ['agent_none'] }), 400)
  await refused(make({ type: 'multiagent_20261001', workflows: { type: 'enabled' } }), 400, 'BadRequestError', /workflows are not supported/)
  const usual = await make({ type: 'multiagent_20261001' })
  assert.deepEqual(usual.multiagent.workflows, { type: 'disabled' }, 'what is not there is shown so')
  const lead = await make({ type: 'coordinator', agents: [member.id] })
  await refused(make({ type: 'coordinator', agents: [lead.id] }), 400, 'BadRequestError', /coordinate/)

  const fresh = await make({ type: 'multiagent_20261001', workflows: { type: 'disabled' }, subagents: { type: 'enabled', predefined_agents: [member.id] } })
  assert.deepEqual(fresh.multiagent, {
    type: 'multiagent_20261001',
    advisor: { type: 'disabled' },
    workflows: { type: 'disabled' },
    subagents: { type: 'enabled', inline_agents: { type: 'enabled' }, predefined_agents: [{ type: 'agent', id: member.id, version: 1 }] },
  })
  const changed = await beta.agents.update(fresh.id, {
    version: 1,
    multiagent: { type: 'multiagent_20261001', advisor: { type: 'enabled', model: 'stage' }, subagents: { type: 'enabled', inline_agents: { type: 'disabled' } } },
  })
  assert.deepEqual(changed.multiagent.advisor, { type: 'enabled', model: 'stage' })
  assert.equal(changed.multiagent.subagents.inline_agents.type, 'disabled')
  assert.equal(changed.multiagent.subagents.predefined_agents.length, 1, 'what is not named stays')
})

test('a task becomes a thread: created, told, at work, done, answered', async () => {
  const member = await helper()
  const session = await coordinating(member)
  const events = await turn(session, [say('delegate the listing')])
  const types = events.map((event) => event.type)
  const [created] = of(events, 'session.thread_created')
  assert.equal(created.agent_name, 'helper')
  assert.match(created.session_thread_id, /^sthr_/)
  const [sent] = of(events, 'agent.thread_message_sent')
  assert.deepEqual([sent.to_session_thread_id, sent.to_agent_name, sent.content[0].text], [created.session_thread_id, 'helper', 'list the listing please'])
  const [received] = of(events, 'agent.thread_message_received')
  assert.deepEqual([received.from_session_thread_id, received.content[0].text], [created.session_thread_id, 'The helper has seen it.'])
  assert.ok(types.indexOf('session.thread_status_running') < types.indexOf('session.thread_status_idle'))
  assert.deepEqual(of(events, 'session.thread_status_idle').at(-1).stop_reason, { type: 'end_turn' })
  assert.deepEqual(said(events), ['The helper did it.'])
  assert.deepEqual(await all(beta.sessions.events.list(session.id)), events)

  const [primary, child, ...more] = await all(beta.sessions.threads.list(session.id))
  assert.deepEqual(more, [])
  assert.equal(primary.parent_thread_id, null)
  assert.deepEqual([child.id, child.parent_thread_id, child.status, child.agent.name, child.session_id],
    [created.session_thread_id, primary.id, 'idle', 'helper', session.id])
  assert.ok(child.usage.output_tokens > 0)
  assert.deepEqual(await beta.sessions.threads.retrieve(child.id, { session_id: session.id }), child)
  assert.deepEqual((await all(beta.sessions.threads.list(session.id, { statuses: ['running'] }))), [])

  const its = await all(beta.sessions.threads.events.list(child.id, { session_id: session.id }))
  assert.equal(its[0].type, 'agent.thread_message_received')
  assert.equal(its[0].from_session_thread_id, primary.id)
  assert.match(results(its)[0], /shared/, 'it works on the machine of its session')
  assert.deepEqual(its.slice(-2).map((event) => event.type), ['agent.thread_message_sent', 'session.thread_status_idle'])
  assert.deepEqual(await all(beta.sessions.threads.events.list(primary.id, { session_id: session.id })), events)

  const archived = await beta.sessions.threads.archive(child.id, { session_id: session.id })
  assert.equal(archived.status, 'terminated')
  assert.ok(archived.archived_at)
  await refused(beta.sessions.threads.archive(primary.id, { session_id: session.id }), 400)
  await refused(beta.sessions.threads.retrieve('sthr_none', { session_id: session.id }), 404, 'NotFoundError')
  const stranger = await made()
  await refused(beta.sessions.threads.retrieve(child.id, { session_id: stranger.id }), 404, 'NotFoundError')
  for (const call of [
    () => others.sessions.threads.list(session.id),
    () => others.sessions.threads.retrieve(child.id, { session_id: session.id }),
    () => others.sessions.threads.archive(child.id, { session_id: session.id }),
    () => others.sessions.threads.events.list(child.id, { session_id: session.id }),
    () => others.sessions.threads.events.stream(child.id, { session_id: session.id }),
  ])
    await refused(call(), 404, 'NotFoundError')
})

test('a thread’s question reaches the session’s stream, and its answer the thread', async () => {
  const session = await coordinating(await helper({ tools: [ASKS, WEATHER] }))
  const asked = await turn(session, [say('delegate with care')])
  const [use] = of(asked, 'agent.tool_use')
  assert.match(use.session_thread_id, /^sthr_/)
  assert.equal(use.evaluated_permission, 'ask')
  assert.deepEqual(stop(asked), { type: 'requires_action', event_ids: [use.id] })
  assert.equal((await beta.sessions.retrieve(session.id)).status, 'idle')
  const thread = await beta.sessions.threads.retrieve(use.session_thread_id, { session_id: session.id })
  assert.equal(thread.status, 'idle')

  // A stream of the thread alone; what is answered is said by its id alone.
  const stream = await beta.sessions.threads.events.stream(thread.id, { session_id: session.id })
  const custom = await turn(session, [{ type: 'user.tool_confirmation', tool_use_id: use.id, result: 'allow' }])
  assert.equal(of(custom, 'user.tool_confirmation')[0].session_thread_id, thread.id)
  const [weather] = of(custom, 'agent.custom_tool_use')
  assert.equal(weather.session_thread_id, thread.id)
  assert.deepEqual(stop(custom).event_ids, [weather.id])
  const answer = { type: 'user.custom_tool_result', custom_tool_use_id: weather.id, content: [{ type: 'text', text: 'sunny' }] }
  const heard = await beta.sessions.events.stream(session.id)
  const echo = await beta.sessions.events.send(session.id, { events: [answer] })
  assert.equal(echo.data[0].session_thread_id, thread.id)
  const done = []
  for await (const event of heard) {
    done.push(event)
    if (event.type === 'session.status_idle') break
  }
  assert.deepEqual(said(done), ['It was done with care.'])
  assert.equal(of(done, 'user.custom_tool_result')[0].id, echo.data[0].id)
  // Said again because the answer was lost: it is the same event.
  const again = await beta.sessions.events.send(session.id, { events: [answer] })
  assert.equal(again.data[0].id, echo.data[0].id)
  await refused(beta.sessions.events.send(session.id, { events: [{ ...answer, is_error: true }] }), 400)

  const its = []
  for await (const event of stream) {
    its.push(event)
    if (event.type === 'session.thread_status_idle' && event.stop_reason.type === 'end_turn') break
  }
  assert.match(results(its)[0], /careful/)
  assert.deepEqual(said(its), ['Done with care, sunny.'])
})

test('an interrupt of one thread leaves the session at work', async () => {
  const session = await coordinating(await helper())
  const stream = await beta.sessions.events.stream(session.id)
  await beta.sessions.events.send(session.id, { events: [say('delegate endlessly')] })
  const heard = []
  for await (const event of stream) {
    heard.push(event)
    if (event.type === 'session.thread_status_running')
      await beta.sessions.events.send(session.id, { events: [{ type: 'user.interrupt', session_thread_id: event.session_thread_id }] })
    if (event.type === 'session.status_idle') break
  }
  assert.deepEqual(said(heard), ['It was stopped.'])
  assert.equal(of(heard, 'user.interrupt').length, 1)
  await refused(
    beta.sessions.events.send(session.id, { events: [{ type: 'user.interrupt', session_thread_id: 'sthr_none' }] }),
    400, 'BadRequestError', /no thread of this session/)
})

test('an advisor and an agent made on the spot are threads, too', async () => {
  const multiagent = { type: 'multiagent_20261001', workflows: { type: 'disabled' }, advisor: { type: 'enabled', model: 'stage' } }
  const session = await made({ agent: { multiagent } })
  const events = await turn(session, [say('ask around')])
  assert.deepEqual(of(events, 'session.thread_created').map((each) => each.agent_name), ['advisor', 'inline'])
  const [, advisor, inline] = await all(beta.sessions.threads.list(session.id))
  assert.deepEqual(advisor.agent, { type: 'advisor', model: 'stage' })
  assert.equal(inline.agent.type, 'inline')
  assert.deepEqual(said(events), ['Asked.'])
  await beta.sessions.archive(session.id)
  assert.ok((await all(beta.sessions.threads.list(session.id))).every((each) => each.status === 'terminated'))
  await beta.sessions.delete(session.id)
  await refused(beta.sessions.threads.list(session.id), 404)
})
