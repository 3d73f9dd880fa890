// Memory stores: notes with paths, versions, preconditions.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { all, beta, others, refused } from './support.mjs'

const stores = beta.memoryStores
const made = () => stores.create({ name: 'notes' })
const sha256 = (text) => createHash('sha256').update(text).digest('hex')

test('a store and its notes', async () => {
  const store = await made()
  assert.match(store.id, /^memstore_/)
  assert.equal(store.description, '')
  const note = await stores.memories.create(store.id, { path: '/people/ada.md', content: 'likes tea', view: 'full' })
  assert.match(note.id, /^mem_/)
  assert.equal(note.content_sha256, sha256('likes tea'))
  assert.equal(note.content_size_bytes, 9)
  const read = await stores.memories.retrieve(note.id, { memory_store_id: store.id })
  assert.equal(read.content, 'likes tea')
  const listed = await all(stores.memories.list(store.id, { path_prefix: '/', depth: 1 }))
  assert.deepEqual(listed, [{ type: 'memory_prefix', path: '/people/' }])
  assert.equal((await stores.update(store.id, { description: 'd' })).description, 'd')
})

test('a page of whole notes is no longer than it may be, whatever is asked for', async () => {
  const store = await made()
  for (let i = 0; i < 23; i++) await stores.memories.create(store.id, { path: `/${i}.md`, content: `${i}` })
  const page = await stores.memories.list(store.id, { view: 'full', limit: 100 })
  assert.equal(page.data.length, 20)
  const notes = await all(page)
  assert.deepEqual(new Set(notes.map((note) => note.content)).size, 23)
})

test('changes are versions, and are kept out by a precondition', async () => {
  const store = await made()
  const note = await stores.memories.create(store.id, { path: '/a.md', content: 'one' })
  const second = await stores.memories.update(note.id, {
    memory_store_id: store.id, content: 'two', precondition: { type: 'content_sha256', content_sha256: sha256('one') },
  })
  assert.equal(second.content_sha256, sha256('two'))
  const late = await refused(
    stores.memories.update(note.id, { memory_store_id: store.id, content: 'three', precondition: { type: 'content_sha256', content_sha256: sha256('one') } }),
    409, 'ConflictError',
  )
  assert.equal(late.type, 'memory_precondition_failed_error')
  const versions = await all(stores.memoryVersions.list(store.id, { memory_id: note.id }))
  assert.deepEqual(versions.map((each) => each.operation), ['modified', 'created'])
  assert.equal(versions[0].created_by.type, 'api_actor')
  const redacted = await stores.memoryVersions.redact(versions[1].id, { memory_store_id: store.id })
  assert.deepEqual([redacted.content, redacted.path, redacted.content_sha256], [null, null, null])
  assert.ok(redacted.redacted_at)
  const gone = await stores.memories.delete(note.id, { memory_store_id: store.id, expected_content_sha256: sha256('two') })
  assert.equal(gone.type, 'memory_deleted')
  await refused(stores.memories.retrieve(note.id, { memory_store_id: store.id }), 404, 'NotFoundError')
})

test('paths that are wrong or taken are refused', async () => {
  const store = await made()
  await stores.memories.create(store.id, { path: '/a/b', content: 'x' })
  for (const path of ['a', '/', '/a//b', '/a/../b', '/./b', `/${'x'.repeat(1100)}`])
    await refused(stores.memories.create(store.id, { path, content: 'x' }), 400, 'BadRequestError')
  const taken = await refused(stores.memories.create(store.id, { path: '/a/b/c', content: 'x' }), 409, 'ConflictError')
  assert.equal(taken.type, 'memory_path_conflict_error')
  await refused(stores.memories.create(store.id, { path: '/big', content: 'x'.repeat(102_401) }), 400, 'BadRequestError')
})

test('stores are listed, archived and deleted, and are not another project’s', async () => {
  const store = await made()
  await refused(others.memoryStores.retrieve(store.id), 404, 'NotFoundError')
  await refused(others.memoryStores.memories.create(store.id, { path: '/x', content: 'x' }), 404, 'NotFoundError')
  assert.ok((await all(stores.list())).some((each) => each.id === store.id))
  assert.ok((await stores.archive(store.id)).archived_at)
  await refused(stores.memories.create(store.id, { path: '/x', content: 'x' }), 400)
  assert.deepEqual(await stores.delete(store.id), { id: store.id, type: 'memory_store_deleted' })
  await refused(stores.retrieve(store.id), 404, 'NotFoundError')
})
