import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { Secret, api, collect } from './support.mjs'

const VALUE = 'a value that nobody sees again'
const theirs = { apiKey: process.env.PONS_OTHER_KEY }
const names = ['first', 'second name', 'with/slash', 'ünïcode']

after(async () => {
  for (const name of names) await Secret.destroy(name)
})

test('a secret is created, found by name and id, and listed page by page', async () => {
  for (const name of names) {
    const made = await Secret.create(name, VALUE, { metadata: { kind: 'test' } })
    assert.deepEqual([made.name, made.version, made.metadata], [name, 1, { kind: 'test' }])
    assert.ok(made.createdAt instanceof Date && made.updatedAt >= made.createdAt)
    assert.deepEqual(await Secret.getInfo(name), made)
    assert.deepEqual(await Secret.getInfo(made.secretId), made)
    assert.equal(await Secret.exists(name), true)
  }
  const listed = await collect(Secret.list({ limit: 3 }))
  assert.deepEqual(new Set(listed.map((each) => each.name)), new Set(names))
})

test('an update is the next version, and metadata stays unless it is given', async () => {
  const second = await Secret.update('first', VALUE + ' 2')
  assert.deepEqual([second.version, second.metadata], [2, { kind: 'test' }])
  const third = await Secret.update(second.secretId, VALUE + ' 3', { metadata: { a: 'b' } })
  assert.deepEqual([third.version, third.metadata], [3, { a: 'b' }])
  assert.ok(third.updatedAt >= third.createdAt)
})

test('no answer holds the value', async () => {
  for (const path of ['/secrets', '/secrets/first'])
    assert.ok(!(await (await api(path)).text()).includes('nobody sees'))
})

test('what is not there, and what is there already', async () => {
  await assert.rejects(Secret.create('first', VALUE), { name: 'SecretError', message: /409/ })
  await assert.rejects(Secret.getInfo('none'), { name: 'SecretNotFoundError' })
  await assert.rejects(Secret.update('none', VALUE), { name: 'SecretNotFoundError' })
  assert.equal(await Secret.exists('none'), false)
  assert.equal(await Secret.destroy('none'), false)
})

test('what is no secret is refused', async () => {
  for (const [name, value] of [['', 'v'], ['n', ''], ['a{b', 'v'], ['n', 'two\nlines'], ['n', 'x'.repeat(9000)]])
    await assert.rejects(Secret.create(name, value), /400/)
  await assert.rejects(Secret.create('n', 'v', { apiKey: 'e2b_' + '0'.repeat(40) }), { name: 'AuthenticationError' })
})

test('another project has its own', async () => {
  assert.deepEqual(await collect(Secret.list(theirs)), [])
  assert.equal(await Secret.exists('first', theirs), false)
  assert.equal(await Secret.destroy((await Secret.getInfo('first')).secretId, theirs), false)
  const own = await Secret.create('first', 'quite another value', theirs)
  assert.equal((await Secret.getInfo('first')).version, 3)
  assert.equal(await Secret.destroy(own.secretId, theirs), true)
  assert.equal(await Secret.exists('first'), true)
})

test('names are small letters, and ids are no names', async () => {
  const made = await Secret.create('Reader-TOKEN', VALUE)
  assert.equal(made.name, 'reader-token')
  assert.match(made.secretId, /^sec_/)
  assert.deepEqual(await Secret.getInfo('READER-token'), made)
  await assert.rejects(Secret.create('reader-Token', VALUE), /409/)
  await assert.rejects(Secret.create('sec_mine', VALUE), /400/)
  assert.equal(await Secret.destroy('Reader-Token'), true)
})

test('what is destroyed between two pages makes nothing else vanish', async () => {
  const several = Array.from({ length: 6 }, (_, n) => `page-${n}`)
  for (const name of several) await Secret.create(name, VALUE)
  const pages = Secret.list({ limit: 2 })
  const seen = (await pages.nextItems()).map((each) => each.name)
  for (const name of seen) await Secret.destroy(name)
  while (pages.hasNext) seen.push(...(await pages.nextItems()).map((each) => each.name))
  for (const name of several) assert.ok(seen.includes(name), `${name} of ${seen}`)
  for (const name of several) await Secret.destroy(name)
})

test('a destroyed secret is gone', async () => {
  assert.equal(await Secret.destroy('second name'), true)
  assert.equal(await Secret.exists('second name'), false)
})
