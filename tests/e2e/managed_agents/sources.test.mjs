// Files as what a message shows and what a rubric says: read when they are sent, and named in what people see.
import { toFile } from '@anthropic-ai/sdk'
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { all, beta, made, of, others, refused, said, say, stop, turn } from './support.mjs'

const PNG = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64')
const upload = async (bytes, name, type, api = beta) => api.files.upload({ file: await toFile(Buffer.from(bytes), name, { type }) })
const from = (file) => ({ type: 'file', file_id: file.id })
const showing = (kind, source, words = 'hello') => ({ type: 'user.message', content: [{ type: 'text', text: words }, { type: kind, source }] })
const send = (session, event) => beta.sessions.events.send(session.id, { events: [event] })

test('an image and a document of files are shown to the agent', async () => {
  for (const [kind, file] of [['image', await upload(PNG, 'dot.png', 'image/png')], ['document', await upload('a,b\n', 'a.csv', 'text/csv')],
    ['document', await upload('%PDF-1.7\n', 'a.pdf', 'application/pdf')]]) {
    const session = await made()
    const events = await turn(session, [showing(kind, from(file))])
    assert.deepEqual(said(events), ['Hello.'])
    assert.deepEqual(stop(events), { type: 'end_turn' })
    assert.deepEqual(of(events, 'user.message')[0].content[1], { type: kind, source: from(file) }, 'it is shown by its name')
    // What was said is not unsaid with the file.
    await beta.files.delete(file.id)
    assert.deepEqual(said(await turn(session, [say('hello again')])), ['Hello again.'])
    const [shown] = of(await all(beta.sessions.events.list(session.id)), 'user.message')
    assert.deepEqual(shown.content[1].source, from(file))
  }
})

test('work is judged by a rubric of a file', async () => {
  const session = await made()
  const rubric = from(await upload('it is blue', 'rubric.md', 'text/markdown'))
  const outcome = { type: 'user.define_outcome', description: 'paint a door', rubric }
  const stream = await beta.sessions.events.stream(session.id)
  const { data: [echo] } = await send(session, outcome)
  assert.deepEqual(echo.rubric, rubric)
  const heard = []
  for await (const event of stream) {
    heard.push(event)
    if (event.type === 'session.status_idle') break
  }
  assert.deepEqual(said(heard), ['A red door.', 'A blue door.'])
  assert.deepEqual(of(heard, 'user.define_outcome')[0].rubric, { type: 'text', content: 'it is blue' }, 'as it was read')
})

test('a session and a deployment may begin with them', async () => {
  const file = await upload(PNG, 'dot.png', 'image/png')
  const event = showing('image', from(file))
  const session = await made({ session: { initial_events: [event] } })
  const deployment = await beta.deployments.create({
    name: 'nightly', agent: session.agent.id, environment_id: session.environment_id, initial_events: [event],
  })
  assert.deepEqual(deployment.initial_events, [event])
  assert.ok((await beta.deployments.run(deployment.id)).session_id)
  await beta.files.delete(file.id)
  const run = await beta.deployments.run(deployment.id)
  assert.deepEqual([run.session_id, run.error.type], [null, 'file_not_found_error'])
})

test('what no model takes, and what is not there, is refused', async () => {
  const session = await made()
  const zip = await upload('PK\x03\x04', 'a.zip', 'application/zip')
  await refused(send(session, showing('document', from(zip))), 400, 'BadRequestError', /application\/zip/)
  await refused(send(session, showing('image', from(await upload('no picture', 'a.png', 'image/png')))), 400, 'BadRequestError')
  await refused(send(session, showing('image', { type: 'file', file_id: 'file_none' })), 404, 'NotFoundError')
  const theirs = await upload(PNG, 'dot.png', 'image/png', others)
  await refused(send(session, showing('image', from(theirs))), 404, 'NotFoundError')
  await refused(made({ session: { initial_events: [showing('image', from(theirs))] } }), 404, 'NotFoundError')
  const large = await upload(Buffer.alloc(7 << 20, 'x'), 'large.txt', 'text/plain')
  await refused(send(session, showing('document', from(large))), 400, 'BadRequestError', /together/)
  assert.deepEqual(of(await all(beta.sessions.events.list(session.id)), 'user.message'), [], 'none of it was said')
})
