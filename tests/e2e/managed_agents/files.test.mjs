// Files: uploads, lists, contents, and what is refused.
import { toFile } from '@anthropic-ai/sdk'
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { all, beta, client, others, refused, stranger } from './support.mjs'

const upload = async (bytes, name = 'notes.txt', type = 'text/plain', more = {}) =>
  beta.files.upload({ file: await toFile(Buffer.from(bytes), name, { type }), ...more })

test('a file has every field, and its bytes come back', async () => {
  const file = await upload('one\r\n--two\r\n')
  assert.match(file.id, /^file_/)
  assert.equal(file.type, 'file')
  assert.deepEqual([file.filename, file.mime_type, file.size_bytes], ['notes.txt', 'text/plain', 12])
  assert.deepEqual([file.expires_at, file.scope, file.downloadable], [null, null, true])
  assert.ok(Date.parse(file.created_at))
  assert.deepEqual({ ...(await beta.files.retrieveMetadata(file.id)) }, { ...file }, 'the same again')
  const answer = await beta.files.download(file.id)
  assert.equal(answer.headers.get('content-type'), 'text/plain')
  assert.match(answer.headers.get('content-disposition'), /^attachment/)
  assert.equal(await answer.text(), 'one\r\n--two\r\n')
  assert.equal(await (await client.files.download(file.id)).text(), 'one\r\n--two\r\n', 'the path that is no longer beta')
})

test('a large file passes through in a stream', async () => {
  const bytes = randomBytes(9_000_001)
  const file = await upload(bytes, 'large.bin', 'application/octet-stream')
  assert.equal(file.size_bytes, bytes.length)
  const back = Buffer.from(await (await beta.files.download(file.id)).arrayBuffer())
  const hash = (each) => createHash('sha256').update(each).digest('hex')
  assert.equal(hash(back), hash(bytes))
})

test('names keep their last component', async () => {
  assert.equal((await upload('x', '/home/me/../a.txt')).filename, 'a.txt')
  assert.equal((await upload('x', '', 'text/plain')).filename, 'unnamed.txt')
  assert.equal((await upload('', 'empty')).size_bytes, 0)
})

test('lists come in pages, newest first, or by ids', async () => {
  const made = []
  for (let i = 0; i < 5; i++) made.push((await upload(`${i}`, `listed${i}`)).id)
  const ids = (await all(beta.files.list({ limit: 2 }))).map((file) => file.id).filter((id) => made.includes(id))
  assert.deepEqual([...ids].sort(), [...made].sort())
  const some = await all(beta.files.list({ ids: [made[1], 'file_none', made[3]] }))
  assert.deepEqual(some.map((file) => file.id).sort(), [made[1], made[3]].sort())
  assert.deepEqual(await all(beta.files.list({ scope_id: 'sesn_none' })), [])
  await refused(beta.files.list({ ids: made, limit: 2 }), 400, 'BadRequestError', /ids/)
  await refused(beta.files.list({ ids: Array(101).fill('file_x') }), 400, 'BadRequestError', /100/)
  await refused(beta.files.list({ limit: 1001 }), 400, 'BadRequestError', /1000/)
  await refused(beta.files.list({ page: 'nonsense' }), 400, 'BadRequestError', /page/)
})

test('a deleted file is gone', async () => {
  const file = await upload('x')
  assert.deepEqual({ ...(await beta.files.delete(file.id)) }, { id: file.id, type: 'file_deleted' })
  await refused(beta.files.retrieveMetadata(file.id), 404, 'NotFoundError')
  await refused(beta.files.download(file.id), 404, 'NotFoundError')
  await refused(beta.files.delete(file.id), 404, 'NotFoundError')
})

test('a file may have an end', async () => {
  const file = await upload('x', 'brief', 'text/plain', { expires_in_seconds: 3600 })
  assert.equal(Date.parse(file.expires_at) - Date.parse(file.created_at), 3_600_000)
  for (const wrong of [1, 7_776_001, 1.5])
    await refused(upload('x', 'brief', 'text/plain', { expires_in_seconds: wrong }), 400, 'BadRequestError', /3600/)
})

test('what is no upload is refused', async () => {
  const post = (type, body) =>
    fetch(`${process.env.PONS_URL}/v1/files`, {
      method: 'POST',
      headers: { authorization: `Bearer ${process.env.PONS_KEY}`, 'content-type': type },
      body,
    })
  const part = (name, data, file = '') => `--b\r\nContent-Disposition: form-data; name="${name}"${file}\r\n\r\n${data}\r\n`
  for (const [type, body, says] of [
    ['application/json', '{}', /multipart/],
    ['multipart/form-data; boundary=b', '--b--', /missing/],
    ['multipart/form-data; boundary=b', part('nonsense', 'x') + '--b--', /nonsense/],
    ['multipart/form-data; boundary=b', part('file', 'x') + part('file', 'x') + '--b--', /one file/],
    ['multipart/form-data; boundary=b', part('file', 'cut off'), /ends before/],
    ['multipart/form-data; boundary=b', part('expires_in_seconds', 'x'.repeat(100)) + '--b--', /longer/],
  ]) {
    const answer = await post(type, body)
    const { error } = await answer.json()
    assert.ok(answer.status >= 400 && answer.status < 500, `${answer.status} ${says}`)
    assert.match(error.message, says)
  }
})

test('files of another project are not there', async () => {
  const file = await upload('mine')
  await refused(others.files.retrieveMetadata(file.id), 404, 'NotFoundError')
  await refused(others.files.download(file.id), 404, 'NotFoundError')
  await refused(stranger.files.delete(file.id), 404, 'NotFoundError')
  assert.ok(!(await all(others.files.list())).some((each) => each.id === file.id))
  assert.deepEqual(await all(others.files.list({ ids: [file.id] })), [])
  assert.equal(await (await beta.files.download(file.id)).text(), 'mine')
})
