// Events that clients send: together or not at all; with money and without; from a worker of their own.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { all, beta, made, of, refused, results, said, say, stop, TOOLSET, turn } from './support.mjs'

const note = (text) => ({ type: 'system.message', content: [{ type: 'text', text }] })
const usd = (amount) => ({ type: 'limit', max_list_cost: { amount: String(amount), currency: 'USD' } })

test('events are taken together or not at all', async () => {
  const session = await made()
  const send = (...events) => beta.sessions.events.send(session.id, { events })
  const answer = { type: 'user.tool_confirmation', tool_use_id: 'sevt_none', result: 'allow' }
  await refused(send(say('hello'), answer), 400, 'BadRequestError', /no event of this session/)
  await refused(send(say('hello'), { type: 'user.telepathy' }), 400, 'BadRequestError', /events\/1\/type/)
  // One that is well made, and that nobody waits for.
  const events = await turn(session, [say('hello')])
  const id = events[0].id
  await refused(send(say('hello'), { ...answer, tool_use_id: id }), 400, 'BadRequestError', /nobody waits/)
  assert.deepEqual(await all(beta.sessions.events.list(session.id)), events, 'nothing of all that was said')
  const both = await turn(session, [say('hello'), say('and hello again')])
  assert.equal(of(both, 'span.model_request_start').length, 1, 'what is said together is read together')
  await refused(beta.sessions.events.send(session.id, { events: Array(51).fill(say('x')) }), 400)
  await refused(beta.sessions.events.send(session.id, { events: [] }), 400)
})

test('a word of whoever runs the agent goes with a message', async () => {
  const session = await made()
  const events = await turn(session, [say('what do you know?'), note('the door is open')])
  assert.deepEqual(said(events), ['I was told.'])
  assert.deepEqual(events.slice(0, 2).map((event) => event.type), ['user.message', 'session.status_running'])
  assert.equal(of(events, 'system.message')[0].content[0].text, 'the door is open')
  const send = (...list) => beta.sessions.events.send(session.id, { events: list })
  await refused(send(note('alone')), 400, 'BadRequestError', /directly follow/)
  await refused(send(say('x'), note('first'), say('y')), 400, 'BadRequestError', /last event/)
  await refused(send(say('x'), { ...note('x'), content: [{ type: 'image', source: { type: 'url', url: 'http://x' } }] }), 400, 'BadRequestError', /content\/0/)
})

test('a budget ends the work, and more of it lets the work go on', async () => {
  const session = await made({ session: { budget: usd(1) } })
  assert.deepEqual(session.budget, usd(1))
  const events = await turn(session, [say('spend it')])
  assert.deepEqual(events.slice(-3).map((event) => event.type), ['session.thread_status_idle', 'session.usage', 'session.status_idle'])
  assert.deepEqual(events.at(-3).stop_reason, { type: 'budget_reached' })
  assert.deepEqual(stop(events), { type: 'budget_reached' })
  assert.deepEqual(events.at(-2).budget, usd(1))
  assert.ok(Number(events.at(-2).usage.list_cost.amount) >= 150)
  const error = await refused(beta.sessions.events.send(session.id, { events: [say('more')] }), 400, 'BadRequestError', /budget/)
  assert.equal(error.errorCode, 'budget_reached')
  await beta.sessions.events.send(session.id, { events: [{ type: 'user.interrupt' }] })
  assert.equal((await refused(beta.sessions.update(session.id, { budget: usd(2) }), 400)).errorCode, 'budget_not_raised')
  await refused(beta.sessions.update(session.id, { budget: { type: 'limit', max_list_cost: { amount: '1.5', currency: 'USD' } } }), 400)
  await refused(beta.sessions.update(session.id, { budget: { type: 'limit', max_list_cost: { amount: '15', currency: 'EUR' } } }), 400)

  const stream = await beta.sessions.events.stream(session.id)
  const raised = await beta.sessions.update(session.id, { budget: usd(100_000) })
  assert.deepEqual(raised.budget, usd(100_000))
  const heard = []
  for await (const event of stream) {
    heard.push(event)
    if (event.type === 'session.status_idle') break
  }
  assert.deepEqual(said(heard), ['All spent.'], 'it goes on by itself')
  const removed = await beta.sessions.update(session.id, { budget: null })
  assert.equal(removed.budget, null)
  assert.equal((await refused(beta.sessions.update(session.id, { budget: usd(5) }), 400)).errorCode, 'budget_create_only')
})

test('tools of an environment of one’s own are done by the client', async () => {
  const session = await made({ environment: { name: 'mine', config: { type: 'self_hosted' } } })
  const asked = await turn(session, [say('look around')])
  const [use] = of(asked, 'agent.tool_use')
  assert.deepEqual([use.name, use.evaluated_permission], ['bash', 'allow'])
  assert.deepEqual(stop(asked), { type: 'requires_action', event_ids: [use.id] })
  const answer = { type: 'user.tool_result', tool_use_id: use.id, content: [{ type: 'text', text: 'bin etc' }] }
  const done = await turn(session, [answer])
  assert.deepEqual(said(done), ['Seen.'])
  assert.equal(of(done, 'user.tool_result')[0].tool_use_id, use.id)
  assert.deepEqual(results(done), [], 'Pons ran nothing')
  const again = await beta.sessions.events.send(session.id, { events: [answer] })
  assert.equal(again.data[0].id, of(done, 'user.tool_result')[0].id)

  const hosted = await made()
  const events = await turn(hosted, [say('look around')])
  const [its] = of(events, 'agent.tool_use')
  await refused(
    beta.sessions.events.send(hosted.id, { events: [{ type: 'user.tool_result', tool_use_id: its.id }] }),
    400, 'BadRequestError', /nobody waits for a result/)
})
