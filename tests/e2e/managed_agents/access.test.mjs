// A program in a sandbox asks to reach a host, and the client answers it as it answers a tool that asks.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { all, beta, made, of, others, refused, results, said, say, stop, turn } from './support.mjs'

const HOST = 'plain.example.net'
const wishes = (heard) => of(heard, 'agent.tool_use').filter((use) => use.name === 'request_network_access')
const allow = (use) => ({ type: 'user.tool_confirmation', tool_use_id: use.id, result: 'allow' })
const deny = (use, deny_message) => ({ type: 'user.tool_confirmation', tool_use_id: use.id, result: 'deny', deny_message })
const ended = (heard, use) => of(heard, 'agent.tool_result').find((result) => result.tool_use_id === use.id)

// A session that has come to rest because of a wish, and the wish.
const environment = { config: { type: 'cloud', networking: { type: 'limited', allowed_hosts: ['seen.example.net'] } } }

async function asking(words) {
  const session = await made({ environment })
  const heard = await turn(session, [say(words)])
  const [use] = wishes(heard)
  assert.deepEqual(stop(heard), { type: 'requires_action', event_ids: [use.id] })
  return { session, use, heard }
}

test('allowed: the program that waits goes on', async () => {
  const { session, use } = await asking('fetch and wait')
  assert.equal(use.evaluated_permission, 'ask')
  assert.deepEqual(use.input, { host: HOST, port: 443, reason: 'the build needs it' })
  assert.equal((await beta.sessions.retrieve(session.id)).status, 'idle')
  await refused(others.sessions.events.send(session.id, { events: [allow(use)] }), 404, 'NotFoundError')
  const heard = await turn(session, [allow(use)])
  assert.deepEqual(stop(heard), { type: 'end_turn' })
  assert.ok(of(heard, 'session.status_running').length > 0)
  assert.equal(ended(heard, use).content[0].text, 'allowed')
  assert.equal(ended(heard, use).is_error, false)
  const events = await all(beta.sessions.events.list(session.id))
  assert.equal(wishes(events).length, 1, 'asking twice asks once')
  const output = results(events).find((text) => text.includes('host_not_allowed'))
  assert.match(output, /host_not_allowed[^]*pending[^]*pending[^]*\n200/, 'refused, asked, asked, reached')
  assert.deepEqual(said(heard), ['Fetched.'])
  const again = await beta.sessions.events.send(session.id, { events: [allow(use)] })
  assert.equal(again.data[0].id, of(heard, 'user.tool_confirmation')[0].id, 'said twice is said once')
})

test('denied: the next refusal has the words of the person', async () => {
  const { session, use } = await asking('ask and be refused')
  const heard = await turn(session, [deny(use, 'use the mirror instead')])
  assert.deepEqual(stop(heard), { type: 'end_turn' })
  assert.equal(ended(heard, use).is_error, true)
  assert.match(ended(heard, use).content[0].text, /use the mirror instead/)
  const output = results(heard).at(-1)
  assert.match(output, /access_denied[^]*use the mirror instead/, 'who asks again hears it')
  assert.match(output, /host_not_allowed[^]*did not allow it[^]*use the mirror instead/)
  const events = await all(beta.sessions.events.list(session.id))
  assert.equal(wishes(events).length, 1)
})

test('an agent whose command has ended goes on when it is answered', async () => {
  const { session, use } = await asking('ask and rest')
  const heard = await turn(session, [allow(use)])
  assert.match(results(heard).at(-1), /\n200/)
  assert.deepEqual(said(heard), ['Rested.'])
})

test('what is allowed is allowed to that session alone', async () => {
  const { session, use } = await asking('ask and rest')
  assert.deepEqual(stop(await turn(session, [allow(use)])), { type: 'end_turn' })
  const other = await asking('ask and rest')
  assert.notEqual(other.use.id, use.id)
  await turn(other.session, [deny(other.use, 'not you')])
})

test('an interrupt withdraws it, and then the session can be archived', async () => {
  const { session, use } = await asking('ask and be interrupted')
  await refused(beta.sessions.archive(session.id), 409, 'ConflictError', /interrupt/)
  const heard = await turn(session, [{ type: 'user.interrupt' }])
  assert.match(ended(heard, use).content[0].text, /withdrawn/)
  await refused(beta.sessions.events.send(session.id, { events: [allow(use)] }), 400, 'BadRequestError', /nobody waits/)
  await beta.sessions.archive(session.id)
})

test('no word of a person leads inside', async () => {
  const session = await made({ environment })
  const asked = await turn(session, [say('ask for what leads inside')])
  const [use, more] = wishes(asked)
  assert.equal(use.input.host, 'private.example.net', 'nobody is asked for addresses, and for what is Pons itself')
  assert.equal(more, undefined)
  const heard = await turn(session, [allow(use)])
  assert.deepEqual(said(heard), ['It stays closed.'])
  const output = results(heard).at(-1)
  assert.match(output, /address_not_allowed[^]*host_not_allowed/)
})
