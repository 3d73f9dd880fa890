// Resources of sessions: files in the machine, stores of notes by name; and what an agent leaves.
import { toFile } from '@anthropic-ai/sdk'
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { all, beta, made, others, refused, results, say, turn } from './support.mjs'

const upload = async (text, name = 'data.csv') => beta.files.upload({ file: await toFile(Buffer.from(text), name, { type: 'text/csv' }) })

async function until(look, what) {
  for (let i = 0; i < 200; i++) {
    const found = await look()
    if (found) return found
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  assert.fail(`it did not happen: ${what}`)
}

test('files are in the machine, also those that come later, and go again', async () => {
  const first = await upload('one\n')
  const second = await upload('two\n')
  const session = await made({ session: { resources: [{ type: 'file', file_id: first.id }] } })
  assert.equal(session.resources.length, 1)
  const [resource] = session.resources
  assert.match(resource.id, /^sesrsc_/)
  assert.equal(resource.mount_path, `/mnt/session/uploads/${first.id}`)
  assert.match(results(await turn(session, [say('show uploads')]))[0], /one/)

  const added = await beta.sessions.resources.add(session.id, { type: 'file', file_id: second.id, mount_path: '/mnt/session/uploads/two.csv' })
  assert.equal(added.mount_path, '/mnt/session/uploads/two.csv')
  assert.deepEqual((await all(beta.sessions.resources.list(session.id))).map((each) => each.id), [resource.id, added.id])
  assert.equal((await beta.sessions.resources.retrieve(added.id, { session_id: session.id })).file_id, second.id)
  assert.match(results(await turn(session, [say('show uploads again')]))[0], /two/)

  assert.equal((await beta.sessions.resources.delete(added.id, { session_id: session.id })).type, 'session_resource_deleted')
  const left = results(await turn(session, [say('show uploads at last')]))[0]
  assert.ok(/one/.test(left) && !/two/.test(left), left)
})

test('what an agent leaves becomes files of its session', async () => {
  const session = await made()
  await turn(session, [say('leave something')])
  const files = await until(async () => {
    const files = await all(beta.files.list({ scope_id: session.id }))
    return files.length === 2 && files
  }, 'the outputs are files')
  const report = files.find((file) => file.filename === 'report.md')
  assert.deepEqual([report.mime_type, report.scope], ['text/markdown', { type: 'session', id: session.id }])
  assert.equal(await (await beta.files.download(report.id)).text(), '# Done\n')
  await refused(others.files.download(report.id), 404, 'NotFoundError')
  await turn(session, [say('say hello')])
  assert.equal((await all(beta.files.list({ scope_id: session.id }))).length, 2, 'the same is kept once')
})

test('stores of notes are resources with a place and no id', async () => {
  const store = await beta.memoryStores.create({ name: 'Team notes!', description: 'what we know' })
  const session = await made({ session: { resources: [{ type: 'memory_store', memory_store_id: store.id, instructions: 'look first' }] } })
  assert.deepEqual(session.resources, [
    { type: 'memory_store', memory_store_id: store.id, access: 'read_write', instructions: 'look first', name: 'Team notes!', description: 'what we know', mount_path: '/mnt/memory/team-notes' },
  ])
})

test('what cannot be a resource is refused', async () => {
  const file = await upload('x')
  const create = (resource) => made({ session: { resources: [resource] } })
  await refused(create({ type: 'file', file_id: 'file_none' }), 404, 'NotFoundError')
  await refused(create({ type: 'file', file_id: file.id, mount_path: '/a/../b' }), 400, 'BadRequestError', /mount_path/)
  await refused(create({ type: 'file', file_id: file.id, mount_path: '/proc/x' }), 400, 'BadRequestError', /kernel/)
  await refused(create({ type: 'memory_store', memory_store_id: 'memstore_none' }), 404, 'NotFoundError')
  await refused(create({ type: 'memory_store', memory_store_id: 'x', access: 'all' }), 400, 'BadRequestError', /access/)
  await refused(create({ type: 'telepathy' }), 400, 'BadRequestError', /type/)
  await refused(made({ session: { vault_ids: ['vlt_none'] } }), 404, 'NotFoundError')
  const twice = [{ type: 'file', file_id: file.id, mount_path: '/x/y' }, { type: 'file', file_id: file.id, mount_path: '/x/y' }]
  await refused(made({ session: { resources: twice } }), 400, 'BadRequestError', /\/x\/y/)
  await refused(made({ environment: { config: { type: 'self_hosted' } }, session: { resources: [twice[0]] } }), 400, 'BadRequestError', /self_hosted/)
  const session = await made()
  await refused(beta.sessions.resources.add(session.id, { type: 'memory_store', memory_store_id: 'x' }), 400, 'BadRequestError', /type/)
  await refused(beta.sessions.resources.retrieve('sesrsc_none', { session_id: session.id }), 404, 'NotFoundError')
  await refused(others.sessions.resources.list(session.id), 404, 'NotFoundError')
  await refused(others.sessions.resources.add(session.id, { type: 'file', file_id: file.id }), 404, 'NotFoundError')
})
